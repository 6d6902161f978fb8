//go:build linux

// Package wrapper makes a wall of any command that runs another command, given as its
// last arguments: bwrap, firejail, ssh, kubectl exec, a script.
//
// Paddock cannot know what such a wall enforces. If the agent turns out
// to be a process of this host, its namespaces, its identity and its capabilities
// are read from the kernel, and the isolation says what is missing. If it runs
// elsewhere, the isolation says that nothing was verified. Which files the wrapper
// shows to commands is never verified. Paddock's own system call filter applies
// behind every wrapper.
//
// The agent is visible inside at its own path ("shared"), is at another one
// ("/path"), or is sent through the wrapper's standard input to a shell behind it
// ("upload").
package wrapper

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/piped"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/keeper"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Backend is the wrapper backend. Its zero value is ready for use.
type Backend struct{}

// New returns the wrapper backend.
func New() *Backend { return &Backend{} }

// Name returns "wrapper".
func (*Backend) Name() string { return policy.BackendWrapper }

// known are the wrappers that a probe looks for.
var known = []struct{ name, remedy string }{
	{"bwrap", "install bubblewrap"}, {"firejail", "install firejail"}, {"ssh", "install an SSH client"}, {"kubectl", "install kubectl"},
}

// Probe reports which of the usual wrappers are installed. Any command can be a wrapper,
// so none of these is needed.
func (b *Backend) Probe(ctx context.Context) backend.Report { return b.ProbeIn(ctx, "") }

// ProbeIn is Probe with the list in a state directory (backend.Executor).
func (b *Backend) ProbeIn(_ context.Context, state string) backend.Report {
	r := backend.Report{Backend: b.Name()}
	for _, k := range known {
		f := backend.Feature{Name: k.name, NeededBy: []string{"wrapper " + k.name}, Remedy: k.remedy}
		if path, err := exec.LookPath(k.name); err == nil {
			f.OK, f.Detail, f.Remedy = true, path, ""
			if e := (*backend.StartError)(nil); errors.As(hostpath.Program("wall", state, k.name, path, nil), &e) {
				f.OK, f.Detail, f.Remedy = false, path+": "+e.Cause, e.Hint
			}
		}
		r.Features = append(r.Features, f)
	}
	names := []string{"wrapper COMMAND"}
	for _, k := range known {
		names = append(names, "wrapper "+k.name)
	}
	r.Judge(names...)
	return r
}

// Plan returns what Start would do with a resolved spec.
func (b *Backend) Plan(_ context.Context, req backend.Request) (*confine.Plan, error) {
	w, err := newWall(req)
	if err != nil {
		return nil, err
	}
	command := append(slices.Clone(w.Argv), w.Agent, "guest")
	if w.Upload {
		command = append(slices.Clone(w.Argv), "/bin/sh", "-c", "(takes the agent in, checks it and runs it)")
	}
	i := promised(req.Spec)
	i.Lost = append(i.Lost, "what the wrapper does is known once it runs")
	return &confine.Plan{Version: confine.PlanVersion, Namespaces: []confine.Namespace{}, Command: command,
		Rlimits: piped.PlanRlimits(w.Guest.Rlimits), Redaction: req.Spec.Redaction, Env: w.Guest.Env, Workspace: string(w.Guest.Workspace), Holds: i}, nil
}

// Start starts the wrapper, and the agent behind it.
func (b *Backend) Start(ctx context.Context, req backend.Request) (backend.Sandbox, error) {
	w, err := newWall(req)
	if err != nil {
		return nil, err
	}
	return piped.Start(ctx, req, *w)
}

// newWall makes the wall of a resolved spec.
func newWall(req backend.Request) (*piped.Wall, error) {
	var o policy.Wrapper
	if req.Spec.Wrapper != nil {
		o = *req.Spec.Wrapper
	}
	if len(o.Command) == 0 {
		return nil, hostpath.Refuse("wrapper.command", "", "it is empty", "write the command that the agent's command follows: [ssh, host]")
	}
	workspace := "/"
	if o.Agent != policy.AgentUpload {
		places, err := hostpath.Mounts(req, req.Spec.Workspace.Source)
		if err != nil {
			return nil, err
		}
		workspace = places[0].Source
		// A wrapper cannot be made to cover anything.
		covers, err := hostpath.Covers(req, places)
		if err == nil {
			err = hostpath.Refused(covers, places, "a wrapper", "backend linux")
		}
		if err == nil {
			err = hostpath.NothingBelow(places, "a wrapper")
		}
		if err != nil {
			return nil, err
		}
	}
	elsewhere := false
	w := &piped.Wall{
		Backend: policy.BackendWrapper, Argv: o.Command, Dir: workspace, Agent: o.Agent, Quote: o.Quote == policy.QuoteAlways,
		Guest: wire.Guest{Workspace: wire.OSString(o.Workspace), Env: req.Spec.Env, Rlimits: piped.Limits(req.Spec.Limits), Seccomp: req.Spec.Seccomp,
			KernelFiles: keepsKernelFiles(req.Spec)},
		Verify: func(_ context.Context, r piped.Running) (policy.Isolation, error) {
			i, here := observedIsolation(req.Spec, r)
			elsewhere = !here
			return i, nil
		},
		Elsewhere: func() bool { return elsewhere },
		Explain:   explain,
	}
	switch o.Agent {
	case policy.AgentUpload:
		w.Upload, w.Agent = true, ""
		w.Guest.MakeWorkspace = true
	case policy.AgentShared, "":
		w.Agent = req.Agent
		fallthrough
	default:
		if w.Guest.Workspace == "" {
			w.Guest.Workspace = wire.OSString(workspace)
		}
	}
	return w, nil
}

// explain adds hints to the errors of common wrappers.
func explain(e *backend.StartError, said string) {
	for _, k := range []struct{ text, hint string }{
		{"Permission denied (", "the SSH server takes none of the keys: nobody can be asked for a password here; add a key to the agent, or name one with ssh -i"},
		{"Host key verification failed", "connect once by hand with ssh, and accept the host's key"},
		{"Could not resolve hostname", "check the name of the host"},
		{"Connection refused", "nothing listens there: check the host and the port"},
		{"execvp " + agentName, "the wrapper does not show the agent: bind its directory, or send it with `wrapper.agent` upload"},
		{agentName + ": No such file", "the wrapper does not show the agent: bind its directory, or send it with `wrapper.agent` upload"},
		{agentName + ": not found", "the wrapper does not show the agent: bind its directory, or send it with `wrapper.agent` upload"},
		{"No permissions to creat", "user namespaces are forbidden here: see paddock doctor"},
		{"is no flag", "the agent there is of another release: send this one with `wrapper.agent` upload"}, // an older agent
		{"is not a flag", "the agent there is of another release: send this one with `wrapper.agent` upload"},
	} {
		if e.Hint == "" && strings.Contains(said, k.text) {
			e.Hint = k.hint
		}
	}
	if strings.Contains(e.Cause, "/proc shows the processes of another pid namespace") {
		e.Hint = "the wrapper must mount a proc of its own pid namespace at /proc: bwrap --proc /proc"
	}
	if e.Hint == "" && e.Stage == keeper.StageAgent && e.Op == "await" {
		e.Hint = "the wrapper must run the command that is appended to it, and pass its standard input and output on as they are"
	}
}

// agentName is the file name of the agent.
const agentName = "paddock-agent"

// unknown is the value of a field of the isolation that depends on the wrapper alone.
const unknown = "the wrapper's"

// promised returns the isolation as far as Paddock itself enforces it.
func promised(s policy.Spec) policy.Isolation {
	uid := uint32(os.Geteuid())
	i := policy.Isolation{
		Backend: policy.BackendWrapper, Level: "wrapper", Namespaces: []string{}, UIDInside: uid, UIDHost: uid, Identity: unknown,
		Network: unknown, Capabilities: unknown, NoNewPrivs: s.Seccomp != wire.NoFilter, Seccomp: s.Seccomp, Landlock: "none", Cgroup: "none",
		Workspace: unknown, RootFS: unknown, NestedUserns: "seccomp", Death: "descent",
		Lost: []string{"what commands see and change of files is the wrapper's to say; it was not looked at"},
	}
	if keepsKernelFiles(s) {
		i.Landlock = "files of the kernel"
	}
	piped.TellLimits(&i, s.Limits)
	return i
}

// keepsKernelFiles reports whether the agent prevents commands from writing files that the
// kernel obeys, which root could write behind a wrapper that leaves /proc writable. It
// does if it is this host's own agent and the kernel has Landlock.
func keepsKernelFiles(s policy.Spec) bool {
	shared := s.Wrapper == nil || s.Wrapper.Agent == "" || s.Wrapper.Agent == policy.AgentShared
	return shared && s.Seccomp != wire.NoFilter && confine.LandlockABI() >= confine.LandlockFilesABI
}

// missing are the namespaces that a wall should have, with what commands can do without.
var missing = []struct{ kind, loss string }{
	{"mount", "the wrapper has made no mount namespace: commands see the host's files as they are"},
	{"pid", "the wrapper has made no pid namespace: commands see the host's processes, and signal those of their user"},
	{"net", "the wrapper has made no network namespace: commands use the host's network, and all that listens on it"},
	{"ipc", "the wrapper has made no ipc namespace: commands reach the host's shared memory and message queues"},
}

// observedIsolation returns the isolation with the kernel's information about the agent, and
// whether the agent is a process of this host.
func observedIsolation(s policy.Spec, r piped.Running) (i policy.Isolation, here bool) {
	i = promised(s)
	look := piped.Look(r)
	if look == nil {
		i.Death = "the agent's word"
		i.Lost = append(i.Lost, "the agent is not a process of this host that could be looked at: nothing of the wall is verified",
			"the end of what commands leave behind is the agent's word")
		return i, false
	}
	i.UIDHost, i.UIDInside, i.Namespaces = look.UIDHost, look.UIDInside, look.Namespaces
	i.NoNewPrivs, i.Verified = look.NoNewPrivs, !look.Hidden
	i.Capabilities = "none"
	if look.Capabilities != "" {
		i.Capabilities = look.Capabilities
	}
	if look.Hidden {
		i.Lost = append(i.Lost, "the kernel does not say which namespaces the agent has: nothing of them is verified")
		return i, true
	}
	for _, m := range missing {
		if !look.Has(m.kind) {
			i.Lost = append(i.Lost, m.loss)
		}
	}
	if look.Capabilities != "" && !look.Has("user") {
		i.Lost = append(i.Lost, "commands have capabilities over the host: "+look.Capabilities)
	}
	switch {
	case !look.Has("net"):
		i.Network = "host"
	case len(look.Interfaces) == 0:
		i.Network = "none"
	default:
		i.Network = "its own: " + strings.Join(look.Interfaces, " ")
	}
	return i, true
}
