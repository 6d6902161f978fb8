package op

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/paddock-dev/paddock"
)

// timeLimit is how long something may run, and who says so, in words that answers
// give where the time was up. 0 is as long as it likes.
type timeLimit struct {
	span time.Duration
	from string
}

// The words for who sets a time.
const (
	fromCall     = "timeout of this call"
	fromSandbox  = "limits.timeout of the sandbox"
	fromSession  = "command_timeout of the session"
	fromDefault  = "the default"
	fromOperator = "limits.timeout, which the operator has set: nothing may run longer"
)

// within returns l, or the operator's limit where that is no longer: a ceiling's
// limits.timeout holds for each command and each shell below it, whatever they ask for.
func (e *Env) within(l timeLimit) timeLimit {
	if e.Ceiling == nil || e.Ceiling.Limits.Timeout == 0 {
		return l
	}
	if most := time.Duration(e.Ceiling.Limits.Timeout); l.span == 0 || l.span >= most {
		return timeLimit{most, fromOperator}
	}
	return l
}

// withinSession returns the options of a session whose commands, those at its start
// and its end included, have no more time than the operator's limit leaves them.
func (e *Env) withinSession(o paddock.SessionOptions) paddock.SessionOptions {
	for _, one := range []struct {
		span      *time.Duration
		otherwise time.Duration
	}{
		{&o.CommandTimeout, paddock.DefaultSessionTimeout},
		{&o.StartupTimeout, paddock.DefaultSessionTimeout},
		{&o.TerminationTimeout, paddock.DefaultSessionEnd},
	} {
		*one.span = e.within(timeLimit{span: cmp.Or(*one.span, one.otherwise)}).span
	}
	return o
}

// told returns the limit as answers name it.
func (l timeLimit) told() string { return l.span.String() + ", " + l.from }

// ended returns the limit as the answer of a command names it that was ended by it, and
// what that was denied: no hint asks for more time than the operator gives.
func (l timeLimit) ended(denied []paddock.Denial) (string, []paddock.Denial) {
	denied = slices.Clone(denied)
	for i := range denied {
		if l.from == fromOperator && denied[i].Rule == "timeout" {
			denied[i].Hint = ""
		}
	}
	return l.told(), denied
}

// shellEnds end shells whose time is up. The zero value has none.
type shellEnds struct {
	mu   sync.Mutex
	ends map[string]*shellEnd
}

// shellEnd ends one shell.
type shellEnd struct {
	limit timeLimit
	timer *time.Timer

	mu    sync.Mutex
	over  bool // the shell was closed, or is another one's by now
	fired bool // the time was up, and the shell ran until then
}

// endShellAfter ends the shell when its time is up, with all that it runs. Its
// output can be read until it is closed.
func (h *held) endShellAfter(id string, l timeLimit) {
	if l.span == 0 {
		return
	}
	end := &shellEnd{limit: l}
	h.shells.mu.Lock()
	defer h.shells.mu.Unlock()
	if h.shells.ends == nil {
		h.shells.ends = map[string]*shellEnd{}
	}
	h.shells.ends[id] = end
	end.timer = time.AfterFunc(l.span, func() {
		end.mu.Lock()
		defer end.mu.Unlock()
		if end.over {
			return
		}
		killed, _, err := h.killTree(context.Background(), "shell", id)
		end.fired = killed > 0 // else it had ended by itself
		if err != nil {
			_ = h.Sandbox.Close() // what cannot be ended alone ends with its sandbox, which tells why
		}
	})
}

// forgetShellEnd is called before a shell is closed.
func (h *held) forgetShellEnd(id string) {
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

// shellEndedBy says which limit has ended a shell, empty where none has.
func (h *held) shellEndedBy(id string) string {
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
	return end.limit.told()
}

// forgetShellEnds is called at the sandbox's end.
func (h *held) forgetShellEnds() {
	h.shells.mu.Lock()
	defer h.shells.mu.Unlock()
	for _, end := range h.shells.ends {
		end.timer.Stop()
	}
	h.shells.ends = nil
}
