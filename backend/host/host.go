//go:build linux

// Package host runs commands on the host itself: no walls, the caller's own
// identity, and limits for each process. It is for callers who have the same rights
// without it; every result says that commands are not confined.
//
// It still gives each command a session, a clean environment, limits that are set
// before its program begins, and a certain end. The agent runs below a keeper
// (package piped), which adopts and ends all processes that are left behind; the end is
// proved by descent. Commands of the same user could trace the agent, and could make other
// programs on the host start processes for them, which Paddock does not notice.
package host

import (
	"context"
	"maps"
	"os"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/piped"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Backend is the host backend. Its zero value is ready for use.
type Backend struct{}

// New returns the host backend.
func New() *Backend { return &Backend{} }

// Name returns "host".
func (*Backend) Name() string { return policy.BackendHost }

// Probe reports what works on this host.
func (b *Backend) Probe(context.Context) backend.Report {
	r := backend.Report{Backend: b.Name()}
	proc := backend.Feature{Name: "/proc", NeededBy: []string{canRun}, Remedy: "mount a proc of this pid namespace at /proc"}
	self, err := os.Readlink("/proc/self")
	proc.OK = err == nil
	if proc.Detail = "process " + self; err != nil {
		proc.Detail = hostpath.Reason(err)
	}
	r.Features = append(r.Features, proc)
	r.Judge(canRun)
	return r
}

const canRun = "commands"

// Plan returns what Start would do with a resolved spec.
func (b *Backend) Plan(_ context.Context, req backend.Request) (*confine.Plan, error) {
	workspace, err := locate(req)
	if err != nil {
		return nil, err
	}
	g := guest(req, workspace)
	return &confine.Plan{Version: confine.PlanVersion, Namespaces: []confine.Namespace{}, Command: []string{req.Agent, "guest"},
		Rlimits: piped.PlanRlimits(g.Rlimits), Redaction: req.Spec.Redaction, Env: g.Env, Workspace: workspace, Holds: promised(req.Spec)}, nil
}

// Start starts the agent.
func (b *Backend) Start(ctx context.Context, req backend.Request) (backend.Sandbox, error) {
	workspace, err := locate(req)
	if err != nil {
		return nil, err
	}
	return piped.Start(ctx, req, piped.Wall{
		Backend: b.Name(), Agent: req.Agent, Env: []string{}, Dir: workspace, Guest: guest(req, workspace),
		// The isolation says that the agent is not more confined than the caller.
		Verify: func(_ context.Context, r piped.Running) (policy.Isolation, error) {
			i, seen := promised(req.Spec), piped.Look(r)
			if seen == nil {
				return i, &backend.StartError{Stage: "verify", Op: "find", Object: "the agent", Cause: "its process is not below its keeper"}
			}
			i.Namespaces, i.NoNewPrivs, i.Verified = seen.Namespaces, seen.NoNewPrivs, !seen.Hidden
			if seen.Capabilities == "" {
				i.Capabilities = "none"
			}
			return i, nil
		},
	})
}

// locate returns the path of the workspace.
func locate(req backend.Request) (string, error) {
	places, err := hostpath.Mounts(req, req.Spec.Workspace.Source)
	if err != nil {
		return "", err
	}
	return places[0].Source, nil
}

// guest returns the agent's settings. Commands get the few variables of the caller with
// which they find the same programs and files, and no others.
func guest(req backend.Request, workspace string) wire.Guest {
	env := map[string]string{}
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	maps.Copy(env, req.Spec.Env)
	return wire.Guest{Workspace: wire.OSString(workspace), Env: env, Rlimits: piped.Limits(req.Spec.Limits), Seccomp: wire.NoFilter}
}

// promised returns the isolation, which says that nothing is isolated.
func promised(s policy.Spec) policy.Isolation {
	uid := uint32(os.Geteuid())
	i := policy.Isolation{
		Backend: policy.BackendHost, Level: "none", Namespaces: []string{}, UIDInside: uid, UIDHost: uid, Identity: "caller", Network: "host",
		Capabilities: "the caller's", Seccomp: wire.NoFilter, Landlock: "none", Cgroup: "none", Workspace: policy.ModeBind, RootFS: policy.RootHost,
		NestedUserns: "", Death: "descent",
		Lost: []string{
			"commands read, change and remove every file that the caller can",
			"commands see the host's processes, and signal and trace those of the caller, this one's agent among them",
			"commands use the host's network, and all that listens on it",
			"set-id programs give commands what they give the caller",
			"what commands have others on the host start for them is not ended with the sandbox",
			"temporary files lie on the host's disk, without a bound",
		},
	}
	piped.TellLimits(&i, s.Limits)
	return i
}
