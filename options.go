package paddock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// The words of a specification and of its effect are package policy's; they
// are repeated here so that most programs need to import this package alone.
type (
	// Spec is what a sandbox should be. Its zero value is safe.
	Spec = policy.Spec
	// Workspace is the directory at /workspace.
	Workspace = policy.Workspace
	// Mount makes a host path visible inside.
	Mount = policy.Mount
	// Limits bound what commands may use.
	Limits = policy.Limits
	// Duration is a time span that reads and prints as "90s".
	Duration = policy.Duration
	// Size is a number of bytes that reads and prints as "512MiB".
	Size = policy.Size
	// Isolation is what was really applied to a sandbox.
	Isolation = policy.Isolation
	// Denial is a refusal: which layer, which rule, which object.
	Denial = wire.Denial
	// TTY is the size of a terminal, in characters.
	TTY = wire.TTY
)

// Options say how a sandbox is built, as opposed to what it is. The zero
// value is what the paddock program uses.
type Options struct {
	// Backend builds the wall. Default: the linux backend.
	Backend backend.Backend
	// Agent is the path of the paddock-agent program. Default:
	// $PADDOCK_AGENT, else the file paddock-agent beside the running program.
	Agent string
	// StateDir is where sandboxes keep their state. Default: [DefaultStateDir].
	// What sandboxes could write is listed there, and, unless StateDir is set, in the
	// usual place too, so that starts that use another directory know of it.
	StateDir string
	// Dir is where relative paths of the spec start. Default: the current
	// directory.
	Dir string
	// ID is the id of the sandbox, of [backend.NewID], for who must know it before there
	// is one. Default: a new one.
	ID string
	// Path is a PATH, the caller's say, whose directories PATH inside begins with: those
	// that are visible there at the same place, and that no command of a sandbox can
	// write or ever could. [Plan] says which were left out, and why. It counts for the
	// linux backend, with the host's own root file system, where the spec neither sets
	// PATH nor says which programs may be called. A hint about a program that is missing
	// inside looks for it there, too. Default: PATH is fixed.
	Path string
	// Own are files of the caller's own that commands must not change, beside
	// Paddock's programs and its state: where privileges are kept, say. One that
	// lies in what commands may write is covered, or the sandbox refused.
	Own []backend.OwnFile
	// GitUser gives commands the name and address that the user's git has in the
	// workspace, as GIT_AUTHOR_NAME and the like, unless the spec sets these variables:
	// the user's own configuration is not visible inside.
	GitUser bool
	// NoLinks refuses a workspace, mounts and a root file system that are named
	// through symbolic links. It is for specs of others than the operator: who
	// may write to one directory could name any other through a link in it. Hints do
	// not say then where a program that is missing inside is on this host.
	NoLinks bool
	// Planted is told, once, of a sandbox that has ended and whose
	// [Sandbox.Changes] are not empty, before the first [Sandbox.Close] returns.
	// It may be called from any goroutine. nil: nobody is.
	Planted func(*Sandbox)
	// Unreported is told, before [Open] returns, of the changes of sandboxes whose
	// owners were killed, so that nobody has been told yet. nil: nobody is, and
	// they are kept for who asks.
	Unreported func(Changes)
}

// own are Paddock's own files beside the programs: what the door has named, and the
// state where it is named and in its usual place, which other programs use. Links on
// the way there count, too.
func (o Options) own() []backend.OwnFile {
	usual, _ := hostpath.UsualState() // without one nobody uses it
	own := slices.Clone(o.Own)
	for _, dir := range [][2]string{{o.StateDir, "Options.StateDir"}, {os.Getenv(StateDirEnv), StateDirEnv}, {usual, ""}} {
		if path, err := hostpath.Abs(dir[0]); err == nil && dir[0] != "" {
			own = append(own, backend.OwnFile{Path: path, Field: dir[1], What: "Paddock's own state", Hidden: true, Dir: true, Spare: true})
		}
	}
	return own
}

// prepare finds the backend and fills in the spec's defaults.
func (o Options) prepare(spec Spec) (backend.Backend, Spec, error) {
	be, err := o.backend()
	if err != nil {
		return nil, Spec{}, err
	}
	if spec.Backend == "" {
		spec.Backend = be.Name()
	}
	base, err := o.base()
	if err != nil {
		return nil, Spec{}, err
	}
	spec, err = spec.Resolve(base)
	if err != nil {
		return nil, Spec{}, err
	}
	if spec.Backend != be.Name() {
		return nil, Spec{}, &Error{
			Message: fmt.Sprintf("cannot use backend %q: this program was started with backend %q", spec.Backend, be.Name()),
		}
	}
	return be, spec, nil
}

// base returns what a spec is resolved against.
func (o Options) base() (policy.Base, error) {
	dir := o.Dir
	if !filepath.IsAbs(dir) {
		abs, err := hostpath.Abs(dir) // not by $PWD, which may lead there over links
		if err != nil {
			return policy.Base{}, fmt.Errorf("cannot find the current directory: %w", err)
		}
		dir = abs
	}
	// A caller without a home can do without: only a spec that says "~"
	// needs it, and its resolution reports the lack.
	home, _ := os.UserHomeDir()
	return policy.Base{Dir: dir, Home: home, CheckRedactions: redact.Check}, nil
}

// backend returns the one asked for, or the one of this platform.
func (o Options) backend() (backend.Backend, error) {
	if o.Backend != nil {
		return o.Backend, nil
	}
	if be := run.DefaultBackend(); be != nil {
		return be, nil
	}
	return nil, &Error{Message: "cannot choose a backend: this platform has no default one", Hint: "set Options.Backend"}
}

// AgentEnv names the environment variable that overrides where the agent is.
const AgentEnv = "PADDOCK_AGENT"

// agentName is the agent's file name beside the running program.
const agentName = "paddock-agent"

// errNotProgram is a path that exists and cannot be run.
var errNotProgram = errors.New("not an executable file")

// agentPath finds the agent: the option, the environment, then beside the
// running program. A place that was named and does not hold an agent is an
// error, never a reason to run a different one.
func (o Options) agentPath() (string, error) {
	if o.Agent != "" {
		return namedAgent(o.Agent, "Options.Agent")
	}
	if path := os.Getenv(AgentEnv); path != "" {
		return namedAgent(path, "$"+AgentEnv)
	}
	tried := []string{"$" + AgentEnv + " (not set)"}
	self, err := os.Executable()
	if err != nil {
		tried = append(tried, "beside this program ("+err.Error()+")")
		return "", agentMissing(tried)
	}
	path := filepath.Join(filepath.Dir(self), agentName)
	if err := checkProgram(path); err != nil {
		return "", agentMissing(append(tried, path+" ("+err.Error()+")"))
	}
	return path, nil
}

// trustAgent resolves the agent's path, and refuses a program that commands of a
// sandbox, or another user of this host, could have put there.
func (o Options) trustAgent(seen *hostpath.Seen, path string) (*hostpath.Way, error) {
	own := backend.OwnFile{Path: path, What: "the agent"}
	switch {
	case o.Agent != "":
		own.Field = "Options.Agent"
	case os.Getenv(AgentEnv) != "":
		own.Field = AgentEnv
	}
	return seen.TrustProgram(own)
}

func namedAgent(path, from string) (string, error) {
	abs, err := hostpath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("cannot use %s: %w", from, err)
	}
	if err := checkProgram(abs); err != nil {
		return "", agentMissing([]string{from + " = " + abs + " (" + err.Error() + ")"})
	}
	return abs, nil
}

func agentMissing(tried []string) error {
	return &Error{
		Message: "cannot find the agent: tried " + strings.Join(tried, ", "),
		Hint:    "keep paddock-agent beside the program that uses it, or set " + AgentEnv + " to its path",
	}
}

// checkProgram returns the bare reason, because its callers name the path.
func checkProgram(path string) error {
	info, err := os.Stat(path)
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return errNotProgram
	}
	return nil
}

// StateDirEnv names the environment variable that overrides where sandboxes
// keep their state.
const StateDirEnv = "PADDOCK_STATE_DIR"

// DefaultStateDir is where sandboxes keep their state when [Options] do not
// say: $PADDOCK_STATE_DIR, for root /var/lib/paddock, else
// $XDG_STATE_HOME/paddock, else ~/.local/state/paddock. The directory is made
// with mode 0700 by whatever first needs it.
//
// The path is free of symbolic links. Links of root's and of the user's own are
// followed. One that commands of a sandbox, or any user of this host, could have
// replaced is an error, since what is in it is believed: who may do what, say.
func DefaultStateDir() (string, error) {
	dir, _, err := Options{}.stateDir()
	return dir, err
}

// stateDir returns the directory asked for, or the default one, with what was seen of it.
func (o Options) stateDir() (string, *hostpath.Seen, error) {
	if o.StateDir != "" {
		return trustState(o.StateDir, "Options.StateDir")
	}
	if dir := os.Getenv(StateDirEnv); dir != "" {
		return trustState(dir, StateDirEnv)
	}
	dir, err := hostpath.UsualState()
	if err != nil {
		return "", nil, &Error{
			Message: "cannot choose a state directory: " + err.Error(),
			Hint:    "set " + StateDirEnv + " to a directory of your own",
		}
	}
	return trustState(dir, "")
}

// trustState resolves a directory of state, and refuses one that others could
// have put there. field says who named it, "" that nobody did.
func trustState(dir, field string) (string, *hostpath.Seen, error) {
	path, seen, err := hostpath.TrustState(backend.OwnFile{Path: dir, What: "the state directory", Field: field, Dir: true}, field != "")
	if e := (*policy.FieldError)(nil); errors.As(err, &e) && e.Hint == "" {
		e.Hint = "choose a directory of your own with " + StateDirEnv
	}
	return path, seen, err
}
