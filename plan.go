package paddock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/layers"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/policy"
)

// Plan returns what [Open] would do with this spec, step by step, and the spec with the
// defaults filled in. It changes nothing. It fails if Open would, also if the agent is
// missing.
func Plan(ctx context.Context, spec Spec, opts Options) (*confine.Plan, Spec, error) {
	be, req, err := opts.request(spec)
	if err != nil {
		return nil, Spec{}, err
	}
	kept, err := opts.stay(ctx, &req, false)
	if err != nil {
		return nil, Spec{}, err
	}
	opts.showToolchains(&req)
	protection, err := opts.protect(ctx, &req)
	if err == nil {
		err = coverSockets(ctx, &req, &protection)
	}
	var reached []string
	if err == nil {
		reached, err = refuseServers(req)
	}
	if err != nil {
		return nil, Spec{}, err
	}
	plan, err := be.Plan(ctx, req)
	if plan != nil {
		if spec.Home == policy.HomeKeep && req.Spec.Home == "" { // it will be made
			plan.Holds.Home, req.Spec.Home = policy.HomeKeep, policy.HomeKeep
		}
		plan.Holds.Lost = append(plan.Holds.Lost, kept.lost...)
		plan.Holds.Lost = slices.Concat(plan.Holds.Lost, losses(protection), openings(req), reached)
	}
	return plan, req.Spec, err
}

// Resolve fills in the spec's defaults and checks it, as [Open] does, without looking at
// the host's files.
func Resolve(spec Spec, opts Options) (Spec, error) {
	_, spec, err := opts.prepare(spec)
	return spec, err
}

// request returns the backend and its request: the resolved spec, the agent, the state
// directory and so on.
func (o Options) request(spec Spec) (backend.Backend, backend.Request, error) {
	be, spec, err := o.prepare(spec)
	if err != nil {
		return nil, backend.Request{}, err
	}
	home, _ := os.UserHomeDir() // "" if there is none
	agent, err := o.agentPath()
	if err != nil {
		return nil, backend.Request{}, err
	}
	state, seen, err := o.stateDir()
	if err != nil {
		return nil, backend.Request{}, err
	}
	if err := o.rememberCommitted(state, seen); err != nil {
		return nil, backend.Request{}, err
	}
	way, err := o.trustAgent(seen, agent)
	if err != nil {
		return nil, backend.Request{}, err
	}
	egress := ""
	if policy.ByName(spec.Network.Mode) {
		if egress, err = o.egressProgram(seen, way.Path); err != nil {
			return nil, backend.Request{}, err
		}
	}
	if o.GitUser && spec.Backend != policy.BackendHost && spec.Workspace.Source != "" { // without walls git finds the user itself
		ctx, cancel := context.WithTimeout(context.Background(), gitWait)
		defer cancel()
		env := map[string]string{}
		if dir := hostpath.Real(spec.Workspace.Source); dir != "" {
			env = obeyed.GitUser(ctx, dir)
		}
		maps.Copy(env, spec.Env) // which may set these too
		spec.Env = env
	}
	req := backend.Request{ID: o.ID, Home: home, Spec: spec, Agent: way.Path, Egress: egress, StateDir: state, NoLinks: o.NoLinks, Path: o.Path,
		Own: append(o.own(), hiddenPlaces(layers.Places(state)...)...), Seen: seen, Keeper: o.keeper, ReportUse: o.reportUse, Scratch: o.scratch}
	err = showSSHAgent(&req, seen)
	return be, req, err
}

// remember adds what commands will be able to change to the list of what commands of
// sandboxes ever could, see [hostpath.Written]. started is called once the sandbox runs, or has failed.
func (o Options) remember(req backend.Request) (started func(), err error) {
	if w := req.Spec.Wrapper; req.Spec.Backend == policy.BackendWrapper && w != nil && w.Agent == policy.AgentUpload {
		return func() {}, nil // the spec names nothing on this host
	}
	mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
	if err != nil {
		return nil, err
	}
	return hostpath.Remember(req, mounts, o.StateDir == "")
}

// protectWait is how long the search for protected paths may take: a file system that
// hangs must not block a start forever.
const protectWait = 30 * time.Second

// protect finds the files that the host executes or obeys and that commands must not change,
// and adds them to the request. If protection is off, errors do not stop the start.
func (o Options) protect(ctx context.Context, req *backend.Request) (obeyed.Protection, error) {
	unknown := obeyed.Protection{Relative: true}
	if req.Spec.Workspace.Source == "" {
		return unknown, nil // the workspace is not on this host
	}
	host := req.Spec.Backend == policy.BackendHost
	open := host || slices.Contains(req.Spec.Workspace.Unprotected, "*")
	mounts, err := hostpath.Mounts(*req, policy.WorkspacePath)
	switch {
	case err != nil && open:
		return unknown, nil // the backend reports the error
	case err != nil:
		return unknown, err
	}
	var parse obeyed.Parse // nil for the backend without walls, which must work where no wall can be built
	if !host {
		parse = gitParser{agent: req.Agent, state: req.StateDir}.parse
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, protectWait)
	defer cancel()
	if open {
		found := make(chan obeyed.Protection, 1)
		look := *req
		go func() {
			p, err := obeyed.Protect(ctx, look, mounts, parse)
			if err != nil {
				p = unknown
			}
			found <- p
		}()
		select {
		case p := <-found:
			return p, nil
		case <-ctx.Done():
			return unknown, nil
		}
	}
	p, err := obeyed.Protect(ctx, *req, mounts, parse)
	const failed = "cannot tell what the host obeys in the workspace: "
	switch {
	case caller.Err() != nil: // the caller gave up: nothing is wrong with the workspace
		err = fmt.Errorf(failed+"%w", context.Cause(caller))
	case ctx.Err() != nil:
		err = &Error{Message: failed + context.Cause(ctx).Error(),
			Hint: "look for a file system that does not answer, or allow changes with `workspace.unprotected` '*'"}
	}
	req.Guards = p.Guards
	return p, err
}

// toldSockets is how many sockets are named that a backend does not cover.
const toldSockets = 8

// coverSockets finds the sockets of the host that mounts of a request would show and that programs
// listen at, has the backend cover them, and has them compared at the end. What is not covered is
// among the losses.
func coverSockets(ctx context.Context, req *backend.Request, p *obeyed.Protection) error {
	spec := req.Spec
	if spec.Workspace.Source == "" {
		return nil // not on this host
	}
	mounts, err := hostpath.Mounts(*req, policy.WorkspacePath)
	if err != nil {
		return nil // the backend reports it
	}
	ctx, cancel := context.WithTimeout(ctx, protectWait)
	defer cancel()
	met, passed, all := p.Tree().Sockets(ctx)
	for _, m := range mounts {
		if !all && m.Writable && m.Dir {
			passed = append(passed, m.Source)
		}
	}
	found, lost, err := hostpath.Sockets(ctx, *req, mounts, met, passed)
	p.WatchSockets(found)
	if spec.Backend == policy.BackendHost || spec.Level == policy.LevelLandlock {
		return nil // there is no wall, or no Unix socket inside
	}
	if err != nil {
		return err
	}
	p.Lost = slices.Concat(p.Lost, lost, hostpath.MountedSockets(mounts))
	if spec.Backend == policy.BackendLinux || spec.Backend == policy.BackendDocker {
		req.Sockets = found
		return nil
	}
	for i, s := range found {
		if i == toldSockets {
			p.Lost = append(p.Lost, fmt.Sprintf("%d more sockets that programs of the host listen at are not covered", len(found)-i))
			break
		}
		p.Lost = append(p.Lost, "commands may connect to "+text.Escape(s.Path)+", where a program of the host listens: backend "+spec.Backend+" covers no sockets")
	}
	return nil
}

// maxUnread is how many files losses names: commands can make many.
const maxUnread = 8

// losses lists the ways in which commands may make the host execute or obey something.
func losses(p obeyed.Protection) []string {
	lost := slices.Clone(p.Opened)
	for i, file := range p.Unread {
		if i == maxUnread {
			lost = append(lost, fmt.Sprintf("%d more files of git's configuration cannot be read", len(p.Unread)-i))
			break
		}
		lost = append(lost, "git's configuration "+text.Escape(file)+" cannot be read: git may obey whatever commands change")
	}
	return append(lost, p.Lost...)
}

// openings says what the request opens that nobody may have meant.
func openings(req backend.Request) []string {
	if req.Spec.Backend == policy.BackendHost || req.Spec.Workspace.Source == "" {
		return nil
	}
	mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
	if err != nil {
		return nil // the backend reports it
	}
	return hostpath.Openings(mounts)
}

// gitParser runs git on configuration in a separate sandbox, since the configuration may
// exploit a bug in git.
type gitParser struct{ agent, state string }

// maxParsedConfig is the largest output of git that is read, in bytes.
const maxParsedConfig = 4 << 20

// parse is a [obeyed.Parse].
func (g gitParser) parse(ctx context.Context, text []byte) ([]byte, error) {
	be := run.DefaultBackend()
	if be == nil {
		return nil, &Error{Message: "cannot have git read its configuration: no sandbox can be made here"}
	}
	dir, err := os.MkdirTemp("", "paddock-git-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(dir) }()
	spec, err := Spec{Workspace: Workspace{Source: dir, Access: "ro"}}.Resolve(policy.Base{Dir: dir})
	if err != nil {
		return nil, err
	}
	wall, err := be.Start(ctx, backend.Request{Spec: spec, Agent: g.agent, StateDir: g.state})
	if err != nil {
		return nil, err
	}
	s := newSandbox(wall, spec)
	defer func() { _ = s.Close() }()
	c := s.Command(ctx, "git", "config", "--file", "-", "--null", "--list")
	c.AddEnv = []string{"GIT_CONFIG_NOSYSTEM=1"}
	out := &Capture{Max: maxParsedConfig}
	c.Stdin, c.Stdout, c.Timeout = bytes.NewReader(text), out, protectWait
	if err := c.Run(); err != nil {
		return nil, err
	}
	if out.Truncated() {
		return nil, &Error{Message: "cannot read what git says of its configuration: it is too long"}
	}
	return out.Bytes(), nil
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
			if err != nil { // without its list no program may be executed
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
	if be.Name() == policy.BackendLinux || be.Name() == policy.BackendDocker {
		f := opts.probeNetwork(ctx, be.Name(), report.Usable)
		ability := backend.Ability{Name: f.NeededBy[0], OK: f.OK}
		if !f.OK {
			ability.Missing = []string{f.Name}
		}
		report.Features, report.Abilities = append(report.Features, f), append(report.Abilities, ability)
	}
	if be.Name() == policy.BackendLinux {
		f := opts.probeOverlay(ctx, report.Usable)
		ability := backend.Ability{Name: f.NeededBy[0], OK: f.OK}
		if !f.OK {
			ability.Missing = []string{f.Name}
		}
		report.Features, report.Abilities = append(report.Features, f), append(report.Abilities, ability)
	}
	report.Features = append(own, report.Features...)
	return report, nil
}

// probeOverlay starts a sandbox whose workspace is an overlay, with its layer where layers lie.
func (o Options) probeOverlay(ctx context.Context, usable bool) backend.Feature {
	f := backend.Feature{Name: "layers", Detail: "it needs level full"}
	if usable {
		err := func() error {
			dir, err := os.MkdirTemp("", "paddock-probe-")
			if err != nil {
				return err
			}
			defer os.Remove(dir)
			s, err := Open(ctx, Spec{Workspace: Workspace{Source: dir, Mode: policy.ModeOverlay}}, Options{Backend: o.Backend, Agent: o.Agent, StateDir: o.StateDir})
			if err != nil {
				return err
			}
			f.Detail = "mounted an overlay, with its marks in " + s.Isolation().Layer
			return s.Close()
		}()
		f = feature(f.Name, f.Detail, err, "")
	}
	f.NeededBy = []string{"workspace overlay"}
	return f
}

// probeNetwork starts a sandbox with rules for its network, in which nothing is run.
func (o Options) probeNetwork(ctx context.Context, name string, usable bool) backend.Feature {
	f, tried := backend.Feature{Name: "network by name", Detail: "it needs level full"}, "started a gateway and an egress process"
	if name == policy.BackendDocker {
		f.Detail, tried = "it needs a container", "started an egress process, which listens in a container"
	}
	if usable {
		err := func() error {
			dir, err := os.MkdirTemp("", "paddock-probe-")
			if err != nil {
				return err
			}
			defer os.Remove(dir)
			s, err := Open(ctx, Spec{Backend: name, Workspace: Workspace{Source: dir}, Network: Network{Allow: []policy.NetworkRule{{Host: "example.com"}}}},
				Options{Backend: o.Backend, Agent: o.Agent, StateDir: o.StateDir})
			if err != nil {
				return err
			}
			return s.Close()
		}()
		f = feature(f.Name, tried, err, "")
	}
	f.NeededBy = []string{"network allow"}
	return f
}

// probeAgent looks for the agent's program.
func (o Options) probeAgent() backend.Feature {
	path, err := o.agentPath()
	if err != nil {
		return feature("agent program", path, err, "")
	}
	_, seen, err := o.stateDir()
	if err != nil {
		return feature("agent program", path, nil, "") // probeState reports the error
	}
	way, err := o.trustAgent(seen, path)
	if err == nil {
		path = way.Path + groupNote(way)
	}
	return feature("agent program", path, err, "")
}

// groupNote returns a note about a group that may change what Paddock trusts, or "".
func groupNote(way *hostpath.Way) string {
	if at := way.GroupWritable(); at != "" {
		return " (its group may write to " + at + ": chmod g-w, unless all of them are trusted)"
	}
	return ""
}

// probeState checks the state directory, or where it would be made.
func (o Options) probeState() backend.Feature {
	dir, _, err := o.stateDir()
	detail := dir
	if err == nil {
		if _, err = os.ReadDir(dir); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err == nil {
			err = run.CheckState(dir)
		}
		way, werr := hostpath.Follow(dir)
		if err == nil && werr == nil {
			detail += groupNote(way)
			if err = way.Writable(); err != nil {
				return feature("state directory", dir, err, "choose a writable directory with "+StateDirEnv)
			}
		}
		for _, r := range run.RefusedRecords(dir) {
			detail += " (left as it is, because Paddock writes no such record: " + r + "; look at it, and remove the directory)"
		}
		if lost := hostpath.UsualList(dir); err == nil && lost != nil && o.StateDir == "" && os.Getenv(StateDirEnv) != "" {
			detail += " (it alone lists what sandboxes could write: " + lost.Error() + ")"
		}
	}
	return feature("state directory", detail, err, "chmod 700 "+dir+", or choose another with PADDOCK_STATE_DIR")
}

// feature returns a feature that works unless there is an error.
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
