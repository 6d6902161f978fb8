// Package clone makes child processes the way a sandbox needs them and the
// standard library cannot: cloned from one chosen thread, so that a child
// inherits exactly that thread's confinement; without a second program in
// between; and without ever copying the parent's memory, whose pages a
// threaded program would pay for one by one afterwards.
//
// A [Command] says what the child does before it executes its program.
// [Vfork] runs it on the caller's stack while the calling thread stands still,
// as vfork(2) does; it costs no more than a plain spawn. [Start] runs it on a
// stack of its own, so that the parent can act between the clone and the
// program, as new user namespaces need. [Idle] makes a process that does nothing.
//
// All follow the rules that package syscall keeps for its own children
// (signals blocked around the clone, no allocation, no stack growth, no lock,
// no pointer written in the child), and use the runtime hooks that package
// syscall uses.
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

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// vforkClone is clone(2) with the given flags and no stack of the child's
// own. It returns twice on the same stack; the return address is kept in a
// register meanwhile, because the child's returning overwrites it.
//
//go:noescape
func vforkClone(flags uintptr) (pid, errno uintptr)

// stackClone is clone(2) of a child that calls body(im) on the stack that ends
// at top; body is the code address of a func(*image). A call by name would go
// through a wrapper that race builds instrument. Only the parent returns. The image must escape, and so is not
// declared otherwise: a goroutine's stack may move while the child runs.
func stackClone(flags, top uintptr, pidfd *int32, body uintptr, im *image) (pid, errno uintptr)

// stackSize is ample: the child's whole call chain is nosplit, and so limited
// to a few hundred bytes.
const stackSize = 64 << 10

// Idle makes a process with the given CLONE_* flags that only waits to be
// killed, and dies with the calling thread. It borrows the caller's memory.
// End it with [Process.End].
func Idle(flags uintptr) (*Process, error) {
	return newProcess(flags, &image{idle: true, gate: -1})
}

// Process is a child on a stack of its own.
type Process struct {
	PID   int
	PIDFD int // the caller's to close
	image *image
	stack []byte
}

func newProcess(flags uintptr, im *image) (*Process, error) {
	stack, err := unix.Mmap(-1, 0, stackSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, &Error{Stage: StageClone, Errno: errnoOf(err)}
	}
	p := &Process{image: im, stack: stack}
	var pidfd int32
	top := uintptr(unsafe.Pointer(&stack[0])) + stackSize
	body := childBody // a func value points to a word that holds the code's address
	entry := **(**uintptr)(unsafe.Pointer(&body))
	syscall.ForkLock.Lock()
	beforeFork()
	pid, errno := stackClone(flags|syscall.CLONE_VM|unix.CLONE_PIDFD|uintptr(syscall.SIGCHLD), top, &pidfd, entry, im)
	afterFork()
	syscall.ForkLock.Unlock()
	if errno != 0 {
		_ = unix.Munmap(stack)
		return nil, &Error{Stage: StageClone, Errno: syscall.Errno(errno)}
	}
	p.PID, p.PIDFD = int(pid), int(pidfd)
	return p, nil
}

// End kills the process, reaps it and gives its memory back.
func (p *Process) End() {
	_ = syscall.Kill(p.PID, syscall.SIGKILL)
	wait(p.PID)
	_ = unix.Close(p.PIDFD)
	p.free()
}

// free gives the stack back, once the child cannot be running on it.
func (p *Process) free() {
	_ = unix.Munmap(p.stack)
	p.stack = nil
}

func wait(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

func errnoOf(err error) syscall.Errno {
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // system calls return it bare
		return errno
	}
	return syscall.EINVAL
}
