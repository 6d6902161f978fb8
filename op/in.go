package op

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// InSandbox is how operations that work in a sandbox ask which one.
type InSandbox struct {
	Sandbox string `json:"sandbox,omitempty" flag:"sandbox" arg:"ID" help:"which sandbox (default: the one over the workspace)" max:"64"`
}

// held is a sandbox that an operation works in. A door that lasts has one of
// them for as long as the sandbox lives.
type held struct {
	*paddock.Sandbox
	// name is what its principal calls it.
	name string
	// principal is whose it is.
	principal string
	// since is when it was opened, or attached to.
	since time.Time
	// scratch is its temporary workspace, empty where there is none.
	scratch string
	// lasting says that it outlives the call.
	lasting bool
	execs   execs
	// introduced is set once a call has told what it does not keep.
	introduced once
	// secrets are those that were given to it.
	secrets secrets
	shells  shellEnds
}

// in does something in the sandbox that is meant. A door that lasts keeps it; for
// a single call a running one is attached to, or one is made over the default
// spec's workspace, or the current directory, which ends with the call.
func (e *Env) in(ctx context.Context, where InSandbox, do func(context.Context, *held) error) error {
	switch {
	case e.Sandboxes != nil:
		return e.inKept(ctx, where.Sandbox, do)
	case where.Sandbox != "":
		return e.inAttached(ctx, where.Sandbox, do)
	}
	return e.inEphemeral(ctx, do)
}

// inKept is in for a door that lasts.
func (e *Env) inKept(ctx context.Context, name string, do func(context.Context, *held) error) error {
	h, err := e.kept(ctx, name)
	if err != nil {
		return err
	}
	if err := e.enter(ctx, h); err != nil {
		return err
	}
	e.introduce(h)
	return h.explain(do(ctx, h))
}

// enter asks, before a sandbox is used again, for what its backend needs: a
// privilege may have been taken away since it was opened.
func (e *Env) enter(ctx context.Context, h *held) error {
	if e.call == nil {
		return nil
	}
	if h.Spec().Backend == policy.BackendHost {
		if err := e.privileged(ctx, h.Spec()); err != nil {
			return err
		}
		if err := e.call.demand(privilege.UnsandboxedExec); err != nil {
			return err
		}
	}
	e.concerns(h.ID())
	return nil
}

// concerns puts the sandbox on the record of this call.
func (e *Env) concerns(id string) {
	if e.call != nil {
		e.call.opened(id)
	}
}

// inAttached is in for a sandbox of another process of the same user's. Its
// spec is not known to be below anybody's ceiling.
func (e *Env) inAttached(ctx context.Context, id string, do func(context.Context, *held) error) error {
	if e.Ceiling != nil {
		if e.call != nil {
			e.call.refuse()
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
	h := &held{Sandbox: s, name: id, principal: e.principal(), since: time.Now()}
	if err := e.enter(ctx, h); err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(do(ctx, h), s.Close())
}

// inEphemeral is in for one that ends with the call.
func (e *Env) inEphemeral(ctx context.Context, do func(context.Context, *held) error) (err error) {
	s, err := e.Open(ctx, e.defaultSpec())
	if err != nil {
		return err
	}
	h := &held{Sandbox: s, principal: e.principal(), since: time.Now()}
	defer func() {
		err = errors.Join(err, s.Close())
		e.note(changesNote(s.Changes()))
	}()
	e.introduce(h)
	return do(ctx, h)
}

// defaultSpec is a copy of the spec of the sandbox that is meant where none is
// named. What a caller asks for is laid over it, so that what the operator wrote
// there and no ceiling holds, rules for commands say, holds all the same.
func (e *Env) defaultSpec() policy.Spec {
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
