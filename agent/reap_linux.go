package agent

import (
	"sync"

	"golang.org/x/sys/unix"
)

// reaper collects the exit status of every child. Inside walls the agent's
// children are the commands it started and the inner init, nothing else:
// orphans belong to that init. Without an inner init they may come to the
// agent, which then only buries them.
type reaper struct {
	init     int           // 0 where there is none
	initGone chan struct{} // closed when the init has ended
	born     chan struct{} // wakes a reaper that has no children

	mu    sync.Mutex
	procs map[int]*process // running, and not reaped
}

func newReaper(init int) *reaper {
	return &reaper{init: init, initGone: make(chan struct{}), born: make(chan struct{}, 1), procs: map[int]*process{}}
}

// adopt runs spawn and registers its child before anything can reap it.
func (r *reaper) adopt(p *process, spawn func() (int, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := spawn()
	if err != nil {
		return err
	}
	p.pid = pid
	r.procs[pid] = p
	select {
	case r.born <- struct{}{}:
	default:
	}
	return nil
}

// run reaps for ever. A child is looked at first and reaped under the lock,
// so that no pid is freed while somebody may signal it.
func (r *reaper) run() {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			switch {
			case err == unix.EINTR:
			case r.init == 0:
				<-r.born // there is no child until then
			default:
				close(r.initGone) // there is always a child, the init, while it lives
				return
			}
			continue
		}
		if !r.reap() {
			close(r.initGone)
			return
		}
	}
}

// reap takes one status, and reports whether the init still lives.
func (r *reaper) reap() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var status unix.WaitStatus
	var usage unix.Rusage
	pid, err := unix.Wait4(-1, &status, unix.WNOHANG, &usage)
	if err != nil || pid <= 0 {
		return true
	}
	if pid == r.init { // never 0
		return false
	}
	if p := r.procs[pid]; p != nil {
		delete(r.procs, pid)
		p.status, p.usage = status, usage
		close(p.done)
	}
	return true
}

// signal sends to a process group whose leader is p, if it still exists.
func (r *reaper) signal(p *process, group int, sig unix.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.procs[p.pid] != p {
		return unix.ESRCH
	}
	return unix.Kill(-group, sig)
}
