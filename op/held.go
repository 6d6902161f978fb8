package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// kept gives the sandbox that is meant. The default one is opened where there is
// none, and anew where it has ended by itself.
func (e *Env) kept(ctx context.Context, name string) (*held, error) {
	if name != "" && name != defaultName {
		h, err := e.Sandboxes.find(ctx, e.principal(), name)
		if err == nil && h.ended() {
			return nil, h.goneError()
		}
		return h, err
	}
	for {
		p, mine, err := e.Sandboxes.claim(e.principal(), defaultName)
		if err != nil {
			return nil, err
		}
		if mine {
			e.Sandboxes.settle(p, func() (*held, error) { return e.openHeld(ctx, e.defaultSpec(), defaultName) })
		}
		select {
		case <-p.ready:
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot open the default sandbox: %w", ctx.Err())
		}
		switch {
		case p.err != nil && (mine || !cancelled(p.err)):
			return nil, p.err
		case p.err != nil: // who opened it gave up
			continue
		case !p.held.ended():
			return p.held, nil
		case e.Sandboxes.take(p):
			_ = p.held.close() // what is left of it; why it ended nobody knows
			e.note("the default sandbox had ended by itself and was made anew: processes, /tmp and HOME of the old one are lost, the workspace is as they left it")
		}
	}
}

func cancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// openHeld opens a sandbox that a door keeps. Without a workspace it gets an
// empty one, which is removed with it.
func (e *Env) openHeld(ctx context.Context, spec policy.Spec, name string) (_ *held, err error) {
	h := &held{name: name, principal: e.principal(), since: time.Now(), lasting: true}
	if spec.Workspace.Source == "" {
		if h.scratch, err = os.MkdirTemp("", "paddock-workspace-"); err != nil {
			return nil, fmt.Errorf("cannot make a temporary workspace: %w", err)
		}
		spec.Workspace.Source = h.scratch
	}
	if h.Sandbox, err = e.allowing(h.scratch).Open(ctx, spec); err != nil {
		return nil, errors.Join(err, h.close())
	}
	h.name = cmp.Or(h.name, h.ID())
	return h, nil
}

// allowing is the environment with a ceiling that allows a temporary workspace,
// which was made for the caller alone.
func (e *Env) allowing(scratch string) *Env {
	if scratch == "" || e.Ceiling == nil {
		return e
	}
	own, ceiling := *e, *e.Ceiling
	ceiling.Workspace = append(slices.Clone(ceiling.Workspace), policy.Place{Source: scratch, Mode: "rw"})
	own.Ceiling = &ceiling
	return &own
}

// ended says whether the sandbox is no more.
func (h *held) ended() bool {
	select {
	case <-h.Done():
		return true
	default:
		return false
	}
}

// close ends the sandbox with all that runs in it, and removes its temporary
// workspace. It may be called more than once.
func (h *held) close() error {
	var errs []error
	if h.Sandbox != nil {
		errs = append(errs, h.Close())
	}
	h.execs.forget()
	h.forgetShellEnds()
	if h.scratch != "" {
		if err := os.RemoveAll(h.scratch); err != nil {
			errs = append(errs, fmt.Errorf("cannot remove the temporary workspace: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (h *held) goneError() error {
	e := &paddock.Error{Message: "cannot use sandbox " + h.called() + ": it has ended", Code: wire.CodeGone,
		Hint: "sandbox_delete clears it away, and sandbox_create makes another"}
	if h.name == defaultName {
		e.Hint = "ask again: the default sandbox is made anew"
	}
	return e
}

// goneWait is how long a sandbox whose agent is gone may take to be known as ended.
const goneWait = time.Second

// explain says of what went wrong in a sandbox that has ended meanwhile that it
// has: no better cause is known.
func (h *held) explain(err error) error {
	unreachable := (*net.OpError)(nil)
	if !errors.Is(err, paddock.ErrClosed) && !errors.As(err, &unreachable) {
		return err
	}
	select {
	case <-h.Done():
		return h.goneError()
	case <-time.After(goneWait):
		return err
	}
}
