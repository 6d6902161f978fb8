package confine

import (
	"slices"

	"golang.org/x/sys/unix"
)

// rule denies system calls: each of calls fails with errno if all conditions
// hold. If there are several rules for one call, the first that holds decides.
type rule struct {
	group string
	calls []string
	when  []cond
	errno unix.Errno
	who   scope
	why   string
}

// binds reports whether the rule is part of a scope's filter. The rule about
// clone3 is not part of it for commands that begin in control groups: they have
// another filter for that (NoClone3).
func (r rule) binds(who scope) bool {
	return r.who&who != 0 && (who&forGrouped == 0 || r.calls[0] != "clone3")
}

// scope is a set of processes and conditions; a rule binds a filter that shares
// at least one of its bits.
type scope uint16

const (
	forAgent   scope = 1 << iota // every thread of the agent
	forDefault                   // commands under this profile, and so on
	forStrict
	forDebug
	forNoNamespaces // commands that share the host's namespaces
	forNoNetwork    // commands that the filter keeps from the network
	forGrouped      // commands that another filter keeps from clone3
	forNotified     // commands that have a supervisor
	forListed       // commands that may execute only listed programs
	forEgress       // the egress process, beside the host's processes

	forCommands = forDefault | forStrict | forDebug
	forEveryone = forAgent | forCommands
)

// rules returns what filters deny. The errno is ENOSYS if programs fall back to
// an older call or manage without, the kernel's usual errno for the case if it
// has one, and else EPERM.
//
// The rules are a function, not a variable, so that they cost nothing when the
// agent starts, which links this package, too.
func rules() []rule {
	return slices.Concat(fileRules(), namespaceRules(), processRules(), hostRules(), socketRules(), sharedRules())
}

var (
	setID         = []value{{unix.S_ISUID, "S_ISUID"}, {unix.S_ISGID, "S_ISGID"}}
	creatingFlags = []value{{unix.O_CREAT, "O_CREAT"}, {0o20000000, "__O_TMPFILE"}} // O_TMPFILE without its O_DIRECTORY
	deviceTypes   = []value{{unix.S_IFCHR, "S_IFCHR"}, {unix.S_IFBLK, "S_IFBLK"}}
)

const (
	setIDWhy  = "on disk it would act with its owner's identity on the host"
	deviceWhy = "no device belongs into a sandbox; 0:0 is what overlayfs takes for a deletion"
	namesWhy  = "a nested namespace opens most of the kernel to its maker"
	mountWhy  = "the view of the file system is fixed"
	unseenWhy = "they change what a file holds and leave its times, by which changes are found"
)

// Requests of file systems for defragmentation: each gives a file the blocks of
// another one. Cloning (FICLONE), deduplication, and XFS's newer
// XFS_IOC_EXCHANGE_RANGE are allowed: they change the times, or nothing that
// can be read.
const (
	ext4MoveExt   = 0xc028660f
	xfsSwapExt    = 0xc0c0586d
	f2fsMoveRange = 0xc020f509
)

// fileRules restrict what files can become and how they are opened.
func fileRules() []rule {
	return []rule{
		{"set-id files", []string{"chmod", "fchmod", "creat", "mkdir", "mknod"}, []cond{has(1, "mode", setID...)}, unix.EPERM, forCommands, setIDWhy},
		{"set-id files", []string{"fchmodat", "fchmodat2", "mkdirat", "mknodat"}, []cond{has(2, "mode", setID...)}, unix.EPERM, forCommands, setIDWhy},
		{"set-id files", []string{"open"}, []cond{has(1, "flags", creatingFlags...), has(2, "mode", setID...)}, unix.EPERM, forCommands, setIDWhy},
		{"set-id files", []string{"openat"}, []cond{has(2, "flags", creatingFlags...), has(3, "mode", setID...)}, unix.EPERM, forCommands, setIDWhy},
		{"set-id files", []string{"openat2"}, nil, unix.ENOSYS, forCommands, "its mode is behind a pointer; programs use openat"},
		{"device nodes", []string{"mknod"}, []cond{is(1, "mode", deviceTypes...).masked(unix.S_IFMT)}, unix.EPERM, forCommands, deviceWhy},
		{"device nodes", []string{"mknodat"}, []cond{is(2, "mode", deviceTypes...).masked(unix.S_IFMT)}, unix.EPERM, forCommands, deviceWhy},
		{"unseen writes", []string{"ioctl"}, []cond{is(1, "request", value{ext4MoveExt, "EXT4_IOC_MOVE_EXT"}, value{xfsSwapExt, "XFS_IOC_SWAPEXT"},
			value{f2fsMoveRange, "F2FS_IOC_MOVE_RANGE"})}, unix.EPERM, forCommands, unseenWhy},
		{"file handles", []string{"open_by_handle_at"}, nil, unix.EPERM, forEveryone, "it asks no directory for leave"},
		{"file handles", []string{"name_to_handle_at"}, nil, unix.EPERM, forCommands, "of no use without the other"},
		{"file handles", []string{"fanotify_init", "fanotify_mark"}, nil, unix.EPERM, forCommands, "it watches whole file systems, by handle"},
		{"programs without a file", []string{"memfd_create"}, nil, unix.ENOSYS, forStrict | forListed, "programs and data are files; programs fall back to temporary ones"},
		{"programs without a file", []string{"execveat"}, nil, unix.ENOSYS, forStrict, "programs are executed by their path"},
	}
}

// namespaceRules protect the namespaces and mounts of the walls. CLONE_NEWUTS is
// allowed: the spawner marks each command's tree with it, and commands lack the
// capability for it.
func namespaceRules() []rule {
	return []rule{
		{"namespaces", []string{"clone"}, []cond{has(0, "flags", value{unix.CLONE_NEWNS, "CLONE_NEWNS"}, value{unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"},
			value{unix.CLONE_NEWIPC, "CLONE_NEWIPC"}, value{unix.CLONE_NEWUSER, "CLONE_NEWUSER"}, value{unix.CLONE_NEWPID, "CLONE_NEWPID"},
			value{unix.CLONE_NEWNET, "CLONE_NEWNET"})}, unix.EPERM, forCommands, namesWhy},
		{"namespaces", []string{"clone3"}, nil, unix.ENOSYS, forCommands, "its flags are behind a pointer; programs use clone"},
		{"namespaces", []string{"unshare"}, []cond{hasOther(0, "flags", value{unix.CLONE_VM, "CLONE_VM"}, value{unix.CLONE_FS, "CLONE_FS"},
			value{unix.CLONE_FILES, "CLONE_FILES"}, value{unix.CLONE_SIGHAND, "CLONE_SIGHAND"}, value{unix.CLONE_THREAD, "CLONE_THREAD"},
			value{unix.CLONE_SYSVSEM, "CLONE_SYSVSEM"}, value{unix.CLONE_NEWUTS, "CLONE_NEWUTS"})}, unix.EPERM, forCommands, namesWhy},
		{"namespaces", []string{"setns"}, nil, unix.EPERM, forCommands, namesWhy},
		{"namespaces", []string{"listns"}, nil, unix.ENOSYS, forCommands, "what other namespaces there are is nobody's business"},
		{"mounts", []string{"mount", "umount2", "chroot", "pivot_root"}, nil, unix.EPERM, forCommands, mountWhy},
		{"mounts", []string{"open_tree", "open_tree_attr", "move_mount", "mount_setattr", "fsopen", "fsconfig", "fsmount", "fspick"}, nil, unix.EPERM, forCommands, mountWhy},
		{"mounts", []string{"statmount", "listmount"}, nil, unix.ENOSYS, forCommands, "they name mount namespaces behind a pointer; programs read /proc/self/mountinfo"},
	}
}

// personas are the harmless personalities, and the query for the current one.
var personas = []value{{0, "PER_LINUX"}, {0x8, "PER_LINUX32"}, {0x20000, "UNAME26"}, {0x20008, "PER_LINUX32|UNAME26"}, {0xffffffff, "a query"}}

// processRules keep processes from each other.
func processRules() []rule {
	return []rule{
		{"other processes", []string{"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd"}, nil, unix.EPERM, forDefault | forStrict,
			"only debuggers look into other processes"},
		{"other processes", []string{"process_madvise", "process_mrelease"}, nil, unix.EPERM, forCommands, "the memory of other processes"},
		{"other processes", []string{"prlimit64"}, []cond{isNot(0, "pid", value{0, "0"})}, unix.EPERM, forNoNamespaces, "the host's processes can be named; one's own pid is not known to a filter"},
		{"other processes", []string{"prlimit64"}, []cond{isNot(0, "pid", value{0, "0"}), notNull(2, "new_limit")}, unix.EPERM, forCommands, "limits of other processes"},
		{"personality", []string{"personality"}, []cond{isNot(0, "persona", personas[0], personas[4])}, unix.EPERM, forStrict, "old behaviour is old holes"},
		{"personality", []string{"personality"}, []cond{isNot(0, "persona", personas...)}, unix.EPERM, forDefault, "it turns protections of memory off"},
		{"personality", []string{"personality"}, []cond{isNot(0, "persona", append(personas[:len(personas):len(personas)], value{0x40000, "ADDR_NO_RANDOMIZE"})...)}, unix.EPERM, forDebug,
			"it turns protections of memory off; debuggers need addresses that repeat"},
		{"programs", []string{"execve", "execveat"}, nil, unix.EPERM, forEgress, "it starts no other program"},
		{"keyrings", []string{"keyctl", "add_key", "request_key"}, nil, unix.EPERM, forEveryone, "keyrings are not namespaced"},
		{"terminals", []string{"ioctl"}, []cond{is(1, "request", value{unix.TIOCSTI, "TIOCSTI"}, value{unix.TIOCLINUX, "TIOCLINUX"})}, unix.EPERM, forCommands,
			"typing into a terminal"},
		{"terminals", []string{"ioctl"}, []cond{is(1, "request", value{unix.TIOCSETD, "TIOCSETD"})}, unix.EPERM, forCommands, "line disciplines are old drivers for modems"},
		{"terminals", []string{"vhangup"}, nil, unix.EPERM, forEveryone, "it takes a terminal from others"},
	}
}

// hostRules deny what affects the host, and the parts of the kernel that have
// often been exploited.
func hostRules() []rule {
	return []rule{
		{"modules", []string{"init_module", "finit_module", "delete_module"}, nil, unix.EPERM, forEveryone, "the host's kernel"},
		{"kernels", []string{"kexec_load", "kexec_file_load", "reboot"}, nil, unix.EPERM, forEveryone, "the host's kernel"},
		{"accounting", []string{"swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog"}, nil, unix.EPERM, forEveryone, "the host's memory, disks and log"},
		{"names", []string{"sethostname", "setdomainname"}, nil, unix.EPERM, forCommands, "the host's name, where it is not the sandbox's own"},
		{"clocks", []string{"settimeofday", "clock_settime", "adjtimex", "clock_adjtime"}, nil, unix.EPERM, forEveryone, "time is not namespaced"},
		{"input and output ports", []string{"iopl", "ioperm"}, nil, unix.EPERM, forEveryone, "hardware"},
		{"attack surface", []string{"io_uring_setup", "io_uring_enter", "io_uring_register"}, nil, unix.ENOSYS, forEveryone, "it makes calls that filters cannot see"},
		{"attack surface", []string{"bpf", "perf_event_open", "userfaultfd"}, nil, unix.EPERM, forEveryone, "large, privileged, and what exploits are built with"},
		{"attack surface", []string{"modify_ldt"}, nil, unix.ENOSYS, forEveryone, "for 16-bit programs"},
		{"attack surface", []string{"memfd_secret"}, nil, unix.ENOSYS, forCommands, "memory that nobody can look at or reclaim"},
		{"attack surface", []string{"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules"}, nil, unix.ENOSYS, forCommands, "the host's security modules"},
		{"attack surface", []string{"mbind", "set_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages"}, nil, unix.ENOSYS, forCommands,
			"placement of memory among the host's nodes; programs do without, as on kernels that know one node"},
		{"attack surface", []string{"vmsplice", "remap_file_pages"}, nil, unix.ENOSYS, forStrict, "rare, and wrong more than once"},
		{"obsolete", []string{"uselib", "ustat", "sysfs", "_sysctl", "nfsservctl", "lookup_dcookie", "create_module", "get_kernel_syms", "query_module",
			"getpmsg", "putpmsg", "afs_syscall", "tuxcall", "security", "vserver", "epoll_ctl_old", "epoll_wait_old"}, nil, unix.ENOSYS, forEveryone,
			"newer kernels do not have it"},
	}
}

var (
	afInet      = []value{{unix.AF_INET, "AF_INET"}, {unix.AF_INET6, "AF_INET6"}}
	afUnix      = value{unix.AF_UNIX, "AF_UNIX"}
	afNetlink   = value{unix.AF_NETLINK, "AF_NETLINK"}
	netFamilies = []value{{unix.AF_INET, "AF_INET"}, {unix.AF_INET6, "AF_INET6"}, {unix.AF_NETLINK, "AF_NETLINK"}}
	afRaw       = []value{{unix.AF_PACKET, "AF_PACKET"}, {unix.AF_XDP, "AF_XDP"}, {unix.AF_VSOCK, "AF_VSOCK"}}
	afKnown     = []value{{unix.AF_UNIX, "AF_UNIX"}, {unix.AF_INET, "AF_INET"}, {unix.AF_INET6, "AF_INET6"}, {unix.AF_NETLINK, "AF_NETLINK"}}
	ipTypes     = []value{{unix.SOCK_STREAM, "SOCK_STREAM"}, {unix.SOCK_DGRAM, "SOCK_DGRAM"}, {unix.SOCK_RAW, "SOCK_RAW"}} // the agent lacks the capability for the last
	pairTypes   = []value{{unix.SOCK_STREAM, "SOCK_STREAM"}, {unix.SOCK_SEQPACKET, "SOCK_SEQPACKET"}}
	// ipProtocols does not include protocols that Landlock's rules for TCP do not
	// see (MPTCP) or that are loaded as modules on request (SCTP, DCCP, L2TP).
	ipProtocols = []value{{0, "0"}, {unix.IPPROTO_TCP, "TCP"}, {unix.IPPROTO_UDP, "UDP"}, {unix.IPPROTO_ICMP, "ICMP"}, {unix.IPPROTO_ICMPV6, "ICMPV6"}}
)

const sockTypeMask = 0xf // the other bits of socket's second argument are flags

// socketRules deny all sockets but those that programs use: Unix, IP, and the
// part of netlink that lists interfaces and routes.
func socketRules() []rule {
	return []rule{
		{"sockets", []string{"socket"}, []cond{is(0, "family", netFamilies...)}, unix.EACCES, forNoNetwork, "no network namespace keeps commands from the host's network"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", afUnix)}, unix.EACCES, forNoNamespaces, "services of the host listen on such sockets and do what they are asked to"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", afRaw...)}, unix.EPERM, forEveryone, "raw packets, and what ignores network namespaces"},
		{"sockets", []string{"socket"}, []cond{isNot(0, "family", afKnown...)}, unix.EAFNOSUPPORT, forEveryone, "rare families: some ignore network namespaces, and each is attack surface"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", afNetlink)}, unix.EAFNOSUPPORT, forStrict, "it reaches deep into the kernel"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", afNetlink), isNot(2, "protocol", value{unix.NETLINK_ROUTE, "NETLINK_ROUTE"})}, unix.EPROTONOSUPPORT, forEveryone,
			"firewalls, audit, device events; only interfaces and routes are looked up by programs"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", afInet...), is(1, "type", value{unix.SOCK_RAW, "SOCK_RAW"}).masked(sockTypeMask)}, unix.EPERM, forCommands, "raw packets"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", afInet...), isNot(1, "type", ipTypes...).masked(sockTypeMask)}, unix.EPERM, forEveryone, "raw packets, and types that become such"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", afInet...), isNot(2, "protocol", ipProtocols...)}, unix.EPROTONOSUPPORT, forEveryone, "rare protocols are attack surface"},
		{"sockets", []string{"socketpair"}, []cond{isNot(1, "type", pairTypes...).masked(sockTypeMask)}, unix.EACCES, forNoNamespaces,
			"a pair of datagram sockets can send to any other, those of the host's services too"},
		{"sockets", []string{"socketpair"}, []cond{isNot(0, "family", afUnix)}, unix.EOPNOTSUPP, forEveryone, "it makes sockets of the family before it refuses"},
		{"sockets", []string{"setsockopt"}, []cond{is(1, "level", value{unix.IPPROTO_TCP, "TCP"}), is(2, "option", value{unix.TCP_ULP, "TCP_ULP"})}, unix.ENOPROTOOPT, forStrict,
			"protocols inside the kernel; programs encrypt themselves"},
	}
}

var (
	sysVCalls = []string{"shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl"}
	mqCalls   = []string{"mq_open", "mq_unlink"}
	otherPID  = []cond{isNot(0, "pid", value{0, "0"})}
)

const namedWhy = "the host's processes can be named; one's own pid is not known to a filter"

// sharedRules deny what reaches other processes of the same user if no
// namespace separates them.
func sharedRules() []rule {
	return []rule{
		{"shared memory and queues", sysVCalls, nil, unix.ENOSYS, forStrict | forNoNamespaces, "any process of the same user may attach"},
		{"shared memory and queues", mqCalls, nil, unix.ENOSYS, forStrict | forNoNamespaces, "any process of the same user may open them"},
		{"scheduling of others", []string{"sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"}, otherPID, unix.EPERM, forNoNamespaces, namedWhy},
		{"scheduling of others", []string{"setpriority", "ioprio_set"}, []cond{isNot(1, "who", value{0, "0"})}, unix.EPERM, forNoNamespaces, namedWhy},
		{"scheduling of others", []string{"setpriority"}, []cond{is(0, "which", value{unix.PRIO_USER, "PRIO_USER"})}, unix.EPERM, forNoNamespaces, "all processes of the user"},
		{"scheduling of others", []string{"ioprio_set"}, []cond{is(0, "which", value{3, "IOPRIO_WHO_USER"})}, unix.EPERM, forNoNamespaces, "all processes of the user"},
	}
}
