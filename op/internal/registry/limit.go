package registry

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/paddock-dev/paddock"
)

// TimeLimit is how long something may run, and who says so, in words that answers
// give where the time was up. 0 is as long as it likes.
type TimeLimit struct {
	Span time.Duration
	From string
}

// The words for who sets a time.
const (
	FromCall     = "timeout of this call"
	FromSandbox  = "limits.timeout of the sandbox"
	FromSession  = "command_timeout of the session"
	FromDefault  = "the default"
	FromOperator = "limits.timeout, which the operator has set: nothing may run longer"
)

// Told returns the limit as answers name it.
func (l TimeLimit) Told() string { return l.Span.String() + ", " + l.From }

// Ended returns the limit as the answer of a command names it that was ended by it, and
// what that was denied: no hint asks for more time than the operator gives.
func (l TimeLimit) Ended(denied []paddock.Denial) (string, []paddock.Denial) {
	denied = slices.Clone(denied)
	for i := range denied {
		if l.From == FromOperator && denied[i].Rule == "timeout" {
			denied[i].Hint = ""
		}
	}
	return l.Told(), denied
}

// shellEnds end shells whose time is up. The zero value has none.
type shellEnds struct {
	mu   sync.Mutex
	ends map[string]*shellEnd
}

// shellEnd ends one shell.
type shellEnd struct {
	limit TimeLimit
	timer *time.Timer

	mu    sync.Mutex
	over  bool // the shell was closed, or is another one's by now
	fired bool // the time was up, and the shell ran until then
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
			_ = h.Sandbox.Close() // what cannot be ended alone ends with its sandbox, which tells why
		}
	})
}

// ForgetShellEnd is called before a shell is closed.
func (h *Sandbox) ForgetShellEnd(id string) {
	h.shells.mu.Lock()
	end := h.shells.ends[id]
	delete(h.shells.ends, id)
	h.shells.mu.Unlock()
	if end != nil {
		end.timer.Stop()
		end.mu.Lock() // what is ending it has done so
		end.over = true
		end.mu.Unlock()
	}
}

// ShellEndedBy says which limit has ended a shell, empty where none has.
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

// forgetShellEnds is called at the sandbox's end.
func (h *Sandbox) forgetShellEnds() {
	h.shells.mu.Lock()
	defer h.shells.mu.Unlock()
	for _, end := range h.shells.ends {
		end.timer.Stop()
	}
	h.shells.ends = nil
}
