package registry

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/paddock-dev/paddock"
)

// TimeLimit is how long something may run, and where that limit comes from, in words for the
// answer if the time is up. 0 means no limit.
type TimeLimit struct {
	Span time.Duration
	From string
}

// The words for who has set a limit.
const (
	FromCall     = "timeout of this call"
	FromSandbox  = "limits.timeout of the sandbox"
	FromSession  = "command_timeout of the session"
	FromDefault  = "the default"
	FromOperator = "limits.timeout, which the operator has set: nothing may run longer"
)

// Told returns the limit as answers give it.
func (l TimeLimit) Told() string { return l.Span.String() + ", " + l.From }

// Ended returns the limit as the answer of a command that it has ended gives it, and what that
// command was denied, without a hint to ask for more time than the operator allows.
func (l TimeLimit) Ended(denied []paddock.Denial) (string, []paddock.Denial) {
	denied = slices.Clone(denied)
	for i := range denied {
		if l.From == FromOperator && denied[i].Rule == "timeout" {
			denied[i].Hint = ""
		}
	}
	return l.Told(), denied
}

// shellEnds are the timers that end shells. The zero value has none.
type shellEnds struct {
	mu   sync.Mutex
	ends map[string]*shellEnd
}

// shellEnd ends one shell.
type shellEnd struct {
	limit TimeLimit
	timer *time.Timer

	mu    sync.Mutex
	over  bool // the shell was closed, and its id may be another one's by now
	fired bool // the time was up while the shell ran
}

// EndShellAfter ends the shell when its time is up, with all that it runs. Its
// output can be read until it is closed.
func (h *Sandbox) EndShellAfter(id string, l TimeLimit) {
	if l.Span == 0 {
		return
	}
	end := &shellEnd{limit: l}
	h.shells.mu.Lock()
	defer h.shells.mu.Unlock()
	if h.shells.ends == nil {
		h.shells.ends = map[string]*shellEnd{}
	}
	h.shells.ends[id] = end
	end.timer = time.AfterFunc(l.Span, func() {
		end.mu.Lock()
		defer end.mu.Unlock()
		if end.over {
			return
		}
		killed, _, err := h.KillTree(context.Background(), "shell", id)
		end.fired = killed > 0 // else it had ended by itself
		if err != nil {
			_ = h.End() // it ends with its sandbox, whose error has the reason
		}
	})
}

// ForgetShellEnd stops the timer of a shell. It is called before the shell is closed.
func (h *Sandbox) ForgetShellEnd(id string) {
	h.shells.mu.Lock()
	end := h.shells.ends[id]
	delete(h.shells.ends, id)
	h.shells.mu.Unlock()
	if end != nil {
		end.timer.Stop()
		end.mu.Lock() // waits until a timer that fired has ended the shell
		end.over = true
		end.mu.Unlock()
	}
}

// ShellEndedBy returns the limit that has ended a shell, or "" if none has.
func (h *Sandbox) ShellEndedBy(id string) string {
	h.shells.mu.Lock()
	end := h.shells.ends[id]
	h.shells.mu.Unlock()
	if end == nil {
		return ""
	}
	end.mu.Lock()
	defer end.mu.Unlock()
	if !end.fired {
		return ""
	}
	return end.limit.Told()
}
