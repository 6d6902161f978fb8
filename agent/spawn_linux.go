package agent

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/clone"
)

// spawner is the one confined thread that commands are cloned from. They
// inherit its namespaces, filters and Landlock domain (see package clone), so
// a spawn needs no helper process.
type spawner struct {
	requests chan spawnRequest
	reaper   *reaper
	trees    *trees
	tid      int
	groups   *groups // nil where there are no control groups to use
	bare     bool    // there are no walls
	cloned   uint64  // commands, without walls
	// expendable commands share a bound of memory with the agent, which they
	// must not survive.
	expendable bool
	apart      int // a Landlock ruleset that each command applies to itself, 0 for none
	// capless commands hold no capabilities, whatever the agent has.
	capless bool
}

type spawnRequest struct {
	command *clone.Command
	group   *treeGroup // nil where there are no control groups
	reply   chan<- spawnReply
}

type spawnReply struct {
	process *process
	child   *clone.Child
	err     error
}

// process is a running command.
type process struct {
	pid     int
	mark    mark
	started time.Time
	done    chan struct{} // closed once status and usage are set
	status  unix.WaitStatus
	usage   unix.Rusage

	denied denials // what its tree was refused

	// terminal is the agent's side of the command's, nil where it has none.
	// Signals go to the job in its foreground.
	terminal *os.File
}

// newSpawner applies the plan to the calling thread.
func newSpawner(plan *confine.Plan, fds []int) (*spawner, []*confine.Error, *confine.Error) {
	files := map[string]int{}
	for i, name := range plan.Files {
		files[name] = fds[i]
	}
	var initPID int
	applier := confine.Applier{Files: files, Proc: func(path string) (func() error, error) {
		i, err := beginInner(path)
		if err != nil {
			return nil, err
		}
		initPID = i.child.PID
		return i.await, nil
	}}
	// The agent's own view of processes has to be mounted while the host's
	// proc can still be seen: the kernel demands one to copy its masks from.
	proc, err := confine.DetachedProc()
	if err != nil {
		return nil, nil, procError(err)
	}
	if err := applier.Setup(plan); err != nil {
		return nil, nil, err
	}
	groups, failed := openGroups(&applier, plan)
	if failed != nil {
		return nil, nil, failed
	}
	if err := applier.Spawn(plan); err != nil {
		return nil, nil, err
	}
	s := &spawner{
		requests: make(chan spawnRequest),
		reaper:   newReaper(initPID),
		trees:    &trees{proc: proc, init: initPID},
		tid:      unix.Gettid(),
		groups:   groups,
		apart:    applier.Apart,
	}
	if err := s.supervise(&applier, plan); err != nil {
		return nil, nil, err
	}
	go s.reaper.run()
	return s, applier.Skipped, nil
}

// newBareSpawner is newSpawner for a plan without namespaces.
func newBareSpawner(plan *confine.Plan, _ []int) (*spawner, []*confine.Error, *confine.Error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, nil, &confine.Error{Stage: "setup", Op: "prctl", Object: "PR_SET_CHILD_SUBREAPER", Cause: err.Error()}
	}
	applier := confine.Applier{InPlace: true}
	if err := applier.Setup(plan); err != nil {
		return nil, nil, err
	}
	s, err := bareSpawner()
	if err != nil {
		return nil, nil, err
	}
	var failed *confine.Error
	if s.groups, failed = openGroups(&applier, plan); failed != nil {
		return nil, nil, failed
	}
	if err := applier.Spawn(plan); err != nil {
		return nil, nil, err
	}
	s.apart = applier.Apart
	if err := s.supervise(&applier, plan); err != nil {
		return nil, nil, err
	}
	return s, applier.Skipped, nil
}

// openGroups opens the control group in which each command gets one of its
// own, where the plan has opened the sandbox's. It is done before the thread is
// confined: what Landlock lets commands do, it lets this thread do.
func openGroups(a *confine.Applier, plan *confine.Plan) (*groups, *confine.Error) {
	if a.Cgroup == 0 {
		return nil, nil
	}
	g, err := newGroups(a.Cgroup, plan.Holds.Limits["cpus"] != "")
	if err != nil {
		return nil, &confine.Error{Stage: "setup", Op: "cgroup", Object: workGroup, Cause: err.Error()}
	}
	return g, nil
}

// supervise takes word of what commands are refused.
func (s *spawner) supervise(a *confine.Applier, plan *confine.Plan) *confine.Error {
	if a.Listener == 0 {
		return nil
	}
	if err := supervise(a.Listener, plan, s.trees, s.reaper); err != nil {
		return &confine.Error{Stage: "spawn", Op: "seccomp", Object: "listener", Cause: err.Error()}
	}
	return nil
}

func procError(err error) *confine.Error {
	e := &confine.Error{Stage: "setup", Op: "proc", Object: "/proc", Cause: err.Error()}
	if errno, ok := err.(unix.Errno); ok { //nolint:errorlint // x/sys returns it bare
		e.Errno, e.Cause = int(errno), ""
	}
	if e.Errno == int(unix.EPERM) {
		e.Hint = "parts of /proc are masked here, as container engines do; run the container with an unmasked /proc (docker: --security-opt systempaths=unconfined; podman: --security-opt unmask=ALL)"
	}
	return e
}

// run serves requests on the confined thread.
func (s *spawner) run() {
	for r := range s.requests {
		p, child, err := s.clone(r.command, r.group)
		r.reply <- spawnReply{p, child, err}
	}
}

// start starts a command and returns when its program runs; it may be called
// from anywhere. No process is left where it fails.
func (s *spawner) start(c *clone.Command) (*process, error) {
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
		<-r.process.done
		r.process.mark.close()
		return nil, err
	}
	s.expend(r.process)
	return r.process, nil
}

// await waits for a child's program, and keeps it going.
func (s *spawner) await(child *clone.Child) error {
	born, looked := make(chan struct{}), make(chan struct{})
	hung := time.AfterFunc(hungAfter, func() {
		defer close(looked)
		s.trees.unhang(child.PID, child.PIDFD, born)
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
func (s *spawner) clone(c *clone.Command, group *treeGroup) (*process, *clone.Child, error) {
	m, err := s.mark(c)
	m.group = group
	if err != nil {
		m.close()
		return nil, nil, err
	}
	c.DieWithThread, c.NoCaps, c.Landlock = s.bare, s.capless, s.apart
	p := &process{mark: m, started: time.Now(), done: make(chan struct{})}
	var child *clone.Child
	err = s.reaper.adopt(p, func() (pid int, err error) {
		if child, err = clone.Begin(c, 0, false); err != nil {
			return 0, err
		}
		return child.PID, nil
	})
	if err != nil {
		m.close()
		return nil, nil, err
	}
	return p, child, nil
}

// mark gives the command that is cloned next a mark of its own.
func (s *spawner) mark(c *clone.Command) (mark, error) {
	m := mark{fd: -1}
	if !s.trees.unmarked {
		if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
			return m, os.NewSyscallError("unshare", err)
		}
		var err error
		if m, err = s.trees.ownMark(s.tid); err != nil {
			return m, err
		}
	}
	if f := s.trees.family; f != nil {
		s.cloned++
		m.lineage = f.begin(m.ino, c, s.cloned)
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
func (t *trees) unhang(pid, pidfd int, born <-chan struct{}) {
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
func (t *trees) stopped(pid int) bool {
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
func (s *spawner) expend(p *process) {
	if s.expendable {
		_ = os.WriteFile("/proc/"+strconv.Itoa(p.pid)+"/oom_score_adj", []byte(expendableScore), 0)
	}
}
