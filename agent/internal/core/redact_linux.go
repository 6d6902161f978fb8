package core

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Vault holds the values of the installed secrets. A [Redactor] continues to hide
// values that are replaced while it is in use.
type Vault struct {
	mu      sync.Mutex
	values  []string
	named   map[string]string // those that requests can name
	version int               // counts changes
}

// Set replaces the values that are hidden, and those that have a name.
func (v *Vault) Set(values []string, named map[string]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values, v.named = values, named
	v.version++
}

// Named returns the values that have a name. The map must not be changed.
func (v *Vault) Named() map[string]string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.named
}

// ShownValue returns what of a secret is looked for in output: all but a line end at its end,
// which programs leave out.
func ShownValue(value string) string {
	return strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
}

// Get returns the values, and a version that every Set changes.
func (v *Vault) Get() (values []string, version int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.values, v.version
}

// CheckSecrets rejects values that exceed a third of what can be redacted: one is for the secrets
// of the sandbox, one for those that they could not replace, and one for the values of a request.
func CheckSecrets(values []string) error {
	total := 0
	for _, v := range values {
		total += len(v)
	}
	switch {
	case len(values) > redact.MaxValues/3:
		return fmt.Errorf("more than %d values to redact", redact.MaxValues/3)
	case total > redact.MaxTotal/3:
		return fmt.Errorf("the values to redact exceed %d bytes", redact.MaxTotal/3)
	}
	_, err := redact.NewSet(values)
	return err
}

// Redactor hides text in the output of a command: the values that its request names,
// the values that the vault holds or has held meanwhile, and every match of a rule.
type Redactor struct {
	vault *Vault
	extra []string
	rules *redact.Rules

	mu      sync.Mutex
	values  []string // all values so far
	version int
	plain   *redact.Set                         // without rules
	counts  map[*HidingWriter]wire.RedactCounts // by writer; the key nil has the sum of the closed ones
	blocked string                              // the first rule that ended an output
}

// Redactor returns a redactor for one request. It hides the sandbox's secrets and the
// matches of its rules, and applies the values and rules of the request as well. It
// rejects more values than can be hidden, and invalid rules.
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

// OnlySecrets returns a redactor that hides the sandbox's secrets and nothing else.
func (box *Sandbox) OnlySecrets() *Redactor {
	s := &Redactor{vault: &box.Vault, version: -1}
	s.current()
	return s
}

// current returns the values to hide from now on, and a version that changes with them.
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
	if err != nil { // too many were installed over time
		values = slices.Concat(s.extra, installed)
		plain, _ = redact.NewSet(values) // it fits, see CheckSecrets
	}
	s.values, s.version, s.plain = values, version, plain
	return plain, version
}

// Any reports whether there is something to hide.
func (s *Redactor) Any() bool {
	plain, _ := s.current()
	return plain != nil || s.rules != nil
}

// Text returns a whole text with values and matches replaced.
func (s *Redactor) Text(text string) string {
	plain, _ := s.current()
	return plain.With(s.rules).Text(text)
}

// OnlyValues is like Text, but applies no rules. It is for a text that rules were
// applied to before.
func (s *Redactor) OnlyValues(text string) string {
	plain, _ := s.current()
	return plain.Text(text)
}

// Error returns an error with redacted texts.
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

// Writer returns a writer that redacts a stream. It must be closed.
func (s *Redactor) Writer(dst io.Writer) *HidingWriter {
	plain, version := s.current()
	return &HidingWriter{redactor: s, version: version, Writer: redact.NewWriter(plain.With(s.rules), dst)}
}

// HidingWriter redacts a stream as its Redactor says, and follows changes of the vault.
type HidingWriter struct {
	redactor *Redactor
	version  int
	Writer   *redact.Writer
	total    int64 // how many matches are in the redactor's counts
}

// Write redacts p with the present values, and writes it.
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

// Close writes the bytes that were held back because a value might have begun with
// them. The redactor keeps the writer's counts, but not the writer.
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
