//go:build linux

package escape

import (
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

const harmless = "succeeded"

// attacks is everything that is tried in one sandbox without a network.
func attacks() []row {
	return slices.Concat(fileAttacks(), workspaceAttacks(), setIDAttacks(), mountAttacks(), namespaceAttacks(),
		processAttacks(), networkAttacks(), kernelAttacks(), oldAttacks())
}

// fileAttacks are after files of the host's.
func fileAttacks() []row {
	rows := []row{
		{name: "read /etc/shadow", args: []string{"read", "/etc/shadow"}, want: "ENOENT", control: root},
		{name: "read a file of the host's", args: []string{"read", "{canary}"}, want: "ENOENT"},
		{name: "list a directory of the host's", args: []string{"list", "{hostdir}"}, want: "ENOENT"},
		{name: "list the homes", args: []string{"list", "/home/agent"}, want: "empty", control: never, why: "there is no such home"},
		{name: "list /root", args: []string{"list", "/root"}, want: "empty", control: root},
		{name: "list /run", args: []string{"list", "/run"}, want: "empty"},
		{name: "list /var/lib", args: []string{"list", "/var/lib"}, want: "ENOENT"},
		{name: "list /sys", args: []string{"list", "/sys"}, want: "ENOENT"},
		{name: "list /sys/fs/cgroup", args: []string{"list", "/sys/fs/cgroup"}, want: "ENOENT"},
		{name: "create a file in /usr", args: []string{"create", "/usr/attacker-file"}, want: "EROFS", control: root},
		{name: "create a file in /etc", args: []string{"create", "/etc/attacker-file"}, want: "EROFS", control: root},
		{name: "create a file in /", args: []string{"create", "/attacker-file"}, want: "EROFS", control: root},
		{name: "open /bin/sh for writing", args: []string{"open", "/bin/sh", "w"}, want: "EROFS|EACCES", control: root, unless: "ETXTBSY"},
		{name: "climb out of every directory handle", args: []string{"climb", "{canary}"}, want: "ENOENT"},
		{name: "use an inherited descriptor", args: []string{"inherited"}, want: "none"},
		{name: "open a file by its handle", args: []string{"handle"}, want: "EPERM", control: root},
		{name: "make a device node", args: []string{"mknod"}, want: "EPERM", control: root},
		{name: "give a file capabilities", args: []string{"filecap"}, want: "EPERM", control: private},
	}
	for _, device := range []string{"vda", "sda", "mem", "kmsg", "kvm", "fuse", "net/tun", "console", "tty1", "userfaultfd"} {
		rows = append(rows, row{name: "open /dev/" + device, args: []string{"open", "/dev/" + device, "r"}, want: "ENOENT",
			control: root, unless: "ENOENT|ENXIO|ENODEV|EIO|EPERM"})
	}
	return rows
}

// workspaceAttacks are after what the host executes, obeys or hides in a
// directory that commands may write.
func workspaceAttacks() []row {
	hook, config, agent := "{ws}/.git/hooks/pre-commit", "{ws}/.git/config", "{ws}/bin/paddock-agent"
	return []row{
		{name: "overwrite a git hook", args: []string{"append", hook}, want: "EROFS"},
		{name: "plant a git hook", args: []string{"create", "{ws}/.git/hooks/post-checkout"}, want: "EROFS"},
		{name: "replace a git hook", args: []string{"replace", hook}, want: "EXDEV|EROFS|EBUSY"},
		{name: "append to git's configuration", args: []string{"append", config}, want: "EROFS"},
		{name: "replace git's configuration", args: []string{"replace", config}, want: "EBUSY"},
		{name: "remove git's configuration", args: []string{"remove", "{ws}/.git/config"}, want: "EBUSY"},
		{name: "append to .envrc", args: []string{"append", "{ws}/.envrc"}, want: "EROFS"},
		{name: "replace .envrc", args: []string{"replace", "{ws}/.envrc"}, want: "EBUSY"},
		{name: "swap .git for another", args: []string{"exchange", "{ws}/.git"}, want: "EBUSY"},
		{name: "swap .git/hooks for another", args: []string{"exchange", "{ws}/.git/hooks"}, want: "EBUSY"},
		{name: "swap the directory of the agent", args: []string{"exchange", "{ws}/bin"}, want: "EBUSY"},
		{name: "hard-link a hook to write it elsewhere", args: []string{"hardlink", hook}, want: "EXDEV"},
		{name: "hard-link the agent to write it elsewhere", args: []string{"hardlink", agent}, want: "EXDEV"},
		{name: "append to the agent", args: []string{"append", agent}, want: "EROFS|ETXTBSY"},
		{name: "replace the agent", args: []string{"replace", agent}, want: "EBUSY"},
		{name: "read Paddock's state", args: []string{"read", "{ws}/state/secret"}, want: "ENOENT"},
		{name: "list Paddock's state", args: []string{"list", "{ws}/state"}, want: "empty"},
		{name: "write Paddock's state", args: []string{"create", "{ws}/state/x"}, want: "EROFS"},
		{name: "swap the state's directory", args: []string{"exchange", "{ws}/state"}, want: "EBUSY"},
		{name: "uncover the state", args: []string{"umount", "{ws}/state", "{prepare}"}, want: "EPERM", control: private},
		{name: "uncover a hook", args: []string{"umount", "{ws}/.git/hooks", "{prepare}"}, want: "EPERM", control: private},
	}
}

// setIDAttacks leave a file that gives its owner's identity away on the host.
func setIDAttacks() []row {
	var rows []row
	for _, way := range []string{"fchmod", "fchmodat", "fchmodat2", "openat", "openat2", "tmpfile", "mknodat", "highbits"} {
		r := row{name: "plant a set-id file by " + way, args: []string{"setid-" + way}, want: "EPERM", unless: "ENOSYS"}
		if way == "openat2" {
			r.want = "ENOSYS"
		}
		rows = append(rows, r)
	}
	return append(rows,
		row{name: "plant a set-id directory by mkdirat", args: []string{"setid-mkdirat"}, want: "EPERM", unless: "the bit was left out"},
		row{name: "plant a set-id file by io_uring", args: []string{"setid-io_uring"}, want: "ENOSYS", unless: "EFAULT|EINVAL|EPERM"})
}

// mountAttacks are after the view of the file system.
func mountAttacks() []row {
	rows := []row{
		{name: "remount /usr read-write", args: []string{"remount-rw", "/usr", "{prepare}"}, control: private},
		{name: "remount a hook read-write", args: []string{"remount-rw", "{ws}/.git/hooks", "{prepare}"}, control: private},
		{name: "clear the attributes of /usr", args: []string{"mount-setattr", "/usr", "{prepare}"}, control: private},
		{name: "unmount /usr", args: []string{"umount", "/usr", "{prepare}"}, control: private},
		{name: "unmount the workspace", args: []string{"umount", "/workspace"}, control: never, why: "there is none outside"},
	}
	for _, what := range []string{"mount-tmpfs", "mount-proc", "mount-bind", "open-tree", "fsopen", "chroot", "pivot"} {
		rows = append(rows, row{name: what, args: []string{what}, control: private, unless: map[string]string{"mount-proc": "EPERM"}[what]})
	}
	for i := range rows {
		rows[i].want = "EPERM"
	}
	return rows
}

func namespaceAttacks() []row {
	var rows []row
	for _, ns := range []string{"user", "mnt", "pid", "ipc", "uts", "net", "cgroup", "time"} {
		rows = append(rows, row{name: "unshare " + ns, args: []string{"unshare", ns}, want: "EPERM", control: private})
		if ns != "time" {
			rows = append(rows, row{name: "clone a new " + ns, args: []string{"clone", ns}, want: "EPERM", control: private})
		}
		rows = append(rows,
			row{name: "enter init's " + ns, args: []string{"setns", "{init}", ns}, want: "EACCES", control: root,
				unless: map[string]string{"user": "EINVAL", "time": "EUSERS|EINVAL", "mnt": "EINVAL"}[ns]},
			row{name: "enter the own " + ns + " again", args: []string{"setns", "self", ns}, want: "EPERM", control: private,
				unless: map[string]string{"user": "EINVAL", "time": "EUSERS|EINVAL", "mnt": "EINVAL", "pid": "EPERM", "cgroup": "EPERM"}[ns]})
	}
	return append(rows,
		row{name: "clone3 a new user namespace", args: []string{"clone3", "user"}, want: "ENOSYS", control: private},
		row{name: "change the host name", args: []string{"sethostname"}, want: "EPERM", control: private})
}

// processAttacks are after the init of the pid namespace, and what is beyond it.
func processAttacks() []row {
	const dumb = "it reaches the commands' init alone, which does nothing"
	rows := []row{
		{name: "find a process of the host's", args: []string{"find-process", "{token}"}, want: "not visible"},
		{name: "trace init", args: []string{"ptrace", "{init}"}, want: "EPERM"},
		{name: "read init's memory", args: []string{"vm-read", "{init}"}, want: "EPERM"},
		{name: "take init's descriptor", args: []string{"pidfd-getfd", "{init}"}, want: "EPERM"},
		{name: "kill init with every signal", args: []string{"kill", "{init}"}, want: "survived"},
		{name: "forge faults of init", args: []string{"sigqueue", "{init}"}, want: "survived"},
		{name: "limit init's CPU time", args: []string{"prlimit", "{init}"}, want: "EPERM"},
		{name: "pin init to a CPU", args: []string{"affinity", "{init}"}, want: harmless, why: dumb},
		{name: "change the niceness of every process", args: []string{"nice-user"}, want: harmless, why: "outside it would slow the host down; inside it reaches the commands alone",
			control: never},
		{name: "change the personality", args: []string{"personality"}, want: "EPERM"},
	}
	for _, file := range []string{"mem", "environ", "fd", "root", "cwd", "maps", "auxv", "stack", "syscall", "pagemap", "io"} {
		rows = append(rows, row{name: "open /proc/1/" + file, args: []string{"proc-open", "{init}", file}, want: "EACCES|EPERM",
			unless: "EPERM|EACCES|ENOENT|EINVAL"})
	}
	for _, link := range []string{"exe", "root", "cwd", "ns/mnt", "fd/0"} {
		rows = append(rows, row{name: "follow /proc/1/" + link, args: []string{"proc-link", "{init}", link}, want: "EACCES"})
	}
	return rows
}

// networkAttacks are tried without a network.
func networkAttacks() []row {
	rows := append(socketAttacks(),
		row{name: "connect to a service on 127.0.0.1", args: []string{"tcp", "{tcp}"}, want: "ECONNREFUSED"},
		row{name: "send to another host", args: []string{"udp", "192.0.2.1:9"}, want: "ENETUNREACH", unless: "ENETUNREACH|EPERM|EACCES"},
		row{name: "see another interface than lo", args: []string{"ifaces"}, want: "lo alone", unless: "lo alone"})
	return append(rows, unixAttacks("ECONNREFUSED")...)
}

// hostNetworkAttacks are tried with the host's network.
func hostNetworkAttacks() []row {
	return append(append(socketAttacks(), unixAttacks("EPERM")...),
		row{name: "find a process of the host's", args: []string{"find-process", "{token}"}, want: "not visible"},
		row{name: "connect to a service on 127.0.0.1", args: []string{"tcp", "{tcp}"}, want: harmless, why: "the host's network is the host's"})
}

func unixAttacks(abstract string) []row {
	return []row{
		{name: "connect to an abstract socket", args: []string{"abstract", "{abstract}"}, want: abstract},
		{name: "connect to a socket with a path", args: []string{"socket-at", "{socket}"}, want: "ENOENT"},
	}
}

func socketAttacks() []row {
	sock := func(family, kind, protocol int) []string {
		return []string{"socket", fmt.Sprint(family), fmt.Sprint(kind), fmt.Sprint(protocol)}
	}
	return []row{
		{name: "make a vsock socket", args: sock(unix.AF_VSOCK, unix.SOCK_STREAM, 0), want: "EPERM", unless: "EAFNOSUPPORT"},
		{name: "make a packet socket", args: sock(unix.AF_PACKET, unix.SOCK_RAW, 0), want: "EPERM", control: private, unless: "EAFNOSUPPORT"},
		{name: "make an XDP socket", args: sock(unix.AF_XDP, unix.SOCK_RAW, 0), want: "EPERM", control: private, unless: "EAFNOSUPPORT"},
		{name: "make a crypto API socket", args: sock(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), want: "EAFNOSUPPORT", unless: "EAFNOSUPPORT"},
		{name: "make a Qualcomm IPC socket", args: sock(unix.AF_QIPCRTR, unix.SOCK_DGRAM, 0), want: "EAFNOSUPPORT", unless: "EAFNOSUPPORT"},
		{name: "make a raw IP socket", args: sock(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), want: "EPERM", control: private},
		{name: "add an address to lo", args: []string{"route"}, want: "EPERM", control: private},
		{name: "change the flags of lo", args: []string{"lo-down"}, want: "EPERM", control: private},
	}
}

// kernelAttacks are after what the kernel keeps for everybody at once.
func kernelAttacks() []row {
	rows := []row{
		{name: "type into a terminal", args: []string{"tiocsti"}, want: "EPERM", unless: "EIO"},
		{name: "find the host's key", args: []string{"key-search", "{token}"}, want: "EPERM"},
		{name: "see the host's key in /proc/keys", args: []string{"key-list", "{token}"}, want: "not listed"},
		{name: "add a key", args: []string{"key-add"}, want: "EPERM"},
		{name: "attach the host's shared memory", args: []string{"shm", "{shm}"}, want: "ENOENT"},
		{name: "open the host's message queue", args: []string{"mq", "{mq}"}, want: "ENOENT"},
		{name: "io_uring", args: []string{"io_uring"}, want: "ENOSYS", unless: "EFAULT|EINVAL|EPERM"},
		{name: "bpf", args: []string{"bpf"}, want: "EPERM", control: root, unless: "ENOENT|EINVAL|ENOSYS"},
		{name: "perf_event_open", args: []string{"perf"}, want: "EPERM", control: root, unless: "ENOSYS"},
		{name: "userfaultfd", args: []string{"userfaultfd"}, want: "EPERM", unless: "EPERM|ENOSYS"},
		{name: "read the kernel's log", args: []string{"syslog"}, want: "EPERM", control: root, unless: "ENOSYS"},
		{name: "set the clock", args: []string{"clock_settime"}, want: "EPERM", control: never, why: "it would change the host's"},
		{name: "set the time", args: []string{"settimeofday"}, want: "EPERM", control: root},
		{name: "tune the clock", args: []string{"adjtimex"}, want: "EPERM"},
		{name: "reboot", args: []string{"reboot"}, want: "EPERM", control: never, why: "it would change the host"},
		{name: "swap on", args: []string{"swapon"}, want: "EPERM", control: root, unless: "ENOENT|EINVAL|ENOSYS"},
		{name: "swap off", args: []string{"swapoff"}, want: "EPERM", control: root, unless: "ENOENT|EINVAL|ENOSYS"},
		{name: "process accounting", args: []string{"acct"}, want: "EPERM", control: root, unless: "ENOENT|ENOSYS"},
		{name: "load a module", args: []string{"init_module"}, want: "EPERM", control: root, unless: "ENOEXEC|ENOSYS|EPERM"},
		{name: "load another kernel", args: []string{"kexec"}, want: "EPERM", control: never, why: "it would unload one that is loaded"},
		{name: "disk quotas", args: []string{"quotactl"}, want: "EPERM", unless: "ENOSYS|EINVAL|ENODEV"},
	}
	for _, file := range []string{"sys/kernel/hostname", "sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/vm/drop_caches",
		"sys/user/max_user_namespaces", "sys/kernel/shmmax", "sysrq-trigger"} {
		rows = append(rows, row{name: "write /proc/" + file, args: []string{"open", "/proc/" + file, "w"}, want: "EACCES|EPERM|ENOENT",
			control: root, unless: "ENOENT|EACCES"})
	}
	for _, file := range []string{"kcore", "kpageflags", "timer_list", "slabinfo"} {
		rows = append(rows, row{name: "read /proc/" + file, args: []string{"open", "/proc/" + file, "r"}, want: "EACCES|EPERM|ENOENT",
			control: root, unless: "ENOENT|EPERM"})
	}
	return rows
}

// oldAttacks use what only one architecture still has.
func oldAttacks() []row {
	if runtime.GOARCH != "amd64" {
		return nil
	}
	rows := []row{
		{name: "a system call of x32", args: []string{"x32"}, want: "ENOSYS", unless: "ENOSYS"},
		{name: "a 32-bit system call", args: []string{"int80"}, want: "ENOSYS|crashed (status 2 )", unless: "crashed (exit status 2)"},
		{name: "iopl", args: []string{"iopl"}, want: "EPERM", unless: "ENOSYS"},
		{name: "plant a set-id directory by mkdir", args: []string{"setid-mkdir"}, want: "EPERM", unless: "the bit was left out"},
	}
	for _, way := range []string{"chmod", "open", "creat", "mknod"} {
		rows = append(rows, row{name: "plant a set-id file by " + way, args: []string{"setid-" + way}, want: "EPERM"})
	}
	return rows
}
