package agent

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// inner is what the init of the commands' pid namespace works from. The init
// is a copy of the agent that makes a handful of system calls and then waits
// for ever: with default dispositions for every signal the kernel protects it
// from anything its own namespace sends, and with SIGCHLD ignored the kernel
// reaps its orphans, so that there is nothing left for it to do.
type inner struct {
	proc   *byte // where its /proc goes
	report int   // where it writes the errno of that, 0 for success
	failed int32
	caps   [2]unix.CapUserData
	header unix.CapUserHeader
	action sigaction
}

// sigaction is the kernel's struct sigaction; its zero value is SIG_DFL.
type sigaction struct {
	handler, flags, restorer, mask uintptr
}

// startInner makes the inner pid namespace, whose init mounts proc at path,
// and returns the init's pid. The calling thread's later children live in it.
func startInner(path string) (int, error) {
	if err := unix.Unshare(unix.CLONE_NEWPID); err != nil {
		return 0, err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	defer unix.Close(pipe[0])
	in := &innerState
	in.report = pipe[1]
	in.header.Version = unix.LINUX_CAPABILITY_VERSION_3
	var err error
	if in.proc, err = syscall.BytePtrFromString(path); err != nil {
		return 0, err
	}
	syscall.ForkLock.Lock()
	pid, errno := clone.Fork(0, innerInit)
	syscall.ForkLock.Unlock()
	unix.Close(pipe[1])
	if errno != 0 {
		return 0, errno
	}
	var result [4]byte
	n, err := unix.Read(pipe[0], result[:])
	if err != nil {
		return 0, err
	}
	if n != len(result) {
		return 0, unix.ECHILD
	}
	if failed := *(*int32)(unsafe.Pointer(&result)); failed != 0 {
		return 0, syscall.Errno(failed)
	}
	return pid, nil
}

// innerState is not on any stack, because a stack may move before the copy is made.
var innerState inner

var (
	procName  = [...]byte{'p', 'r', 'o', 'c', 0}
	initTitle = [...]byte{'p', 'a', 'd', 'd', 'o', 'c', 'k', '-', 'i', 'n', 'i', 't', 0}
)

// innerInit runs in the copied process: raw system calls only.
//
//go:norace
//go:nosplit
//go:noinline
func innerInit() {
	in := &innerState
	for sig := uintptr(1); sig <= 64; sig++ {
		in.action.handler = 0 // SIG_DFL
		if sig == uintptr(unix.SIGCHLD) {
			in.action.handler = 1 // SIG_IGN: children are reaped by the kernel
		}
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&in.action)), 0, 8, 0, 0)
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&initTitle[0])), 0)
	_, _, _ = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	_, _, errno := syscall.RawSyscall6(unix.SYS_MOUNT, uintptr(unsafe.Pointer(&procName[0])), uintptr(unsafe.Pointer(in.proc)),
		uintptr(unsafe.Pointer(&procName[0])), unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, 0, 0)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&in.header)), uintptr(unsafe.Pointer(&in.caps[0])), 0)
	}
	in.failed = int32(errno)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(in.report), uintptr(unsafe.Pointer(&in.failed)), 4)
	if errno != 0 {
		return
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, ^uintptr(0)>>33, 0)
	for {
		_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}
