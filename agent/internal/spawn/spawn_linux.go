// Package spawn starts processes, finds all that descend from them, and ends it.
//
// A command is cloned from one confined thread (Spawner). Every command starts
// with a mark that its descendants cannot shed, by which Trees finds the whole
// tree: a UTS namespace, and where there are no walls also what treeIndex knows.
// The Reaper collects exit statuses. The package knows nothing of requests.
package spawn

import (
	"bytes"
	"io"
	"os"
	"strconv"
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
	groups   *groups // nil where there are no control groups to use
	bare     bool    // there are no walls
	cloned   uint64  // commands, without walls
	// Expendable commands share a bound of memory with the agent, which they
	// must not survive.
	Expendable bool
	apart      int // a Landlock ruleset that each command applies to itself, 0 for none
	// Capless commands hold no capabilities, whatever the agent has.
	Capless bool
}

type spawnRequest struct {
	command *clone.Command
	group   *treeGroup // nil where there are no control groups
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

	Denied denials // what its tree was refused

	// Terminal is the agent's side of the command's, nil where it has none.
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

// Start starts a command and returns when its program runs; it may be called
// from anywhere. No process is left where it fails.
func (s *Spawner) Start(c *clone.Command) (*Process, error) {
	var group *treeGroup
	if s.groups != nil {
		var err error
		if group, err = s.groups.next(); err != nil {
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
	err := s.await(r.child)
	if err != nil {
		<-r.process.Done
		r.process.Mark.Close()
		return nil, err
	}
	s.expend(r.process)
	return r.process, nil
}

// await waits for a child's program, and keeps it going.
func (s *Spawner) await(child *clone.Child) error {
	born, looked := make(chan struct{}), make(chan struct{})
	hung := time.AfterFunc(hungAfter, func() {
		defer close(looked)
		s.Trees.unhang(child.PID, child.PIDFD, born)
	})
	err := child.Wait()
	close(born)
	if !hung.Stop() {
		<-looked
	}
	_ = unix.Close(child.PIDFD)
	return err
}

// clone makes the process of a command, which then goes its own way to its program.
func (s *Spawner) clone(c *clone.Command, group *treeGroup) (*Process, *clone.Child, error) {
	m, err := s.mark(c)
	m.group = group
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	c.DieWithThread, c.NoCaps, c.Landlock = s.bare, s.Capless, s.apart
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
	return p, child, nil
}

// mark gives the command that is cloned next a mark of its own.
func (s *Spawner) mark(c *clone.Command) (Mark, error) {
	m := Mark{fd: -1}
	if !s.Trees.unmarked {
		if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
			return m, os.NewSyscallError("unshare", err)
		}
		var err error
		if m, err = s.Trees.ownMark(s.tid); err != nil {
			return m, err
		}
	}
	if f := s.Trees.index; f != nil {
		s.cloned++
		m.tree = f.begin(m.Number, c, s.cloned)
	}
	return m, nil
}

// A newborn process is one of the commands' own kind from the moment of its
// clone, so other commands can stop it on the way to its program.
const (
	// hungAfter is how long a newborn may take before it is looked after.
	hungAfter = 100 * time.Millisecond
	// hungRounds bounds how often one that is found stopped is set going, at
	// an interval of hungAfter/10, before it is killed.
	hungRounds = 100
)

// unhang sets a newborn process going that others keep stopping, and kills it
// in the end. One that is merely slow is left alone. It ends when the process
// runs its program, which closes born.
func (t *Trees) unhang(pid, pidfd int, born <-chan struct{}) {
	for round := 0; ; round++ {
		select {
		case <-born:
			return
		case <-time.After(hungAfter / 10):
		}
		if !t.stopped(pid) {
			continue
		}
		sig := unix.SIGCONT
		if round >= hungRounds {
			sig = unix.SIGKILL
		}
		_ = unix.PidfdSendSignal(pidfd, sig, nil, 0)
	}
}

// stopped reads the state of a process from its stat file.
func (t *Trees) stopped(pid int) bool {
	fd, err := unix.Openat(t.proc, strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), "stat")
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return false
	}
	_, state, ok := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(") "))
	return ok && len(state) > 0 && state[0] == 'T'
}

// expendableScore is added to how much memory a process has, in thousandths of
// what there is, where the kernel must end one for want of memory
// (proc_pid_oom_score_adj(5)).
const expendableScore = "500"

// expend makes the kernel end a command, and whatever that starts, before the
// agent, where both share one bound of memory. Without it commands could end
// the agent, and so the sandbox, by using up what both may have. It needs no
// right; where it fails, as with a score that is higher already, nothing is
// worse than before. It is set once the program runs: until then both share
// what it would be set for.
func (s *Spawner) expend(p *Process) {
	if s.Expendable {
		_ = os.WriteFile("/proc/"+strconv.Itoa(p.PID)+"/oom_score_adj", []byte(expendableScore), 0)
	}
}

// ExitCode returns a status as the protocol has it: minus the signal where one
// ended the process.
func ExitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return -int(status.Signal())
	}
	return status.ExitStatus()
}
