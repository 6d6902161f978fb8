package op

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/token"
)

// Env is what an operation finds around it; a door fills it in.
type Env struct {
	// Options are how sandboxes are built for this door. A Backend in them is the
	// only one.
	Options paddock.Options
	// Backends are those that a spec can name. None: the library's own.
	Backends []backend.Backend
	// LookupEnv reads the caller's environment. nil: there is none, so that
	// nothing of a server's environment is handed to who calls from afar.
	LookupEnv func(name string) (string, bool)
	// Principal is who asks. nil: nobody is known, who then holds no privilege.
	Principal *privilege.Principal
	// Privileges opens the store of privileges where one is needed. nil:
	// there is none, and nobody holds any.
	Privileges func() (privilege.Store, error)
	// Tokens opens the store of tokens where one is needed. nil: there is none.
	Tokens func() (*token.Store, error)
	// Ceiling is the most that a spec of the principal's may ask for. nil:
	// whatever the library takes.
	Ceiling *policy.Ceiling
	// Repository is one that a workspace which is a linked worktree of it gets
	// although the ceiling does not hold it: that of the operator's own workspace.
	// No other mount of it is allowed. Empty: the workspace is not one.
	Repository string
	// Default is the sandbox that is meant where none is named. nil: one over the
	// current directory.
	Default *policy.Spec
	// Budget is how many characters of output an answer should hold at most, for
	// doors of models. 0: as many as the operation says.
	Budget int
	// Sessions keeps sessions for a door that lasts, which closes it at its end.
	// nil: none is kept.
	Sessions *registry.Sessions
	// Sandboxes keeps sandboxes for a door that lasts, which closes it at its end.
	// nil: each call has its own.
	Sandboxes *registry.Sandboxes
	// Outputs keeps what was printed and does not fit into an answer, for a door
	// that lasts, which closes it at its end. nil: nothing is kept.
	Outputs *output.Outputs
	// Audit takes a record of each call. nil: none is kept, and what needs a
	// privilege is refused.
	Audit *audit.Log
	// AuditBestEffort has operations run whose record cannot be written, but for those
	// that need a privilege; Warn is told. Else they are refused, unless they free or
	// end something ([Hints.Frees]).
	AuditBestEffort bool
	// Warn is told what is wrong and stops nothing: a record that could not
	// be kept. It is called once in a call at most. nil: nobody is told.
	Warn func(error)
	// Planted is told, at the end of each sandbox that was opened here, and at a
	// later start for one whose owner was killed, of what its commands have left for
	// the host to execute or obey: it is for the operator,
	// since who asked for the commands may be the one to beware of. It may be
	// called from any goroutine. nil: nobody is told; it is on record all the same.
	Planted func(Planted)

	named []backend.OwnFile // files that were named and read in this call
	Call  *call             // the one that this environment was made for
}

// Keep gives the environment what a door that lasts needs: it keeps sandboxes, sessions
// and outputs between calls, until Close.
func (e *Env) Keep() {
	e.Sandboxes, e.Sessions, e.Outputs = &registry.Sandboxes{}, &registry.Sessions{}, &output.Outputs{}
}

// Close ends all sandboxes and sessions that are kept with all that runs in them, and
// drops the outputs. It returns when the kernel has confirmed their end.
func (e *Env) Close() error {
	ended := make(chan error, 2)
	go func() { ended <- e.Sessions.Close() }()
	go func() { ended <- e.Sandboxes.Close() }()
	return errors.Join(<-ended, <-ended, e.Outputs.Close())
}

// Lookup reads a variable of the caller's environment.
func (e *Env) Lookup(name string) (string, bool) {
	if e.LookupEnv == nil {
		return "", false
	}
	return e.LookupEnv(name)
}

// Stream holds the live ends that a door offers to an operation. The zero
// value offers none.
type Stream struct {
	// Stdin is the input of what is run; nil is empty.
	Stdin io.Reader
	// Stdout and Stderr take output as it comes. Where Stdout is nil, output
	// is captured, bounded, into the operation's answer.
	Stdout, Stderr io.Writer
	// Lines says that what an operation with [Streams.Lines] reads and writes are
	// JSON objects, one a line.
	Lines bool
	// Progress is told how far long work has come: so much of a total, which is 0
	// where nobody knows it, and a few words. It is called from one goroutine at
	// a time. nil: nobody listens.
	Progress func(done, total float64, message string)
	// Note is told what belongs beside the answer: what a sandbox keeps, once, or
	// that one had ended and was made anew. It may hold line feeds. nil: notes go
	// to Stderr, where there is one.
	Note func(text string)
	// Signals are names ("SIGINT") to be handed on to what is run. "SIGWINCH"
	// also says that Terminal may have another size.
	Signals <-chan string
	// Terminal is the caller's terminal; nil where there is none.
	Terminal Terminal
	// Ask puts a question, below what it is about, to the person at the terminal, and
	// reports whether the answer is yes. nil: nobody can be asked.
	Ask func(question string) (bool, error)
	// Typed says that both standard input and standard output are a terminal.
	Typed bool

	early []string // signals that came before there was a command to get them
}

// Terminal is the caller's terminal, while a command has one made inside.
type Terminal interface {
	// Size is the size in characters.
	Size() (rows, cols uint16, err error)
	// Raw hands every key on unchanged until restore is called, which may
	// happen more than once.
	Raw() (restore func(), err error)
}

// Room is how much variable text an answer may have, in encoded characters: a
// half of the budget is the text's, a half the structured answer's.
func (e *Env) Room(otherwise int) int {
	if e.Budget <= 0 {
		return otherwise
	}
	return max(e.Budget/2-answerFrame, 256)
}

// answerFrame is what the fields around the text of an answer may take.
const answerFrame = 2000

// PrincipalName is whose sessions are meant.
func (e *Env) PrincipalName() string {
	if e.Principal == nil {
		return ""
	}
	return e.Principal.Name
}

// BoundTime returns l, or the operator's limit where that is no longer: a ceiling's
// limits.timeout holds for each command and each shell below it, whatever they ask for.
func (e *Env) BoundTime(l registry.TimeLimit) registry.TimeLimit {
	if e.Ceiling == nil || e.Ceiling.Limits.Timeout == 0 {
		return l
	}
	if most := time.Duration(e.Ceiling.Limits.Timeout); l.Span == 0 || l.Span >= most {
		return registry.TimeLimit{Span: most, From: registry.FromOperator}
	}
	return l
}

// BoundSession returns the options of a session whose commands, those at its start
// and its end included, have no more time than the operator's limit leaves them.
func (e *Env) BoundSession(o paddock.SessionOptions) paddock.SessionOptions {
	for _, one := range []struct {
		span      *time.Duration
		otherwise time.Duration
	}{
		{&o.CommandTimeout, paddock.DefaultSessionTimeout},
		{&o.StartupTimeout, paddock.DefaultSessionTimeout},
		{&o.TerminationTimeout, paddock.DefaultSessionEnd},
	} {
		*one.span = e.BoundTime(registry.TimeLimit{Span: cmp.Or(*one.span, one.otherwise)}).Span
	}
	return o
}

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

// beatEvery is how often who listens hears of work that goes on: clients give up
// on what they do not hear of.
const beatEvery = 2 * time.Second

// Beat tells of work that takes as long as it takes, until stop is called: the
// seconds so far, of total where that is known, and what message says.
func (s *Stream) Beat(total time.Duration, message func() string) (stop func()) {
	if s == nil || s.Progress == nil {
		return func() {}
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		from, tick := time.Now(), time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.Progress(time.Since(from).Seconds(), total.Seconds(), message())
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}
