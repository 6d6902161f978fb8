package namespace

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// explain says what a step that failed was about.
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
	case "enter":
		f.Object = names(h.join) + " of process " + strconv.Itoa(e.PID)
		f.Gone = errno == unix.ESRCH
		f.Hint = enterHint(errno)
	case "propagate":
		f.Op, f.Object = "set the propagation of", "mounts"
	case "proc":
		f.Op, f.Object = "mount", "proc at "+u.MountProc
		if errno == unix.EPERM {
			f.Hint = "it takes a new pid namespace whose first process mounts it (--pid --fork), and a /proc outside of which no part is covered"
		}
	case "root":
		f.Op, f.Object = "change", "the root directory to "+u.Root
		if e.Root {
			f.Object = "the root directory to that of process " + strconv.Itoa(e.PID)
		}
	case "dir":
		f.Op, f.Object = "change", "the working directory to "+u.Dir
		if e.Dir {
			f.Object = "the working directory to that of process " + strconv.Itoa(e.PID)
		}
	case "setuid", "setgid", "setgroups":
		f.Op, f.Object, f.Hint = "change", map[string]string{"setuid": "the user", "setgid": "the group", "setgroups": "the other groups"}[f.Op], idHint(errno)
	}
	return f
}

// hint is what to do about namespaces that could not be made.
func (u *Unshare) hint(errno syscall.Errno) string {
	switch {
	case errno == unix.EPERM && u.Namespaces&unix.CLONE_NEWUSER == 0:
		return "an ordinary user needs a new user namespace for all others: --user --map-root-user"
	case errno == unix.EPERM:
		return "user namespaces are forbidden here: see paddock doctor"
	case errno == unix.ENOSPC:
		return "there are as many as may be, or as deep inside each other: see /proc/sys/user"
	case errno == unix.EINVAL:
		return "this kernel lacks one of them"
	}
	return ""
}

func idHint(errno syscall.Errno) string {
	switch errno {
	case unix.EINVAL:
		return "the id is not mapped in the user namespace; --preserve-credentials leaves the caller's"
	case unix.EPERM:
		return "it takes root, or a user namespace in which one is root"
	}
	return ""
}

// asFailure packs an error for the caller.
func asFailure(err error) *failure {
	f := &failure{Op: "start", Object: "the command", Text: err.Error(), Gone: errors.Is(err, ErrGone)}
	_ = errors.As(err, &f.Errno)
	var e *Error
	if errors.As(err, &e) {
		f.Op, f.Object, f.Text, f.Hint = e.Op, e.Object, e.Err.Error(), e.Hint
	}
	return f
}

// unpack is the error that it was.
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

// execError is a program that is there and cannot be executed.
type execError struct{ errno syscall.Errno }

func (e *execError) Error() string { return e.errno.Error() }

func (e *execError) Unwrap() []error { return []error{ErrNotExecutable, e.errno} }
