//go:build linux

package codex

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// The abilities that the probe reports on.
const (
	canSandbox = "sandbox"
	canNetwork = "network host"
)

// Probe looks for the CLI and tries its sandbox on a directory of its own, with the
// agent's program that is installed beside this one, if there is one.
func (b *Backend) Probe(ctx context.Context) backend.Report { return b.ProbeIn(ctx, "") }

// ProbeIn is Probe with the list in a state directory (backend.Executor).
func (b *Backend) ProbeIn(ctx context.Context, state string) backend.Report {
	r := backend.Report{Backend: b.Name()}
	defer r.Judge(canSandbox, canNetwork)
	cli := backend.Feature{Name: "codex CLI", NeededBy: []string{canSandbox, canNetwork}}
	id, err := find("codex", state, nil)
	if err != nil {
		cli.Detail = err.Error()
		if e := (*backend.StartError)(nil); errors.As(err, &e) {
			cli.Detail, cli.Remedy = e.Object+": "+e.Cause, e.Hint
		} else if e := (*missingError)(nil); errors.As(err, &e) {
			cli.Remedy = e.Remedy()
		}
		r.Features = append(r.Features, cli)
		return r
	}
	h, remove, err := lookHome()
	if err != nil {
		cli.Detail = err.Error()
		r.Features = append(r.Features, cli)
		return r
	}
	defer remove()
	h.path = hostpath.SearchPath(state, os.Getenv("PATH"), nil)
	platform, err := platform(platformAuto)
	var d dialect
	if err == nil {
		d, err = askDialect(ctx, h, id, platform)
	}
	cli.OK, cli.Detail = err == nil, id.path+", "+d.String()
	if err != nil {
		cli.Detail, cli.Remedy = err.Error(), hintVersion
	}
	r.Features = append(r.Features, cli)
	if cli.OK {
		r.Features = append(r.Features, tryDefault(ctx, h, state))
	}
	return r
}

// tryDefault tries the wall of a spec without settings.
func tryDefault(ctx context.Context, h home, state string) backend.Feature {
	f := backend.Feature{Name: "codex sandbox", NeededBy: []string{canSandbox, canNetwork}, Remedy: hintPanic}
	self, err := os.Executable()
	agent := filepath.Join(filepath.Dir(self), "paddock-agent")
	if err == nil {
		_, err = os.Stat(agent)
	}
	if err != nil {
		f.OK, f.Detail, f.Remedy = true, "not tried: "+err.Error(), ""
		return f
	}
	workspace := filepath.Join(h.base, "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		f.Detail = err.Error()
		return f
	}
	spec := policy.Spec{Backend: policy.BackendCodex, Workspace: policy.Workspace{Source: workspace}, Network: policy.Network{Mode: policy.NetworkNone}}
	w, err := newWall(ctx, backend.Request{Spec: spec, Agent: agent, StateDir: state}, h)
	if err == nil {
		var found *reached
		if found, err = w.attempt(ctx); err == nil {
			err = w.judge(found)
		}
	}
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	f.OK, f.Detail, f.Remedy = true, "writes outside of the workspace and calls to the host failed, as they must", ""
	return f
}
