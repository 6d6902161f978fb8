package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Sandbox is a sandbox that an operation works in. A server has one of them for as long as the
// sandbox lives.
type Sandbox struct {
	*paddock.Sandbox
	// Name is what its principal calls it.
	Name string
	// Principal is the one it belongs to.
	Principal string
	// Since is when it was opened, or attached to.
	Since time.Time
	// Scratch is its temporary workspace, if it has one and ends with the server.
	Scratch string
	// Lasting says that it outlives the call, and Kept that it outlives the server, which only
	// attaches to it.
	Lasting, Kept bool
	// Temporary says that its workspace is removed with it.
	Temporary bool
	Execs     Execs
	adopting  sync.Mutex // locked while commands of other servers are looked for
	// Introduced is set once a call has reported which guarantees do not hold.
	Introduced once
	shells     shellEnds
}

// once reports to its first caller that it is the first.
type once struct{ done atomic.Bool }

// First reports whether this is its first call.
func (o *once) First() bool { return o.done.CompareAndSwap(false, true) }

// Called returns the name of the sandbox for messages: the principal's name for it, or its id.
func (h *Sandbox) Called() string {
	if h.Name == "" {
		return h.ID()
	}
	return h.Name
}

// WorkspaceAt returns where commands find the workspace at a level.
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

// Ended reports whether the sandbox has ended.
func (h *Sandbox) Ended() bool {
	select {
	case <-h.Done():
		return true
	default:
		return false
	}
}

// Close ends the sandbox with all that runs in it, and removes its temporary
// workspace. From one that outlives the server it only detaches. It may be called more than once.
func (h *Sandbox) Close() error {
	var errs []error
	if h.Kept {
		h.Execs.forget() // these are the server's own
	}
	if h.Sandbox != nil {
		errs = append(errs, h.Sandbox.Close())
	}
	h.Execs.forget()
	h.shells.mu.Lock()
	for _, end := range h.shells.ends {
		end.timer.Stop()
	}
	h.shells.ends = nil
	h.shells.mu.Unlock()
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
	switch {
	case h.Name == DefaultName:
		e.Hint = "ask again: the default sandbox is made anew"
	case h.Kept:
		e.Hint = "sandbox_list shows whether it is stopped or gone; sandbox_create makes another"
	}
	return e
}

// goneWait is how long it may take until a sandbox whose agent is gone is known to have ended.
const goneWait = time.Second

// Explain replaces an error of reaching a sandbox that has ended meanwhile by
// [Sandbox.GoneError], since no better cause is known. It returns other errors unchanged.
func (h *Sandbox) Explain(err error) error {
	if h.EndedBy(err) {
		return h.GoneError()
	}
	return err
}

// EndedBy reports whether err is one of reaching the sandbox, because that has ended.
func (h *Sandbox) EndedBy(err error) bool {
	unreachable, own := (*net.OpError)(nil), (*wire.Error)(nil)
	gone := errors.As(err, &own) && own.Code == wire.CodeGone
	if !gone && !errors.Is(err, paddock.ErrClosed) && !errors.As(err, &unreachable) {
		return false
	}
	select {
	case <-h.Done():
		return true
	case <-time.After(goneWait):
		return false
	}
}

// EndedHow returns in words how a program ended, by its exit code: -N if signal N ended it.
func EndedHow(exitCode int) string {
	if signal := run.SignalName(exitCode); signal != "" {
		return "ended by " + signal
	}
	return "exit status " + strconv.Itoa(exitCode)
}

// EndTime is how long a call that gives up may take to end the processes that it has started.
const EndTime = 15 * time.Second

// Refusal returns the error of a request that the agent could not serve, or that did not reach it.
func Refusal(what string, err error) error {
	var own *wire.Error
	var ours *paddock.Error
	if errors.As(err, &own) && own.Code == wire.CodeNotFound && own.Hint == "" {
		own = &wire.Error{Message: own.Message, Code: own.Code}
		for kind, list := range map[string]string{"service": "paddock service list", "shell": "paddock shell list", "session": "session_list"} {
			if strings.HasPrefix(own.Message, kind+" ") {
				own.Hint = list + " names those that there are"
			}
		}
		err = own
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return err
	case errors.As(err, &own) && strings.HasPrefix(own.Message, "cannot "):
		return &paddock.Error{Message: own.Message, Hint: own.Hint, Code: own.Code}
	case errors.As(err, &own):
		return &paddock.Error{Message: "cannot " + what + ": " + own.Message, Hint: own.Hint, Code: own.Code}
	}
	return fmt.Errorf("cannot %s: %w", what, err)
}

// Unruled returns an error if the sandbox's spec has rules for commands. It is for operations
// that run unchecked commands, and could be used to get around the rules.
func (h *Sandbox) Unruled(what string) error {
	if h.Spec().Commands == nil {
		return nil
	}
	return &paddock.Error{
		Message: "cannot " + what + " under rules for commands: what runs there could be used to get around them",
		Hint:    "use paddock execute, which runs one command at a time, or leave the rules out: the walls hold all the same",
		Code:    wire.CodeConflict,
	}
}

// KillTree ends the process trees of a kind and a name, also after ctx has ended. It returns how
// many processes it killed, and whether it is proved that none is left.
func (h *Sandbox) KillTree(ctx context.Context, kind, name string) (killed int, proved bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), EndTime)
	defer cancel()
	now, err := wire.Call(ctx, h.Client(), wire.Usage, wire.UsageRequest{})
	if err != nil {
		return 0, false, err
	}
	proved = true
	for _, tree := range now.Trees {
		if tree.Kind != kind || tree.Name != name {
			continue
		}
		r, err := wire.Call(ctx, h.Client(), wire.Kill, wire.KillRequest{ID: tree.ID})
		var own *wire.Error
		if errors.As(err, &own) && own.Code == wire.CodeNotFound {
			continue // it ended meanwhile
		}
		if err != nil {
			return killed, false, err
		}
		killed, proved = killed+r.Killed, proved && r.DeathProved
	}
	return killed, proved, nil
}

// MomentOr returns a time that the agent gives in seconds since 1970, or nil for nil.
func MomentOr(seconds *float64) *time.Time {
	if seconds == nil {
		return nil
	}
	t := wire.Time(*seconds)
	return &t
}
