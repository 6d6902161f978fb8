package agent

import (
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// life is that of an agent on its own, which may be told to end.
type life struct {
	listeners []net.Listener
	ending    chan struct{} // closed when the end begins
	once      sync.Once
	result    wire.ShutdownResult // of the once
}

// close stops accepting; sockets in the file system go with it.
func (l *life) close() {
	for _, ln := range l.listeners {
		_ = ln.Close()
	}
}

// shutdown is the action. Its answer is written before the agent ends.
func (a *Agent) shutdown(*wire.ShutdownRequest) (*wire.ShutdownResult, error) {
	if a.life == nil {
		return nil, &wire.Error{Code: wire.CodeUnsupported, Object: wire.Shutdown.Name,
			Message: "cannot shut down: the sandbox belongs to who started it", Hint: "close the sandbox"}
	}
	r := a.end()
	return &r, nil
}

// end stops accepting and ends all that runs, gently first. Everybody who
// calls it waits, and gets the same result.
func (a *Agent) end() wire.ShutdownResult {
	a.life.once.Do(func() {
		close(a.life.ending)
		a.life.close()
		a.Reaper.Close()
		a.life.result = a.endAll()
	})
	return a.life.result
}

// endAll ends every descendant of the agent, registered or left behind.
func (a *Agent) endAll() (res wire.ShutdownResult) {
	all := a.Trees.Everything()
	for _, e := range a.Running.All() {
		if e.Kind == "shell" { // interactive shells ignore TERM
			e.With(func(p *spawn.Process) { _ = a.Reaper.Signal(p, p.PID, unix.SIGHUP) })
		}
	}
	deadline := time.Now().Add(endGrace)
	asked, _, _ := a.Trees.Members(all)
	for _, p := range asked {
		_ = unix.PidfdSendSignal(p.PIDFD, unix.SIGTERM, nil, 0)
		_ = unix.PidfdSendSignal(p.PIDFD, unix.SIGCONT, nil, 0) // what is stopped cannot end
		unix.Close(p.PIDFD)
	}
	if a.Trees.Await(all, deadline) {
		res.DeathProved = true
		return res
	}
	res.Killed, res.DeathProved = a.Trees.Kill(all)
	return res
}
