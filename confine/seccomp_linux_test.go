package confine

import (
	"testing"

	"golang.org/x/sys/unix"
)

// callNumbers names the calls of the filters that every architecture has.
var callNumbers = map[string]uint32{
	"fchmod": unix.SYS_FCHMOD, "fchmodat": unix.SYS_FCHMODAT, "fchmodat2": sysFchmodat2, "openat": unix.SYS_OPENAT,
	"openat2": unix.SYS_OPENAT2, "mkdirat": unix.SYS_MKDIRAT, "mknodat": unix.SYS_MKNODAT, "clone": unix.SYS_CLONE,
	"clone3": unix.SYS_CLONE3, "unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS, "chroot": unix.SYS_CHROOT,
	"pivot_root": unix.SYS_PIVOT_ROOT, "mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "move_mount": unix.SYS_MOVE_MOUNT,
	"open_tree": unix.SYS_OPEN_TREE, "fsopen": unix.SYS_FSOPEN, "fsconfig": unix.SYS_FSCONFIG, "fsmount": unix.SYS_FSMOUNT,
	"fspick": unix.SYS_FSPICK, "mount_setattr": unix.SYS_MOUNT_SETATTR, "io_uring_setup": unix.SYS_IO_URING_SETUP,
	"io_uring_enter": unix.SYS_IO_URING_ENTER, "io_uring_register": unix.SYS_IO_URING_REGISTER, "keyctl": unix.SYS_KEYCTL,
	"add_key": unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY, "bpf": unix.SYS_BPF,
	"perf_event_open": unix.SYS_PERF_EVENT_OPEN, "userfaultfd": unix.SYS_USERFAULTFD, "init_module": unix.SYS_INIT_MODULE,
	"finit_module": unix.SYS_FINIT_MODULE, "delete_module": unix.SYS_DELETE_MODULE, "kexec_load": unix.SYS_KEXEC_LOAD,
	"kexec_file_load": unix.SYS_KEXEC_FILE_LOAD, "reboot": unix.SYS_REBOOT, "swapon": unix.SYS_SWAPON,
	"swapoff": unix.SYS_SWAPOFF, "acct": unix.SYS_ACCT, "quotactl": unix.SYS_QUOTACTL,
	"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "settimeofday": unix.SYS_SETTIMEOFDAY,
	"clock_settime": unix.SYS_CLOCK_SETTIME, "adjtimex": unix.SYS_ADJTIMEX, "clock_adjtime": unix.SYS_CLOCK_ADJTIME,
	"syslog": unix.SYS_SYSLOG, "socket": unix.SYS_SOCKET, "ioctl": unix.SYS_IOCTL, "prlimit64": unix.SYS_PRLIMIT64,
}

// garbage fills the upper half of a register, which the kernel does not look
// at where the argument is an int.
const garbage = 0xdeadbeef_00000000

// TestVerdicts is what the filters say, without a kernel.
func TestVerdicts(t *testing.T) {
	const allow, perm, nosys = retAllow, retErrno | uint32(unix.EPERM), retErrno | uint32(unix.ENOSYS)
	const noFamily = retErrno | uint32(unix.EAFNOSUPPORT)
	commands, agent := decode(t, Filter(FilterCommands)), decode(t, Filter(FilterAgent))
	for _, v := range []struct {
		name            string
		nr              uint32
		args            [6]uint64
		commands, agent uint32
	}{
		{"read", unix.SYS_READ, [6]uint64{}, allow, allow},
		{"exit_group", unix.SYS_EXIT_GROUP, [6]uint64{}, allow, allow},
		{"fchmod 0755", unix.SYS_FCHMOD, [6]uint64{3, 0o755}, allow, allow},
		{"fchmod sticky", unix.SYS_FCHMOD, [6]uint64{3, 0o1777}, allow, allow},
		{"fchmod set-uid", unix.SYS_FCHMOD, [6]uint64{3, 0o4755}, perm, allow},
		{"fchmod set-gid", unix.SYS_FCHMOD, [6]uint64{3, 0o2755}, perm, allow},
		{"fchmod set-uid, garbage", unix.SYS_FCHMOD, [6]uint64{3, garbage | 0o4755}, perm, allow},
		{"fchmodat set-uid", unix.SYS_FCHMODAT, [6]uint64{3, 0, 0o4755}, perm, allow},
		{"fchmodat2 set-uid", sysFchmodat2, [6]uint64{3, 0, 0o4755}, perm, allow},
		{"fchmodat2 0755", sysFchmodat2, [6]uint64{3, 0, 0o755, 0x100}, allow, allow},
		{"openat, creating", unix.SYS_OPENAT, [6]uint64{3, 0, unix.O_CREAT, 0o644}, allow, allow},
		{"openat, creating set-uid", unix.SYS_OPENAT, [6]uint64{3, 0, unix.O_CREAT | unix.O_WRONLY, 0o4644}, perm, allow},
		{"openat O_TMPFILE set-gid", unix.SYS_OPENAT, [6]uint64{3, 0, unix.O_TMPFILE | unix.O_RDWR, 0o2644}, perm, allow},
		// Without O_CREAT the fourth argument is whatever the register held.
		{"openat, reading, any mode", unix.SYS_OPENAT, [6]uint64{3, 0, unix.O_RDONLY, 0o7777}, allow, allow},
		{"openat of a directory, any mode", unix.SYS_OPENAT, [6]uint64{3, 0, unix.O_DIRECTORY, 0o7777}, allow, allow},
		{"mkdirat", unix.SYS_MKDIRAT, [6]uint64{3, 0, 0o777}, allow, allow},
		{"mkdirat set-gid", unix.SYS_MKDIRAT, [6]uint64{3, 0, 0o2777}, perm, allow},
		{"mknodat of a fifo", unix.SYS_MKNODAT, [6]uint64{3, 0, unix.S_IFIFO | 0o644}, allow, allow},
		{"mknodat set-uid", unix.SYS_MKNODAT, [6]uint64{3, 0, unix.S_IFREG | 0o4755}, perm, allow},
		{"openat2", unix.SYS_OPENAT2, [6]uint64{}, nosys, allow},
		{"clone3", unix.SYS_CLONE3, [6]uint64{}, nosys, allow},
		{"clone of a thread", unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD}, allow, allow},
		{"clone of a process", unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD)}, allow, allow},
		{"clone of a user namespace", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, perm, allow},
		{"clone of a uts namespace", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUTS}, allow, allow},
		{"unshare of files", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_FILES}, allow, allow},
		{"unshare of a uts namespace", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWUTS}, allow, allow},
		{"unshare of a time namespace", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWTIME}, perm, allow},
		{"socket AF_UNIX", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX}, allow, allow},
		{"socket AF_INET6", unix.SYS_SOCKET, [6]uint64{unix.AF_INET6}, allow, allow},
		{"socket AF_NETLINK", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK}, allow, allow},
		{"socket AF_VSOCK", unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK}, perm, perm},
		{"socket AF_VSOCK, garbage", unix.SYS_SOCKET, [6]uint64{garbage | unix.AF_VSOCK}, perm, perm},
		{"socket AF_PACKET", unix.SYS_SOCKET, [6]uint64{unix.AF_PACKET}, perm, perm},
		{"socket AF_XDP", unix.SYS_SOCKET, [6]uint64{unix.AF_XDP}, perm, perm},
		{"socket AF_ALG", unix.SYS_SOCKET, [6]uint64{unix.AF_ALG}, noFamily, noFamily},
		{"socket AF_QIPCRTR", unix.SYS_SOCKET, [6]uint64{unix.AF_QIPCRTR}, noFamily, noFamily},
		{"socket of no family", unix.SYS_SOCKET, [6]uint64{0}, noFamily, noFamily},
		{"socket AF_INET, garbage", unix.SYS_SOCKET, [6]uint64{garbage | unix.AF_INET}, allow, allow},
		{"ioctl TCGETS", unix.SYS_IOCTL, [6]uint64{0, unix.TCGETS}, allow, allow},
		{"ioctl TIOCSTI", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, perm, allow},
		{"ioctl TIOCSTI, garbage", unix.SYS_IOCTL, [6]uint64{0, garbage | unix.TIOCSTI}, perm, allow},
		{"ioctl TIOCLINUX", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCLINUX}, perm, allow},
		{"prlimit of oneself", unix.SYS_PRLIMIT64, [6]uint64{0, 7, 0x1000}, allow, allow},
		{"prlimit, looking at another", unix.SYS_PRLIMIT64, [6]uint64{7, 7, 0, 0x1000}, allow, allow},
		{"prlimit of another", unix.SYS_PRLIMIT64, [6]uint64{7, 7, 0x1000}, perm, allow},
		// A pointer whose lower half is zero is a pointer still.
		{"prlimit of another, high pointer", unix.SYS_PRLIMIT64, [6]uint64{7, 7, 0x7f00_00000000}, perm, allow},
		{"mount", unix.SYS_MOUNT, [6]uint64{}, perm, allow},
		{"keyctl", unix.SYS_KEYCTL, [6]uint64{}, perm, perm},
		{"bpf", unix.SYS_BPF, [6]uint64{}, perm, perm},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uint64{}, nosys, nosys},
	} {
		for filter, want := range map[*[]instruction]uint32{&commands: v.commands, &agent: v.agent} {
			got, err := interpret(*filter, auditArch, v.nr, v.args)
			if err != nil || got != want {
				t.Errorf("%s (agent %v): %#x, %v, want %#x", v.name, filter == &agent, got, err, want)
			}
		}
	}
}

// Another architecture's numbers are refused whatever they mean.
func TestForeignArchitectures(t *testing.T) {
	prog := decode(t, Filter(FilterCommands))
	for _, arch := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_RISCV64, 0} {
		if arch == auditArch {
			continue
		}
		for nr := range uint32(600) {
			got, err := interpret(prog, arch, nr, [6]uint64{})
			if want := retErrno | uint32(unix.ENOSYS); err != nil || got != want {
				t.Fatalf("architecture %#x, call %d: %#x, %v", arch, nr, got, err)
			}
		}
	}
}

// Every call has a verdict, and every rule is reached by its calls.
func TestEveryNumber(t *testing.T) {
	prog := decode(t, Filter(FilterCommands))
	for nr := range uint32(1024) {
		if _, err := interpret(prog, auditArch, nr, [6]uint64{}); err != nil {
			t.Fatalf("call %d: %v", nr, err)
		}
	}
	for _, r := range append(archDenyList, denyList...) {
		var args [6]uint64
		for _, c := range r.when {
			args[c.arg] = uint64(c.value)
			switch c.test {
			case nonZero:
				args[c.arg] = 1
			case unequal:
				args[c.arg] = 0 // which no family of sockets is
			}
		}
		for _, nr := range r.calls {
			if got, err := interpret(prog, auditArch, nr, args); err != nil || got != retErrno|uint32(r.errno) {
				t.Errorf("%s: %#x, %v, want errno %d", callName(nr), got, err, r.errno)
			}
		}
	}
}
