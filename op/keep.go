package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// InSandbox is how operations that work in a sandbox ask which one.
type InSandbox struct {
	Sandbox string `json:"sandbox,omitempty" flag:"sandbox" arg:"ID" help:"which sandbox (default: the one over the workspace)" max:"64"`
}

// WithSandbox does something in the sandbox that is meant. A door that lasts keeps it; for
// a single call a running one is attached to, or one is made over the default
// spec's workspace, or the current directory, which ends with the call.
func (e *Env) WithSandbox(ctx context.Context, where InSandbox, do func(context.Context, *registry.Sandbox) error) error {
	switch {
	case e.Sandboxes != nil:
		return e.inKept(ctx, where.Sandbox, do)
	case where.Sandbox != "":
		return e.inAttached(ctx, where.Sandbox, do)
	}
	return e.inEphemeral(ctx, do)
}

// inKept is in for a door that lasts.
func (e *Env) inKept(ctx context.Context, name string, do func(context.Context, *registry.Sandbox) error) error {
	h, err := e.FindSandbox(ctx, name)
	if err != nil {
		return err
	}
	if err := e.Enter(ctx, h); err != nil {
		return err
	}
	e.introduce(h)
	return h.Explain(do(ctx, h))
}

// Enter asks, before a sandbox is used again, for what its backend needs: a
// privilege may have been taken away since it was opened.
func (e *Env) Enter(ctx context.Context, h *registry.Sandbox) error {
	if e.Call == nil {
		return nil
	}
	if h.Spec().Backend == policy.BackendHost {
		if err := e.privileged(ctx, h.Spec()); err != nil {
			return err
		}
		if err := e.Call.demand(privilege.UnsandboxedExec); err != nil {
			return err
		}
	}
	e.Concerns(h.ID())
	return nil
}

// Concerns puts the sandbox on the record of this call.
func (e *Env) Concerns(id string) {
	if e.Call != nil {
		e.Call.opened(id)
	}
}

// inAttached is in for a sandbox of another process of the same user's. Its
// spec is not known to be below anybody's ceiling.
func (e *Env) inAttached(ctx context.Context, id string, do func(context.Context, *registry.Sandbox) error) error {
	if e.Ceiling != nil {
		if e.Call != nil {
			e.Call.refuse()
		}
		return &policy.CeilingError{Rule: "ceiling", FieldError: policy.FieldError{
			Field: "sandbox", Value: id, Reason: "under a ceiling no sandbox is attached to that somebody else has opened",
			Hint: "leave it out",
		}}
	}
	s, err := paddock.Attach(ctx, id, e.Options)
	if err != nil {
		return err
	}
	h := &registry.Sandbox{Sandbox: s, Name: id, Principal: e.PrincipalName(), Since: time.Now()}
	if err := e.Enter(ctx, h); err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(do(ctx, h), s.Close())
}

// inEphemeral is in for one that ends with the call.
func (e *Env) inEphemeral(ctx context.Context, do func(context.Context, *registry.Sandbox) error) (err error) {
	s, err := e.Open(ctx, e.DefaultSpec())
	if err != nil {
		return err
	}
	h := &registry.Sandbox{Sandbox: s, Principal: e.PrincipalName(), Since: time.Now()}
	defer func() {
		err = errors.Join(err, s.Close())
		e.note(ChangesNote(s.Changes()))
	}()
	e.introduce(h)
	return do(ctx, h)
}

// DefaultSpec is a copy of the spec of the sandbox that is meant where none is
// named. What a caller asks for is laid over it, so that what the operator wrote
// there and no ceiling holds, rules for commands say, holds all the same.
func (e *Env) DefaultSpec() policy.Spec {
	if e.Default == nil {
		return policy.Spec{}
	}
	s := *e.Default
	s.Workspace.Unprotected = slices.Clone(s.Workspace.Unprotected)
	s.Mounts = slices.Clone(s.Mounts)
	s.AllowDegraded = slices.Clone(s.AllowDegraded)
	s.Redaction = slices.Clone(s.Redaction)
	s.Env = maps.Clone(s.Env)
	return s
}

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
