// Package spawn starts processes, finds all their descendants, and ends them.
//
// A command is cloned from one confined thread (Spawner). Every command starts
// with a mark that its descendants cannot shed: a UTS namespace. Trees finds the whole
// tree by it and, without walls, also by the records of treeIndex. The Reaper collects
// exit statuses. The package is independent of requests.
package spawn

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// Spawner is the one confined thread that commands are cloned from. They
// inherit its namespaces, filters and Landlock domain (see package clone), so
// a spawn needs no helper process.
type Spawner struct {
	requests chan spawnRequest
	Reaper   *Reaper
	Trees    *Trees
	tid      int
	groups   *groups // nil if the agent has no control groups
	bare     bool    // there are no walls
	cloned   uint64  // how many commands were cloned, counted without walls only
	// Expendable is set if commands share a memory limit with the agent. They then get
	// a high OOM score, so that the kernel kills them before the agent.
	Expendable bool
	// Gateway are the sockets of the plan's gateway.
	Gateway  []int
	landlock int // a ruleset that each command applies to itself, 0 for none
	// Capless commands hold no capabilities, even if the agent does.
	Capless bool
}

type spawnRequest struct {
	command *clone.Command
	group   *treeGroup // nil without control groups
	reply   chan<- spawnReply
}

type spawnReply struct {
	process *Process
	child   *clone.Child
	err     error
}

// Process is a running command.
type Process struct {
	PID     int
	Mark    Mark
	Started time.Time
	Done    chan struct{} // closed once status and usage are set
	Status  unix.WaitStatus
	Usage   unix.Rusage

	Denied denials // calls that the kernel refused to its tree

	// Terminal is the agent's side of the command's terminal, nil without one.
	// Signals go to the job in its foreground.
	Terminal *os.File
}

// run serves requests on the confined thread.
func (s *Spawner) run() {
	for r := range s.requests {
		p, child, err := s.clone(r.command, r.group)
		r.reply <- spawnReply{p, child, err}
	}
}

// expendableScore is added to how much memory a process has, in thousandths of
// all memory, when the kernel chooses one to kill because memory is short
// (proc_pid_oom_score_adj(5)).
const expendableScore = "500"

// Start starts a command and returns when its program runs. It may be called
// from any goroutine. If it fails, no process is left.
func (s *Spawner) Start(c *clone.Command) (*Process, error) {
	var group *treeGroup
	if s.groups != nil {
		var err error
		if group, err = s.groups.create(); err != nil {
			return nil, err
		}
		c.Cgroup, c.Filter = group.FD(), s.groups.filter
	}
	reply := make(chan spawnReply)
	s.requests <- spawnRequest{c, group, reply}
	r := <-reply
	if r.err != nil {
		return nil, r.err
	}
	err := s.awaitProgram(r.child)
	if err != nil {
		<-r.process.Done
		r.process.Mark.Close()
		return nil, err
	}
	if s.Expendable {
		// If both share one limit of memory, commands could otherwise end the agent,
		// and so the sandbox, by using it up. This needs no privilege; if it fails, as
		// with a score that is higher already, nothing is worse than before. It is set
		// once the program runs: until then both share the process that it is set for.
		_ = os.WriteFile("/proc/"+strconv.Itoa(r.process.PID)+"/oom_score_adj", []byte(expendableScore), 0)
	}
	return r.process, nil
}

// A new process has the identity of the commands from the moment of its clone, so
// other commands can stop it before it executes its program.
const (
	// hungAfter is how long a new process may take before it is looked after.
	hungAfter = 100 * time.Millisecond
	// hungRounds bounds how often a stopped one is continued, at an interval of
	// hungAfter/10, before it is killed.
	hungRounds = 100
)

// awaitProgram waits until a child has executed its program. A child that other
// commands keep stopping is continued and, in the end, killed. One that is merely
// slow is left alone.
func (s *Spawner) awaitProgram(child *clone.Child) error {
	executed, watched := make(chan struct{}), make(chan struct{})
	hung := time.AfterFunc(hungAfter, func() {
		defer close(watched)
		for round := 0; ; round++ {
			select {
			case <-executed:
				return
			case <-time.After(hungAfter / 10):
			}
			if st, err := readStat(s.Trees.proc, child.PID); err != nil || st.state != 'T' {
				continue
			}
			sig := unix.SIGCONT
			if round >= hungRounds {
				sig = unix.SIGKILL
			}
			_ = unix.PidfdSendSignal(child.PIDFD, sig, nil, 0)
		}
	})
	err := child.Wait()
	close(executed)
	if !hung.Stop() {
		<-watched
	}
	return err
}

// clone makes the process of a command and does not wait for its program.
func (s *Spawner) clone(c *clone.Command, group *treeGroup) (*Process, *clone.Child, error) {
	m, err := s.mark()
	m.group = group
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	if x := s.Trees.index; x != nil {
		s.cloned++
		m.tree, c.Rlimits = x.newTree(m.Number, s.cloned, c.Rlimits)
	}
	c.DieWithThread, c.NoCaps, c.Landlock = s.bare, s.Capless, s.landlock
	p := &Process{Mark: m, Started: time.Now(), Done: make(chan struct{})}
	var child *clone.Child
	err = s.Reaper.adopt(p, func() (pid int, err error) {
		if child, err = clone.Begin(c, 0, false); err != nil {
			return 0, err
		}
		return child.PID, nil
	})
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	p.Mark.leader = child.PIDFD
	return p, child, nil
}

// mark makes a new UTS namespace for the command that is cloned next, and returns a
// handle of it.
func (s *Spawner) mark() (Mark, error) {
	if s.Trees.unmarked {
		return Mark{fd: -1}, nil
	}
	if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
		return Mark{fd: -1}, os.NewSyscallError("unshare", err)
	}
	path := fmt.Sprintf("%d/task/%d/ns/uts", os.Getpid(), s.tid)
	fd, err := unix.Openat(s.Trees.proc, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Mark{fd: -1}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return Mark{fd: -1}, os.NewSyscallError("fstat", err)
	}
	return Mark{fd: fd, Number: st.Ino}, nil
}

// ExitCode returns a status as the protocol has it: the exit status, or minus the
// number of the signal that ended the process.
func ExitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return -int(status.Signal())
	}
	return status.ExitStatus()
}

// Reaper collects the exit status of every child. Inside walls the agent's
// children are the commands it started and the inner init, nothing else:
// orphans belong to that init. Without an inner init, orphans may become children
// of the agent, which only reaps them.
type Reaper struct {
	init     int           // 0 if there is none
	InitGone chan struct{} // closed when the init has ended
	born     chan struct{} // wakes a reaper that has no children

	mu     sync.Mutex
	procs  map[int]*Process // running, and not reaped
	closed bool             // no more processes may be started
}

func newReaper(init int) *Reaper {
	return &Reaper{init: init, InitGone: make(chan struct{}), born: make(chan struct{}, 1), procs: map[int]*Process{}}
}

// adopt runs spawn and registers its child before anything can reap it.
func (r *Reaper) adopt(p *Process, spawn func() (int, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errEnding
	}
	pid, err := spawn()
	if err != nil {
		return err
	}
	p.PID = pid
	r.procs[pid] = p
	if t := p.Mark.tree; t != nil {
		t.pid = pid
		t.index.open = append(t.index.open, t)
	}
	select {
	case r.born <- struct{}{}:
	default:
	}
	return nil
}

var errEnding = errors.New("the agent is about to end")

// Close makes every later start fail.
func (r *Reaper) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// run reaps until the init has ended. It waits for a child without reaping it, and
// reaps it under the lock, so that no pid is freed while another goroutine may signal it.
func (r *Reaper) run() {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil); err != nil {
			switch {
			case err == unix.EINTR:
			case r.init == 0:
				<-r.born // until then the agent has no child
			default:
				close(r.InitGone) // there is always a child, the init, while it lives
				return
			}
			continue
		}
		r.mu.Lock()
		pid, _ := r.reapOne()
		r.mu.Unlock()
		if pid > 0 && pid == r.init {
			close(r.InitGone)
			return
		}
		// Let the goroutine that waits for this end run first: the next call blocks,
		// and the runtime takes a while to see that this thread's processor is idle.
		runtime.Gosched()
	}
}

// reapOne reaps one child if one has ended. It returns 0 as pid if none has, and
// ECHILD if no child exists. The lock is held.
func (r *Reaper) reapOne() (pid int, err error) {
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

// reapAll reaps every child that has ended, and reports whether no child is
// left. The lock is held.
func (r *Reaper) reapAll() (childless bool) {
	for {
		pid, err := r.reapOne()
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

// Resume continues p if it has been stopped since the last call.
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
