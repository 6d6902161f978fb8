package exec

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
)

// pump copies both outputs until they end. Write errors of a sink do not stop
// it: a command must not block because the reader of its output has closed.
func (x *Command) pump(stdout, stderr io.Writer) {
	sinks := []io.Writer{stdout, stderr}
	var turn sync.Mutex
	for i, f := range x.sinks {
		sinks[i] = &sink{f, &turn, x.abandoned}
	}
	var wg sync.WaitGroup
	for i, src := range []*os.File{x.stdio.Stdout, x.stdio.Stderr} {
		if src != nil {
			wg.Go(func() {
				hiding := x.redactor.Writer(sinks[i])
				core.Drain(hiding, src)
				_ = hiding.Close()
			})
		}
	}
	wg.Wait()
	spawn.CloseFiles(x.sinks)
	close(x.drained)
}

// sink is a client's pipe for an output that must pass through the agent. Its reader
// may never read, and the agent cannot make the pipe non-blocking, because the open
// file description is shared. So a sink waits for room, and writes no more than
// fits. Once it is abandoned, it drops the rest.
type sink struct {
	pipe      *os.File
	turn      *sync.Mutex // two sinks may be one pipe
	abandoned <-chan struct{}
}

const (
	// sinkPart is how much fits into a pipe that has any room, in bytes.
	sinkPart = 4096
	// sinkWait is how long a sink waits for room before it checks again whether it is
	// abandoned, in ms.
	sinkWait = 50
)

var errAbandoned = errors.New("the client has gone, or the time is up")

// Write writes all of p, unless the pipe's reader is gone or abandoned.
func (s *sink) Write(p []byte) (written int, err error) {
	for written < len(p) {
		n, err := s.put(p[written:min(len(p), written+sinkPart)])
		if err != nil {
			return written, err
		}
		if written += n; n > 0 {
			continue
		}
		select {
		case <-s.abandoned:
			return written, errAbandoned
		default:
			s.awaitRoom(sinkWait)
		}
	}
	return written, nil
}

// put writes a part if there is room, else nothing.
func (s *sink) put(part []byte) (int, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if !s.awaitRoom(0) {
		return 0, nil
	}
	return s.pipe.Write(part)
}

// awaitRoom waits for room for at most ms milliseconds, and reports whether there is
// any. A pipe without a reader has room: a write to it fails at once.
func (s *sink) awaitRoom(ms int) bool {
	fds := []unix.PollFd{{Fd: int32(s.pipe.Fd()), Events: unix.POLLOUT}}
	n, _ := unix.Poll(fds, ms)
	return n > 0
}
