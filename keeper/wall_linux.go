package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// pipeSize is asked for on the pipes of a wall, in bytes: fewer wake-ups. A
// host that allows less is fine.
const pipeSize = 1 << 20

// wall is the wall's command, with our ends of its standard streams.
type wall struct {
	in, out *os.File
	errors  *tail
	pid     int
	ended   chan bool       // closed when the command has
	status  unix.WaitStatus // behind ended
	alone   chan bool       // closed when there is no child any more
}

// startWall starts the command. The calling thread must live as long as it.
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
	// Where nothing stands between, the wall is the agent: killed with a keeper
	// that is, it could not end what has left its commands' trees.
	child, err := clone.Begin(&clone.Command{Path: o.Path, Argv: o.Argv, Env: o.Env, Dir: o.Dir, Umask: 0o022, Files: theirs[:],
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

// pipe makes one stream. Only our end is non-blocking.
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
	// The child takes the numbers from 0 on, so its ends must be above them.
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

// reap waits for children until there is none.
func (w *wall) reap() {
	defer close(w.alone)
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		case pid == w.pid:
			w.status = ws
			close(w.ended)
		}
	}
}

// describe says how a command ended.
func describe(ws unix.WaitStatus) string {
	if ws.Signaled() {
		return fmt.Sprintf("it was killed by signal %d (%s)", ws.Signal(), unix.SignalName(ws.Signal()))
	}
	return fmt.Sprintf("it ended with status %d", ws.ExitStatus())
}

// tail takes all that comes of the wall's standard error: its beginning goes to
// the log, its end is kept.
type tail struct {
	mu   sync.Mutex
	text []byte
	done chan struct{} // closed when nothing comes any more
}

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
			t.add(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return t
}

func (t *tail) add(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if drop := len(t.text) - MaxSaid; drop > 0 {
		t.text = append(t.text[:0], t.text[drop:]...)
	}
}

func (t *tail) get() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.text)
}
