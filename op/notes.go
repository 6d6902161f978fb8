package op

import (
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// Teller is an output that tells itself to a model where that differs from what
// is rendered for people.
type Teller interface {
	Tell(w io.Writer) error
}

// note tells whoever is behind the door what is no answer: once, and beside it.
// An empty text is none.
func (e *Env) note(text string) {
	if text == "" || e.Call == nil || e.Call.stream == nil {
		return
	}
	switch s := e.Call.stream; {
	case s.Note != nil:
		s.Note(text)
	case s.Stderr != nil:
		_, _ = fmt.Fprintf(s.Stderr, "paddock: %s\n", strings.ReplaceAll(text, "\n", "\npaddock: "))
	}
}

// introduce tells what a sandbox keeps, to the first who uses it: a terminal
// hears of what is lost alone, a model of all that holds.
func (e *Env) introduce(h *registry.Sandbox) {
	if !h.Introduced.First() {
		return
	}
	iso := h.Isolation()
	if e.Call != nil && e.Call.stream != nil && e.Call.stream.Note != nil {
		e.note("sandbox " + h.Called() + ": " + IsolationNote(iso))
		return
	}
	e.note(LostNote(iso))
}

// IsolationNote is what holds, in one line.
func IsolationNote(iso policy.Isolation) string {
	words := []string{iso.Backend}
	if iso.Level != "" {
		words = append(words, "level "+iso.Level)
	}
	if iso.Network != "" {
		words = append(words, "network "+iso.Network)
	}
	text := strings.Join(words, ", ")
	if len(iso.Lost) > 0 {
		text += "; not kept: " + strings.Join(iso.Lost, "; ")
	}
	return text
}

// LostNote is what is not kept of what a default sandbox keeps.
func LostNote(iso policy.Isolation) string {
	lines := make([]string, 0, len(iso.Lost))
	for _, loss := range iso.Lost {
		lines = append(lines, "not kept: "+loss)
	}
	return strings.Join(lines, "\n")
}

// TellLost says what the sandbox does not keep, of what a default one does.
func TellLost(w io.Writer, iso policy.Isolation) error {
	if w == nil {
		return nil
	}
	for _, loss := range iso.Lost {
		if _, err := fmt.Fprintf(w, "paddock: not kept: %s\n", loss); err != nil {
			return err
		}
	}
	return nil
}
