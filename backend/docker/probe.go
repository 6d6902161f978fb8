package docker

import (
	"context"
	"errors"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// The abilities that the probe reports on.
const (
	canRun    = "containers"
	canMemory = "limit memory"
	canSwap   = "limit swap"
	canCPUs   = "limit cpus"
	canPids   = "limit processes, as a whole"
)

// Probe asks the engine named "docker" what works, with the default image.
func (b *Backend) Probe(ctx context.Context) backend.Report {
	return b.ProbeWith(ctx, policy.Docker{})
}

// ProbeWith asks an engine of the caller's choice what works, with an image of the
// caller's choice.
func (b *Backend) ProbeWith(ctx context.Context, o policy.Docker) backend.Report {
	return b.probe(ctx, o, "")
}

// ProbeIn is Probe with the list in a state directory (backend.Executor).
func (b *Backend) ProbeIn(ctx context.Context, state string) backend.Report {
	return b.probe(ctx, policy.Docker{}, state)
}

func (b *Backend) probe(ctx context.Context, o policy.Docker, state string) backend.Report {
	o = options(policy.Spec{Docker: &o})
	r := backend.Report{Backend: b.Name()}
	r.Features = probe(ctx, o, state)
	r.Judge(canRun, canMemory, canSwap, canCPUs, canPids)
	return r
}

func probe(ctx context.Context, o policy.Docker, state string) []backend.Feature {
	cli := backend.Feature{Name: "engine's command line", NeededBy: []string{canRun}}
	c, err := findClient(o, state, nil)
	if err != nil {
		return []backend.Feature{verdict(cli, err, "")}
	}
	cli = verdict(cli, nil, c.binary)
	daemon := backend.Feature{Name: "engine", NeededBy: []string{canRun}}
	e, err := c.reach(ctx)
	if err != nil {
		return []backend.Feature{cli, verdict(daemon, err, "")}
	}
	detail := e.kind + " " + e.version + ", " + e.arch
	if e.rootless {
		detail += ", rootless"
	}
	if !e.local {
		detail += ", on another machine"
	}
	if e.cgroups != "" {
		detail += ", control groups version " + e.cgroups
	}
	found := []backend.Feature{cli, verdict(daemon, nil, detail)}
	img := backend.Feature{Name: "image " + o.Image, NeededBy: []string{canRun}}
	i, err := e.image(ctx, o.Image)
	if err == nil {
		fit := &build{container: container{image: o.Image}}
		err = fit.fits(e, i)
	}
	found = append(found, verdict(img, err, ""))
	for _, l := range []struct {
		name, ability string
		ok            bool
	}{{"memory", canMemory, e.memory}, {"swap", canSwap, e.swap}, {"cpu", canCPUs, e.cpus}, {"pids", canPids, e.pids}} {
		f := backend.Feature{Name: "the engine's " + l.name + " limit", OK: l.ok, NeededBy: []string{l.ability}}
		if !l.ok {
			f.Remedy = "enable the controller: boot with cgroup_enable=memory swapaccount=1, or without cgroup_disable"
			if e.rootless {
				f.Remedy = "a rootless engine limits what the service manager delegates to the user: set Delegate=yes for user@.service, on control groups version 2"
			}
		}
		found = append(found, f)
	}
	return append(found, backend.Feature{Name: "the engine's seccomp profile", OK: e.seccomp})
}

// verdict completes a feature with the result of trying it.
func verdict(f backend.Feature, err error, detail string) backend.Feature {
	f.OK, f.Detail = err == nil, detail
	var failed *backend.StartError
	if errors.As(err, &failed) {
		f.Detail, f.Remedy = failed.Cause, failed.Hint
	} else if err != nil {
		f.Detail = err.Error()
	}
	return f
}
