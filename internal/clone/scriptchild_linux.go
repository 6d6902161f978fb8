package clone

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// start clones. Only the parent returns.
//
//go:norace
//go:noinline
func (s *Script) start(flags uintptr) (pid uintptr, errno syscall.Errno) {
	beforeFork()
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		s.child()
	}
	afterFork()
	return pid, errno
}

// child follows the rules of package syscall for children: no allocation, no
// lock, no stack growth. It does not return.
//
//go:norace
//go:nosplit
func (s *Script) child() {
	const signals, maskSize = 64, 8
	for sig := uintptr(1); sig <= signals; sig++ {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&s.action)), 0, maskSize, 0, 0)
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&s.action.mask)), 0, maskSize, 0, 0)
	for i := range s.steps {
		s.take(i)
	}
	fatal()
}

// take takes one step, or ends the child.
//
//go:norace
//go:nosplit
func (s *Script) take(i int) {
	c := &s.steps[i]
	switch c.kind {
	case stepReach:
		s.tell(Reached, i, 0)
		return
	case stepNone:
		s.fail(i, s.worst)
		return
	}
	r, _, errno := syscall.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
	switch {
	case c.kind == stepTry:
	case c.kind == stepExec:
		s.tried(i, errno)
	case errno != 0:
		s.fail(i, errno)
	case c.kind == stepWant && r != c.want:
		s.fail(i, unix.ECANCELED)
	case c.kind == stepFork && r != 0:
		s.attend(i, r, c.want != 0)
	}
}

// tried goes on where a program is not there, as execvp(3) does.
//
//go:norace
//go:nosplit
func (s *Script) tried(i int, errno syscall.Errno) {
	switch errno {
	case unix.ENOENT, unix.ENOTDIR:
		if s.worst == 0 {
			s.worst = errno
		}
	case unix.EACCES:
		s.worst = errno
	default:
		s.fail(i, errno)
	}
}

// attend waits for a child, and for whatever it is left with, and ends.
//
//go:norace
//go:nosplit
func (s *Script) attend(i int, child uintptr, tell bool) {
	for {
		r, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&s.status)), unix.WALL, 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		if r == child && tell {
			s.tell(Ended, i, uintptr(s.status))
		}
	}
}

//go:norace
//go:nosplit
func (s *Script) fail(i int, errno syscall.Errno) {
	s.tell(Failed, i, uintptr(errno))
	fatal()
}

//go:norace
//go:nosplit
func (s *Script) tell(kind ReportKind, i int, value uintptr) {
	s.record.Kind, s.record.Step, s.record.Value = kind, int32(i), int32(value)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, s.report, uintptr(unsafe.Pointer(&s.record)), uintptr(ReportSize))
}
