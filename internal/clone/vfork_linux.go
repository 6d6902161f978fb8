package clone

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Command is a program and the state it starts in. The child is always the
// leader of a session of its own; it holds no descriptor but 0, 1 and 2,
// default signal dispositions, and no capability when it executes (a uid that
// is not 0 gains none by executing either).
type Command struct {
	Path string   // of the executable, resolved already
	Argv []string // argv[0] included
	Env  []string // "K=V"
	Dir  string   // working directory
	// Stdio are the descriptors that become 0, 1 and 2. Each must be above 2.
	Stdio [3]int
	// TTY makes Stdio[0] the controlling terminal.
	TTY     bool
	Umask   int
	Rlimits []Rlimit
}

// Rlimit is one resource limit, set in the child before it executes.
type Rlimit struct {
	Resource int
	Limit    unix.Rlimit
}

// Stage says how far a child came before it failed.
type Stage int32

// The stages, in order.
const (
	StageClone Stage = iota
	StageSession
	StageTerminal
	StageStdio
	StageRlimit
	StageDir
	StageDescriptors
	StageCapabilities
	StageExec
)

var stageNames = [...]string{"clone", "setsid", "TIOCSCTTY", "dup3", "prlimit", "chdir", "close_range", "capset", "execve"}

// String is the name of the system call that failed.
func (s Stage) String() string { return stageNames[s] }

// Error is a child that could not be started.
type Error struct {
	Stage Stage
	Errno syscall.Errno
}

// Error names the system call and the kernel's answer.
func (e *Error) Error() string { return e.Stage.String() + ": " + e.Errno.Error() }

// Unwrap gives the errno.
func (e *Error) Unwrap() error { return e.Errno }

// image is a Command in the form the child needs: nothing in it has to be
// allocated, grown or converted after the clone.
type image struct {
	path, dir *byte
	argv, env []*byte
	stdio     [3]uintptr
	tty       bool
	umask     uintptr
	rlimits   []Rlimit
	caps      [2]unix.CapUserData
	header    unix.CapUserHeader
	stage     Stage         // written by the child
	errno     syscall.Errno // written by the child
}

func newImage(c *Command) (*image, error) {
	im := &image{tty: c.TTY, umask: uintptr(c.Umask), rlimits: c.Rlimits}
	im.header.Version = unix.LINUX_CAPABILITY_VERSION_3
	var err error
	if im.path, err = syscall.BytePtrFromString(c.Path); err != nil {
		return nil, err
	}
	if im.dir, err = syscall.BytePtrFromString(c.Dir); err != nil {
		return nil, err
	}
	if im.argv, err = syscall.SlicePtrFromStrings(c.Argv); err != nil {
		return nil, err
	}
	if im.env, err = syscall.SlicePtrFromStrings(c.Env); err != nil {
		return nil, err
	}
	for i, fd := range c.Stdio {
		im.stdio[i] = uintptr(fd)
	}
	return im, nil
}

// Vfork starts a command from the calling thread, which must be locked to its
// goroutine, and returns once the command's program has been executed. The
// child inherits the thread's namespaces, filters and Landlock domain.
// A failure before or in execve is an *Error, and no process is left.
func Vfork(c *Command) (pid int, err error) {
	im, err := newImage(c)
	if err != nil {
		return 0, &Error{Stage: StageExec, Errno: syscall.EINVAL}
	}
	syscall.ForkLock.Lock()
	pid, errno := vforkExec(im)
	syscall.ForkLock.Unlock()
	if errno != 0 {
		return 0, &Error{Stage: StageClone, Errno: errno}
	}
	if im.errno != 0 {
		var status syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
				break
			}
		}
		return 0, &Error{Stage: im.stage, Errno: im.errno}
	}
	runtime.KeepAlive(im)
	return pid, nil
}

// vforkExec clones and runs the child. The parent's thread stands still, on
// the same stack, until the child has executed its program or ended.
//
//go:norace
//go:noinline
func vforkExec(im *image) (int, syscall.Errno) {
	beforeFork()
	pid, errno := vforkClone(syscall.CLONE_VM|syscall.CLONE_VFORK|uintptr(syscall.SIGCHLD), nil)
	if errno != 0 || pid != 0 {
		afterFork()
		return int(pid), syscall.Errno(errno)
	}
	afterForkInChild()
	im.run()
	fatal()
	return 0, 0
}

// run is the child's whole life before the program: raw system calls in a
// fixed order. It may not allocate, grow the stack or take a lock, which is
// why it is one flat function, and it returns only on failure.
//
//go:norace
//go:noinline
//go:nosplit
func (im *image) run() {
	im.stage = StageSession
	if _, _, im.errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); im.errno != 0 {
		return
	}
	im.stage = StageTerminal
	if im.tty {
		if _, _, im.errno = syscall.RawSyscall(unix.SYS_IOCTL, im.stdio[0], unix.TIOCSCTTY, 0); im.errno != 0 {
			return
		}
	}
	im.stage = StageStdio
	for i := range im.stdio {
		if _, _, im.errno = syscall.RawSyscall(unix.SYS_DUP3, im.stdio[i], uintptr(i), 0); im.errno != 0 {
			return
		}
	}
	im.stage = StageRlimit
	for i := range im.rlimits {
		l := &im.rlimits[i]
		if _, _, im.errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(l.Resource),
			uintptr(unsafe.Pointer(&l.Limit)), 0, 0, 0); im.errno != 0 {
			return
		}
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_UMASK, im.umask, 0, 0)
	im.stage = StageDir
	if _, _, im.errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(im.dir)), 0, 0); im.errno != 0 {
		return
	}
	im.stage = StageDescriptors
	if _, _, im.errno = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 3, ^uintptr(0)>>33, 0); im.errno != 0 {
		return
	}
	im.stage = StageCapabilities
	if _, _, im.errno = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&im.header)),
		uintptr(unsafe.Pointer(&im.caps[0])), 0); im.errno != 0 {
		return
	}
	im.stage = StageExec
	_, _, im.errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(im.path)),
		uintptr(unsafe.Pointer(&im.argv[0])), uintptr(unsafe.Pointer(&im.env[0])))
}
