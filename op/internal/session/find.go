package session

import (
	"context"
	"errors"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
)

// find returns the principal's session, also one that another server has opened in a sandbox that
// outlives it.
func find(ctx context.Context, env *op.Env, id string) (*registry.Session, error) {
	k, err := env.Sessions.Find(env.PrincipalName(), id)
	if id == "" || !errors.Is(err, paddock.ErrNotFound) {
		return k, err
	}
	attachAll(ctx, env)
	return env.Sessions.Find(env.PrincipalName(), id)
}

// attachAll finds the sessions in sandboxes that outlive servers.
func attachAll(ctx context.Context, env *op.Env) {
	if env.Sandboxes == nil {
		return
	}
	for _, h := range env.OpenSandboxes(ctx) {
		if !h.Kept {
			continue
		}
		list, _ := h.Client().ListSessions(ctx) // of a sandbox that has just ended there are none
		for _, one := range list {
			if _, err := env.Sessions.Find(env.PrincipalName(), one.SessionID); err == nil {
				continue
			}
			shell, opts, err := h.AttachSession(ctx, one.SessionID)
			if err != nil {
				continue // it was closed meanwhile
			}
			now := one.Settings
			env.Sessions.Attach(env.PrincipalName(), one.SessionID, &registry.Session{Sandbox: h.Sandbox, Shell: shell, Shared: true, Kept: true, Called: h.Called(),
				Plan: registry.SessionPlan{Spec: h.Spec(), Opts: opts, Bounded: now.MaxOutputLines != registry.SessionLines || now.MaxOutputBytes != registry.SessionBytes}})
		}
	}
}
