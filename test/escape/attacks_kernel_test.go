//go:build linux

package escape

import "runtime"

const amd64 = runtime.GOARCH == "amd64"

// kernelAttacks are after what the kernel keeps for everybody at once.
func kernelAttacks() []row {
	rows := []row{
		{name: "type into a terminal", args: []string{"tiocsti"}, want: "EPERM", landlock: "EACCES", unless: "EIO"},
		{name: "paste into a console", args: []string{"tioclinux"}, want: "EPERM", landlock: "EACCES", unless: "ENOTTY|EINVAL|EPERM"},
		{name: "find the host's key", args: []string{"key-search", "{token}"}, want: "EPERM"},
		{name: "ask for the host's key", args: []string{"key-request", "{token}"}, want: "EPERM", unless: "ENOKEY|ENOENT"},
		{name: "see the host's key in /proc/keys", args: []string{"key-list", "{token}"}, want: "not listed", lost: "what /proc tells"},
		{name: "add a key", args: []string{"key-add"}, want: "EPERM"},
		{name: "attach the host's shared memory", args: []string{"shm", "{shm}"}, want: "ENOENT", landlock: "ENOSYS"},
		{name: "attach another sandbox's shared memory", args: []string{"shm", "{sibling-shm}"}, want: "ENOENT", landlock: "ENOSYS"},
		{name: "use the host's semaphores", args: []string{"sem", "{sem}"}, want: "ENOENT", landlock: "ENOSYS"},
		{name: "open the host's message queue", args: []string{"mq", "{mq}"}, want: "ENOENT", landlock: "ENOSYS"},
		{name: "open the host's POSIX shared memory", args: []string{"open", "{devshm}", "r"}, want: "ENOENT", landlock: "EACCES"},
		{name: "io_uring", args: []string{"io_uring"}, want: "ENOSYS", unless: "ENOSYS|EPERM"},
		{name: "bpf", args: []string{"bpf"}, want: "EPERM", control: root, unless: "ENOENT|EINVAL|ENOSYS"},
		{name: "perf_event_open", args: []string{"perf"}, want: "EPERM", control: root, unless: "ENOSYS"},
		{name: "userfaultfd", args: []string{"userfaultfd"}, want: "EPERM", unless: "EPERM|ENOSYS"},
		{name: "fanotify", args: []string{"fanotify"}, want: "EPERM"},
		{name: "hang up the terminal", args: []string{"vhangup"}, want: "EPERM", control: never, why: "it would be the caller's"},
		{name: "read the kernel's log", args: []string{"syslog"}, want: "EPERM", control: root, unless: "ENOSYS"},
		{name: "set the clock", args: []string{"clock_settime"}, want: "EPERM", control: vmOnly},
		{name: "set the time", args: []string{"settimeofday"}, want: "EPERM", control: root},
		{name: "tune the clock", args: []string{"adjtimex"}, want: "EPERM"},
		{name: "make a system request", args: []string{"sysrq"}, want: "EROFS|EACCES|ENOENT", control: vmOnly, unless: "ENOENT"},
		{name: "reboot", args: []string{"reboot"}, want: "EPERM", control: vmOnly},
		{name: "swap on", args: []string{"swapon"}, want: "EPERM", control: root, unless: "ENOENT|EINVAL|ENOSYS"},
		{name: "swap off", args: []string{"swapoff"}, want: "EPERM", control: root, unless: "ENOENT|EINVAL|ENOSYS"},
		{name: "process accounting", args: []string{"acct"}, want: "EPERM", control: root, unless: "ENOENT|ENOSYS"},
		{name: "load a module", args: []string{"init_module"}, want: "EPERM", control: root, unless: "ENOEXEC|ENOSYS|EPERM"},
		{name: "load a module from a file", args: []string{"finit_module"}, want: "EPERM", control: root, unless: "EBADF|ENOSYS|EPERM"},
		{name: "unload a module", args: []string{"delete_module"}, want: "EPERM", control: root, unless: "ENOENT|ENOSYS|EPERM"},
		{name: "load another kernel", args: []string{"kexec"}, want: "EPERM", control: vmOnly},
		{name: "disk quotas", args: []string{"quotactl"}, want: "EPERM", unless: "ENOSYS|EINVAL|ENODEV"},
		{name: "make a control group", args: []string{"create", "{cgroup}/attacker"}, want: "ENOENT|EROFS|EACCES", landlock: "EACCES", control: never, why: "files cannot be made there"},
		{name: "move into another control group", args: []string{"open", "{cgroup}/cgroup.procs", "w"}, want: "ENOENT|EROFS|EACCES", landlock: "EACCES", control: root, unless: "ENOENT"},
	}
	for _, file := range []string{"sys/kernel/hostname", "sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/vm/drop_caches",
		"sys/user/max_user_namespaces", "sys/kernel/shmmax", "sys/kernel/ns_last_pid"} {
		rows = append(rows, row{name: "write /proc/" + file, args: []string{"open", "/proc/" + file, "w"}, want: "EROFS|EACCES|ENOENT",
			landlock: "EACCES|ENOENT", control: root, unless: "ENOENT|EACCES"})
	}
	// What is masked is there, and empty.
	for _, file := range []string{"kcore", "timer_list", "kallsyms", "interrupts"} {
		r := row{name: "read /proc/" + file, args: []string{"read", "/proc/" + file}, want: "EACCES|ENOENT|EOF", control: root, unless: "ENOENT|EPERM|EOF"}
		if file == "kallsyms" || file == "interrupts" {
			r.lost = "what /proc tells"
		}
		rows = append(rows, r)
	}
	for _, file := range []string{"kpageflags", "slabinfo"} {
		rows = append(rows, row{name: "open /proc/" + file, args: []string{"open", "/proc/" + file, "r"}, want: "EACCES|ENOENT", control: root, unless: "ENOENT"})
	}
	return append(rows, oldAttacks()...)
}

// oldAttacks use what only one architecture still has.
func oldAttacks() []row {
	if !amd64 {
		return nil
	}
	return []row{
		{name: "a system call of x32", args: []string{"x32"}, want: "ENOSYS", unless: "ENOSYS"},
		{name: "a 32-bit system call", args: []string{"int80"}, want: "ENOSYS|crashed (status 2)", unless: "crashed (exit status 2)"},
		{name: "iopl", args: []string{"iopl"}, want: "EPERM", unless: "ENOSYS"},
	}
}
