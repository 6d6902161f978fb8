// Package backend is the interface between the library and what builds a
// wall. A backend probes the host, starts an agent behind its wall, dials it
// and stops it; everything else is the agent's work, over package wire.
//
// Backends never import package agent: the two meet at wire and at
// confine.Plan.
package backend

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// ErrGone says that a sandbox has ended.
var ErrGone = errors.New("the sandbox has ended")

// Backend builds sandboxes behind one kind of wall. Its methods may be called
// concurrently.
type Backend interface {
	// Name is the word that specs use for it.
	Name() string
	// Probe tries what the backend needs and says what works here.
	Probe(ctx context.Context) Report
	// Plan says what Start would do with the same request. It changes nothing.
	// A spec that cannot be kept is an error here already.
	Plan(ctx context.Context, req Request) (*confine.Plan, error)
	// Start builds the wall, starts an agent behind it, verifies the wall and
	// returns when the agent accepts requests. The agent gets the environment, the
	// limits and the redaction rules of the spec: requests do not repeat them. On error, a *StartError where
	// the wall could not be built, nothing is left behind.
	Start(ctx context.Context, req Request) (Sandbox, error)
}

// NewID returns a random id for a sandbox, that no other one has.
func NewID() string { return "pd-" + strings.ToLower(rand.Text()[:13]) }

// Executor is a backend that executes programs of the host outside of every wall.
// They are judged by the list of what sandboxes could write in a directory of state,
// for which Probe takes the usual one.
type Executor interface {
	// ProbeIn is Probe with the list in this directory of state.
	ProbeIn(ctx context.Context, state string) Report
}

// Request is what a sandbox is started from.
type Request struct {
	// ID is the sandbox's id, of [NewID]. Empty: the backend makes one.
	ID   string
	Spec policy.Spec
	// Agent is the path of the paddock-agent binary.
	Agent string
	// StateDir is the root of Paddock's state (see DefaultStateDir in the
	// root package); the sandbox gets a directory below it.
	StateDir string
	// Home is the caller's home; mounts below it are found below HOME inside, too, where
	// the backend can have it so. Empty: there is none.
	Home string
	// Path is the PATH of the caller, which PATH inside follows as far as that is safe,
	// where the backend knows what is visible there. Empty: PATH is [policy.SearchPath].
	Path string
	// Guards are what of the writable mounts commands must not change. Of a mount
	// of such a path itself, or of something in it, they say nothing.
	Guards []Guard
	// NoLinks refuses sources that are named through symbolic links, which
	// others than the operator may have put there.
	NoLinks bool
	// Own are files and directories of Paddock's own beside the state, the agent
	// and the programs beside the running one, which are always meant.
	Own []OwnFile
	// Seen is what package hostpath has seen of the host for this start. nil: it
	// looks anew each time that it is asked.
	Seen any
}

// OwnFile is a file or a directory of Paddock's own, that commands must not
// change. A backend covers what of it lies in a writable mount, or refuses.
type OwnFile struct {
	Path string
	What string // "the audit log", for messages
	// Field names the flag, the variable or the field that says where it is.
	Field string
	// Hidden: commands must not read it either.
	Hidden bool
	// Dir: it is a directory, which is made where it would be covered.
	Dir bool
	// Replaced: its changes put another file into its place, which takes a cover
	// away. It is refused wherever commands could write.
	Replaced bool
	// Spare: that it does not exist, or cannot, is no reason to refuse, since it is
	// looked at again before it is used. A directory that could be made is covered.
	Spare bool
}

// Guard is a path that stays read-only although it lies in something that
// commands may write.
type Guard struct {
	File string // on the host, absolute, free of symbolic links
	Why  string
	// Copy asks for a copy of the file that commands can change, beside the host's
	// file, which they cannot. Where a backend has none the file is read-only.
	Copy bool
	// Text is what such a copy holds instead of what the file does; nobody reads that
	// in the end. A backend without copies leaves the file alone, which programs must
	// be able to write.
	Text string
	// Except is a name directly in the directory File that commands can change all the
	// same. A backend that cannot have it so leaves the directory alone.
	Except string
}

// Sandbox is a running agent behind its wall.
type Sandbox interface {
	// ID is the sandbox's random name.
	ID() string
	// Dial opens a connection to the agent. It fails with ErrGone once the
	// sandbox has ended.
	Dial(ctx context.Context) (net.Conn, error)
	// Isolation is what really holds, as verified from outside.
	Isolation() policy.Isolation
	// Done is closed when the sandbox has ended, by Stop or by itself.
	Done() <-chan struct{}
	// Stop ends every process inside within the grace period plus the time
	// the kernel takes, removes the sandbox's state, and says how it ended. It may
	// be called more than once.
	Stop(ctx context.Context, grace time.Duration) (Death, error)
}

// Freezer is a sandbox whose commands can be stopped where they are.
type Freezer interface {
	// Freeze stops every command and returns when all of them stand still.
	Freeze(ctx context.Context) error
	// Thaw lets them go on.
	Thaw(ctx context.Context) error
}

// Death is how a sandbox ended.
type Death struct {
	// Proved says that the kernel has confirmed the end of every process inside.
	Proved bool `json:"proved"`
	// Log is what the agent wrote on its standard error, bounded; normally empty.
	Log string `json:"log,omitempty"`
	// Copies are what commands have made of the copies that they had of files, by
	// [Guard].File, as they were after the end.
	Copies map[string]Copy `json:"-"`
}

// Copy is what commands have made of one copy.
type Copy struct {
	Text []byte // hostile
	Err  error  // why it was not read: the copy is gone, say, or no regular file
}

// StartError is a wall that could not be built, typed so that a caller can
// tell what is missing.
type StartError struct {
	Stage  string `json:"stage"`            // "state", "clone", "setup", "spawn", "verify", …
	Op     string `json:"op"`               // the operation that failed
	Object string `json:"object,omitempty"` // what it was applied to
	Errno  int    `json:"errno,omitempty"`  // the kernel's answer, 0 where there is none
	Cause  string `json:"cause,omitempty"`  // the reason, where there is no errno
	Hint   string `json:"hint,omitempty"`   // what to do about it
	Err    error  `json:"-"`                // what ended the wait, of [Interrupted] alone
}

// Failed returns the error of an operation of a start that failed with err, the errno
// of which it keeps where there is one.
func Failed(stage, op, object string, err error, hint string) *StartError {
	e := &StartError{Stage: stage, Op: op, Object: object, Hint: hint}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Errno = int(errno)
	} else {
		e.Cause = err.Error()
	}
	return e
}

// Interrupted returns the error of a start whose context ended while object was awaited.
func Interrupted(ctx context.Context, stage, object string) *StartError {
	cause := context.Cause(ctx)
	return &StartError{Stage: stage, Op: "await", Object: object, Cause: "there was no answer: " + cause.Error(), Err: errors.Join(ctx.Err(), cause)}
}

// Error says what could not be done and why.
func (e *StartError) Error() string {
	what := e.Op
	if e.Object != "" {
		what += " " + e.Object
	}
	return fmt.Sprintf("cannot start the sandbox: %s: %s: %s", e.Stage, what, e.Reason())
}

// Reason returns the cause alone, or the kernel's words for Errno.
func (e *StartError) Reason() string {
	if e.Cause == "" && e.Errno != 0 {
		return syscall.Errno(e.Errno).Error()
	}
	return e.Cause
}

// Unwrap returns the errno, so that errors.Is(err, fs.ErrPermission) works, or what
// ended the wait.
func (e *StartError) Unwrap() error {
	if e.Errno == 0 {
		return e.Err
	}
	return syscall.Errno(e.Errno)
}

// Report is what a backend's probe found.
type Report struct {
	Backend string `json:"backend"`
	Usable  bool   `json:"usable"` // the default spec can be kept
	// Abilities are what specs can ask for, each with what it takes.
	Abilities []Ability `json:"abilities"`
	Features  []Feature `json:"features"`
}

// Ability is something that a spec can ask for: a level, a network, a limit.
type Ability struct {
	Name    string   `json:"name"`
	OK      bool     `json:"ok"`
	Missing []string `json:"missing,omitempty"` // names of features
}

// Feature is one thing a host can or cannot do, found by trying it.
type Feature struct {
	Name     string   `json:"name"`
	OK       bool     `json:"ok"`
	NeededBy []string `json:"needed_by,omitempty"` // names of abilities
	Detail   string   `json:"detail,omitempty"`    // a version, a path, an errno
	Remedy   string   `json:"remedy,omitempty"`    // what to do where it is missing
}

// Judge says which of the abilities the features give, in the order in which
// they are named. The first of them is what the default spec needs.
func (r *Report) Judge(abilities ...string) {
	r.Abilities = nil
	for _, name := range abilities {
		a := Ability{Name: name, OK: true}
		for _, f := range r.Features {
			if !f.OK && slices.Contains(f.NeededBy, name) {
				a.OK, a.Missing = false, append(a.Missing, f.Name)
			}
		}
		r.Abilities = append(r.Abilities, a)
	}
	r.Usable = len(r.Abilities) > 0 && r.Abilities[0].OK
}
