package agent

import (
	"errors"
	"runtime"
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
	over  bool             // nothing is to be started any more
}

func newReaper(init int) *reaper {
	return &reaper{init: init, initGone: make(chan struct{}), born: make(chan struct{}, 1), procs: map[int]*process{}}
}

// adopt runs spawn and registers its child before anything can reap it.
func (r *reaper) adopt(p *process, spawn func() (int, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errEnding
	}
	pid, err := spawn()
	if err != nil {
		return err
	}
	p.pid = pid
	r.procs[pid] = p
	if l := p.mark.lineage; l != nil {
		l.pid = pid
		l.family.open = append(l.family.open, l)
	}
	select {
	case r.born <- struct{}{}:
	default:
	}
	return nil
}

var errEnding = errors.New("the agent is about to end")

// close lets nothing be started any more.
func (r *reaper) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// run reaps for ever. A child is looked at first and reaped under the lock,
// so that no pid is freed while somebody may signal it.
func (r *reaper) run() {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil); err != nil {
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
		// Who waits for that end is let go first: the next call blocks, and the
		// runtime takes a while to see that this thread's processor is idle.
		runtime.Gosched()
	}
}

// reap takes one status, and reports whether the init still lives.
func (r *reaper) reap() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, _ := r.bury()
	return pid <= 0 || pid != r.init
}

// bury takes a status where there is one. Its pid is 0 where there is none
// now, and err is ECHILD where there is no child at all. The lock is held.
func (r *reaper) bury() (pid int, err error) {
	var status unix.WaitStatus
	var usage unix.Rusage
	if pid, err = unix.Wait4(-1, &status, unix.WNOHANG|unix.WALL, &usage); err != nil || pid <= 0 {
		return 0, err
	}
	if p := r.procs[pid]; p != nil {
		delete(r.procs, pid)
		p.status, p.usage = status, usage
		close(p.done)
	}
	return pid, nil
}

// buryAll takes every status that there is, and reports whether no child is
// left. The lock is held.
func (r *reaper) buryAll() (alone bool) {
	for {
		pid, err := r.bury()
		if errors.Is(err, unix.EINTR) || pid > 0 {
			continue
		}
		return errors.Is(err, unix.ECHILD)
	}
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

// signalOne sends to p alone, if it still exists.
func (r *reaper) signalOne(p *process, sig unix.Signal) error { return r.signal(p, -p.pid, sig) }

// resume lets p go on where it was stopped, and has not been seen so.
func (r *reaper) resume(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var info unix.Siginfo
	if r.procs[p.pid] != p || unix.Waitid(unix.P_PID, p.pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WALL, nil) != nil {
		return
	}
	if info.Signo != 0 {
		_ = unix.Kill(p.pid, unix.SIGCONT)
	}
}
