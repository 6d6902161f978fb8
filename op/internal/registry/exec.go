package registry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of the execs of one sandbox.
const (
	maxExecs      = 64  // that run at a time
	maxEndedExecs = 256 // that are remembered; the oldest are forgotten
)

// Execs are the commands of a sandbox, the oldest first.
type Execs struct {
	mu     sync.Mutex
	list   []*Exec
	closed bool
}

// Exec is a command that runs, or ran, in a sandbox that stays open. It has the id of its
// output.
type Exec struct {
	Out     *output.Output
	Command string // shortened
	Began   time.Time
	Cmd     *paddock.Cmd  // nil: it is Job
	Job     *paddock.Exec // it belongs to the sandbox, and Out is a copy of what that stores
	Limit   TimeLimit
	End     context.CancelFunc // kills the whole tree
	copying context.Context    // of a Job's output
	leave   context.CancelFunc // ends the copying alone; nil: it has no Job
	Killed  atomic.Bool        // by exec_kill

	Done   chan struct{} // closed once the two below are final
	Result *paddock.Result
	Err    error
}

// Running reports whether the command has not ended.
func (x *Exec) Running() bool {
	select {
	case <-x.Done:
		return false
	default:
		return true
	}
}

// Signal sends the command a signal.
func (x *Exec) Signal(ctx context.Context, name string) error {
	if x.Job != nil {
		return x.Job.Signal(ctx, name)
	}
	return x.Cmd.Signal(name)
}

// Add adds a command. If there are too many, the oldest that has ended is forgotten.
func (l *Execs) Add(x *Exec) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	running := 0
	for _, old := range l.list {
		if old.Running() {
			running++
		}
	}
	switch {
	case l.closed:
		return &paddock.Error{Message: "cannot run the command: the sandbox has ended", Code: wire.CodeGone}
	case running >= maxExecs:
		return &paddock.Error{Message: "cannot run the command: too many run in this sandbox", Code: wire.CodeBusy,
			Hint: "exec_kill ends one, and sandbox_status lists them"}
	}
	if len(l.list)-running >= maxEndedExecs {
		i := slices.IndexFunc(l.list, func(old *Exec) bool { return !old.Running() })
		old := l.list[i]
		l.list = slices.Delete(l.list, i, i+1)
		old.Out.Drop()
	}
	l.list = append(l.list, x)
	return nil
}

// Drop removes a command that did not start.
func (l *Execs) Drop(x *Exec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(old *Exec) bool { return old == x })
}

// All returns the commands, the oldest first.
func (l *Execs) All() []*Exec {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// Find returns a command by its id, or nil if it is unknown.
func (l *Execs) Find(id string) *Exec {
	for _, x := range l.All() {
		if x.Out.ID() == id {
			return x
		}
	}
	return nil
}

// forget drops all commands with their outputs, once they have ended with the sandbox. Those that
// belong to a sandbox which stays run on.
func (l *Execs) forget() {
	l.mu.Lock()
	l.closed = true
	list := l.list
	l.list = nil
	l.mu.Unlock()
	for _, x := range list {
		if x.leave != nil {
			x.leave()
		} else {
			x.End()
		}
		<-x.Done
		x.Out.Drop()
	}
}

// How returns in a few words how the command ended; Result and Err are final.
func (x *Exec) How() string {
	switch {
	case x.Result != nil:
		return x.Result.String()
	case errors.Is(x.Err, paddock.ErrClosed):
		return "the sandbox has ended"
	}
	return "its end is not known"
}

// The states of an exec.
const (
	Running = "running"
	Exited  = "exited"
)
