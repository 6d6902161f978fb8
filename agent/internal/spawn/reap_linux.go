package spawn

import (
	"errors"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Reaper collects the exit status of every child. Inside walls the agent's
// children are the commands it started and the inner init, nothing else:
// orphans belong to that init. Without an inner init they may come to the
// agent, which then only buries them.
type Reaper struct {
	init     int           // 0 where there is none
	InitGone chan struct{} // closed when the init has ended
	born     chan struct{} // wakes a reaper that has no children

	mu    sync.Mutex
	procs map[int]*Process // running, and not reaped
	over  bool             // nothing is to be started any more
}

func newReaper(init int) *Reaper {
	return &Reaper{init: init, InitGone: make(chan struct{}), born: make(chan struct{}, 1), procs: map[int]*Process{}}
}

// adopt runs spawn and registers its child before anything can reap it.
func (r *Reaper) adopt(p *Process, spawn func() (int, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errEnding
	}
	pid, err := spawn()
	if err != nil {
		return err
	}
	p.PID = pid
	r.procs[pid] = p
	if l := p.Mark.tree; l != nil {
		l.pid = pid
		l.index.open = append(l.index.open, l)
	}
	select {
	case r.born <- struct{}{}:
	default:
	}
	return nil
}

var errEnding = errors.New("the agent is about to end")

// Close lets nothing be started any more.
func (r *Reaper) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// run reaps for ever. A child is looked at first and reaped under the lock,
// so that no pid is freed while somebody may signal it.
func (r *Reaper) run() {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil); err != nil {
			switch {
			case err == unix.EINTR:
			case r.init == 0:
				<-r.born // there is no child until then
			default:
				close(r.InitGone) // there is always a child, the init, while it lives
				return
			}
			continue
		}
		if !r.reap() {
			close(r.InitGone)
			return
		}
		// Who waits for that end is let go first: the next call blocks, and the
		// runtime takes a while to see that this thread's processor is idle.
		runtime.Gosched()
	}
}

// reap takes one status, and reports whether the init still lives.
func (r *Reaper) reap() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, _ := r.bury()
	return pid <= 0 || pid != r.init
}

// bury takes a status where there is one. Its pid is 0 where there is none
// now, and err is ECHILD where there is no child at all. The lock is held.
func (r *Reaper) bury() (pid int, err error) {
	var status unix.WaitStatus
	var usage unix.Rusage
	if pid, err = unix.Wait4(-1, &status, unix.WNOHANG|unix.WALL, &usage); err != nil || pid <= 0 {
		return 0, err
	}
	if p := r.procs[pid]; p != nil {
		delete(r.procs, pid)
		p.Status, p.Usage = status, usage
		close(p.Done)
	}
	return pid, nil
}

// buryAll takes every status that there is, and reports whether no child is
// left. The lock is held.
func (r *Reaper) buryAll() (alone bool) {
	for {
		pid, err := r.bury()
		if errors.Is(err, unix.EINTR) || pid > 0 {
			continue
		}
		return errors.Is(err, unix.ECHILD)
	}
}

// Signal sends to a process group whose leader is p, if it still exists.
func (r *Reaper) Signal(p *Process, group int, sig unix.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.procs[p.PID] != p {
		return unix.ESRCH
	}
	return unix.Kill(-group, sig)
}

// SignalOne sends to p alone, if it still exists.
func (r *Reaper) SignalOne(p *Process, sig unix.Signal) error { return r.Signal(p, -p.PID, sig) }

// Resume lets p go on where it was stopped, and has not been seen so.
func (r *Reaper) Resume(p *Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var info unix.Siginfo
	if r.procs[p.PID] != p || unix.Waitid(unix.P_PID, p.PID, &info, unix.WSTOPPED|unix.WNOHANG|unix.WALL, nil) != nil {
		return
	}
	if info.Signo != 0 {
		_ = unix.Kill(p.PID, unix.SIGCONT)
	}
}
