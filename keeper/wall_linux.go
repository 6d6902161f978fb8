package keeper

import (
	"bytes"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/internal/descent"
)

// pipeSize is the size requested for the pipes of a wall, in bytes, for fewer
// wake-ups. It is not an error if the host allows less.
const pipeSize = 1 << 20

// wall is the wall's command, with the keeper's ends of its standard streams.
type wall struct {
	in, out *os.File
	errors  *tail
	pid     int
	ended   chan bool       // closed when the command has ended
	status  unix.WaitStatus // valid once ended is closed
	alone   chan bool       // closed when no child is left
}

// startWall starts the command. The calling thread must live as long as the command.
func startWall(o *Order) (*wall, error) {
	w := &wall{ended: make(chan bool), alone: make(chan bool)}
	var theirs [3]int
	made := 0
	defer func() {
		for _, fd := range theirs[:made] {
			_ = unix.Close(fd)
		}
	}()
	var err error
	var errs *os.File
	for i, p := range []struct {
		ours   **os.File
		reader bool
	}{{&w.in, false}, {&w.out, true}, {&errs, true}} {
		if theirs[i], *p.ours, err = pipe(p.reader); err != nil {
			return nil, err
		}
		made++
	}
	// Gently: if the keeper is killed, the wall's command gets SIGTERM. Without a
	// program in between it is the agent itself, which could not end the processes
	// that have left its commands' trees if it were killed, too.
	child, err := clone.Begin(&clone.Command{Path: string(o.Path), Argv: o.Argv, Env: o.Env, Dir: string(o.Dir), Umask: 0o022, Files: theirs[:],
		DieWithThread: true, Gently: true}, 0, false)
	if err != nil {
		return nil, err
	}
	w.pid = child.PID
	if err := child.Wait(); err != nil {
		child.End()
		return nil, err
	}
	_ = unix.Close(child.PIDFD)
	w.errors = follow(errs)
	go w.reap()
	return w, nil
}

// pipe makes one stream. Only the keeper's end is non-blocking.
func pipe(weRead bool) (theirs int, ours *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, nil, os.NewSyscallError("pipe2", err)
	}
	own, other := fds[1], fds[0]
	if weRead {
		own, other = fds[0], fds[1]
	}
	_, _ = unix.FcntlInt(uintptr(own), unix.F_SETPIPE_SZ, pipeSize)
	// The child's ends become its descriptors 0 to 2, so they must be above them here.
	theirs, err = unix.FcntlInt(uintptr(other), unix.F_DUPFD_CLOEXEC, ListenFD+1)
	unix.Close(other)
	if err == nil {
		err = unix.SetNonblock(own, true)
	}
	if err != nil {
		return -1, nil, err
	}
	return theirs, os.NewFile(uintptr(own), "pipe"), nil
}

// reap waits for the wall's command and for everything that it leaves.
func (w *wall) reap() {
	defer close(w.alone)
	descent.Reap(func(pid int, status unix.WaitStatus) {
		if pid == w.pid {
			w.status = status
			close(w.ended)
		}
	})
}

// describe returns how a command ended.
func describe(ws unix.WaitStatus) string {
	if ws.Signaled() {
		return fmt.Sprintf("it was killed by signal %d (%s)", ws.Signal(), unix.SignalName(ws.Signal()))
	}
	return fmt.Sprintf("it ended with status %d", ws.ExitStatus())
}

// tail reads the wall's standard error: it writes the beginning to the log, and
// keeps the end.
type tail struct {
	mu   sync.Mutex
	text []byte
	done chan struct{} // closed at the end of the stream
}

// follow reads from a stream in the background.
func follow(from *os.File) *tail {
	t := &tail{done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer from.Close()
		buf, logged := make([]byte, MaxSaid), 0
		for {
			n, err := from.Read(buf)
			if room := min(n, MaxLog-logged); room > 0 {
				logged += room
				_, _ = os.Stderr.Write(buf[:room])
			}
			t.mu.Lock()
			t.text = append(t.text, buf[:n]...)
			if drop := len(t.text) - MaxSaid; drop > 0 {
				t.text = append(t.text[:0], t.text[drop:]...)
			}
			t.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return t
}

// get returns the end of the stream so far.
func (t *tail) get() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.text)
}
