package core

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Vault holds the values of the installed secrets. What it is asked to hide
// stays hidden: values of an earlier set are still looked for in what began
// while they were installed.
type Vault struct {
	mu      sync.Mutex
	values  []string
	version int // counts changes
}

// Set replaces the values.
func (v *Vault) Set(values []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values = values
	v.version++
}

// Get returns the values, and a version that every Set changes.
func (v *Vault) Get() (values []string, version int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.values, v.version
}

// CheckSecrets refuses values that leave no room for as many others.
func CheckSecrets(values []string) error {
	total := 0
	for _, v := range values {
		total += len(v)
	}
	switch {
	case len(values) > redact.MaxValues/2:
		return fmt.Errorf("there are more than %d values to redact", redact.MaxValues/2)
	case total > redact.MaxTotal/2:
		return fmt.Errorf("the values to redact have more than %d bytes", redact.MaxTotal/2)
	}
	_, err := redact.NewSet(values)
	return err
}

// Redactor hides what a command must not show: the values that its request names,
// those of the vault as they are at the moment, and what rules match.
type Redactor struct {
	vault *Vault
	extra []string
	rules *redact.Rules

	mu      sync.Mutex
	values  []string // all that there ever were
	version int
	plain   *redact.Set                         // without rules
	counts  map[*HidingWriter]wire.RedactCounts // of writers; nil stands for those that are closed
	blocked string                              // the rule that ended an output first
}

// Redactor returns what hides the sandbox's secrets and what its rules match and,
// for one request, more values and rules. It refuses more values than can be
// hidden, and invalid rules.
func (box *Sandbox) Redactor(extra []string, more wire.RedactRules) (*Redactor, *wire.Error) {
	if err := CheckSecrets(extra); err != nil {
		return nil, &wire.Error{Code: wire.CodeBadRequest, Object: "redact_values", Message: "cannot redact: " + err.Error()}
	}
	added := make([]policy.Redaction, len(more))
	for i, r := range more {
		added[i] = policy.Redaction(r)
	}
	rules, err := redact.Compile(box.Rules, added)
	if err != nil {
		object := "redaction"
		if bad := (*policy.RedactionError)(nil); errors.As(err, &bad) {
			object += "[" + strconv.Itoa(bad.Index) + "]"
			if bad.Field != "" {
				object += "." + bad.Field
			}
		}
		return nil, &wire.Error{Code: wire.CodeBadRequest, Object: object, Message: "cannot redact: " + err.Error()}
	}
	s := &Redactor{vault: &box.Vault, extra: extra, rules: rules, version: -1}
	s.current()
	return s, nil
}

// OnlySecrets returns what hides the sandbox's secrets, and nothing else.
func (box *Sandbox) OnlySecrets() *Redactor {
	s := &Redactor{vault: &box.Vault, version: -1}
	s.current()
	return s
}

// current returns the values to look for now, and a version that changes with them.
func (s *Redactor) current() (plain *redact.Set, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	installed, version := s.vault.Get()
	if version == s.version {
		return s.plain, version
	}
	values := slices.Concat(s.extra, s.values, installed)
	slices.Sort(values)
	values = slices.Compact(values)
	plain, err := redact.NewSet(values)
	if err != nil { // too many were installed by and by: those of now have room
		values = slices.Concat(s.extra, installed)
		plain, _ = redact.NewSet(values)
	}
	s.values, s.version, s.plain = values, version, plain
	return plain, version
}

// Any reports whether there is something to hide.
func (s *Redactor) Any() bool {
	plain, _ := s.current()
	return plain != nil || s.rules != nil
}

// Text hides in a whole text.
func (s *Redactor) Text(text string) string {
	plain, _ := s.current()
	return plain.With(s.rules).Text(text)
}

// OnlyValues hides values alone, in a text that rules have seen already.
func (s *Redactor) OnlyValues(text string) string {
	plain, _ := s.current()
	return plain.Text(text)
}

// Error returns an error whose texts hide the same.
func (s *Redactor) Error(err *wire.Error) *wire.Error {
	if !s.Any() {
		return err
	}
	clean := *err
	clean.Message, clean.Object = s.Text(err.Message), s.Text(err.Object)
	return &clean
}

// Matches returns how often rules have matched in all writers so far, and which
// one ended an output.
func (s *Redactor) Matches() (wire.RedactCounts, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum wire.RedactCounts
	for _, counts := range s.counts {
		for name, n := range counts {
			if sum == nil {
				sum = wire.RedactCounts{}
			}
			sum[name] += n
		}
	}
	return sum, s.blocked
}

// Writer returns a writer that hides the values in a stream. It must be closed.
func (s *Redactor) Writer(dst io.Writer) *HidingWriter {
	plain, version := s.current()
	return &HidingWriter{redactor: s, version: version, Writer: redact.NewWriter(plain.With(s.rules), dst)}
}

// HidingWriter writes a stream without the values of a Redactor, and follows
// changes of the vault.
type HidingWriter struct {
	redactor *Redactor
	version  int
	Writer   *redact.Writer
	total    int64 // of matches that the redactor counts already
}

// Write writes p without what is to be hidden, by the values of now.
func (h *HidingWriter) Write(p []byte) (int, error) {
	if plain, version := h.redactor.current(); version != h.version {
		h.version = version
		if err := h.Writer.Use(plain); err != nil { // its rules stay as they are
			return 0, err
		}
	}
	n, err := h.Writer.Write(p)
	h.note()
	return n, err
}

// Close writes what was held back for a value that might have begun. The redactor
// keeps the writer's counts, and not the writer.
func (h *HidingWriter) Close() error {
	err := h.Writer.Close()
	h.note()
	s := h.redactor
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, n := range s.counts[h] {
		if s.counts[nil] == nil {
			s.counts[nil] = wire.RedactCounts{}
		}
		s.counts[nil][name] += n
	}
	delete(s.counts, h)
	return err
}

// note adds new matches to the redactor's counts.
func (h *HidingWriter) note() {
	total := h.Writer.Matches()
	if total == h.total {
		return
	}
	h.total = total
	counts := wire.RedactCounts{}
	h.Writer.Counts(counts)
	s := h.redactor
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[*HidingWriter]wire.RedactCounts{}
	}
	s.counts[h] = counts
	if s.blocked == "" {
		s.blocked = h.Writer.Blocked()
	}
}
