package clone

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Command is a program and the state it starts in. The child is always the
// leader of a new session and has default signal dispositions. If a field is zero,
// the child inherits that state from the caller.
type Command struct {
	Path string   // of the executable
	Argv []string // argv[0] included
	Env  []string // "K=V"
	Dir  string   // working directory
	// DirFD, if not 0, is a handle of the working directory, in place of
	// Dir. It must be above len(Files).
	DirFD int
	// Files are the descriptors that become 0, 1, 2, …. Each must be above
	// len(Files). Every other descriptor is closed.
	Files []int
	// Room is for how many descriptors the program's table has room when it begins; 0: the
	// kernel's first 64. A table that threads share grows only after all processors have gone
	// through a quiet state (an RCU grace period), which takes 10 to 40 ms; the child's own grows
	// at once, and stays so when it executes the program.
	Room int
	// TTY makes Files[0] the controlling terminal.
	TTY     bool
	Umask   int
	Rlimits []Rlimit
	// Ambient are capabilities that the program starts with. Without any, the
	// child gives up every capability before it executes; a uid that is not 0
	// gains none by executing either.
	Ambient []uintptr
	// UID and GID, if UID is not 0, become the child's, without
	// supplementary groups.
	UID, GID int
	// Cgroup, if not 0, is the descriptor of the control group that the child
	// begins in (CLONE_INTO_CGROUP). The calling thread must be allowed to use
	// clone3(2).
	Cgroup int
	// Landlock, if not 0, is a ruleset (landlock_create_ruleset) that the child
	// applies to itself. It must be above len(Files), and needs no_new_privs.
	Landlock int
	// Filter is a seccomp program that is added to the filters which the child
	// inherits. It needs no_new_privs.
	Filter []unix.SockFilter
	// Mount, if not nil, is mounted by the child, in its namespaces.
	Mount *Mount
	// DieWithThread has the program killed when the calling thread ends. A caller
	// with uid 0 then does not drop the child's capabilities: if a program of uid 0
	// gained them by executing, the kernel would forget the death signal.
	DieWithThread bool
	// Gently makes the death signal SIGTERM, for a program that must end others first.
	Gently bool
	// NoCaps drops the capabilities even with DieWithThread. The caller's bounding
	// set must be empty, or no_new_privs set, so that executing gives nothing back.
	NoCaps bool
	// NoNewPrivs sets no_new_privs for the child.
	NoNewPrivs bool
	// IgnoreChildren lets the kernel reap the program's children (SIGCHLD is
	// ignored, which survives execve).
	IgnoreChildren bool
}

// Mount is a file system without a device, mounted nosuid, nodev and noexec.
type Mount struct {
	Type   string // "proc", "tmpfs"
	Target string // a directory
}

// Rlimit is one resource limit, set in the child before it executes.
type Rlimit struct {
	Resource int
	Limit    unix.Rlimit
}

// Stage is how far a child came before it failed.
type Stage int32

// The stages, in order.
const (
	StageClone Stage = iota
	StageGate
	StageSession
	StageID
	StageTerminal
	StageFiles
	StageRlimit
	StageDir
	StageMount
	StageDescriptors
	StageCapabilities
	StageLandlock
	StageFilter
	StageExec
)

var stageNames = [...]string{"clone", "read", "setsid", "setresuid", "TIOCSCTTY", "dup3", "prlimit",
	"chdir", "mount", "close_range", "capset", "landlock_restrict_self", "seccomp", "execve"}

// String returns the name of the system call that failed.
func (s Stage) String() string { return stageNames[s] }

// Error reports that a child could not be started.
type Error struct {
	Stage Stage
	Errno syscall.Errno
}

// Error returns the system call and the kernel's error.
func (e *Error) Error() string { return e.Stage.String() + ": " + e.Errno.Error() }

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// image is a Command in the form that the child needs: nothing in it has to be
// allocated, grown or converted after the clone.
type image struct {
	idle           bool
	parent         uintptr // of an idle one
	gatePeer       int     // the caller's end, in the child's copy of its descriptors
	gate           int     // descriptor on which one byte makes the child continue, -1 for none
	path, dir      *byte
	dirFD          int // 0 for none
	mountType      *byte
	mountTarget    *byte
	argv, env      []*byte
	files          []int
	room           int
	tty            bool
	umask          uintptr
	rlimits        []Rlimit
	ambient        []uintptr
	uid, gid       uintptr
	dieWithThread  bool
	keepCaps       bool
	noNewPrivs     bool
	deathSignal    uintptr
	ignoreChildren bool
	cgroup         int   // -1 for none
	landlock       int   // 0 for none
	pidfd          int32 // written by the kernel, which holds its address as a number
	filter         unix.SockFprog
	caps           [2]unix.CapUserData
	header         unix.CapUserHeader
	action         sigaction
	stage          Stage         // written by the child
	errno          syscall.Errno // written by the child
	buf            [1]byte
}

// sigaction is the kernel's struct sigaction.
type sigaction struct {
	handler, flags, restorer, mask uintptr
}

func newImage(c *Command) (*image, error) {
	im := &image{gate: -1, cgroup: -1, dirFD: c.DirFD, landlock: c.Landlock, files: c.Files, room: c.Room, tty: c.TTY, umask: uintptr(c.Umask), rlimits: c.Rlimits,
		ambient: c.Ambient, uid: uintptr(c.UID), gid: uintptr(c.GID), ignoreChildren: c.IgnoreChildren,
		noNewPrivs: c.NoNewPrivs, dieWithThread: c.DieWithThread, deathSignal: uintptr(unix.SIGKILL), keepCaps: c.DieWithThread && !c.NoCaps && unix.Geteuid() == 0}
	im.header.Version = unix.LINUX_CAPABILITY_VERSION_3
	if c.Gently {
		im.deathSignal = uintptr(unix.SIGTERM)
	}
	if c.Cgroup != 0 {
		im.cgroup = c.Cgroup
	}
	if len(c.Filter) > 0 {
		im.filter = unix.SockFprog{Len: uint16(len(c.Filter)), Filter: &c.Filter[0]}
	}
	for _, bit := range c.Ambient {
		im.caps[bit/32].Inheritable |= 1 << (bit % 32)
	}
	for i := range im.caps {
		im.caps[i].Permitted, im.caps[i].Effective = im.caps[i].Inheritable, im.caps[i].Inheritable
	}
	mount := c.Mount
	if mount == nil {
		mount = &Mount{}
	}
	var err error
	for _, s := range []struct {
		to   **byte
		text string
	}{{&im.path, c.Path}, {&im.dir, c.Dir}, {&im.mountType, mount.Type}, {&im.mountTarget, mount.Target}} {
		if s.text == "" {
			continue
		}
		if *s.to, err = syscall.BytePtrFromString(s.text); err != nil {
			return nil, err
		}
	}
	if im.argv, err = syscall.SlicePtrFromStrings(c.Argv); err != nil {
		return nil, err
	}
	im.env, err = syscall.SlicePtrFromStrings(c.Env)
	return im, err
}

// fatal ends a child that cannot go on.
//
//go:norace
//go:nosplit
func fatal() {
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

// childBody runs a child on its separate stack, from its beginning to its end;
// stackClone calls it.
//
//go:norace
//go:nosplit
func childBody(im *image) {
	resetSignals(&im.action)
	if im.idle {
		_, _, _ = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
		// A parent that was killed before that sends no signal any more.
		if parent, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); parent != im.parent {
			fatal()
		}
		for {
			_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
	im.run()
	fatal()
}

// resetSignals gives every signal its default disposition and unblocks it. action must
// be zero. The runtime's own hook for this must not be used here: it may assume that
// the parent waits.
//
//go:norace
//go:nosplit
func resetSignals(action *sigaction) {
	const signals, maskSize = 64, 8
	for sig := uintptr(1); sig <= signals; sig++ {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(action)), 0, maskSize, 0, 0)
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&action.mask)), 0, maskSize, 0, 0)
}

// run is what a child does before its program: raw system calls in a fixed
// order. It may not allocate, grow the stack, take a lock or write a pointer.
// It returns only on failure, which it leaves in stage and errno.
//
//go:norace
//go:nosplit
func (im *image) run() {
	if im.detach() && im.setUp() && im.restrict() {
		im.call(StageExec, unix.SYS_EXECVE, uintptr(unsafe.Pointer(im.path)), uintptr(unsafe.Pointer(&im.argv[0])), uintptr(unsafe.Pointer(&im.env[0])), 0, 0)
	}
}

// call makes a system call and reports whether it succeeded. The arguments point only
// into the image, which the parent keeps alive.
//
//go:norace
//go:nosplit
func (im *image) call(stage Stage, nr, a, b, c, d, e uintptr) bool {
	im.stage = stage
	_, _, im.errno = syscall.RawSyscall6(nr, a, b, c, d, e, 0)
	return im.errno == 0
}

// detach waits at the gate, leaves the caller's session, and takes on another
// identity, groups first.
//
//go:norace
//go:nosplit
func (im *image) detach() bool {
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
	if !im.call(StageSession, unix.SYS_SETSID, 0, 0, 0, 0, 0) {
		return false
	}
	return im.uid == 0 || im.call(StageID, unix.SYS_SETGROUPS, 0, 0, 0, 0, 0) &&
		im.call(StageID, unix.SYS_SETRESGID, im.gid, im.gid, im.gid, 0, 0) &&
		im.call(StageID, unix.SYS_SETRESUID, im.uid, im.uid, im.uid, 0, 0)
}

// setUp puts the terminal and the descriptors where the program expects them, sets
// rlimits, umask and directory, and mounts.
//
//go:norace
//go:nosplit
func (im *image) setUp() bool {
	if im.tty && !im.call(StageTerminal, unix.SYS_IOCTL, uintptr(im.files[0]), unix.TIOCSCTTY, 0, 0, 0) {
		return false
	}
	for i := range im.files {
		if !im.call(StageFiles, unix.SYS_DUP3, uintptr(im.files[i]), uintptr(i), 0, 0, 0) {
			return false
		}
	}
	if last := uintptr(im.room - 1); im.room > 0 {
		// Not to that number itself: the program, or the gate, may be open there.
		if fd, _, errno := syscall.RawSyscall(unix.SYS_FCNTL, 0, unix.F_DUPFD_CLOEXEC, last); errno == 0 { // else it grows later
			_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		}
	}
	for i := range im.rlimits {
		l := &im.rlimits[i]
		if !im.call(StageRlimit, unix.SYS_PRLIMIT64, 0, uintptr(l.Resource), uintptr(unsafe.Pointer(&l.Limit)), 0, 0) {
			return false
		}
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_UMASK, im.umask, 0, 0)
	if im.dirFD != 0 {
		if !im.call(StageDir, unix.SYS_FCHDIR, uintptr(im.dirFD), 0, 0, 0, 0) {
			return false
		}
	} else if im.dir != nil {
		if !im.call(StageDir, unix.SYS_CHDIR, uintptr(unsafe.Pointer(im.dir)), 0, 0, 0, 0) {
			return false
		}
	}
	return im.mountType == nil || im.call(StageMount, unix.SYS_MOUNT, uintptr(unsafe.Pointer(im.mountType)), uintptr(unsafe.Pointer(im.mountTarget)),
		uintptr(unsafe.Pointer(im.mountType)), unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, 0)
}

// restrict removes the rights that the program must not have.
//
//go:norace
//go:nosplit
func (im *image) restrict() bool {
	if im.ignoreChildren {
		im.action.handler = 1 // SIG_IGN
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&im.action)), 0, 8, 0, 0)
	}
	if im.noNewPrivs && !im.call(StageCapabilities, unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) {
		return false
	}
	if !im.keepCaps && !im.call(StageCapabilities, unix.SYS_CAPSET, uintptr(unsafe.Pointer(&im.header)), uintptr(unsafe.Pointer(&im.caps[0])), 0, 0, 0) {
		return false
	}
	for i := range im.ambient {
		if !im.call(StageCapabilities, unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, im.ambient[i], 0, 0) {
			return false
		}
	}
	if !im.call(StageDescriptors, unix.SYS_CLOSE_RANGE, uintptr(len(im.files)), maxFD, closeOnExec, 0, 0) {
		return false
	}
	if im.landlock != 0 && !im.call(StageLandlock, unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(im.landlock), 0, 0, 0, 0) {
		return false
	}
	return im.filter.Len == 0 ||
		im.call(StageFilter, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&im.filter)), 0, 0)
}

const (
	maxFD       = 1<<32 - 1
	closeOnExec = 4 // CLOSE_RANGE_CLOEXEC
)
