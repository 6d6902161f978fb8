package op

import (
	"context"
	"errors"
	"reflect"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	shellpolicy "github.com/paddock-dev/paddock/policy/execution"
)

// where is the sandbox that the session is to be in, and whether that is one that
// the door keeps.
func (in SessionOpenInput) where(e *Env) (name string, shared bool, err error) {
	described := !reflect.DeepEqual(in.SpecInput, SpecInput{}) || in.Policy != ""
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
func (e *Env) openShared(ctx context.Context, in SessionInput, key sessionKey, where string) (k *keptSession, err error) {
	err = e.in(ctx, InSandbox{Sandbox: where}, func(ctx context.Context, h *held) error {
		if h.Spec().Commands != nil {
			return errRuledSession
		}
		opts, err := in.options(shellpolicy.Session{}, h.Spec())
		if err != nil {
			return err
		}
		k = &keptSession{key: key, sandbox: h.Sandbox, shared: true, called: h.called(),
			plan: sessionPlan{spec: h.Spec(), opts: e.withinSession(opts), bounded: in.bounded()}}
		return k.begin(ctx)
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// leave ends the session, and leaves the sandbox to others. What the session
// still runs is not waited for when ctx ends.
func (k *keptSession) leave(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- k.shell.Close() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return errors.Join(&paddock.Error{Message: "cannot wait for the end of session " + k.key.id}, ctx.Err())
	}
}

// leaveAll forgets the sessions in a sandbox that has ended, and what belongs to them.
func (s *Sessions) leaveAll(h *held) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, k := range s.open {
		if k != nil && k.shared && k.sandbox == h.Sandbox {
			delete(s.open, key)
		}
	}
}
