package clone

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Vfork starts a command from the calling thread, which must be locked to its
// goroutine, and returns once the command's program has been executed. The
// child inherits the thread's namespaces, filters and Landlock domain.
// A failure before or in execve is an *Error, and no process is left.
func Vfork(c *Command) (pid int, err error) {
	im, err := newImage(c)
	if err != nil {
		return 0, &Error{Stage: StageExec, Errno: errnoOf(err)}
	}
	syscall.ForkLock.Lock()
	pid, errno := im.vfork()
	syscall.ForkLock.Unlock()
	if errno != 0 {
		return 0, &Error{Stage: StageClone, Errno: errno}
	}
	if im.errno != 0 {
		wait(pid)
		return 0, &Error{Stage: im.stage, Errno: im.errno}
	}
	runtime.KeepAlive(im)
	return pid, nil
}

// vfork clones and runs the child. The parent's thread stands still, on the
// same stack, until the child has executed its program or ended.
//
//go:norace
//go:noinline
func (im *image) vfork() (int, syscall.Errno) {
	beforeFork()
	pid, errno := vforkClone(syscall.CLONE_VM | syscall.CLONE_VFORK | uintptr(syscall.SIGCHLD))
	if errno != 0 || pid != 0 {
		afterFork()
		return int(pid), syscall.Errno(errno)
	}
	afterForkInChild()
	im.run()
	fatal()
	return 0, 0
}

// Start clones a child with the given CLONE_* flags and calls between, with
// the child's pid, while the child waits; then the child goes on to its
// program. It returns the pid and a pidfd once the program has been executed.
// A failure is an *Error or between's own, and no process is left.
func Start(c *Command, flags uintptr, between func(pid int) error) (pid, pidfd int, err error) {
	im, err := newImage(c)
	if err != nil {
		return 0, -1, &Error{Stage: StageExec, Errno: errnoOf(err)}
	}
	ours, theirs, err := gate(len(c.Files))
	if err != nil {
		return 0, -1, &Error{Stage: StageClone, Errno: errnoOf(err)}
	}
	defer func() { _ = unix.Close(ours) }()
	im.gate = theirs
	p, err := newProcess(flags, im)
	_ = unix.Close(theirs)
	if err != nil {
		return 0, -1, err
	}
	err = between(p.PID)
	if err == nil {
		_, err = unix.Write(ours, []byte{1})
	}
	if err != nil {
		p.End()
		return 0, -1, err
	}
	awaitClose(ours)
	if im.errno != 0 {
		p.End()
		return 0, -1, &Error{Stage: im.stage, Errno: im.errno}
	}
	p.free()
	runtime.KeepAlive(im)
	return p.PID, p.PIDFD, nil
}

// gate makes the socket pair that holds the child back. Its end closes in the
// child when the program has been executed, and not before: its number is
// above those that the program's descriptors take.
func gate(above int) (ours, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, err
	}
	theirs, err = unix.FcntlInt(uintptr(pair[1]), unix.F_DUPFD_CLOEXEC, above)
	_ = unix.Close(pair[1])
	if err != nil {
		_ = unix.Close(pair[0])
	}
	return pair[0], theirs, err
}

// awaitClose returns when the child's end has closed: its program runs, or it
// has ended.
func awaitClose(fd int) {
	var b [1]byte
	for {
		if _, err := unix.Read(fd, b[:]); err != unix.EINTR {
			return
		}
	}
}
