package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	shellpolicy "github.com/paddock-dev/paddock/policy/execution"
)

// where is the sandbox that the session is to be in, and whether that is one that
// the door keeps.
func (in SessionOpenInput) where(e *op.Env) (name string, shared bool, err error) {
	described := !reflect.DeepEqual(in.SpecInput, op.SpecInput{}) || in.Policy != ""
	switch {
	case in.Sandbox != "" && e.Sandboxes == nil:
		return "", false, &policy.FieldError{Field: "sandbox", Value: in.Sandbox, Reason: "this door keeps no sandboxes", Hint: "leave it out"}
	case in.Sandbox != "" && described:
		return "", false, &policy.FieldError{Field: "sandbox", Value: in.Sandbox, Reason: "other fields describe another sandbox",
			Hint: "leave it out for a sandbox of the session's own, or leave the others out"}
	}
	return in.Sandbox, in.Sandbox != "" || e.Sandboxes != nil && e.Default != nil && !described, nil
}

// openShared opens a session in a sandbox that the door keeps.
func openShared(e *op.Env, ctx context.Context, in SessionInput, key registry.SessionKey, where string) (k *registry.Session, err error) {
	err = e.WithSandbox(ctx, op.InSandbox{Sandbox: where}, func(ctx context.Context, h *registry.Sandbox) error {
		if h.Spec().Commands != nil {
			return errRuledSession
		}
		opts, err := in.options(shellpolicy.Session{}, h.Spec())
		if err != nil {
			return err
		}
		k = &registry.Session{Key: key, Sandbox: h.Sandbox, Shared: true, Called: h.Called(),
			Plan: registry.SessionPlan{Spec: h.Spec(), Opts: e.BoundSession(opts), Bounded: in.bounded()}}
		return k.Begin(ctx)
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// openSession opens a sandbox, and the session in it. Nothing is left where
// that fails.
func openSession(e *op.Env, ctx context.Context, in SessionOpenInput, key registry.SessionKey) (_ *registry.Session, err error) {
	if where, shared, err := in.where(e); err != nil || shared {
		if err != nil {
			return nil, err
		}
		return openShared(e, ctx, in.SessionInput, key, where)
	}
	p, err := in.plan(ctx, e)
	if err != nil {
		return nil, err
	}
	k := &registry.Session{Key: key, Plan: p}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.Close(ctx))
		}
	}()
	if p.Spec.Workspace.Source == "" {
		if k.Scratch, err = os.MkdirTemp("", registry.ScratchPrefix); err != nil {
			return nil, fmt.Errorf("cannot make a temporary workspace: %w", err)
		}
		p.Spec.Workspace.Source = k.Scratch
	}
	if k.Sandbox, err = e.AllowWorkspace(k.Scratch).OpenFor(ctx, p.Spec, p.Start, &op.Stream{}); err != nil {
		return nil, err
	}
	k.Called = k.Sandbox.ID()
	if err := k.Begin(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// workspace is where the session's is: for a door that keeps sandboxes as commands
// find it, for who has this session alone the directory outside.
func workspace(k *registry.Session, e *op.Env) string {
	if e.Sandboxes != nil {
		return registry.WorkspaceAt(k.Sandbox.Isolation().Level, k.Sandbox.Spec())
	}
	return k.Sandbox.Spec().Workspace.Source
}
