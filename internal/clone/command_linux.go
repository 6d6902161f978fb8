package clone

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Command is a program and the state it starts in. The child is always the
// leader of a session of its own and has default signal dispositions. Zero
// fields leave things as the caller has them.
type Command struct {
	Path string   // of the executable
	Argv []string // argv[0] included
	Env  []string // "K=V"
	Dir  string   // working directory
	// DirFD, where not 0, is a handle of the working directory, in place of
	// Dir. It must be above len(Files).
	DirFD int
	// Files are the descriptors that become 0, 1, 2, …. Each must be above
	// len(Files). Every other descriptor is closed.
	Files []int
	// TTY makes Files[0] the controlling terminal.
	TTY     bool
	Umask   int
	Rlimits []Rlimit
	// Ambient are capabilities that the program starts with. Without any, the
	// child gives up every capability before it executes; a uid that is not 0
	// gains none by executing either.
	Ambient []uintptr
	// UID and GID, where UID is not 0, become the child's, without
	// supplementary groups.
	UID, GID int
	// Cgroup, where not 0, is the descriptor of the control group that the child
	// begins in (CLONE_INTO_CGROUP). The calling thread must be free to use
	// clone3(2).
	Cgroup int
	// Landlock, where not 0, is a ruleset (landlock_create_ruleset) that the child
	// applies to itself. It must be above len(Files), and needs no_new_privs.
	Landlock int
	// Filter is a seccomp program (struct sock_filter, encoded) that is laid
	// over the child's others. It needs no_new_privs.
	Filter []unix.SockFilter
	// Mount, where not nil, is mounted by the child, in its namespaces.
	Mount *Mount
	// DieWithThread has the program killed when the calling thread ends, and
	// leaves a caller with uid 0 its capabilities: where a program of uid 0
	// gains them by executing, the kernel forgets the wish.
	DieWithThread bool
	// Gently makes that SIGTERM, for a program that has others to end first.
	Gently bool
	// NoCaps takes them from that one too. The caller's bounding set must be
	// empty, or no_new_privs set, so that executing gives nothing back.
	NoCaps bool
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

// Stage says how far a child came before it failed.
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
	idle           bool
	gatePeer       int // the caller's end, in the child's copy of its descriptors
	gate           int // descriptor on which one byte lets the child go on, -1 for none
	path, dir      *byte
	dirFD          int // 0 for none
	mountType      *byte
	mountTarget    *byte
	argv, env      []*byte
	files          []int
	tty            bool
	umask          uintptr
	rlimits        []Rlimit
	ambient        []uintptr
	uid, gid       uintptr
	dieWithThread  bool
	keepCaps       bool
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
	im := &image{gate: -1, cgroup: -1, dirFD: c.DirFD, landlock: c.Landlock, files: c.Files, tty: c.TTY, umask: uintptr(c.Umask), rlimits: c.Rlimits,
		ambient: c.Ambient, uid: uintptr(c.UID), gid: uintptr(c.GID), ignoreChildren: c.IgnoreChildren,
		dieWithThread: c.DieWithThread, deathSignal: deathSignal(c.Gently), keepCaps: c.DieWithThread && !c.NoCaps && unix.Geteuid() == 0}
	im.header.Version = unix.LINUX_CAPABILITY_VERSION_3
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

func deathSignal(gently bool) uintptr {
	if gently {
		return uintptr(unix.SIGTERM)
	}
	return uintptr(unix.SIGKILL)
}
