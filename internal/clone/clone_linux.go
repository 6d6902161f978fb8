// Package clone makes child processes the way a sandbox needs them and the
// standard library cannot: cloned from one chosen thread, so that a child
// inherits exactly that thread's confinement, and without a second program in
// between.
//
// It offers two primitives. [Vfork] borrows the parent's memory until the
// child executes a program, as vfork(2) does; it costs no more than a plain
// spawn. [Fork] copies the memory and lets the child run a function that only
// makes raw system calls; it serves processes that never execute anything.
//
// Both follow the rules that package syscall keeps for its own children
// (signals blocked around the clone, no allocation, no stack growth, no lock
// in the child), and use the three runtime hooks that package syscall uses.
package clone

import (
	"syscall"
	_ "unsafe" // for go:linkname
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
func vforkClone(flags uintptr, pidfd *int32) (pid, errno uintptr)

// fatal ends a child that cannot go on.
//
//go:nosplit
func fatal() {
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

// Fork clones the calling thread into a process with a copy of the memory and
// runs child in it. The child must be nosplit, must make raw system calls
// only, and must not return. The caller holds syscall.ForkLock for writing and
// is locked to its thread. flags are CLONE_* flags; SIGCHLD is added.
//
//go:norace
//go:noinline
func Fork(flags uintptr, child func()) (int, syscall.Errno) {
	beforeFork()
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, flags|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		afterFork()
		return int(pid), errno
	}
	afterForkInChild()
	child()
	fatal()
	return 0, 0
}
