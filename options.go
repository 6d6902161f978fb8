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
	"github.com/paddock-dev/paddock/backend/hostpath/cache"
	"github.com/paddock-dev/paddock/internal/elsewhere"
	"github.com/paddock-dev/paddock/internal/layers"
	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// These types are package policy's and wire's. They are repeated here so that most
// programs need to import only this package.
type (
	// Spec is what a sandbox should be. Its zero value is safe.
	Spec = policy.Spec
	// Workspace is the directory at /workspace.
	Workspace = policy.Workspace
	// Mount makes a host path visible inside.
	Mount = policy.Mount
	// Network is what commands can reach.
	Network = policy.Network
	// NetworkRule opens a host, or several.
	NetworkRule = policy.NetworkRule
	// SSHAgent lets commands use keys of the caller's SSH agent.
	SSHAgent = policy.SSHAgent
	// NetworkDenial is an exception from rules.
	NetworkDenial = policy.NetworkDenial
	// Limits bound what commands may use.
	Limits = policy.Limits
	// Duration is a duration that reads and prints as "90s".
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

// Options say how a sandbox is built; the spec says what it is. The paddock program
// uses the zero value.
type Options struct {
	// Backend builds the wall. Default: the linux backend.
	Backend backend.Backend
	// Agent is the path of the paddock-agent program. Default:
	// $PADDOCK_AGENT, else the file paddock-agent beside the running program.
	Agent string
	// StateDir is where sandboxes keep their state. Default: [DefaultStateDir].
	// It has a list of what sandboxes could write. Unless StateDir is set, the usual
	// state directory gets the same list, for starts that use another directory.
	StateDir string
	// Dir is the directory to which relative paths of the spec are relative. Default:
	// the current directory.
	Dir string
	// ID is the id of the sandbox, from [backend.NewID], for callers that must know it
	// before the sandbox exists. Default: a new one.
	ID string
	// Path is a PATH, for example the caller's. PATH inside begins with the directories
	// of Path that are visible at the same path, unless a command of a sandbox can
	// write to them or ever could. [Plan] lists the directories that were left out, and
	// why. Path applies to the linux backend with the host's own root file system, if
	// the spec neither sets PATH nor restricts which programs may be called. Hints about
	// programs that are missing inside use it, too. Default: PATH is fixed.
	Path string
	// Toolchains, if not nil, makes the toolchains below the caller's home that Path names
	// visible inside, read-only and at the same paths: those of package toolchain's
	// table (nvm, pyenv, rustup, go and so on), and the versions of Go that go.mod asks for,
	// as far as no command of a sandbox could ever write them. It is called with each mount of a toolchain, and returns whether
	// that may be made. [Isolation] lists them, and [Plan] says what was left out, and
	// why: a toolchain that cannot be shown never fails a start. It applies where Path
	// does, unless the spec has NoToolchains. Default: none.
	Toolchains func(Mount) bool
	// Own are further files of the caller's that commands must not change, besides
	// Paddock's programs and its state: the file with privileges, for example. If
	// commands could write to one, it is covered, or the sandbox is refused.
	Own []backend.OwnFile
	// GitUser gives commands the name and address that the user's git has in the
	// workspace, as GIT_AUTHOR_NAME and the like, unless the spec sets these variables:
	// the user's own configuration is not visible inside.
	GitUser bool
	// Caches say whose caches commands get, and whether they get any without being asked.
	Caches CacheOptions
	// Layer says what becomes of the layer of a workspace of mode "overlay". Default: it ends
	// with the sandbox.
	Layer LayerOptions
	// NoLinks refuses a workspace, mounts and a root file system that are named
	// through symbolic links. It is for specs of people other than the operator:
	// somebody who may write to one directory could name any other through a link in
	// it. Then hints do not say where a program that is missing inside is on this host.
	NoLinks bool
	// Planted, if not nil, is called once for a sandbox that has ended and whose
	// [Sandbox.Changes] are not empty, before the first [Sandbox.Close] returns.
	// It may be called from any goroutine.
	Planted func(*Sandbox)
	// Unreported, if not nil, is called, before [Open] returns, with the changes of
	// sandboxes whose owners were killed before they could report them. Otherwise
	// these changes stay stored.
	Unreported func(Changes)

	// Program is the path of the paddock program, which ends sandboxes of [Create]. Default: the
	// file paddock beside the agent.
	Program string

	keeper      any // [backend.Request].Keeper
	reportUse   bool
	scratch     string                // [backend.Request].Scratch
	intercepted *backend.Interception // of an attempt before this one
}

// own returns Paddock's own files besides the programs: Options.Own, the state directories
// that are named, and the default one, which other programs use, and so the caches. Links in
// their paths count too.
func (o Options) own() []backend.OwnFile {
	usual, _ := hostpath.UsualState() // "" if there is none
	own := slices.Clone(o.Own)
	for _, dir := range [][2]string{{o.StateDir, "Options.StateDir"}, {os.Getenv(StateDirEnv), StateDirEnv}, {usual, ""}} {
		if path, err := hostpath.Abs(dir[0]); err == nil && dir[0] != "" {
			own = append(own, backend.OwnFile{Path: path, Field: dir[1], What: "Paddock's own state", Hidden: true, Dir: true, Spare: true})
		}
	}
	store := func(dir, field string, err error) {
		if err == nil && (field == "" || !cache.Foreign(dir)) { // which has no caches that could be hidden
			own = append(own, backend.OwnFile{Path: dir, Field: field, What: hostpath.OwnStore, Hidden: true, Dir: true, Spare: true})
		}
	}
	store(cache.Place())
	if dir, err := cache.Usual(); os.Getenv(CacheDirEnv) != "" {
		store(dir, "", err)
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

// base returns the directories to which the spec's relative paths and "~" are relative.
func (o Options) base() (policy.Base, error) {
	dir := o.Dir
	if !filepath.IsAbs(dir) {
		abs, err := hostpath.Abs(dir) // not from $PWD, which may lead there over links
		if err != nil {
			return policy.Base{}, fmt.Errorf("cannot find the current directory: %w", err)
		}
		dir = abs
	}
	// A missing home is not an error here: only a spec with "~" needs it, and
	// resolving that reports it.
	home, _ := os.UserHomeDir()
	return policy.Base{Dir: dir, Home: home, CheckRedactions: redact.Check}, nil
}

// backend returns the backend of the options, or this platform's default.
func (o Options) backend() (backend.Backend, error) {
	if o.Backend != nil {
		return o.Backend, nil
	}
	if be := run.DefaultBackend(); be != nil {
		return be, nil
	}
	return nil, &Error{Message: "cannot start a sandbox: " + elsewhere.Problem, Hint: elsewhere.Hint}
}

// AgentEnv is the environment variable with the path of the agent.
const AgentEnv = "PADDOCK_AGENT"

// agentName is the agent's file name beside the running program.
const agentName = "paddock-agent"

// errNotProgram is the error of a path that exists and cannot be executed.
var errNotProgram = errors.New("not an executable file")

// agentPath finds the agent: by the option, by the environment, or beside the
// running program. If a path was named and no agent is there, it returns an error
// rather than the path of another agent.
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

// checkAgent finds the agent, and refuses what trustAgent does.
func (o Options) checkAgent() error {
	path, err := o.agentPath()
	if err != nil {
		return err
	}
	_, seen, err := o.stateDir()
	if err == nil {
		_, err = o.trustAgent(seen, path)
	}
	return err
}

// EgressEnv is the environment variable with the path of the paddock-egress program.
const EgressEnv = "PADDOCK_EGRESS"

// egressProgram returns the path of the program through which a sandbox reaches the hosts that
// its rules name: by the environment, or beside the agent. It refuses a program that commands
// of a sandbox, or another user of this host, could have put there.
func (o Options) egressProgram(seen *hostpath.Seen, agent string) (string, error) {
	own := backend.OwnFile{Path: filepath.Join(filepath.Dir(agent), "paddock-egress"), What: "the egress program"}
	if named := os.Getenv(EgressEnv); named != "" {
		abs, err := hostpath.Abs(named)
		if err != nil {
			return "", fmt.Errorf("cannot use $%s: %w", EgressEnv, err)
		}
		own.Path, own.Field = abs, EgressEnv
	}
	if err := checkProgram(own.Path); err != nil {
		return "", &Error{
			Message: "cannot find the egress program, which network allow needs: tried " + own.Path + " (" + err.Error() + ")",
			Hint:    "keep paddock-egress beside paddock-agent, or set " + EgressEnv + " to its path; it comes with: go install github.com/paddock-dev/paddock/cmd/...@latest",
		}
	}
	way, err := seen.TrustProgram(own)
	if err != nil {
		return "", err
	}
	return way.Path, nil
}

// KeeperEnv is the environment variable with the path of the paddock-keeper program.
const KeeperEnv = "PADDOCK_KEEPER"

// keeperPrograms returns the paths of the program that owns a sandbox of [Create], and of the
// one that ends it.
func (o Options) keeperPrograms(seen *hostpath.Seen, agent string) (keeper, end string, err error) {
	find := func(own backend.OwnFile, named string) (string, error) {
		if named != "" {
			abs, err := hostpath.Abs(named)
			if err != nil {
				return "", fmt.Errorf("cannot use %s: %w", own.Field, err)
			}
			own.Path = abs
		} else {
			own.Field = ""
		}
		if err := checkProgram(own.Path); err != nil {
			return "", &Error{
				Message: "cannot find " + own.What + ", which a persistent sandbox needs: tried " + own.Path + " (" + err.Error() + ")",
				Hint:    "keep paddock and paddock-keeper beside paddock-agent; they come with: go install github.com/paddock-dev/paddock/cmd/...@latest",
			}
		}
		way, err := seen.TrustProgram(own)
		if err != nil {
			return "", err
		}
		return way.Path, nil
	}
	dir := filepath.Dir(agent)
	keeper, err = find(backend.OwnFile{Path: filepath.Join(dir, "paddock-keeper"), What: "the keeper", Field: KeeperEnv}, os.Getenv(KeeperEnv))
	if err == nil {
		end, err = find(backend.OwnFile{Path: filepath.Join(dir, "paddock"), What: "the paddock program", Field: "Options.Program"}, o.Program)
	}
	return keeper, end, err
}

// namedAgent returns the absolute path of an agent that from has named.
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
		Hint:    "keep paddock-agent beside the program that uses it, or set " + AgentEnv + " to its path; it comes with: go install github.com/paddock-dev/paddock/cmd/...@latest",
	}
}

// checkProgram returns why a path cannot be executed, without the path, which its
// callers add.
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

// StateDirEnv is the environment variable with the path of the state directory.
const StateDirEnv = "PADDOCK_STATE_DIR"

// DefaultStateDir returns the state directory that is used if [Options] do not
// name one: $PADDOCK_STATE_DIR, for root /var/lib/paddock, else
// $XDG_STATE_HOME/paddock, else ~/.local/state/paddock. The first program that needs
// the directory makes it, with mode 0700.
//
// The path is free of symbolic links. Links of root's and of the user's own are
// followed. A link that commands of a sandbox, or other users of this host, could
// have replaced is an error, since Paddock trusts the files in the directory, such as
// the one with privileges.
func DefaultStateDir() (string, error) {
	dir, _, err := Options{}.stateDir()
	return dir, err
}

// stateDir returns the state directory of the options, or the default one, and the Seen
// of the start.
func (o Options) stateDir() (string, *hostpath.Seen, error) {
	dir, seen, err := o.findState()
	if err == nil {
		_ = o.rememberCommitted(dir, seen) // a start says why it cannot
	}
	return dir, seen, err
}

// rememberCommitted adds the sources of layers that older versions have committed to the list of what
// commands could write, once: before a link in one of them is followed, and before a layer is removed.
func (o Options) rememberCommitted(state string, seen *hostpath.Seen) error {
	return hostpath.RememberCommitted(state, seen, o.StateDir == "", func() ([]hostpath.Committed, []backend.OwnFile, error) {
		agent, _ := o.agentPath() // "" if there is none
		found, err := layers.Committed(state)
		return found, hostpath.OwnFiles(backend.Request{StateDir: state, Agent: agent, Own: o.own()}), err
	})
}

// findState does what stateDir does, without the list of what was committed.
func (o Options) findState() (string, *hostpath.Seen, error) {
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

// trustState resolves a state directory, and refuses one that others could have put
// there. field is the setting that names it, or "" for the default.
func trustState(dir, field string) (string, *hostpath.Seen, error) {
	path, seen, err := hostpath.TrustState(backend.OwnFile{Path: dir, What: "the state directory", Field: field, Dir: true}, field != "")
	if e := (*policy.FieldError)(nil); errors.As(err, &e) && e.Hint == "" {
		e.Hint = "choose a directory of your own with " + StateDirEnv
	}
	return path, seen, err
}
