// Package clone makes child processes the way a sandbox needs them and the
// standard library cannot: cloned from one chosen thread, so that a child
// inherits exactly that thread's confinement; without a second program in
// between; and without ever copying the parent's memory, whose pages a
// threaded program would pay for one by one afterwards.
//
// A [Command] says what the child does before it executes its program. The
// child borrows the parent's memory until then, as a vfork(2) child does, but
// runs on a separate stack, so that no thread of the parent has to wait:
// [Begin] returns at once, the parent may act between the clone and the
// program, as new user namespaces need, and a child that is stopped before it
// executes its program does not block the parent. [Idle] makes a process that
// does nothing.
//
// Children follow the rules of package syscall for its own children (signals
// blocked around the clone, no allocation, no stack growth, no lock, no pointer
// written), and the parent uses the runtime hooks that package syscall uses.
package clone

import (
	"runtime"
	"syscall"
	"unsafe" // and for go:linkname

	"golang.org/x/sys/unix"
)

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

// stackClone calls clone(2) for a child that calls body(im) on the stack that ends
// at top; body is the code address of a func(*image). A call by name would go
// through a wrapper that race builds instrument. Only the parent returns. The image
// must escape, so there is no noescape pragma here: a goroutine's stack may move
// while the child runs.
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

// stackSize is ample: the child's whole call chain is nosplit, and so limited
// to a few hundred bytes.
const stackSize = 16 << 10

// freeStacks holds stacks that no child runs on any more, to be used again.
var freeStacks = make(chan []byte, 8)

// Child is a process that has been cloned.
type Child struct {
	PID   int
	PIDFD int // the caller's to close
	image *image
	stack []byte
	gate  int // the parent's end of the gate, -1 if it is closed
}

// Begin clones a child from the calling thread, which must be locked to its
// goroutine; the child inherits the thread's namespaces, filters and Landlock
// domain, and flags (CLONE_*) give it new namespaces. With hold, the
// child waits for [Child.Release] before it does anything.
//
// Begin does not wait for the program: [Child.Wait] does, and must be called.
// An error is an *Error; after an error there is no child.
func Begin(c *Command, flags uintptr, hold bool) (*Child, error) {
	im, err := newImage(c)
	if err != nil {
		return nil, &Error{Stage: StageExec, Errno: errnoOf(err)}
	}
	// Children that are cloned at the same time must not inherit each other's gates.
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	ours, theirs, err := newGate(len(c.Files))
	if err != nil {
		return nil, &Error{Stage: StageClone, Errno: errnoOf(err)}
	}
	if hold {
		im.gate, im.gatePeer = theirs, ours
	}
	child, err := newChild(flags, im, ours)
	_ = unix.Close(theirs)
	if err != nil {
		_ = unix.Close(ours)
		return nil, err
	}
	return child, nil
}

// newGate makes the gate: a socket pair over which the parent releases a held child, and
// is notified when the child's program runs. The child's end is close-on-exec, and its
// number is above the program's descriptors, so nothing else closes it.
func newGate(above int) (ours, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, err
	}
	if pair[1] >= above {
		return pair[0], pair[1], nil
	}
	theirs, err = unix.FcntlInt(uintptr(pair[1]), unix.F_DUPFD_CLOEXEC, above)
	_ = unix.Close(pair[1])
	if err != nil {
		_ = unix.Close(pair[0])
	}
	return pair[0], theirs, err
}

// Idle makes a process with the given CLONE_* flags that only waits to be
// killed, and dies with the calling thread. End it with [Child.End]. The flags must not have
// CLONE_NEWPID: the process could not see whether its parent lives.
func Idle(flags uintptr) (*Child, error) {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	return newChild(flags, &image{idle: true, parent: uintptr(unix.Getpid()), gate: -1, cgroup: -1}, -1)
}

// newChild clones. The caller holds syscall.ForkLock for writing.
func newChild(flags uintptr, im *image, gate int) (*Child, error) {
	c := &Child{image: im, gate: gate}
	select {
	case c.stack = <-freeStacks:
	default:
		var err error
		if c.stack, err = unix.Mmap(-1, 0, stackSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
			return nil, &Error{Stage: StageClone, Errno: errnoOf(err)}
		}
	}
	bottom := uintptr(unsafe.Pointer(&c.stack[0]))
	body := childBody // a func value points to a word that holds the code's address
	entry := **(**uintptr)(unsafe.Pointer(&body))
	var pid, errno uintptr
	if flags |= syscall.CLONE_VM | unix.CLONE_PIDFD; im.cgroup >= 0 {
		args := &cloneArgs{flags: uint64(flags) | unix.CLONE_INTO_CGROUP, pidfd: uint64(uintptr(unsafe.Pointer(&im.pidfd))), exitSignal: uint64(syscall.SIGCHLD),
			stack: uint64(bottom), stackSize: stackSize, cgroup: uint64(im.cgroup)}
		beforeFork()
		pid, errno = stackClone3(args, unsafe.Sizeof(*args), entry, im)
		afterFork()
	} else {
		beforeFork()
		pid, errno = stackClone(flags|uintptr(syscall.SIGCHLD), bottom+stackSize, &im.pidfd, entry, im)
		afterFork()
	}
	if errno != 0 {
		c.freeStack()
		return nil, &Error{Stage: StageClone, Errno: syscall.Errno(errno)}
	}
	c.PID, c.PIDFD = int(pid), int(im.pidfd)
	return c, nil
}

// freeStack gives the stack to the next child. No child may be running on it.
func (c *Child) freeStack() {
	if c.stack == nil {
		return
	}
	select {
	case freeStacks <- c.stack:
	default:
		_ = unix.Munmap(c.stack)
	}
	c.stack = nil
}

// Release makes a held child continue.
func (c *Child) Release() error {
	_, err := unix.Write(c.gate, []byte{1})
	return err
}

// Wait returns once the child's program has been executed, or once the child has
// ended before that. It returns an *Error if a system call of the child failed, and
// nil if the child was killed. In both cases the child is still to be reaped.
func (c *Child) Wait() error {
	var b [1]byte
	for {
		if _, err := unix.Read(c.gate, b[:]); err != unix.EINTR {
			break
		}
	}
	c.release()
	defer runtime.KeepAlive(c.image)
	if c.image.errno != 0 {
		return &Error{Stage: c.image.stage, Errno: c.image.errno}
	}
	return nil
}

// release frees the stack and the gate, once the child cannot be running on the stack.
func (c *Child) release() {
	c.freeStack()
	if c.gate >= 0 {
		_ = unix.Close(c.gate)
		c.gate = -1
	}
}

// Run clones a child in new namespaces, calls between with its pid while it is
// held, and returns once its program has been executed. After an error, an
// *Error or between's own, no process is left.
func Run(c *Command, flags uintptr, between func(pid int) error) (*Child, error) {
	child, err := Begin(c, flags, true)
	if err != nil {
		return nil, err
	}
	if err = between(child.PID); err == nil {
		err = child.Release()
	}
	if err == nil {
		err = child.Wait()
	}
	if err != nil {
		child.End()
		return nil, err
	}
	return child, nil
}

// End kills the child, reaps it and frees its resources. It is for a
// child that the caller does not reap in another way.
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

func errnoOf(err error) syscall.Errno {
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // system calls return it bare
		return errno
	}
	return syscall.EINVAL
}
