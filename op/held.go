package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// FindSandbox gives the sandbox that is meant. The default one is opened where there is
// none, and anew where it has ended by itself.
func (e *Env) FindSandbox(ctx context.Context, name string) (*registry.Sandbox, error) {
	if name != "" && name != registry.DefaultName {
		h, err := e.Sandboxes.Find(ctx, e.PrincipalName(), name)
		if err == nil && h.Ended() {
			return nil, h.GoneError()
		}
		return h, err
	}
	for {
		p, mine, err := e.Sandboxes.Claim(e.PrincipalName(), registry.DefaultName)
		if err != nil {
			return nil, err
		}
		if mine {
			e.Sandboxes.Settle(p, func() (*registry.Sandbox, error) { return e.OpenLasting(ctx, e.DefaultSpec(), registry.DefaultName) })
		}
		select {
		case <-p.Ready:
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot open the default sandbox: %w", ctx.Err())
		}
		switch {
		case p.Err != nil && (mine || !registry.Cancelled(p.Err)):
			return nil, p.Err
		case p.Err != nil: // who opened it gave up
			continue
		case !p.Sandbox.Ended():
			return p.Sandbox, nil
		case e.Sandboxes.Take(p):
			_ = p.Sandbox.Close() // what is left of it; why it ended nobody knows
			e.note("the default sandbox had ended by itself and was made anew: processes, /tmp and HOME of the old one are lost, the workspace is as they left it")
		}
	}
}

// OpenLasting opens a sandbox that a door keeps. Without a workspace it gets an
// empty one, which is removed with it.
func (e *Env) OpenLasting(ctx context.Context, spec policy.Spec, name string) (_ *registry.Sandbox, err error) {
	h := &registry.Sandbox{Name: name, Principal: e.PrincipalName(), Since: time.Now(), Lasting: true}
	if spec.Workspace.Source == "" {
		if h.Scratch, err = os.MkdirTemp("", "paddock-workspace-"); err != nil {
			return nil, fmt.Errorf("cannot make a temporary workspace: %w", err)
		}
		spec.Workspace.Source = h.Scratch
	}
	if h.Sandbox, err = e.AllowWorkspace(h.Scratch).Open(ctx, spec); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	h.Name = cmp.Or(h.Name, h.ID())
	return h, nil
}

// AllowWorkspace is the environment with a ceiling that allows a temporary workspace,
// which was made for the caller alone.
func (e *Env) AllowWorkspace(scratch string) *Env {
	if scratch == "" || e.Ceiling == nil {
		return e
	}
	own, ceiling := *e, *e.Ceiling
	ceiling.Workspace = append(slices.Clone(ceiling.Workspace), policy.Place{Source: scratch, Mode: "rw"})
	own.Ceiling = &ceiling
	return &own
}
