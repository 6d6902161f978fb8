package agent

import (
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/wire"
)

// vault holds the values of the installed secrets. What it is asked to hide
// stays hidden: values of an earlier set are still looked for in what began
// while they were installed.
type vault struct {
	mu      sync.Mutex
	values  []string
	version int // counts changes
}

// set replaces the values.
func (v *vault) set(values []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values = values
	v.version++
}

func (v *vault) get() (values []string, version int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.values, v.version
}

// secrets are the values that one request wants to be hidden, and those of
// the vault, as they are now.
type secrets struct {
	vault *vault
	extra []string

	mu      sync.Mutex
	values  []string // that ever were
	version int
	set     *redact.Set
}

// checkSecrets refuses values that leave no room for as many others.
func checkSecrets(values []string) error {
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

// secrets begins to hide values. It refuses more of them than can be hidden.
func (a *Agent) secrets(extra []string) (*secrets, *wire.Error) {
	if err := checkSecrets(extra); err != nil {
		return nil, &wire.Error{Code: wire.CodeBadRequest, Object: "redact_values", Message: "cannot redact: " + err.Error()}
	}
	s := &secrets{vault: &a.vault, extra: extra, version: -1}
	s.current()
	return s, nil
}

// current is the set to look for now, and its version.
func (s *secrets) current() (*redact.Set, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	installed, version := s.vault.get()
	if version == s.version {
		return s.set, version
	}
	values := slices.Concat(s.extra, s.values, installed)
	slices.Sort(values)
	values = slices.Compact(values)
	set, err := redact.NewSet(values)
	if err != nil { // too many were installed by and by: those of now have room
		values = slices.Concat(s.extra, installed)
		set, _ = redact.NewSet(values)
	}
	s.values, s.version, s.set = values, version, set
	return set, version
}

// any says whether there is something to hide.
func (s *secrets) any() bool {
	set, _ := s.current()
	return set != nil
}

// text hides the values in a whole text.
func (s *secrets) text(text string) string {
	set, _ := s.current()
	return set.Text(text)
}

// writer hides the values in a stream. It must be closed.
func (s *secrets) writer(dst io.Writer) io.WriteCloser {
	set, version := s.current()
	return &hidingWriter{secrets: s, version: version, w: redact.NewWriter(set, dst)}
}

// hidingWriter follows changes of the vault.
type hidingWriter struct {
	secrets *secrets
	version int
	w       *redact.Writer
}

func (h *hidingWriter) Write(p []byte) (int, error) {
	if set, version := h.secrets.current(); version != h.version {
		h.version = version
		if err := h.w.Use(set); err != nil {
			return 0, err
		}
	}
	return h.w.Write(p)
}

func (h *hidingWriter) Close() error { return h.w.Close() }

// hidden is an error without the values of the vault and of extra. Where those
// cannot be hidden, nothing else is told.
func (a *Agent) hidden(extra []string, err *wire.Error) *wire.Error {
	s, bad := a.secrets(extra)
	if bad != nil {
		return bad
	}
	if !s.any() {
		return err
	}
	clean := *err
	clean.Message, clean.Object = s.text(err.Message), s.text(err.Object)
	return &clean
}
