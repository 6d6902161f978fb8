package paddock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
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

// Plan says what [Open] would do with this spec, step by step, together with
// the spec as it is once defaults are filled in. It changes nothing. What is an
// error for Open, a missing agent included, is one for Plan.
func Plan(ctx context.Context, spec Spec, opts Options) (*confine.Plan, Spec, error) {
	be, req, err := opts.request(spec)
	if err != nil {
		return nil, Spec{}, err
	}
	protection, err := opts.protect(ctx, &req)
	if err != nil {
		return nil, Spec{}, err
	}
	plan, err := be.Plan(ctx, req)
	if plan != nil {
		plan.Holds.Lost = append(plan.Holds.Lost, losses(protection)...)
	}
	return plan, req.Spec, err
}

// Resolve fills in the spec's defaults and checks it, as [Open] does. It looks at
// text alone.
func Resolve(spec Spec, opts Options) (Spec, error) {
	_, spec, err := opts.prepare(spec)
	return spec, err
}

// request is what a backend is asked for: the resolved spec, the agent, and
// where state is kept.
func (o Options) request(spec Spec) (backend.Backend, backend.Request, error) {
	be, spec, err := o.prepare(spec)
	if err != nil {
		return nil, backend.Request{}, err
	}
	home, _ := os.UserHomeDir() // without one nothing lies below it
	agent, err := o.agentPath()
	if err != nil {
		return nil, backend.Request{}, err
	}
	state, seen, err := o.stateDir()
	if err != nil {
		return nil, backend.Request{}, err
	}
	way, err := o.trustAgent(seen, agent)
	if err != nil {
		return nil, backend.Request{}, err
	}
	if o.GitUser && spec.Backend != policy.BackendHost && spec.Workspace.Source != "" { // without walls git finds it itself
		spec.Env = withGitUser(spec)
	}
	return be, backend.Request{ID: o.ID, Home: home, Spec: spec, Agent: way.Path, StateDir: state, NoLinks: o.NoLinks, Path: o.Path, Own: o.own(), Seen: seen}, nil
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

// remember puts what commands will be able to change on the list of all that
// commands of sandboxes ever could, see [hostpath.Written].
func (o Options) remember(req backend.Request) error {
	if w := req.Spec.Wrapper; req.Spec.Backend == policy.BackendWrapper && w != nil && w.Agent == policy.AgentUpload {
		return nil // nothing of this host is named
	}
	mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
	if err != nil {
		return err
	}
	return hostpath.Remember(req, mounts, o.StateDir == "")
}

// Probe tries what the backend needs and reports what works on this host.
func Probe(ctx context.Context, opts Options) (backend.Report, error) {
	be, err := opts.backend()
	if err != nil {
		return backend.Report{}, err
	}
	probe := be.Probe
	if e, ok := be.(backend.Executor); ok {
		dir, _, err := opts.stateDir()
		probe = func(ctx context.Context) backend.Report {
			if err != nil { // whose list would judge what is executed
				return backend.Report{Backend: be.Name()}
			}
			return e.ProbeIn(ctx, dir)
		}
	}
	report := probe(ctx)
	own := []backend.Feature{opts.probeAgent(), opts.probeState()}
	for _, f := range own {
		if f.OK {
			continue
		}
		report.Usable = false
		for i := range report.Abilities {
			a := &report.Abilities[i]
			a.OK, a.Missing = false, append(a.Missing, f.Name)
		}
	}
	report.Features = append(own, report.Features...)
	return report, nil
}

// probeAgent looks for the agent's program.
func (o Options) probeAgent() backend.Feature {
	path, err := o.agentPath()
	if err != nil {
		return feature("agent program", path, err, "")
	}
	_, seen, err := o.stateDir()
	if err != nil {
		return feature("agent program", path, nil, "") // the state's own line tells
	}
	way, err := o.trustAgent(seen, path)
	if err == nil {
		path = way.Path + groupNote(way)
	}
	return feature("agent program", path, err, "")
}

// groupNote tells of others who may change what Paddock believes.
func groupNote(way *hostpath.Way) string {
	if at := way.GroupWritable(); at != "" {
		return " (its group may write to " + at + ": chmod g-w, unless all of them are trusted)"
	}
	return ""
}

// probeState looks at the directory of state, or at where it would be made.
func (o Options) probeState() backend.Feature {
	dir, _, err := o.stateDir()
	detail := dir
	if err == nil {
		if _, err = os.ReadDir(dir); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err == nil {
			err = checkState(dir)
		}
		way, werr := hostpath.Follow(dir)
		if err == nil && werr == nil {
			detail += groupNote(way)
			if err = way.Writable(); err != nil {
				return feature("state directory", dir, err, "choose a writable directory with "+StateDirEnv)
			}
		}
		for _, r := range refusedRecords(dir) {
			detail += " (left as it is, because Paddock writes no such record: " + r + "; look at it, and remove the directory)"
		}
		if lost := hostpath.UsualList(dir); err == nil && lost != nil && o.StateDir == "" && os.Getenv(StateDirEnv) != "" {
			detail += " (it alone lists what sandboxes could write: " + lost.Error() + ")"
		}
	}
	return feature("state directory", detail, err, "chmod 700 "+dir+", or choose another with PADDOCK_STATE_DIR")
}

// feature is one that is there unless err says otherwise.
func feature(name, detail string, err error, remedy string) backend.Feature {
	if err == nil {
		return backend.Feature{Name: name, OK: true, Detail: detail}
	}
	f := backend.Feature{Name: name, Detail: err.Error(), Remedy: remedy}
	if e := (*Error)(nil); errors.As(err, &e) {
		f.Detail, f.Remedy = e.Message, e.Hint
	}
	if e := (*policy.FieldError)(nil); errors.As(err, &e) {
		f.Remedy = e.Hint
	}
	if e := (*backend.StartError)(nil); errors.As(err, &e) {
		f.Detail, f.Remedy = e.Object+": "+e.Reason(), e.Hint
	}
	return f
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

// base is where the spec's relative paths and "~" start.
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
	return policy.Base{Dir: dir, Home: home}, nil
}

// backend is the one asked for, or the one of this platform.
func (o Options) backend() (backend.Backend, error) {
	if o.Backend != nil {
		return o.Backend, nil
	}
	if be := defaultBackend(); be != nil {
		return be, nil
	}
	return nil, &Error{Message: "cannot choose a backend: this platform has no default one", Hint: "set Options.Backend"}
}
