package keeper

import (
	"bytes"
	"context"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/internal/descent"
)

const (
	// endGrace is how long a wall may take to end by itself once its pipe is closed.
	// In this time the agent ends everything that it has started.
	endGrace = 400 * time.Millisecond
	// endTimeout bounds how long processes are killed until none is left.
	endTimeout = 10 * time.Second
)

// end ends the wall, runs the clean-up commands, and reports how that went.
func (k *keeper) end(why string, grace time.Duration) *Ended {
	e := &Ended{Why: why, Cleaned: true, Proved: true}
	_ = k.listener.Close()
	if w := k.wall; w != nil {
		if k.mux != nil {
			_ = k.mux.Close() // this closes the pipe to the wall, too
		}
		_ = w.in.Close()
		go func() { // the wall copies the last of what the agent has written
			_ = w.out.SetReadDeadline(time.Time{})
			_, _ = io.Copy(io.Discard, w.out)
		}()
		select {
		case <-w.alone:
			e.Exited, e.Status = w.status.Exited(), w.status.ExitStatus()
		case <-time.After(max(grace, endGrace)):
		}
		_ = w.out.Close()
		e.Killed, e.Proved = endAll(w.alone)
		e.Said = w.errors.get()
		if bytes.Contains(e.Said, []byte(k.order.Nonce)) {
			e.Said = nil
		}
	}
	for _, argv := range k.order.Cleanup {
		e.Cleaned = k.cleanUp(argv) && e.Cleaned
	}
	return e
}

// endAll kills the processes below this one until none is left.
func endAll(alone <-chan bool) (killed int, proved bool) {
	select {
	case <-alone:
		return 0, true
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	seen := map[string]bool{}
	proved = descent.End(ctx, alone, func() []descent.Process {
		all := descent.Below(os.Getpid())
		for _, p := range all {
			if !p.Ended() {
				seen[p.Who()] = true
			}
		}
		return all
	})
	return len(seen), proved
}

// cleanUp runs one command, and reports whether it ran to its end.
func (k *keeper) cleanUp(argv []string) bool {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(null)
	w := &wall{ended: make(chan bool), alone: make(chan bool)}
	child, err := clone.Begin(&clone.Command{Path: argv[0], Argv: argv, Env: k.order.Env, Dir: "/", Umask: 0o022, Files: []int{null, null, null}, DieWithThread: true}, 0, false)
	if err != nil {
		return false
	}
	w.pid = child.PID
	if child.Wait() != nil {
		child.End()
		return false
	}
	_ = unix.Close(child.PIDFD)
	go w.reap()
	ended := true
	select {
	case <-w.ended:
	case <-time.After(k.order.CleanupTimeout):
		ended = false
	}
	_, proved := endAll(w.alone)
	return ended && proved
}
