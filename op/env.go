package op

import (
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

// Env is the environment of an operation. A door fills it in.
type Env struct {
	// Options are how sandboxes are built for this door. If they have a Backend, it is the
	// only one.
	Options paddock.Options
	// Backends are those that a spec can name. Empty: the library's default alone.
	Backends []backend.Backend
	// LookupEnv reads the caller's environment. nil: it has none, so that remote callers
	// get nothing of a server's environment.
	LookupEnv func(name string) (string, bool)
	// Principal is the caller. nil: unknown, without privileges.
	Principal *privilege.Principal
	// Privileges opens the store of privileges when it is needed. nil: there is none, and
	// nobody holds privileges.
	Privileges func() (privilege.Store, error)
	// Tokens opens the store of tokens when it is needed. nil: there is none.
	Tokens func() (*token.Store, error)
	// Ceiling is the most that the principal's specs may ask for. nil: no bound.
	Ceiling *policy.Ceiling
	// Repository is the repository of the operator's own workspace, if that is a linked
	// worktree. It is mounted for workspaces that are worktrees of it although the ceiling
	// does not have it; no other mount of it is allowed.
	Repository string
	// Project, if not nil, has the project's file of a workspace read (.paddock.yaml), if the
	// user trusts it, for calls that name no spec file. It is called with one line if there is
	// a file that is not used, and with lines about hosts that are not opened, if the input
	// asks tools for them. It has no effect under a ceiling.
	Project func(note string)
	// Default is the spec of the sandbox for calls that name none. nil: one over the
	// current directory.
	Default *policy.Spec
	// Budget is the most characters of output that an answer should have, for doors of
	// models. 0: as many as the operation says.
	Budget int
	// Sessions, Sandboxes and Outputs belong to a server, which keeps them between calls
	// and closes them at its end: sessions, sandboxes, and output that does not fit into
	// an answer. nil: nothing is kept, and each call opens a new sandbox.
	Sessions  *registry.Sessions
	Sandboxes *registry.Sandboxes
	Outputs   *output.Outputs
	// Audit gets a record of each call. nil: nothing is recorded, and operations that need
	// a privilege are refused.
	Audit *audit.Log
	// AuditBestEffort allows operations without a privilege to run although their record
	// cannot be written, after a call of Warn. All others are refused if their record
	// cannot be written, except those that only read or free something ([Hints.Frees]).
	AuditBestEffort bool
	// Warn is called, at most once in a call, with a problem that does not stop the
	// operation, such as a record that could not be written. It may be nil.
	Warn func(error)
	// Planted is called after the end of a sandbox whose commands left files that the host
	// would execute or obey; if its owner was killed, at a later start. It informs the
	// operator, since the caller of the commands may be the attacker. It may be called from
	// any goroutine. It may be nil; the audit record is written in any case.
	Planted func(Planted)

	named []backend.OwnFile // files that this call's input names and that were read
	Call  *call             // the call that this environment was made for
}

// Keep makes the environment keep sandboxes, sessions and outputs between calls, until
// Close.
func (e *Env) Keep() {
	e.Sandboxes, e.Sessions, e.Outputs = &registry.Sandboxes{}, &registry.Sessions{}, &output.Outputs{}
}

// Close ends all kept sandboxes and sessions with everything that runs in them, detaches from
// those that outlive the server, and drops the outputs. It returns when the kernel has confirmed their end.
func (e *Env) Close() error {
	ended := make(chan error, 2)
	go func() { ended <- e.Sessions.Close() }()
	go func() { ended <- e.Sandboxes.Close() }()
	return errors.Join(<-ended, <-ended, e.Outputs.Close())
}

// Lookup returns a variable of the caller's environment.
func (e *Env) Lookup(name string) (string, bool) {
	if e.LookupEnv == nil {
		return "", false
	}
	return e.LookupEnv(name)
}

// Stream has the live streams that a door offers to an operation. The zero value has none.
type Stream struct {
	// Stdin is the input of the command; nil is empty.
	Stdin io.Reader
	// Stdout and Stderr get output as it comes. If Stdout is nil, a bounded part of the
	// output is captured into the operation's answer.
	Stdout, Stderr io.Writer
	// Lines makes an operation with [Streams.Lines] read and write JSON objects, one per
	// line.
	Lines bool
	// Progress, if not nil, is called during long work: how much is done, of a total that
	// is 0 if it is unknown, and a short text. Only one goroutine at a time calls it.
	Progress func(done, total float64, message string)
	// Note is called with remarks that are not part of the answer: once per sandbox, the
	// guarantees that it gives; or that it had ended and was replaced. The text may have
	// several lines. If Note is nil, notes go to Stderr.
	Note func(text string)
	// Signals are names of signals ("SIGINT") for the command. "SIGWINCH" also means that
	// the size of Terminal may have changed.
	Signals <-chan string
	// Foreground reports whether the caller's process group is in the foreground of its terminal, so
	// that a key sends INT or QUIT to all of it. nil: it never is.
	Foreground func() bool
	// OnSuspend, if not nil, has before called when the caller is suspended (^Z), and after when it
	// goes on, until stop is called.
	OnSuspend func(before, after func()) (stop func())
	// Terminal is the caller's terminal, or nil.
	Terminal Terminal
	// Ask, if not nil, asks the person at the terminal a question, which follows its
	// subject, and reports whether the answer is yes.
	Ask func(question string) (bool, error)
	// Choose, if not nil, asks the person for one of several words, of which the first letter
	// is enough. The last one is the answer of somebody who says nothing.
	Choose func(question string, words ...string) (string, error)
	// Typed reports whether standard input, standard output and standard error all are a terminal.
	Typed bool

	early []string // signals that came before the command was started
}

// Terminal is the caller's terminal, used while a command has a PTY inside the sandbox.
type Terminal interface {
	// Size returns the size in characters.
	Size() (rows, cols uint16, err error)
	// Raw puts the terminal into raw mode until restore is called, which may happen more
	// than once.
	Raw() (restore func(), err error)
}

// Room returns how much variable text an answer may have, in encoded characters: half of
// the budget is for the text, the other half for the structured answer.
func (e *Env) Room(otherwise int) int {
	if e.Budget <= 0 {
		return otherwise
	}
	return max(e.Budget/2-answerFrame, 256)
}

// answerFrame is the room, in characters, for the other fields of an answer.
const answerFrame = 2000

// PrincipalName returns the name of the principal, "" if it is unknown.
func (e *Env) PrincipalName() string {
	if e.Principal == nil {
		return ""
	}
	return e.Principal.Name
}

// note sends a text to the caller beside the answer. It does nothing if the text is empty.
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

// introduce describes a sandbox's isolation at its first use: to a model completely, on a
// terminal only the guarantees that do not hold.
func (e *Env) introduce(h *registry.Sandbox) {
	if !h.Introduced.First() {
		return
	}
	iso := h.Isolation()
	if e.Call != nil && e.Call.stream != nil && e.Call.stream.Note != nil {
		e.note("sandbox " + h.Called() + ": " + IsolationNote(iso))
		return
	}
	e.note(notes(iso))
}

// IsolationNote returns what isolation holds, in one line.
func IsolationNote(iso policy.Isolation) string {
	words := []string{iso.Backend}
	if iso.Level != "" {
		words = append(words, "level "+iso.Level)
	}
	if iso.Network != "" {
		words = append(words, "network "+NetworkNote(iso))
	}
	text := strings.Join(words, ", ")
	for _, p := range iso.Published {
		text += fmt.Sprintf("; %s leads to port %d, for the user's browser", p.URL, p.Port)
	}
	if len(iso.Lost) > 0 {
		text += "; not kept: " + strings.Join(iso.Lost, "; ")
	}
	return text
}

// notedHosts is how many hosts a note names.
const notedHosts = 8

// NetworkNote returns the network that isolation holds, with the first of its hosts.
func NetworkNote(iso policy.Isolation) string {
	if iso.Egress == nil {
		return iso.Network
	}
	how := "by a " + iso.Egress.How
	if iso.Egress.How == policy.EgressInside {
		how = "listeners inside"
	}
	words := Hosts(iso.Egress.Allow) + "; " + how
	if len(iso.Egress.Intercepted) > 0 {
		words += "; looked into: " + Hosts(iso.Egress.Intercepted)
	}
	return iso.Network + " (" + words + ")"
}

// Hosts returns the first of some rules, in their short form.
func Hosts(rules []string) string {
	if len(rules) == 0 {
		return "no host"
	}
	list := strings.Join(rules[:min(len(rules), notedHosts)], ", ")
	if more := len(rules) - notedHosts; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// publishedNote returns, in lines, where ports are published.
func publishedNote(iso policy.Isolation) string {
	lines := make([]string, 0, len(iso.Published))
	for _, p := range iso.Published {
		lines = append(lines, fmt.Sprintf("published: %s leads to port %d", p.URL, p.Port))
	}
	return strings.Join(lines, "\n")
}

// toldSockets is how many covered sockets of the host a note names.
const toldSockets = 8

// socketsNote returns, in lines, which sockets of the host are covered, and which commands reach.
func socketsNote(iso policy.Isolation) string {
	var lines []string
	if list := iso.CoveredSockets; len(list) > 0 {
		words := PathNames(list[:min(len(list), toldSockets)])
		if more := len(list) - toldSockets; more > 0 {
			words += fmt.Sprintf(" and %d more", more)
		}
		lines = append(lines, "covered, since programs of the host listen there: "+words+" (--host-socket PATH, host_sockets in a spec, lets commands connect to one that they cannot replace)")
	}
	if len(iso.HostSockets) > 0 {
		lines = append(lines, "open: "+PathNames(iso.HostSockets)+": commands can do there whatever the host's programs let you do")
	}
	return strings.Join(lines, "\n")
}

// LostNote returns, in lines, which guarantees of a default sandbox do not hold.
func LostNote(iso policy.Isolation) string {
	lines := make([]string, 0, len(iso.Lost))
	for _, loss := range iso.Lost {
		lines = append(lines, "not kept: "+loss)
	}
	return strings.Join(lines, "\n")
}

// StartNote returns, in lines, what a start tells of sockets of the host, and which guarantees of a
// default sandbox do not hold.
func StartNote(iso policy.Isolation) string {
	return strings.Trim(socketsNote(iso)+"\n"+LostNote(iso), "\n")
}

// notes returns, in lines, all that a start tells of isolation.
func notes(iso policy.Isolation) string {
	return strings.Trim(publishedNote(iso)+"\n"+StartNote(iso), "\n")
}

// TellLost writes where ports are published, which sockets of the host are covered or open, and which
// guarantees of a default sandbox do not hold, if w is not nil.
func TellLost(w io.Writer, iso policy.Isolation) error {
	text := notes(iso)
	if w == nil || text == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "paddock: %s\n", strings.ReplaceAll(text, "\n", "\npaddock: "))
	return err
}

// progressEvery is the interval of progress reports. Clients give up on calls without any.
const progressEvery = 2 * time.Second

// ReportProgress reports progress regularly until stop is called: the seconds so far, of total if that
// is not 0, and the text that message returns.
func (s *Stream) ReportProgress(total time.Duration, message func() string) (stop func()) {
	if s == nil || s.Progress == nil {
		return func() {}
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		from, tick := time.Now(), time.NewTicker(progressEvery)
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
