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

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/internal/clone"
)

// helperName is the name by which this program is called as the helper.
const helperName = "paddock-namespace"

// ready says that Helper was called.
var ready bool

// Helper is to be called before anything else by the main function of every
// program that calls [Run], which starts that program once more: in that one
// Helper does not return.
func Helper() {
	ready = true
	if len(os.Args) != 1 || os.Args[0] != helperName {
		return
	}
	if err := help(); err != nil {
		fmt.Fprintln(os.Stderr, helperName+":", err)
		unix.Exit(1)
	}
	unix.Exit(0) // at once: its caller waits, and there is nothing to flush
}

// helper is the state of the process that stands between the caller and the
// command.
type helper struct {
	order  order
	gate   int // of the child, which waits there
	target int
	join   uint64 // CLONE_NEW* that are to be entered
	root   int
	dir    int
	group  *cgroup.Group // nil where there is none

	open    *os.File // our end of the gate
	control *os.File
	script  *clone.Script
	child   int // the first, which may be the command itself
	forks   int // how many generations later the command comes

	holds  atomic.Bool // the group has the child in it
	status chan uint32 // of the command, where children told it
	ended  chan uint32 // of the first child
	failed *failure    // behind told
	told   chan bool   // closed when nothing more will be reported
	dead   chan bool   // closed when there is no child any more
	kill   chan bool   // closed when the caller wants the end, or is gone itself
}

// help is the life of the helper. Its thread is the parent of what it starts,
// and must not end before.
func help() error {
	runtime.LockOSThread()
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2)
	var st unix.Stat_t
	if err := unix.Fstat(controlFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return errors.New("this is started by paddock alone")
	}
	for fd := controlFD; fd <= groupFD; fd++ {
		unix.CloseOnExec(fd)
	}
	h := &helper{target: targetFD, status: make(chan uint32, 1), ended: make(chan uint32, 1), told: make(chan bool), dead: make(chan bool), kill: make(chan bool)}
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
	go h.obey(in)
	h.answer(h.watch())
	return nil
}

// answer answers a caller who may be gone.
func (h *helper) answer(a answer) { _ = json.NewEncoder(h.control).Encode(a) }

// start starts the child.
func (h *helper) start() error {
	if h.order.Group {
		h.group = cgroup.FromFD(groupFD)
	}
	if h.order.Enter != nil {
		// Else the command could reach this program by way of those that wait for it.
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
		if err := h.order.Enter.look(h); err != nil {
			return err
		}
	}
	gate, report := make([]int, 2), make([]int, 2)
	if err := errors.Join(unix.Pipe2(gate, unix.O_CLOEXEC), unix.Pipe2(report, unix.O_CLOEXEC)); err != nil {
		return err
	}
	h.gate, h.open = gate[0], os.NewFile(uintptr(gate[1]), "gate")
	h.script = clone.NewScript(report[1])
	// What our end would keep open must not be kept open by the child.
	for _, fd := range []int{controlFD, gate[1], report[0]} {
		h.script.Call("close", unix.SYS_CLOSE, fd)
	}
	dieWithParent(h.script, 0)
	h.joinGroup()
	switch o := &h.order; {
	case o.Enter != nil:
		o.Enter.script(h.script, h)
		if o.Enter.forks(h.join) {
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
	go h.listen(os.NewFile(uintptr(report[0]), "report"))
	go h.reap()
	return nil
}

// joinGroup has the child go into the control group. Where it cannot, there is none.
func (h *helper) joinGroup() {
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

// session makes the command the leader of its own.
func (h *helper) session(s *clone.Script) {
	if h.order.Session {
		s.Call("setsid", unix.SYS_SETSID)
	}
}
