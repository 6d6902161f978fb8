package op

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/paddock-dev/paddock/policy"
)

// Teller is an output that tells itself to a model where that differs from what
// is rendered for people.
type Teller interface {
	Tell(w io.Writer) error
}

// once is true for who comes first.
type once struct{ done atomic.Bool }

func (o *once) first() bool { return o.done.CompareAndSwap(false, true) }

// note tells whoever is behind the door what is no answer: once, and beside it.
// An empty text is none.
func (e *Env) note(text string) {
	if text == "" || e.call == nil || e.call.stream == nil {
		return
	}
	switch s := e.call.stream; {
	case s.Note != nil:
		s.Note(text)
	case s.Stderr != nil:
		_, _ = fmt.Fprintf(s.Stderr, "paddock: %s\n", strings.ReplaceAll(text, "\n", "\npaddock: "))
	}
}

// introduce tells what a sandbox keeps, to the first who uses it: a terminal
// hears of what is lost alone, a model of all that holds.
func (e *Env) introduce(h *held) {
	if !h.introduced.first() {
		return
	}
	iso := h.Isolation()
	if e.call != nil && e.call.stream != nil && e.call.stream.Note != nil {
		e.note("sandbox " + h.called() + ": " + isolationNote(iso))
		return
	}
	e.note(lostNote(iso))
}

// called is what to call a sandbox, in a text.
func (h *held) called() string {
	if h.name == "" {
		return h.ID()
	}
	return h.name
}

// isolationNote is what holds, in one line.
func isolationNote(iso policy.Isolation) string {
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

// lostNote is what is not kept of what a default sandbox keeps.
func lostNote(iso policy.Isolation) string {
	lines := make([]string, 0, len(iso.Lost))
	for _, loss := range iso.Lost {
		lines = append(lines, "not kept: "+loss)
	}
	return strings.Join(lines, "\n")
}
