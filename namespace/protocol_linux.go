package namespace

import (
	"cmp"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// The descriptors of the helper, besides 0, 1 and 2, which the command inherits.
const (
	controlFD = 3
	targetFD  = 4 // a pidfd, if namespaces are entered
	groupFD   = 5 // a control group
)

// order is the first line that the helper gets. Later lines are messages. When
// the socket is closed, the caller has ended.
type order struct {
	Unshare *Unshare `json:"unshare,omitempty"`
	Enter   *Enter   `json:"enter,omitempty"`
	// As bytes, because arguments and variables need not be UTF-8.
	Argv    [][]byte `json:"argv"`
	Paths   [][]byte `json:"paths"` // of the program; the first that exists is executed
	Env     [][]byte `json:"env"`
	Session bool     `json:"session"`
	Group   bool     `json:"group"` // groupFD is open
}

// message asks the helper to end the command, or to send it a signal.
type message struct {
	Kill   bool           `json:"kill,omitempty"`
	Signal syscall.Signal `json:"signal,omitempty"`
}

// answer is the one line that the helper sends.
type answer struct {
	Failed    *failure `json:"failed,omitempty"`
	Status    uint32   `json:"status"`    // as of wait(2)
	Survivors int      `json:"survivors"` // processes that still ran at the end
	Killed    int      `json:"killed"`    // how many of them were killed
	Proved    bool     `json:"proved"`
}

// failure is an Error as it is sent.
type failure struct {
	Op, Object, Text, Hint string
	Errno                  syscall.Errno
	Exec, Gone             bool
}

// rawTexts returns strings as bytes.
func rawTexts(list []string) [][]byte {
	raw := make([][]byte, len(list))
	for i, s := range list {
		raw[i] = []byte(s)
	}
	return raw
}

// texts returns bytes as strings.
func texts(raw [][]byte) []string {
	list := make([]string, len(raw))
	for i, b := range raw {
		list[i] = string(b)
	}
	return list
}

// explain returns the failure of a step of the child.
func (h *helper) explain(r clone.Report) *failure {
	errno := syscall.Errno(r.Value)
	f := &failure{Op: h.script.Name(r.Step), Text: errno.Error(), Errno: errno, Exec: h.script.ExecStep(r.Step)}
	u, e := h.order.Unshare, h.order.Enter
	if e == nil {
		e = &Enter{}
	}
	if u == nil {
		u = &Unshare{}
	}
	switch f.Op {
	case "execute":
		f.Object = strconv.Quote(string(h.order.Argv[0]))
	case "unshare":
		f.Op, f.Object, f.Hint = "make", names(u.Namespaces), u.hint(errno)
	case "join":
		f.Object, f.Hint = "the control group of process "+strconv.Itoa(e.PID), enterHint(errno)
	case "keep":
		f.Object = "capabilities"
	case "enter":
		f.Object = names(h.join) + " of process " + strconv.Itoa(e.PID)
		f.Gone = errno == unix.ESRCH
		f.Hint = enterHint(errno)
	case "propagate":
		f.Op, f.Object = "set the propagation of", "mounts"
	case "proc":
		f.Op, f.Object = "mount", "proc at "+string(u.MountProc)
		if errno == unix.EPERM {
			f.Hint = "it needs a new pid namespace whose first process mounts it (--pid --fork), and a /proc outside of which no part is covered"
		}
	case "root":
		f.Op, f.Object = "change", "the root directory to "+string(u.Root)
		if e.Root {
			f.Object = "the root directory to that of process " + strconv.Itoa(e.PID)
		}
		if e.RootPath != "" {
			f.Object = "the root directory to " + string(e.RootPath)
		}
	case "dir":
		f.Op, f.Object = "change", "the working directory to "+string(u.Dir)
		if e.Dir {
			f.Object = "the working directory to that of process " + strconv.Itoa(e.PID)
		}
		if dir := cmp.Or(e.InsideDir, e.DirPath); dir != "" {
			f.Object = "the working directory to " + string(dir)
		}
	case "setuid", "setgid", "setgroups":
		f.Op, f.Object, f.Hint = "change", map[string]string{"setuid": "the user", "setgid": "the group", "setgroups": "the other groups"}[f.Op], ""
		switch errno {
		case unix.EINVAL:
			f.Hint = "the id is not mapped in the user namespace; --preserve-credentials keeps the caller's"
		case unix.EPERM:
			f.Hint = "it needs root, or a user namespace in which the caller is root"
		}
	}
	if what, ok := strings.CutPrefix(f.Op, "enter "); ok {
		f.Op, f.Object, f.Hint = "enter", what, enterHint(errno)
	}
	return f
}

// hint returns what to do about namespaces that could not be made.
func (u *Unshare) hint(errno syscall.Errno) string {
	switch {
	case errno == unix.EPERM && u.Namespaces&unix.CLONE_NEWUSER == 0:
		return "an ordinary user needs a new user namespace for all others: --user --map-root-user"
	case errno == unix.EPERM:
		return "user namespaces are forbidden here: see paddock doctor"
	case errno == unix.ENOSPC:
		return "the limit of their number or depth is reached: see /proc/sys/user"
	case errno == unix.EINVAL:
		return "this kernel lacks one of them"
	}
	return ""
}

// asFailure returns an error as it is sent to the caller.
func asFailure(err error) *failure {
	f := &failure{Op: "start", Object: "the command", Text: err.Error(), Gone: errors.Is(err, ErrGone)}
	_ = errors.As(err, &f.Errno)
	var e *Error
	if errors.As(err, &e) {
		f.Op, f.Object, f.Text, f.Hint = e.Op, e.Object, e.Err.Error(), e.Hint
	}
	return f
}

// unpack returns the error that was sent.
func (f *failure) unpack() error {
	e := &Error{Op: f.Op, Object: f.Object, Err: errors.New(f.Text), Hint: f.Hint}
	switch {
	case f.Gone:
		e.Err = ErrGone
	case f.Exec && errors.Is(f.Errno, os.ErrNotExist), f.Exec && f.Errno == unix.ENOTDIR:
		e.Err = ErrNotFound
	case f.Exec:
		e.Err = &execError{f.Errno}
	case f.Errno != 0:
		e.Err = f.Errno
	}
	return e
}

// execError says that a program exists and cannot be executed.
type execError struct{ errno syscall.Errno }

func (e *execError) Error() string { return e.errno.Error() }

func (e *execError) Unwrap() []error { return []error{ErrNotExecutable, e.errno} }
