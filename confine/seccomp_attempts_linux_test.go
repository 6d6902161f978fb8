package confine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

var fileTrials = []trial{
	{name: "open, creating 0644", do: func(dir string) error { return os.WriteFile(filepath.Join(dir, "new"), nil, 0o644) }},
	{name: "open, creating set-uid", want: all(perm), do: func(dir string) error {
		fd, err := unix.Open(filepath.Join(dir, "bad"), unix.O_CREAT|unix.O_WRONLY, 0o4755)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}},
	{name: "chmod 0755", do: inDir(func(p string) error { return unix.Chmod(p, 0o755) })},
	{name: "chmod set-uid", want: all(perm), do: inDir(func(p string) error { return unix.Chmod(p, 0o4755) })},
	{name: "chmod set-gid", want: all(perm), do: inDir(func(p string) error { return unix.Chmod(p, 0o2755) })},
	{name: "mkdir", do: func(dir string) error { return unix.Mkdir(filepath.Join(dir, "d"), 0o755) }},
	{name: "mkdir set-gid", want: all(perm), do: func(dir string) error { return unix.Mkdir(filepath.Join(dir, "e"), 0o2755) }},
	{name: "mkfifo", do: func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "f"), 0o644) }},
	// Anybody may make this one.
	{name: "mknod of a whiteout", want: all(perm), do: func(dir string) error { return unix.Mknod(filepath.Join(dir, "w"), unix.S_IFCHR, 0) }},
	{name: "openat2", want: all(nosys), do: func(string) error {
		fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}},
	{name: "memfd_create", want: answers{0, nosys, 0, 0}, do: func(string) error {
		fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}},
	{name: "inotify", do: func(string) error {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}},
	{name: "ioctl TCGETS of no terminal", want: all(asEver), do: inDir(func(p string) error {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		return err
	})},
	{name: "ioctl EXT4_IOC_MOVE_EXT", want: all(perm), do: rawCall(unix.SYS_IOCTL, 0, ext4MoveExt, 0)},
	{name: "ioctl EXT4_IOC_MOVE_EXT, upper half", want: all(perm), do: rawCall(unix.SYS_IOCTL, 0, 1<<32|ext4MoveExt, 0)},
	{name: "ioctl XFS_IOC_SWAPEXT", want: all(perm), do: rawCall(unix.SYS_IOCTL, 0, xfsSwapExt, 0)},
	{name: "ioctl F2FS_IOC_MOVE_RANGE", want: all(perm), do: rawCall(unix.SYS_IOCTL, 0, f2fsMoveRange, 0)},
	{name: "ioctl FICLONE", want: all(asEver), do: rawCall(unix.SYS_IOCTL, 0, unix.FICLONE, 0)},
	{name: "ioctl TIOCSTI", want: all(perm), do: rawCall(unix.SYS_IOCTL, 0, unix.TIOCSTI, 0)},
	{name: "ioctl TIOCSTI, upper half", want: all(perm), do: rawCall(unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI, 0)},
	{name: "ioctl TIOCLINUX", want: all(perm), do: rawCall(unix.SYS_IOCTL, 0, unix.TIOCLINUX, 0)},
	{name: "ioctl TIOCSETD", want: all(perm), do: rawCall(unix.SYS_IOCTL, 0, unix.TIOCSETD, 0)},
}

var original, copied byte // unlike variables on a stack, they do not move

func processTrials() []trial {
	self, tid := uintptr(os.Getpid()), uintptr(unix.Gettid())
	prlimit := func(pid int, set bool) func(string) error {
		return func(string) error {
			var l unix.Rlimit
			err := unix.Getrlimit(unix.RLIMIT_CORE, &l)
			if set {
				return errors.Join(err, unix.Prlimit(pid, unix.RLIMIT_CORE, &l, nil))
			}
			return errors.Join(err, unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &l))
		}
	}
	return []trial{
		{name: "run a program", do: func(string) error { return exec.Command("/bin/true").Run() }},
		// Arguments that the kernel refuses as invalid make no process.
		{name: "clone of a user namespace", want: all(perm), do: rawCall(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_THREAD)},
		{name: "clone of a mount namespace", want: all(perm), do: rawCall(unix.SYS_CLONE, unix.CLONE_NEWNS|unix.CLONE_THREAD)},
		{name: "unshare of files", do: rawCall(unix.SYS_UNSHARE, unix.CLONE_FILES)},
		{name: "unshare of a user namespace", want: all(perm), do: rawCall(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)},
		{name: "unshare of what is not known", want: all(perm), do: rawCall(unix.SYS_UNSHARE, 1<<40)},
		{name: "prlimit of oneself", do: prlimit(0, true)},
		{name: "prlimit, looking by pid", want: answers{0, 0, 0, perm}, do: prlimit(int(self), false)},
		{name: "prlimit by pid", want: all(perm), do: prlimit(int(self), true)},
		{name: "ptrace of nobody", want: answers{perm, perm, asEver, perm}, do: rawCall(unix.SYS_PTRACE, unix.PTRACE_SEIZE, 0x7ffffff0)},
		{name: "process_vm_readv of oneself", want: answers{perm, perm, 0, perm},
			do: func(string) error {
				into, from := []unix.Iovec{{Base: &copied, Len: 1}}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&original)), Len: 1}}
				_, err := unix.ProcessVMReadv(int(self), into, from, 0)
				return err
			}},
		{name: "pidfd_getfd of oneself", want: answers{perm, perm, 0, perm}, do: func(string) error {
			pidfd, err := unix.PidfdOpen(int(self), 0)
			if err != nil {
				return err
			}
			defer unix.Close(pidfd)
			fd, err := unix.PidfdGetfd(pidfd, 1, 0)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}},
		{name: "personality, a query", do: rawCall(unix.SYS_PERSONALITY, 0xffffffff)},
		{name: "personality, old uname", want: answers{0, perm, 0, 0}, do: persona(0x20000)},
		{name: "personality without randomness", want: answers{perm, perm, 0, perm}, do: persona(0x40000)},
		{name: "personality, readable is executable", want: all(perm), do: persona(0x400000)},
		{name: "processors of oneself", do: affinity(0)},
		{name: "processors by tid", want: answers{0, 0, 0, perm}, do: affinity(int(tid))},
		{name: "priority of oneself", do: rawCall(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 19)},
		{name: "priority by pid", want: answers{0, 0, 0, perm}, do: rawCall(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, self, 19)},
		{name: "priority of a user", want: answers{asEver, asEver, asEver, perm}, do: rawCall(unix.SYS_SETPRIORITY, unix.PRIO_USER, 0x70000000, 19)},
		{name: "disk priority of all", want: answers{asEver, asEver, asEver, perm}, do: rawCall(unix.SYS_IOPRIO_SET, 3, 0, 0xffff)},
		{name: "policy by pid", want: answers{0, 0, 0, perm}, do: func(string) error {
			return unix.SchedSetAttr(int(self), &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH, Nice: 19}, 0)
		}},
	}
}

func affinity(pid int) func(string) error {
	return func(string) error {
		var set unix.CPUSet
		return errors.Join(unix.SchedGetaffinity(0, &set), unix.SchedSetaffinity(pid, &set))
	}
}

var socketTrials = []trial{
	{name: "socket AF_UNIX", want: answers{0, 0, 0, unix.EACCES}, do: socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)},
	{name: "socketpair", do: socketpair(unix.AF_UNIX, unix.SOCK_STREAM)},
	{name: "socketpair of packets", do: socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET)},
	{name: "socketpair of datagrams", want: answers{0, 0, 0, unix.EACCES}, do: socketpair(unix.AF_UNIX, unix.SOCK_DGRAM)},
	{name: "socket TCP", want: answers{0, 0, 0, unix.EACCES}, do: socket(unix.AF_INET, unix.SOCK_STREAM, 0)},
	{name: "socket UDP", want: answers{0, 0, 0, unix.EACCES}, do: socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP)},
	{name: "socket ping", want: answers{asEver, asEver, asEver, unix.EACCES}, do: socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP), absent: true},
	{name: "socket raw", want: answers{perm, perm, perm, unix.EACCES}, do: socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_UDP), root: true},
	{name: "socket SOCK_PACKET", want: answers{perm, perm, perm, unix.EACCES}, do: socket(unix.AF_INET, unix.SOCK_PACKET, 0), root: true, absent: true},
	{name: "socket MPTCP", want: answers{unix.EPROTONOSUPPORT, unix.EPROTONOSUPPORT, unix.EPROTONOSUPPORT, unix.EACCES},
		do: socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), absent: true},
	{name: "socket NETLINK_ROUTE", want: answers{0, unix.EAFNOSUPPORT, 0, unix.EACCES}, do: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)},
	{name: "socket NETLINK_GENERIC", want: answers{unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT, unix.EACCES},
		do: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC), absent: true},
	{name: "socket AF_VSOCK", want: all(perm), do: socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
	{name: "socket AF_PACKET", want: all(perm), do: socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0), root: true},
	{name: "socket AF_XDP", want: all(perm), do: socket(unix.AF_XDP, unix.SOCK_RAW, 0), root: true},
	{name: "socket AF_ALG", want: all(unix.EAFNOSUPPORT), do: socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), absent: true},
	{name: "socket AF_BLUETOOTH", want: all(unix.EAFNOSUPPORT), do: socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 0), absent: true},
	{name: "socketpair of no family", want: all(unix.EOPNOTSUPP), do: socketpair(999, unix.SOCK_STREAM)},
	{name: "TLS in the kernel", want: answers{asEver, unix.ENOPROTOOPT, asEver, asEver}, do: func(string) error {
		name := []byte("tls\x00") // the kernel checks the level and option before the descriptor
		return raw(unix.SYS_SETSOCKOPT, ^uintptr(0), unix.IPPROTO_TCP, unix.TCP_ULP, uintptr(unsafe.Pointer(&name[0])), 3)
	}},
}

// sharedTrials are numbers of no call, and those of other ways to call.
func sharedTrials() (list []trial) {
	for _, nr := range []uintptr{highest + 1, 500, 1000, 1 << 20} {
		list = append(list, trial{name: "call " + string(rune('a'+len(list))), want: all(nosys), do: rawCall(nr), absent: true})
	}
	return list
}
