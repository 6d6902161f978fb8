package confine

import (
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// garbage fills the upper half of a register, which the kernel does not look
// at where the argument is an int.
const garbage = 0xdeadbeef_00000000

// TestVerdicts checks what the filters decide, without a kernel.
func TestVerdicts(t *testing.T) {
	const allow, perm, nosys = retAllow, retErrno | uint32(unix.EPERM), retErrno | uint32(unix.ENOSYS)
	const noFamily, noProtocol = retErrno | uint32(unix.EAFNOSUPPORT), retErrno | uint32(unix.EPROTONOSUPPORT)
	for _, v := range []struct {
		name            string
		call            string
		args            [6]uint64
		commands, agent uint32
	}{
		{"read", "read", [6]uint64{}, allow, allow},
		{"exit_group", "exit_group", [6]uint64{}, allow, allow},
		{"fchmod 0755", "fchmod", [6]uint64{3, 0o755}, allow, allow},
		{"fchmod sticky", "fchmod", [6]uint64{3, 0o1777}, allow, allow},
		{"fchmod set-uid", "fchmod", [6]uint64{3, 0o4755}, perm, allow},
		{"fchmod set-gid", "fchmod", [6]uint64{3, 0o2755}, perm, allow},
		{"fchmod set-uid, garbage", "fchmod", [6]uint64{3, garbage | 0o4755}, perm, allow},
		{"fchmodat set-uid", "fchmodat", [6]uint64{3, 0, 0o4755}, perm, allow},
		{"fchmodat2 set-uid", "fchmodat2", [6]uint64{3, 0, 0o4755}, perm, allow},
		{"fchmodat2 0755", "fchmodat2", [6]uint64{3, 0, 0o755, 0x100}, allow, allow},
		{"openat, creating", "openat", [6]uint64{3, 0, unix.O_CREAT, 0o644}, allow, allow},
		{"openat, creating set-uid", "openat", [6]uint64{3, 0, unix.O_CREAT | unix.O_WRONLY, 0o4644}, perm, allow},
		{"openat O_TMPFILE set-gid", "openat", [6]uint64{3, 0, unix.O_TMPFILE | unix.O_RDWR, 0o2644}, perm, allow},
		// Without O_CREAT the fourth argument is an arbitrary value of the register.
		{"openat, reading, any mode", "openat", [6]uint64{3, 0, unix.O_RDONLY, 0o7777}, allow, allow},
		{"openat of a directory, any mode", "openat", [6]uint64{3, 0, unix.O_DIRECTORY, 0o7777}, allow, allow},
		{"mkdirat", "mkdirat", [6]uint64{3, 0, 0o777}, allow, allow},
		{"mkdirat set-gid", "mkdirat", [6]uint64{3, 0, 0o2777}, perm, allow},
		{"mknodat of a fifo", "mknodat", [6]uint64{3, 0, unix.S_IFIFO | 0o644}, allow, allow},
		{"mknodat set-uid", "mknodat", [6]uint64{3, 0, unix.S_IFREG | 0o4755}, perm, allow},
		{"openat2", "openat2", [6]uint64{}, nosys, allow},
		{"clone3", "clone3", [6]uint64{}, nosys, allow},
		{"clone of a thread", "clone", [6]uint64{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD}, allow, allow},
		{"clone of a process", "clone", [6]uint64{uint64(unix.SIGCHLD)}, allow, allow},
		{"clone of a user namespace", "clone", [6]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, perm, allow},
		{"clone of a uts namespace", "clone", [6]uint64{unix.CLONE_NEWUTS}, allow, allow},
		{"unshare of files", "unshare", [6]uint64{unix.CLONE_FILES}, allow, allow},
		{"unshare of a uts namespace", "unshare", [6]uint64{unix.CLONE_NEWUTS}, allow, allow},
		{"unshare of a time namespace", "unshare", [6]uint64{unix.CLONE_NEWTIME}, perm, allow},
		{"chmod 0755", "chmod", [6]uint64{0, 0o755}, allow, allow},
		{"chmod set-uid", "chmod", [6]uint64{0, 0o4755}, perm, allow},
		{"creat 0644", "creat", [6]uint64{0, 0o644}, allow, allow},
		{"creat set-gid", "creat", [6]uint64{0, 0o2644}, perm, allow},
		{"mkdir", "mkdir", [6]uint64{0, 0o755}, allow, allow},
		{"mkdir set-gid", "mkdir", [6]uint64{0, 0o2755}, perm, allow},
		{"mknod of a fifo", "mknod", [6]uint64{0, unix.S_IFIFO | 0o644}, allow, allow},
		{"mknod of a file", "mknod", [6]uint64{0, 0o644}, allow, allow},
		{"mknod set-gid", "mknod", [6]uint64{0, 0o2644}, perm, allow},
		{"mknod of a device", "mknod", [6]uint64{0, unix.S_IFCHR | 0o644}, perm, allow},
		{"open, creating", "open", [6]uint64{0, unix.O_CREAT, 0o644}, allow, allow},
		{"open, creating set-uid", "open", [6]uint64{0, unix.O_CREAT, 0o4644}, perm, allow},
		{"open, reading, any mode", "open", [6]uint64{0, unix.O_RDONLY, 0o7777}, allow, allow},
		{"mknodat of a device", "mknodat", [6]uint64{3, 0, unix.S_IFBLK | 0o644}, perm, allow},
		{"mknodat of a device, garbage", "mknodat", [6]uint64{3, 0, garbage | unix.S_IFCHR}, perm, allow},
		{"mknodat of a socket", "mknodat", [6]uint64{3, 0, unix.S_IFSOCK | 0o644}, allow, allow},
		{"clone of a user namespace, garbage", "clone", [6]uint64{garbage | unix.CLONE_NEWUSER}, perm, allow},
		{"unshare of what is not known yet", "unshare", [6]uint64{1 << 32}, perm, allow},
		{"socket AF_INET, raw", "socket", [6]uint64{unix.AF_INET, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP}, perm, allow},
		{"socket AF_INET6, raw", "socket", [6]uint64{unix.AF_INET6, garbage | unix.SOCK_RAW, 0}, perm, allow},
		// The kernel makes it an AF_PACKET socket.
		{"socket AF_INET, SOCK_PACKET", "socket", [6]uint64{unix.AF_INET, unix.SOCK_PACKET, 0}, perm, perm},
		{"socket of ping", "socket", [6]uint64{unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, unix.IPPROTO_ICMP}, allow, allow},
		{"socket SCTP", "socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, noProtocol, noProtocol},
		{"socket MPTCP", "socket", [6]uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, noProtocol, noProtocol},
		{"socket AF_UNIX, raw", "socket", [6]uint64{unix.AF_UNIX, unix.SOCK_RAW}, allow, allow},
		{"socketpair", "socketpair", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, allow, allow},
		{"socketpair AF_VSOCK", "socketpair", [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, retErrno | uint32(unix.EOPNOTSUPP), retErrno | uint32(unix.EOPNOTSUPP)},
		{"ioctl TIOCSETD", "ioctl", [6]uint64{0, unix.TIOCSETD}, perm, allow},
		{"seccomp", "seccomp", [6]uint64{}, allow, allow},
		{"landlock_restrict_self", "landlock_restrict_self", [6]uint64{}, allow, allow},
		{"inotify_init1", "inotify_init1", [6]uint64{}, allow, allow},
		{"socket AF_UNIX", "socket", [6]uint64{unix.AF_UNIX}, allow, allow},
		{"socket AF_INET6", "socket", [6]uint64{unix.AF_INET6, unix.SOCK_STREAM}, allow, allow},
		{"socket AF_VSOCK", "socket", [6]uint64{unix.AF_VSOCK}, perm, perm},
		{"socket AF_VSOCK, garbage", "socket", [6]uint64{garbage | unix.AF_VSOCK}, perm, perm},
		{"socket AF_PACKET", "socket", [6]uint64{unix.AF_PACKET}, perm, perm},
		{"socket AF_XDP", "socket", [6]uint64{unix.AF_XDP}, perm, perm},
		{"socket AF_ALG", "socket", [6]uint64{unix.AF_ALG}, noFamily, noFamily},
		{"socket AF_QIPCRTR", "socket", [6]uint64{unix.AF_QIPCRTR}, noFamily, noFamily},
		{"socket of no family", "socket", [6]uint64{0}, noFamily, noFamily},
		{"socket AF_INET, garbage", "socket", [6]uint64{garbage | unix.AF_INET, garbage | unix.SOCK_DGRAM}, allow, allow},
		{"ioctl EXT4_IOC_MOVE_EXT", "ioctl", [6]uint64{0, ext4MoveExt}, perm, allow},
		{"ioctl EXT4_IOC_MOVE_EXT, garbage", "ioctl", [6]uint64{0, garbage | ext4MoveExt}, perm, allow},
		{"ioctl XFS_IOC_SWAPEXT", "ioctl", [6]uint64{0, xfsSwapExt}, perm, allow},
		{"ioctl F2FS_IOC_MOVE_RANGE", "ioctl", [6]uint64{0, f2fsMoveRange}, perm, allow},
		{"ioctl FICLONE", "ioctl", [6]uint64{0, unix.FICLONE}, allow, allow},
		{"ioctl TCGETS", "ioctl", [6]uint64{0, unix.TCGETS}, allow, allow},
		{"ioctl TIOCSTI", "ioctl", [6]uint64{0, unix.TIOCSTI}, perm, allow},
		{"ioctl TIOCSTI, garbage", "ioctl", [6]uint64{0, garbage | unix.TIOCSTI}, perm, allow},
		{"ioctl TIOCLINUX", "ioctl", [6]uint64{0, unix.TIOCLINUX}, perm, allow},
		{"prlimit of oneself", "prlimit64", [6]uint64{0, 7, 0x1000}, allow, allow},
		{"prlimit, looking at another", "prlimit64", [6]uint64{7, 7, 0, 0x1000}, allow, allow},
		{"prlimit of another", "prlimit64", [6]uint64{7, 7, 0x1000}, perm, allow},
		// A pointer whose lower half is zero is a pointer still.
		{"prlimit of another, high pointer", "prlimit64", [6]uint64{7, 7, 0x7f00_00000000}, perm, allow},
		{"mount", "mount", [6]uint64{}, perm, allow},
		{"keyctl", "keyctl", [6]uint64{}, perm, perm},
		{"bpf", "bpf", [6]uint64{}, perm, perm},
		{"io_uring_setup", "io_uring_setup", [6]uint64{}, nosys, nosys},
	} {
		for goarch, a := range archs {
			nr := a.find(v.call)
			if nr == none {
				continue
			}
			for who, want := range map[scope]uint32{forDefault: v.commands, forStrict: v.commands, forDebug: v.commands, forAgent: v.agent} {
				got, err := interpret(a.compile(who), a.audit, uint32(nr), v.args)
				if err != nil || got != want {
					t.Errorf("%s, %s, for %#x: %#x, %v, want %#x", goarch, v.name, who, got, err, want)
				}
			}
		}
	}
}

// find gives a call's number.
func (a arch) find(name string) int {
	return a.number(calls[slices.IndexFunc(calls[:], func(c call) bool { return c.name == name })])
}

// TestProfiles checks where the profiles and options differ.
func TestProfiles(t *testing.T) {
	const allow, perm, nosys, access = 0, unix.EPERM, unix.ENOSYS, unix.EACCES
	const inet, stream = unix.AF_INET, unix.SOCK_STREAM
	order := []scope{forDefault, forStrict, forDebug, forDefault | forNoNamespaces, forDefault | forNoNetwork}
	for _, v := range []struct {
		name string
		call string
		args [6]uint64
		want [5]unix.Errno
	}{
		{"trace me", "ptrace", [6]uint64{unix.PTRACE_TRACEME}, [5]unix.Errno{perm, perm, allow, perm, perm}},
		{"attach", "ptrace", [6]uint64{unix.PTRACE_ATTACH, 7}, [5]unix.Errno{perm, perm, allow, perm, perm}},
		{"write to another", "process_vm_writev", [6]uint64{7}, [5]unix.Errno{perm, perm, allow, perm, perm}},
		{"take a descriptor", "pidfd_getfd", [6]uint64{7}, [5]unix.Errno{perm, perm, allow, perm, perm}},
		{"reap another's memory", "process_mrelease", [6]uint64{7}, [5]unix.Errno{perm, perm, perm, perm, perm}},
		{"personality 0", "personality", [6]uint64{}, [5]unix.Errno{}},
		{"personality?", "personality", [6]uint64{0xffffffff}, [5]unix.Errno{}},
		{"old uname", "personality", [6]uint64{0x20000}, [5]unix.Errno{allow, perm, allow, allow, allow}},
		{"no randomness", "personality", [6]uint64{0x40000}, [5]unix.Errno{perm, perm, allow, perm, perm}},
		{"no randomness, readable is executable", "personality", [6]uint64{0x440000}, [5]unix.Errno{perm, perm, perm, perm, perm}},
		{"no randomness, garbage", "personality", [6]uint64{garbage | 0x40000}, [5]unix.Errno{perm, perm, allow, perm, perm}},
		{"routes", "socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, [5]unix.Errno{allow, unix.EAFNOSUPPORT, allow, allow, access}},
		{"firewall", "socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
			[5]unix.Errno{unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT, unix.EPROTONOSUPPORT, access}},
		{"TCP", "socket", [6]uint64{inet, stream}, [5]unix.Errno{allow, allow, allow, allow, access}},
		{"TCP over IPv6", "socket", [6]uint64{unix.AF_INET6, stream | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}, [5]unix.Errno{allow, allow, allow, allow, access}},
		{"a unix socket", "socket", [6]uint64{unix.AF_UNIX, stream}, [5]unix.Errno{allow, allow, allow, access, allow}},
		{"a pair of them", "socketpair", [6]uint64{unix.AF_UNIX, stream}, [5]unix.Errno{}},
		{"a pair for datagrams", "socketpair", [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}, [5]unix.Errno{allow, allow, allow, access, allow}},
		{"a raw pair, which is one for datagrams", "socketpair", [6]uint64{unix.AF_UNIX, garbage | unix.SOCK_RAW}, [5]unix.Errno{allow, allow, allow, access, allow}},
		{"TLS in the kernel", "setsockopt", [6]uint64{3, unix.IPPROTO_TCP, unix.TCP_ULP}, [5]unix.Errno{allow, unix.ENOPROTOOPT, allow, allow, allow}},
		{"no delay", "setsockopt", [6]uint64{3, unix.IPPROTO_TCP, unix.TCP_NODELAY}, [5]unix.Errno{}},
		{"shared memory", "shmget", [6]uint64{}, [5]unix.Errno{allow, nosys, allow, nosys, allow}},
		{"a queue", "mq_open", [6]uint64{}, [5]unix.Errno{allow, nosys, allow, nosys, allow}},
		{"a file without a name", "memfd_create", [6]uint64{}, [5]unix.Errno{allow, nosys, allow, allow, allow}},
		{"a program without a path", "execveat", [6]uint64{}, [5]unix.Errno{allow, nosys, allow, allow, allow}},
		{"limits of another, looking", "prlimit64", [6]uint64{7, 7}, [5]unix.Errno{allow, allow, allow, perm, allow}},
		{"limits of one's own", "prlimit64", [6]uint64{0, 7, 7}, [5]unix.Errno{}},
		{"processors of one's own", "sched_setaffinity", [6]uint64{garbage, 8, 7}, [5]unix.Errno{}},
		{"processors of another", "sched_setaffinity", [6]uint64{7, 8, 7}, [5]unix.Errno{allow, allow, allow, perm, allow}},
		{"priority of one's own", "setpriority", [6]uint64{unix.PRIO_PROCESS, 0, 7}, [5]unix.Errno{}},
		{"priority of another", "setpriority", [6]uint64{unix.PRIO_PROCESS, 7, 7}, [5]unix.Errno{allow, allow, allow, perm, allow}},
		{"priority of the user's", "setpriority", [6]uint64{unix.PRIO_USER, 0, 7}, [5]unix.Errno{allow, allow, allow, perm, allow}},
		{"disk priority of the user's", "ioprio_set", [6]uint64{3, 0, 7}, [5]unix.Errno{allow, allow, allow, perm, allow}},
	} {
		for goarch, a := range archs {
			for i, who := range order {
				want := uint32(retAllow)
				if v.want[i] != 0 {
					want = retErrno | uint32(v.want[i])
				}
				got, err := interpret(a.compile(who), a.audit, uint32(a.find(v.call)), v.args)
				if err != nil || got != want {
					t.Errorf("%s, %s, for %#x: %#x, %v, want %#x", goarch, v.name, who, got, err, want)
				}
			}
		}
	}
}

// An invalid filter is refused before it reaches the kernel.
func TestLoadFilterRefuses(t *testing.T) {
	for _, data := range [][]byte{nil, {}, {1, 2, 3}, make([]byte, instructionSize+1)} {
		if err := loadFilter(data, false); err == nil {
			t.Errorf("a program of %d bytes was loaded", len(data))
		}
	}
	if size := unsafe.Sizeof(unix.SockFilter{}); size != instructionSize {
		t.Errorf("an instruction has %d bytes", size)
	}
}
