package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// WorkspaceAt is where commands find the workspace at a level.
func WorkspaceAt(level string, spec policy.Spec) string {
	if level != policy.LevelLandlock {
		return policy.WorkspacePath
	}
	if resolved, err := filepath.EvalSymlinks(spec.Workspace.Source); err == nil {
		return resolved
	}
	return spec.Workspace.Source
}

// Cancelled reports whether err is the end of a caller's context.
func Cancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Ended says whether the sandbox is no more.
func (h *Sandbox) Ended() bool {
	select {
	case <-h.Done():
		return true
	default:
		return false
	}
}

// Close ends the sandbox with all that runs in it, and removes its temporary
// workspace. It may be called more than once.
func (h *Sandbox) Close() error {
	var errs []error
	if h.Sandbox != nil {
		errs = append(errs, h.Sandbox.Close())
	}
	h.Execs.forget()
	h.forgetShellEnds()
	if h.Scratch != "" {
		if err := os.RemoveAll(h.Scratch); err != nil {
			errs = append(errs, fmt.Errorf("cannot remove the temporary workspace: %w", err))
		}
	}
	return errors.Join(errs...)
}

// GoneError returns the error of using a sandbox that has ended.
func (h *Sandbox) GoneError() error {
	e := &paddock.Error{Message: "cannot use sandbox " + h.Called() + ": it has ended", Code: wire.CodeGone,
		Hint: "sandbox_delete clears it away, and sandbox_create makes another"}
	if h.Name == DefaultName {
		e.Hint = "ask again: the default sandbox is made anew"
	}
	return e
}

// goneWait is how long a sandbox whose agent is gone may take to be known as ended.
const goneWait = time.Second

// Explain says of what went wrong in a sandbox that has ended meanwhile that it
// has: no better cause is known.
func (h *Sandbox) Explain(err error) error {
	unreachable := (*net.OpError)(nil)
	if !errors.Is(err, paddock.ErrClosed) && !errors.As(err, &unreachable) {
		return err
	}
	select {
	case <-h.Done():
		return h.GoneError()
	case <-time.After(goneWait):
		return err
	}
}

// Sandbox is a sandbox that an operation works in. A door that lasts has one of
// them for as long as the sandbox lives.
type Sandbox struct {
	*paddock.Sandbox
	// Name is what its principal calls it.
	Name string
	// Principal is whose it is.
	Principal string
	// Since is when it was opened, or attached to.
	Since time.Time
	// Scratch is its temporary workspace, empty where there is none.
	Scratch string
	// Lasting says that it outlives the call.
	Lasting bool
	Execs   Execs
	// Introduced is set once a call has told what it does not keep.
	Introduced once
	// secrets are those that were given to it.
	secrets secrets
	shells  shellEnds
}

// once is true for who comes first.
type once struct{ done atomic.Bool }

func (o *once) First() bool { return o.done.CompareAndSwap(false, true) }

// Called is what to call a sandbox, in a text.
func (h *Sandbox) Called() string {
	if h.Name == "" {
		return h.ID()
	}
	return h.Name
}
