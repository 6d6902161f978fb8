// Package clone makes child processes the way a sandbox needs them and the
// standard library cannot: cloned from one chosen thread, so that a child
// inherits exactly that thread's confinement; without a second program in
// between; and without ever copying the parent's memory, whose pages a
// threaded program would pay for one by one afterwards.
//
// A [Command] says what the child does before it executes its program. The
// child borrows the parent's memory until then, as a vfork(2) child does, but
// runs on a stack of its own, so that no thread of the parent stands still:
// [Begin] returns at once, the parent may act between the clone and the
// program, as new user namespaces need, and a child that is stopped on its
// way holds nothing up. [Idle] makes a process that does nothing.
//
// Children follow the rules that package syscall keeps for its own (signals
// blocked around the clone, no allocation, no stack growth, no lock, no pointer
// written), and the parent uses the runtime hooks that package syscall uses.
package clone

import (
	"syscall"
	"unsafe" // and for go:linkname

	"golang.org/x/sys/unix"
)

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

// stackClone is clone(2) of a child that calls body(im) on the stack that ends
// at top; body is the code address of a func(*image). A call by name would go
// through a wrapper that race builds instrument. Only the parent returns. The image must escape, and so is not
// declared otherwise: a goroutine's stack may move while the child runs.
func stackClone(flags, top uintptr, pidfd *int32, body uintptr, im *image) (pid, errno uintptr)

// stackClone3 is stackClone by clone3(2), which can do more. Filters cannot see
// its flags, so it is used only where it is needed.
func stackClone3(args *cloneArgs, size, body uintptr, im *image) (pid, errno uintptr)

// cloneArgs is struct clone_args up to its cgroup.
type cloneArgs struct {
	flags, pidfd     uint64
	_, _             uint64 // child_tid, parent_tid
	exitSignal       uint64
	stack, stackSize uint64
	_, _, _          uint64 // tls, set_tid, set_tid_size
	cgroup           uint64
}

// Child is a process that has been cloned.
type Child struct {
	PID   int
	PIDFD int // the caller's to close
	image *image
	stack []byte
	gate  int // our end of the pair of which the child's closes when its program runs
}

// Idle makes a process with the given CLONE_* flags that only waits to be
// killed, and dies with the calling thread. End it with [Child.End].
func Idle(flags uintptr) (*Child, error) {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	return newChild(flags, &image{idle: true, gate: -1, cgroup: -1}, -1)
}

// newChild clones. The caller holds syscall.ForkLock for writing.
func newChild(flags uintptr, im *image, gate int) (*Child, error) {
	stack, err := takeStack()
	if err != nil {
		return nil, &Error{Stage: StageClone, Errno: errnoOf(err)}
	}
	c := &Child{image: im, stack: stack, gate: gate}
	top := uintptr(unsafe.Pointer(&stack[0])) + stackSize
	body := childBody // a func value points to a word that holds the code's address
	entry := **(**uintptr)(unsafe.Pointer(&body))
	var pid, errno uintptr
	if flags |= syscall.CLONE_VM | unix.CLONE_PIDFD; im.cgroup >= 0 {
		args := &cloneArgs{flags: uint64(flags) | unix.CLONE_INTO_CGROUP, pidfd: uint64(uintptr(unsafe.Pointer(&im.pidfd))), exitSignal: uint64(syscall.SIGCHLD),
			stack: uint64(uintptr(unsafe.Pointer(&stack[0]))), stackSize: stackSize, cgroup: uint64(im.cgroup)}
		beforeFork()
		pid, errno = stackClone3(args, unsafe.Sizeof(*args), entry, im)
		afterFork()
	} else {
		beforeFork()
		pid, errno = stackClone(flags|uintptr(syscall.SIGCHLD), top, &im.pidfd, entry, im)
		afterFork()
	}
	if errno != 0 {
		giveStack(stack)
		return nil, &Error{Stage: StageClone, Errno: syscall.Errno(errno)}
	}
	c.PID, c.PIDFD = int(pid), int(im.pidfd)
	return c, nil
}

// End kills the child, reaps it and gives back what it took. It is for a
// child that nobody else reaps.
func (c *Child) End() {
	_ = unix.PidfdSendSignal(c.PIDFD, unix.SIGKILL, nil, 0)
	for {
		if _, err := syscall.Wait4(c.PID, nil, 0, nil); err != syscall.EINTR {
			break
		}
	}
	_ = unix.Close(c.PIDFD)
	c.release()
}

// release gives back the stack, once the child cannot be running on it.
func (c *Child) release() {
	if c.stack != nil {
		giveStack(c.stack)
		c.stack = nil
	}
	if c.gate >= 0 {
		_ = unix.Close(c.gate)
		c.gate = -1
	}
}

func errnoOf(err error) syscall.Errno {
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // system calls return it bare
		return errno
	}
	return syscall.EINVAL
}
