package clone

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fatal ends a child that cannot go on.
//
//go:norace
//go:nosplit
func fatal() {
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

// childBody is the whole life of a child on a stack of its own; stackClone
// calls it.
//
//go:norace
//go:nosplit
func childBody(im *image) {
	im.resetSignals()
	if im.idle {
		im.wait()
	}
	im.run()
	fatal()
}

// resetSignals gives every signal its default disposition and lets it through.
// The runtime's own hook for this must not be used here: it may assume that
// the parent stands still.
//
//go:norace
//go:nosplit
func (im *image) resetSignals() {
	const signals, maskSize = 64, 8
	for sig := uintptr(1); sig <= signals; sig++ {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&im.action)), 0, maskSize, 0, 0)
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&im.action.mask)), 0, maskSize, 0, 0)
}

// wait waits for ever, or for the death of the thread that made the child.
//
//go:norace
//go:nosplit
func (im *image) wait() {
	_, _, _ = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
	for {
		_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

// run is what a child does before its program: raw system calls in a fixed
// order. It may not allocate, grow the stack, take a lock or write a pointer.
// It returns only on failure, which it leaves in stage and errno.
//
//go:norace
//go:nosplit
func (im *image) run() {
	if im.begin() && im.identify() && im.attach() && im.limit() && im.place() && im.strip() {
		im.stage = StageExec
		_, _, im.errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(im.path)),
			uintptr(unsafe.Pointer(&im.argv[0])), uintptr(unsafe.Pointer(&im.env[0])))
	}
}

// begin waits at the gate and leaves the caller's session.
//
//go:norace
//go:nosplit
func (im *image) begin() bool {
	if im.gate >= 0 {
		// Its own copy of the caller's end would keep the gate open when the
		// caller dies.
		_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(im.gatePeer), 0, 0)
		im.stage = StageGate
		var n uintptr
		n, _, im.errno = syscall.RawSyscall(unix.SYS_READ, uintptr(im.gate), uintptr(unsafe.Pointer(&im.buf[0])), 1)
		if im.errno == 0 && n != 1 {
			im.errno = unix.ECANCELED
		}
		if im.errno != 0 {
			return false
		}
	}
	if im.dieWithThread {
		_, _, _ = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, im.deathSignal, 0)
	}
	im.stage = StageSession
	_, _, im.errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	return im.errno == 0
}

// identify takes on another identity, groups first.
//
//go:norace
//go:nosplit
func (im *image) identify() bool {
	if im.uid == 0 {
		return true
	}
	im.stage = StageID
	if _, _, im.errno = syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); im.errno != 0 {
		return false
	}
	if _, _, im.errno = syscall.RawSyscall(unix.SYS_SETRESGID, im.gid, im.gid, im.gid); im.errno != 0 {
		return false
	}
	_, _, im.errno = syscall.RawSyscall(unix.SYS_SETRESUID, im.uid, im.uid, im.uid)
	return im.errno == 0
}

// attach puts the terminal and the descriptors where the program expects them.
//
//go:norace
//go:nosplit
func (im *image) attach() bool {
	im.stage = StageTerminal
	if im.tty {
		if _, _, im.errno = syscall.RawSyscall(unix.SYS_IOCTL, uintptr(im.files[0]), unix.TIOCSCTTY, 0); im.errno != 0 {
			return false
		}
	}
	im.stage = StageFiles
	for i := range im.files {
		if _, _, im.errno = syscall.RawSyscall(unix.SYS_DUP3, uintptr(im.files[i]), uintptr(i), 0); im.errno != 0 {
			return false
		}
	}
	return true
}

//go:norace
//go:nosplit
func (im *image) limit() bool {
	im.stage = StageRlimit
	for i := range im.rlimits {
		l := &im.rlimits[i]
		if _, _, im.errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(l.Resource),
			uintptr(unsafe.Pointer(&l.Limit)), 0, 0, 0); im.errno != 0 {
			return false
		}
	}
	return true
}

// place sets the umask and the directory, and mounts.
//
//go:norace
//go:nosplit
func (im *image) place() bool {
	_, _, _ = syscall.RawSyscall(unix.SYS_UMASK, im.umask, 0, 0)
	im.stage = StageDir
	switch {
	case im.dirFD != 0:
		if _, _, im.errno = syscall.RawSyscall(unix.SYS_FCHDIR, uintptr(im.dirFD), 0, 0); im.errno != 0 {
			return false
		}
	case im.dir != nil:
		if _, _, im.errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(im.dir)), 0, 0); im.errno != 0 {
			return false
		}
	}
	if im.mountType != nil {
		im.stage = StageMount
		_, _, im.errno = syscall.RawSyscall6(unix.SYS_MOUNT, uintptr(unsafe.Pointer(im.mountType)), uintptr(unsafe.Pointer(im.mountTarget)),
			uintptr(unsafe.Pointer(im.mountType)), unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, 0, 0)
	}
	return im.errno == 0
}

// strip takes away what the program must not have.
//
//go:norace
//go:nosplit
func (im *image) strip() bool {
	if im.ignoreChildren {
		im.action.handler = 1 // SIG_IGN
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&im.action)), 0, 8, 0, 0)
	}
	im.stage = StageCapabilities
	if !im.keepCaps {
		if _, _, im.errno = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&im.header)),
			uintptr(unsafe.Pointer(&im.caps[0])), 0); im.errno != 0 {
			return false
		}
	}
	for i := range im.ambient {
		if _, _, im.errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE,
			im.ambient[i], 0, 0, 0); im.errno != 0 {
			return false
		}
	}
	im.stage = StageDescriptors
	if _, _, im.errno = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(len(im.files)), maxFD, closeOnExec); im.errno != 0 {
		return false
	}
	if im.landlock != 0 {
		im.stage = StageLandlock
		if _, _, im.errno = syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(im.landlock), 0, 0); im.errno != 0 {
			return false
		}
	}
	if im.filter.Len > 0 {
		im.stage = StageFilter
		_, _, im.errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&im.filter)))
	}
	return im.errno == 0
}

const (
	maxFD       = 1<<32 - 1
	closeOnExec = 4 // CLOSE_RANGE_CLOEXEC
)
