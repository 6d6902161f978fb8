// Package backend is the interface between the library and the code that builds
// walls. A backend probes the host, starts an agent behind its wall, dials it
// and stops it; the agent does everything else, over package wire.
//
// Backends never import package agent: the two meet at wire and at
// confine.Plan.
package backend

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// ErrGone is the error of a request to a sandbox that has ended.
var ErrGone = errors.New("the sandbox has ended")

// Backend builds sandboxes behind one kind of wall. Its methods may be called
// concurrently.
type Backend interface {
	// Name is the word that specs use for it.
	Name() string
	// Probe tries what the backend needs and reports what works here.
	Probe(ctx context.Context) Report
	// Plan returns what Start would do with the same request. It changes nothing.
	// It fails for a spec that the backend cannot enforce.
	Plan(ctx context.Context, req Request) (*confine.Plan, error)
	// Start builds the wall, starts an agent behind it, verifies the wall and
	// returns when the agent accepts requests. The agent gets the environment, the
	// limits and the redaction rules of the spec: requests do not repeat them.
	// If it fails, it removes everything that it has made. The error is a *StartError
	// if the wall could not be built.
	Start(ctx context.Context, req Request) (Sandbox, error)
}

// NewID returns a random id for a sandbox. No other sandbox has it.
func NewID() string { return "pd-" + strings.ToLower(rand.Text()[:13]) }

// Executor is a backend that executes programs of the host outside of any wall. It
// refuses programs that sandboxes could have written, by the list in a state directory.
// Probe uses the list in the default one.
type Executor interface {
	// ProbeIn is Probe with the list in this state directory.
	ProbeIn(ctx context.Context, state string) Report
}

// Request has everything that is needed to start a sandbox.
type Request struct {
	// ID is the sandbox's id, of [NewID]. Empty: the backend makes one.
	ID   string
	Spec policy.Spec
	// Agent is the path of the paddock-agent binary.
	Agent string
	// Egress is the path of the paddock-egress program, if the network of Spec is "allow".
	Egress string
	// SSHAgent is the path of the socket of the caller's SSH agent, and KnownHosts the keys
	// of hosts that the caller and the host know, if Spec.SSHAgent is set.
	SSHAgent   string
	KnownHosts []byte
	// Intercept is for that program, if rules of the network intercept. No plan has it, nor
	// anything inside but its certificate, in whose place a plan without it has a line.
	Intercept *Interception
	// StateDir is the root of Paddock's state (see DefaultStateDir in the
	// root package); the sandbox gets a directory below it.
	StateDir string
	// Home is the caller's home, or empty. If the backend can, it makes mounts below it
	// visible below HOME inside too.
	Home string
	// Path is the caller's PATH. A backend that knows what is visible inside makes PATH
	// there follow it, as far as that is safe. Empty: PATH is [policy.SearchPath].
	Path string
	// Toolchains are those below the caller's home that Path names. Their mounts are the
	// last ones of Spec.
	Toolchains Toolchains
	// Guards are paths in writable mounts that commands must not change. They do not
	// apply to mounts of such a path itself, or of something in it.
	Guards []Guard
	// Sockets are those of the host that commands must not connect to, although mounts show them. A
	// backend covers them.
	Sockets []Socket
	// Stored are the mounts of the spec, and its home, that are caches or what stays between
	// sandboxes. The host executes and obeys nothing in them.
	Stored []Stored
	// Layer is the layer of a workspace of mode "overlay".
	Layer *Layer
	// Scratch is the workspace, if it lies in the state because it ends with the sandbox's
	// record; else empty.
	Scratch string
	// NoLinks refuses sources that are named through symbolic links, which
	// others than the operator may have put there.
	NoLinks bool
	// Own are files and directories of Paddock's own. The state, the agent and the
	// programs beside the running one need not be named: they always count.
	Own []OwnFile
	// Seen is what package hostpath has read about the host for this start. nil: it
	// reads everything again each time.
	Seen any
	// Keeper is a *keep.Keeper, if the sandbox is to outlive this process; else nil.
	// Only a [Keepable] backend uses it.
	Keeper any
	// ReportUse makes the agent tell the keeper when the sandbox is used, and when not.
	ReportUse bool
}

// Keepable is a backend whose sandboxes can outlive the process that has started them.
type Keepable interface {
	// Adopt returns the sandbox that another process has handed over, in a process that the
	// keeper has executed. files are those of the Legacy.
	Adopt(state string, legacy Legacy, files []*os.File) (Sandbox, error)
}

// Heritable is a running sandbox that can be handed over.
type Heritable interface {
	// Bequeath returns what the next owner needs. lost is what the sandbox does not keep beside
	// what its Isolation says, which is written down for those who attach.
	Bequeath(lost []string) (Legacy, []*os.File, error)
	// Leave forgets the sandbox, which has another owner now. Done is then never closed.
	Leave()
}

// Legacy is a sandbox of a backend, for its next owner.
type Legacy struct {
	ID string `json:"id"`
	// Process is the number that the process has for the keeper whose end is the sandbox's.
	Process int `json:"process"`
	// Control is the number of the file that the agent watches: it ends when it is closed.
	Control int             `json:"control"`
	Data    json.RawMessage `json:"data"`
}

// Layer is where the changes of an overlay go.
type Layer struct {
	// Dir has the directories upper and work. It is free of symbolic links, the caller's
	// alone, and no other overlay uses it.
	Dir string
	// Root: it was made by root, whose marks no command can write; else by an ordinary user.
	Root bool
}

// Marks returns the word for how the layer is mounted, as in policy.Isolation.
func (l *Layer) Marks() string {
	if l.Root {
		return "trusted"
	}
	return "userxattr"
}

// Interception is what the egress program ends TLS with, and what requests get.
type Interception struct {
	// Certificate (DER) and Key are those of the sandbox's own authority.
	Certificate, Key []byte
	Secrets          []Secret
}

// Secret is a secret of the network's rules, by its name, with its value and with what commands
// have in its place, if anything.
type Secret struct{ Name, Value, StandIn string }

// Socket is a Unix socket of the host that a process has bound.
type Socket struct {
	Path string // absolute, free of symbolic links
	ID   confine.FileID
}

// Stored is a directory of Paddock's own store, for the commands of one sandbox after another, or
// one with the caller's own downloads.
type Stored struct {
	Source string // on the host, free of symbolic links
	Tool   string // whose cache it is; empty: it is HOME
	// Ends: what commands change in it ends with the sandbox, like what they change in the
	// workspace. Its mount is read-only. Where the sandbox cannot have a layer above it,
	// commands have an empty directory instead.
	Ends bool
	// Downloads: it is not in the store. The caller's tool has downloaded what is in it.
	Downloads bool
	// Over, if not empty, is the target of its mount, where there is something already: the
	// two are merged, without what Source has under the names Hidden. What commands change
	// there ends with the sandbox. Where that cannot be had, the mount is left out.
	Over   string
	Hidden []string
}

// Toolchains is what a request shows of the toolchains below the caller's home.
type Toolchains struct {
	// Shown are the toolchains, with the sources of their mounts: the last Mounts of
	// Spec.Mounts, each at the same path inside and read-only.
	Shown  []policy.Toolchain
	Mounts int
	// Links are symbolic links to make inside, to the mounts: their texts by their paths.
	Links map[string]string
	// Home is [Request].Home without symbolic links, below which the mounts lie.
	Home string
	// Search has, by entry of [Request].Path, the directory inside that takes its place.
	Search map[string]string
	// LeftOut says, by entry of [Request].Path, why the toolchain there is not shown.
	LeftOut map[string]string
	// Covered says that files in the mounts are covered, because of credentials in them. They
	// are among [Request].Own.
	Covered bool
}

// Without returns the toolchains as they are left out of a request, for this reason.
func (t Toolchains) Without(why string) Toolchains {
	left := maps.Clone(t.LeftOut)
	if left == nil {
		left = map[string]string{}
	}
	for entry := range t.Search {
		left[entry] = why
	}
	return Toolchains{LeftOut: left}
}

// OwnFile is one of Paddock's own files or directories, which commands must not change. If
// it is in a writable mount, a backend covers it, or refuses to start.
type OwnFile struct {
	Path string
	What string // "the audit log", for messages
	// Field names the flag, the variable or the field that says where it is.
	Field string
	// Hidden: commands must not read it either.
	Hidden bool
	// Dir: it is a directory. It is made if it would be covered and does not exist.
	Dir bool
	// Replaced: Paddock changes it by putting another file in its place, which would
	// remove a cover. It is refused in every place that commands could write.
	Replaced bool
	// Spare means that a start is not refused if the file does not exist, or cannot be
	// made, since it is checked again before it is used. A directory that could be made
	// is covered.
	Spare bool
}

// Guard is a path that stays read-only although it lies in something that
// commands may write.
type Guard struct {
	File string // on the host, absolute, free of symbolic links
	Why  string
	Tool string // that obeys it; "" for git
	// Copy asks for a copy of the file that commands can change, while they cannot
	// change the host's file. With a backend that has no copies the file is read-only.
	Copy bool
	// Text, if not empty, is the content of such a copy instead of the file's, and the
	// copy is not read at the end. A backend without copies does not guard the file,
	// because programs must be able to write it.
	Text string
	// Except is a name directly in the directory File that commands can still change. A
	// backend that cannot make this exception does not guard the directory.
	Except string
}

// Sandbox is a running agent behind its wall.
type Sandbox interface {
	// ID is the sandbox's random name.
	ID() string
	// Dial opens a connection to the agent. It fails with ErrGone if the sandbox
	// has ended.
	Dial(ctx context.Context) (net.Conn, error)
	// Isolation is what really holds, as verified from outside.
	Isolation() policy.Isolation
	// Done is closed when the sandbox has ended, by Stop or by itself.
	Done() <-chan struct{}
	// Stop ends every process inside within the grace period plus the time
	// the kernel takes, removes the sandbox's state, and returns how it ended. It
	// may be called more than once.
	Stop(ctx context.Context, grace time.Duration) (Death, error)
}

// Freezer is a sandbox whose commands can be stopped for a while.
type Freezer interface {
	// Freeze stops every command and returns when all of them have stopped.
	Freeze(ctx context.Context) error
	// Thaw makes them continue.
	Thaw(ctx context.Context) error
}

// Death is how a sandbox ended.
type Death struct {
	// Proved says that the kernel has confirmed the end of every process inside.
	Proved bool `json:"proved"`
	// Log is what the agent wrote to its standard error, bounded; normally empty.
	Log string `json:"log,omitempty"`
	// Copies are the copies of files that commands had, as they were after the end, by
	// [Guard].File.
	Copies map[string]Copy `json:"-"`
}

// Copy is one copy of a file as commands left it.
type Copy struct {
	Text []byte // hostile
	Err  error  // why it was not read: it is gone, or not a regular file, for example
}

// StartError is a wall that could not be built, typed so that a caller can
// tell what is missing.
type StartError struct {
	Stage  string `json:"stage"`            // "state", "clone", "setup", "spawn", "verify", …
	Op     string `json:"op"`               // the operation that failed
	Object string `json:"object,omitempty"` // what it was applied to
	Errno  int    `json:"errno,omitempty"`  // the kernel's answer, or 0
	Cause  string `json:"cause,omitempty"`  // the reason, if there is no errno
	Hint   string `json:"hint,omitempty"`   // what to do about it
	Err    error  `json:"-"`                // what ended the wait; only [Interrupted] sets it
}

// Failed returns the error of an operation of a start that failed with err. It keeps
// the errno of err, if err has one.
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

// Interrupted returns the error of a start whose context ended while it waited for object.
func Interrupted(ctx context.Context, stage, object string) *StartError {
	cause := context.Cause(ctx)
	return &StartError{Stage: stage, Op: "await", Object: object, Cause: "there was no answer: " + cause.Error(), Err: errors.Join(ctx.Err(), cause)}
}

// Error returns what could not be done, and why.
func (e *StartError) Error() string {
	what := e.Op
	if e.Object != "" {
		what += " " + e.Object
	}
	if e.Stage != "plan" { // what the spec asks for needs no place
		what = e.Stage + ": " + what
	}
	return fmt.Sprintf("cannot start the sandbox: %s: %s", what, e.Reason())
}

// Reason returns the cause alone, or the kernel's words for Errno.
func (e *StartError) Reason() string {
	if e.Cause == "" && e.Errno != 0 {
		return syscall.Errno(e.Errno).Error()
	}
	return e.Cause
}

// Unwrap returns the errno, so that errors.Is(err, fs.ErrPermission) works, or the error
// that ended the wait.
func (e *StartError) Unwrap() error {
	if e.Errno == 0 {
		return e.Err
	}
	return syscall.Errno(e.Errno)
}

// Report is the result of a backend's probe.
type Report struct {
	Backend string `json:"backend"`
	Usable  bool   `json:"usable"` // the default spec can be enforced
	// Abilities are what specs can ask for, each with the features it needs.
	Abilities []Ability `json:"abilities"`
	Features  []Feature `json:"features"`
}

// Ability is something that a spec can ask for: a level, a network, a limit.
type Ability struct {
	Name    string   `json:"name"`
	OK      bool     `json:"ok"`
	Missing []string `json:"missing,omitempty"` // names of features
}

// Feature is one thing that a host can or cannot do, found out by trying it.
type Feature struct {
	Name     string   `json:"name"`
	OK       bool     `json:"ok"`
	NeededBy []string `json:"needed_by,omitempty"` // names of abilities
	Detail   string   `json:"detail,omitempty"`    // a version, a path, an errno
	Remedy   string   `json:"remedy,omitempty"`    // what to do if it is missing
}

// Judge sets which abilities the features give, in the order in which they are named.
// The first is the one that the default spec needs.
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

// Losses returns the guarantees that are lost by these degradations.
func Losses(degraded []string) []string {
	var lost []string
	for _, d := range policy.Degradations() {
		if slices.Contains(degraded, d.Name) {
			lost = append(lost, d.Loss)
		}
	}
	return lost
}
