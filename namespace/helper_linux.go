package namespace

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/internal/descent"
)

// helperName is argv[0] of this program when it is started as the helper.
const helperName = "paddock-namespace"

// ready says that Helper was called.
var ready bool

// Helper must be called before anything else by the main function of every
// program that calls [Run], which starts the same program as the helper. In the
// helper, Helper does not return.
func Helper() {
	ready = true
	if len(os.Args) != 1 || os.Args[0] != helperName {
		return
	}
	if err := runHelper(); err != nil {
		fmt.Fprintln(os.Stderr, helperName+":", err)
		unix.Exit(1)
	}
	unix.Exit(0) // without running finalizers: the caller waits, and nothing must be flushed
}

// helper is the state of the process between the caller and the command.
type helper struct {
	order  order
	gate   int // the child's end of the pipe at which it waits
	target int
	join   uint64 // CLONE_NEW* to enter
	root   int
	dir    int
	group  *cgroup.Group // nil if there is none
	files  []enterFile   // namespaces to enter, besides join
	joined int           // cgroup.procs of the target's control group, or 0

	open    *os.File // the helper's end of the gate
	control *os.File
	script  *clone.Script
	child   int // the first child, which may be the command itself
	forks   int // how many generations below the child the command is

	holds    atomic.Bool // the child is in the group
	status   chan uint32 // of the command, if a child reported it
	ended    chan uint32 // of the first child
	failed   *failure    // valid once reported is closed
	reported chan bool   // closed when the child can report no more
	dead     chan bool   // closed when no child is left
	kill     chan bool   // closed when the caller wants the end, or has ended itself
}

// runHelper runs the helper. Its thread is the parent of the processes that it starts,
// and must not end before them.
func runHelper() error {
	runtime.LockOSThread()
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2)
	var st unix.Stat_t
	if err := unix.Fstat(controlFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return errors.New("only paddock starts this")
	}
	for fd := controlFD; fd <= groupFD; fd++ {
		unix.CloseOnExec(fd)
	}
	h := &helper{target: targetFD, status: make(chan uint32, 1), ended: make(chan uint32, 1), reported: make(chan bool), dead: make(chan bool), kill: make(chan bool)}
	h.control = os.NewFile(controlFD, "control")
	in := json.NewDecoder(h.control)
	if err := in.Decode(&h.order); err != nil {
		return err
	}
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err == nil {
		err = h.start()
	}
	if err != nil {
		h.answer(answer{Failed: asFailure(err), Proved: true})
		return nil
	}
	go h.readMessages(in)
	h.answer(h.watch())
	return nil
}

// answer sends the answer. The caller may have ended.
func (h *helper) answer(a answer) { _ = json.NewEncoder(h.control).Encode(a) }

// start starts the child.
func (h *helper) start() error {
	if h.order.Group {
		h.group = cgroup.FromFD(groupFD)
	}
	if h.order.Enter != nil {
		// Otherwise the command could reach this program through the processes that
		// wait for it.
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
		if err := h.order.Enter.inspectTarget(h); err != nil {
			return err
		}
	}
	gate, report := make([]int, 2), make([]int, 2)
	if err := errors.Join(unix.Pipe2(gate, unix.O_CLOEXEC), unix.Pipe2(report, unix.O_CLOEXEC)); err != nil {
		return err
	}
	h.gate, h.open = gate[0], os.NewFile(uintptr(gate[1]), "gate")
	h.script = clone.NewScript(report[1])
	// The child must not keep the helper's ends open.
	for _, fd := range []int{controlFD, gate[1], report[0]} {
		h.script.Call("close", unix.SYS_CLOSE, fd)
	}
	dieWithParent(h.script, 0)
	h.joinGroup()
	switch o := &h.order; {
	case o.Enter != nil:
		o.Enter.script(h.script, h)
		if o.Enter.forks(h) {
			h.forks = 2
		}
	default:
		o.Unshare.script(h.script, h)
		if o.Unshare.Fork {
			h.forks = 1
		}
	}
	const all, closeOnExec = 1<<32 - 1, 4
	h.script.Call("close_range", unix.SYS_CLOSE_RANGE, controlFD, all, closeOnExec)
	h.script.Exec(texts(h.order.Paths), texts(h.order.Argv), texts(h.order.Env))
	var err error
	if h.child, err = h.script.Start(0); err != nil {
		return &Error{Op: "start", Object: strconv.Quote(string(h.order.Argv[0])), Err: err}
	}
	_ = unix.Close(report[1])
	go h.readReports(os.NewFile(uintptr(report[0]), "report"))
	go func() {
		defer close(h.dead)
		descent.Reap(func(pid int, status unix.WaitStatus) {
			if pid == h.child {
				h.ended <- uint32(status)
			}
		})
	}()
	return nil
}

// The places at which a child waits for its helper.
const (
	reachedMap  = "map"  // the child has made its namespaces
	reachedFork = "fork" // it is the first process of a new pid namespace
)

// joinGroup adds a step that moves the child into the control group. If the group
// cannot be used, the helper goes on without one.
func (h *helper) joinGroup() {
	if h.joined > 0 {
		h.group = nil // a process has one group
		h.script.Call("join", unix.SYS_WRITE, h.joined, "0", 1)
	}
	if h.group == nil {
		return
	}
	fd, err := unix.Openat(h.group.FD(), "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		h.group = nil
		return
	}
	h.script.Try(unix.SYS_WRITE, fd, "0", 1)
}

// session adds a step that makes the command the leader of its own session.
func (h *helper) session(s *clone.Script) {
	if h.order.Session {
		s.Call("setsid", unix.SYS_SETSID)
	}
}

// readReports reads the reports of children.
func (h *helper) readReports(report *os.File) {
	defer close(h.reported)
	for {
		var r clone.Report
		if n, err := report.Read(r.Bytes()[:]); err != nil || n != clone.ReportSize {
			return
		}
		switch r.Kind {
		case clone.Reached:
			if err := h.release(h.script.Name(r.Step)); err != nil {
				h.failed = asFailure(err)
				_ = unix.Kill(h.child, unix.SIGKILL)
			}
		case clone.Failed:
			if h.failed == nil {
				h.failed = h.explain(r)
			}
		case clone.Ended:
			h.status <- uint32(r.Value)
		}
	}
}

// release writes the maps and offsets of the child, keeps its namespaces, and lets it continue.
func (h *helper) release(at string) error {
	if h.group != nil {
		pids, err := h.group.Procs()
		h.holds.Store(err == nil && len(pids) > 0)
	}
	if u := h.order.Unshare; u != nil {
		if at == reachedMap {
			if err := u.writeMaps(h.child); err != nil {
				return err
			}
			if err := u.writeOffsets(h.child); err != nil {
				return err
			}
		}
		if err := u.keepFiles(h.child, at == reachedFork); err != nil {
			return err
		}
	}
	_, err := h.open.Write([]byte{0})
	return err
}

// readMessages acts on the caller's messages, until the caller ends or wants the end.
func (h *helper) readMessages(in *json.Decoder) {
	defer close(h.kill)
	for {
		var m message
		if err := in.Decode(&m); err != nil || m.Kill {
			return
		}
		if pid := h.commandPID(); pid > 0 {
			_ = unix.Kill(pid, m.Signal)
		}
	}
}

// watch waits for the end of the command, and then ends everything it started.
func (h *helper) watch() answer {
	ended := true
	status := uint32(unix.SIGKILL)
	select {
	case status = <-h.status:
	case status = <-h.ended:
		if h.forks == 0 {
			break
		}
		// The first child has ended. It may have reported the command's status
		// before, and that report may not have been read yet.
		select {
		case status = <-h.status:
		case <-h.reported:
			select {
			case status = <-h.status:
			default: // it has reported nothing
			}
		case <-time.After(time.Second):
		}
	case <-h.kill:
		ended = false
	}
	a := h.end(ended)
	a.Status = status
	select {
	case <-h.reported:
		a.Failed = h.failed
	case <-time.After(time.Second): // a process keeps the pipe open
	}
	return a
}
