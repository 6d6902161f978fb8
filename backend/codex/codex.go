//go:build linux

package codex

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/piped"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Backend is the codex backend. Its zero value is ready for use.
type Backend struct{}

// New returns the codex backend.
func New() *Backend { return &Backend{} }

// Name returns "codex".
func (*Backend) Name() string { return policy.BackendCodex }

// startTimeout is how long the CLI may take to start, up to the agent's answer.
const startTimeout = 60 * time.Second

// Plan describes what Start would do with a resolved spec. It asks the CLI for the form of
// its arguments, but runs nothing behind it.
func (b *Backend) Plan(ctx context.Context, req backend.Request) (*confine.Plan, error) {
	look, remove, err := lookHome()
	if err != nil {
		return nil, cannot("create", os.TempDir(), err.Error(), "")
	}
	defer remove()
	w, err := newWall(ctx, req, look)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(req.StateDir, homesDir)
	w, err = w.at(placesIn(filepath.Join(dir, "sandbox-ID"), filepath.Join(dir, "shared")))
	if err != nil {
		return nil, err
	}
	if err := w.sparesState(); err != nil {
		return nil, err
	}
	g := w.guest()
	return &confine.Plan{
		Version: confine.PlanVersion, Command: w.command(), Rlimits: piped.PlanRlimits(g.Rlimits), Redaction: req.Spec.Redaction, Env: g.Env,
		Workspace: w.workspace, Scratch: w.home.scratch, Holds: w.promised(),
	}, nil
}

// Start tries out the wall, starts the agent behind it and verifies the wall around the
// agent.
func (b *Backend) Start(ctx context.Context, req backend.Request) (backend.Sandbox, error) {
	h, err := stateHome(req.StateDir)
	if e := (*backend.StartError)(nil); errors.As(err, &e) {
		return nil, e
	}
	if err != nil {
		return nil, &backend.StartError{Stage: "state", Op: "create", Object: filepath.Join(req.StateDir, homesDir), Cause: err.Error(),
			Hint: "choose a writable directory with PADDOCK_STATE_DIR"}
	}
	started := false
	defer func() {
		if !started {
			_ = os.RemoveAll(h.base)
		}
	}()
	w, err := newWall(ctx, req, h)
	if err != nil {
		return nil, err
	}
	if err := w.sparesState(); err != nil {
		return nil, err
	}
	found, err := w.attempt(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.judge(found); err != nil {
		return nil, err
	}
	s, err := piped.Start(ctx, req, piped.Wall{
		Backend: b.Name(), Argv: w.command(), Env: w.home.env(), Dir: w.dir, Agent: req.Agent, Guest: w.guest(),
		Cleanup: [][]string{{"rm", "-rf", "--", h.base}}, StartTimeout: startTimeout, Verify: w.verify,
	})
	started = err == nil
	return s, err
}

// guest returns the agent's settings.
func (w *wall) guest() wire.Guest {
	g := wire.Guest{Workspace: wire.OSString(w.workspace), Seccomp: w.req.Spec.Seccomp, KernelFiles: w.kernel, Rlimits: piped.Limits(w.req.Spec.Limits), Env: map[string]string{}}
	maps.Copy(g.Env, w.req.Spec.NetworkEnv())
	if w.temporary {
		g.Env["TMPDIR"], g.Env["HOME"] = w.home.scratch, w.home.scratch
	}
	maps.Copy(g.Env, w.req.Spec.Env)
	return g
}
