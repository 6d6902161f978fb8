package confine

import (
	"errors"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rule denies system calls: each of calls fails with errno where all
// conditions hold.
type rule struct {
	calls []uint32
	when  []cond
	errno uint16
	// everyone marks rules that bind the agent's own threads as well.
	everyone bool
	why      string
}

// namespaceFlags are the CLONE_NEW* flags of clone(2), less CLONE_NEWUTS: the
// spawner makes a UTS namespace for each command as the mark of its tree, and
// commands lack the capability for it. CLONE_NEWTIME does not exist in clone(2).
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

const setID = unix.S_ISUID | unix.S_ISGID

const (
	eperm  = uint16(unix.EPERM)
	enosys = uint16(unix.ENOSYS)
)

// denyList is what commands may not ask of the kernel, with reasons. ENOSYS
// stands where programs fall back to an older call, EPERM elsewhere.
var denyList = []rule{
	{calls: []uint32{unix.SYS_FCHMOD}, when: []cond{{1, anyBit, setID}}, errno: eperm, why: "set-id files would act on the host"},
	{calls: []uint32{unix.SYS_FCHMODAT, sysFchmodat2}, when: []cond{{2, anyBit, setID}}, errno: eperm, why: "set-id files"},
	{calls: []uint32{unix.SYS_OPENAT}, when: []cond{{2, anyBit, unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY}, {3, anyBit, setID}}, errno: eperm, why: "set-id files"},
	{calls: []uint32{unix.SYS_MKDIRAT, unix.SYS_MKNODAT}, when: []cond{{2, anyBit, setID}}, errno: eperm, why: "set-id files"},
	{calls: []uint32{unix.SYS_OPENAT2}, errno: enosys, why: "its mode is behind a pointer"},
	{calls: []uint32{unix.SYS_CLONE3}, errno: enosys, why: "its flags are behind a pointer"},

	{calls: []uint32{unix.SYS_UNSHARE}, when: []cond{{0, anyBit, namespaceFlags | unix.CLONE_NEWTIME}}, errno: eperm, why: "nested namespaces"},
	{calls: []uint32{unix.SYS_CLONE}, when: []cond{{0, anyBit, namespaceFlags}}, errno: eperm, why: "nested namespaces"},
	{calls: []uint32{unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT, unix.SYS_UMOUNT2,
		unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
		unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR}, errno: eperm, why: "the view of the file system is fixed"},

	{calls: []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}, errno: enosys, everyone: true, why: "it makes calls that filters cannot see"},
	{calls: []uint32{unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY}, errno: eperm, everyone: true, why: "keyrings are not namespaced"},
	{calls: []uint32{unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD}, errno: eperm, everyone: true, why: "large attack surface"},
	{calls: []uint32{unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
		unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX,
		unix.SYS_CLOCK_ADJTIME, unix.SYS_SYSLOG}, errno: eperm, everyone: true, why: "the host's business"},

	{calls: []uint32{unix.SYS_SOCKET}, when: []cond{{0, equal, unix.AF_VSOCK}}, errno: eperm, everyone: true, why: "vsock ignores network namespaces"},
	{calls: []uint32{unix.SYS_SOCKET}, when: []cond{{0, equal, unix.AF_PACKET}}, errno: eperm, everyone: true, why: "raw packets"},
	{calls: []uint32{unix.SYS_SOCKET}, when: []cond{{0, equal, unix.AF_XDP}}, errno: eperm, everyone: true, why: "raw packets"},
	{calls: []uint32{unix.SYS_SOCKET}, when: []cond{{0, unequal, unix.AF_UNIX}, {0, unequal, unix.AF_INET}, {0, unequal, unix.AF_INET6}, {0, unequal, unix.AF_NETLINK}},
		errno: uint16(unix.EAFNOSUPPORT), everyone: true, why: "rare families: some ignore network namespaces, and each is attack surface"},
	{calls: []uint32{unix.SYS_IOCTL}, when: []cond{{1, equal, unix.TIOCSTI}}, errno: eperm, why: "typing into a terminal"},
	{calls: []uint32{unix.SYS_IOCTL}, when: []cond{{1, equal, unix.TIOCLINUX}}, errno: eperm, why: "typing into a console"},
	{calls: []uint32{unix.SYS_PRLIMIT64}, when: []cond{{0, nonZero, 0}, {2, nonZero, 0}}, errno: eperm, why: "limits of other processes"},
}

// Filters of a plan.
const (
	FilterAgent    = "agent"    // for every thread of the agent
	FilterCommands = "commands" // on top, for the thread that commands come from
)

// Filter compiles one of the named filters for this architecture.
func Filter(name string) []byte {
	prog := []instruction{
		{bpfLoad, 0, 0, offArch},
		{bpfJEQ, 1, 0, auditArch},
		{bpfRet, 0, 0, retErrno | uint32(enosys)}, // another architecture's numbers mean other calls
		{bpfLoad, 0, 0, offNr},
	}
	prog = append(prog, archPrologue...)
	for _, r := range slices.Concat(archDenyList, denyList) {
		if name == FilterAgent && !r.everyone {
			continue
		}
		for _, nr := range r.calls {
			prog = append(prog, block(nr, r.when, r.errno)...)
		}
	}
	return encode(append(prog, instruction{bpfRet, 0, 0, retAllow}))
}

// loadFilter installs a filter on the calling thread, or on all threads of
// the process at once (SECCOMP_FILTER_FLAG_TSYNC), which gives them
// no_new_privs too.
func loadFilter(data []byte, allThreads bool) error {
	if len(data) == 0 || len(data)%instructionSize != 0 {
		return errors.New("not a filter program")
	}
	filters := make([]unix.SockFilter, len(data)/instructionSize)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&filters[0])), len(data)), data)
	prog := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	var flags uintptr
	if allThreads {
		flags = unix.SECCOMP_FILTER_FLAG_TSYNC
	}
	tid, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filters)
	if errno != 0 {
		return errno
	}
	if tid != 0 { // TSYNC names a thread that could not be synchronised
		return errors.New("a thread could not be put behind the filter")
	}
	return nil
}

// NoClone3 is the filter of commands that are cloned from a thread which needs
// clone3(2) itself, to put them into their control groups.
func NoClone3() []unix.SockFilter {
	return []unix.SockFilter{
		{Code: bpfLoad, K: offNr},
		{Code: bpfJEQ, Jf: 1, K: unix.SYS_CLONE3},
		{Code: bpfRet, K: retErrno | uint32(enosys)},
		{Code: bpfRet, K: retAllow},
	}
}
