package confine

import "golang.org/x/sys/unix"

// hostRules keep what belongs to the host alone, and what has been the way
// into kernels too often.
func hostRules() []rule {
	return []rule{
		{"modules", []string{"init_module", "finit_module", "delete_module"}, nil, unix.EPERM, everyone, "the host's kernel"},
		{"kernels", []string{"kexec_load", "kexec_file_load", "reboot"}, nil, unix.EPERM, everyone, "the host's kernel"},
		{"accounting", []string{"swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog"}, nil, unix.EPERM, everyone, "the host's memory, disks and log"},
		{"names", []string{"sethostname", "setdomainname"}, nil, unix.EPERM, commands, "the host's name, where it is not the sandbox's own"},
		{"clocks", []string{"settimeofday", "clock_settime", "adjtimex", "clock_adjtime"}, nil, unix.EPERM, everyone, "time is not namespaced"},
		{"input and output ports", []string{"iopl", "ioperm"}, nil, unix.EPERM, everyone, "hardware"},
		{"attack surface", []string{"io_uring_setup", "io_uring_enter", "io_uring_register"}, nil, unix.ENOSYS, everyone, "it makes calls that filters cannot see"},
		{"attack surface", []string{"bpf", "perf_event_open", "userfaultfd"}, nil, unix.EPERM, everyone, "large, privileged, and what exploits are built with"},
		{"attack surface", []string{"modify_ldt"}, nil, unix.ENOSYS, everyone, "for 16-bit programs"},
		{"attack surface", []string{"memfd_secret"}, nil, unix.ENOSYS, commands, "memory that nobody can look at or reclaim"},
		{"attack surface", []string{"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules"}, nil, unix.ENOSYS, commands, "the host's security modules"},
		{"attack surface", []string{"mbind", "set_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages"}, nil, unix.EPERM, commands,
			"placement of memory among the host's nodes"},
		{"attack surface", []string{"vmsplice", "remap_file_pages"}, nil, unix.ENOSYS, strict, "rare, and wrong more than once"},
		{"obsolete", []string{"uselib", "ustat", "sysfs", "_sysctl", "nfsservctl", "lookup_dcookie", "create_module", "get_kernel_syms", "query_module",
			"getpmsg", "putpmsg", "afs_syscall", "tuxcall", "security", "vserver", "epoll_ctl_old", "epoll_wait_old"}, nil, unix.ENOSYS, everyone,
			"newer kernels do not have it"},
	}
}

var (
	inet     = []value{{unix.AF_INET, "AF_INET"}, {unix.AF_INET6, "AF_INET6"}}
	local    = value{unix.AF_UNIX, "AF_UNIX"}
	netlink  = value{unix.AF_NETLINK, "AF_NETLINK"}
	network  = []value{{unix.AF_INET, "AF_INET"}, {unix.AF_INET6, "AF_INET6"}, {unix.AF_NETLINK, "AF_NETLINK"}}
	packets  = []value{{unix.AF_PACKET, "AF_PACKET"}, {unix.AF_XDP, "AF_XDP"}, {unix.AF_VSOCK, "AF_VSOCK"}}
	families = []value{{unix.AF_UNIX, "AF_UNIX"}, {unix.AF_INET, "AF_INET"}, {unix.AF_INET6, "AF_INET6"}, {unix.AF_NETLINK, "AF_NETLINK"}}
	plain    = []value{{unix.SOCK_STREAM, "SOCK_STREAM"}, {unix.SOCK_DGRAM, "SOCK_DGRAM"}}
	pairs    = []value{{unix.SOCK_STREAM, "SOCK_STREAM"}, {unix.SOCK_SEQPACKET, "SOCK_SEQPACKET"}}
	// protocols leave out what Landlock's rules for TCP do not see (MPTCP) and
	// what is loaded as a module on request (SCTP, DCCP, L2TP).
	protocols = []value{{0, "0"}, {unix.IPPROTO_TCP, "TCP"}, {unix.IPPROTO_UDP, "UDP"}, {unix.IPPROTO_ICMP, "ICMP"}, {unix.IPPROTO_ICMPV6, "ICMPV6"}}
)

const sockTypeMask = 0xf // the rest of socket's second argument are flags

// socketRules leave the families that programs use: unix, IP, and the routing
// part of netlink, with which interfaces are listed.
func socketRules() []rule {
	return []rule{
		{"sockets", []string{"socket"}, []cond{is(0, "family", network...)}, unix.EACCES, noNetwork, "no network namespace keeps commands from the host's network"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", local)}, unix.EACCES, noNamespaces, "services of the host listen on such sockets and do what they are asked to"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", packets...)}, unix.EPERM, everyone, "raw packets, and what ignores network namespaces"},
		{"sockets", []string{"socket"}, []cond{isNot(0, "family", families...)}, unix.EAFNOSUPPORT, everyone, "rare families: some ignore network namespaces, and each is attack surface"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", netlink)}, unix.EAFNOSUPPORT, strict, "it reaches deep into the kernel"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", netlink), isNot(2, "protocol", value{unix.NETLINK_ROUTE, "NETLINK_ROUTE"})}, unix.EPROTONOSUPPORT, everyone,
			"firewalls, audit, device events; only interfaces and routes are looked up by programs"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", inet...), isNot(1, "type", plain...).masked(sockTypeMask)}, unix.EPERM, everyone, "raw packets"},
		{"sockets", []string{"socket"}, []cond{is(0, "family", inet...), isNot(2, "protocol", protocols...)}, unix.EPROTONOSUPPORT, everyone, "rare protocols are attack surface"},
		{"sockets", []string{"socketpair"}, []cond{isNot(1, "type", pairs...).masked(sockTypeMask)}, unix.EACCES, noNamespaces,
			"a pair of datagram sockets can send to any other, those of the host's services too"},
		{"sockets", []string{"socketpair"}, []cond{isNot(0, "family", local)}, unix.EOPNOTSUPP, everyone, "it makes sockets of the family before it refuses"},
		{"sockets", []string{"setsockopt"}, []cond{is(1, "level", value{unix.IPPROTO_TCP, "TCP"}), is(2, "option", value{unix.TCP_ULP, "TCP_ULP"})}, unix.ENOPROTOOPT, strict,
			"protocols inside the kernel; programs encrypt themselves"},
	}
}

var (
	sysV  = []string{"shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl"}
	mq    = []string{"mq_open", "mq_unlink"}
	other = []cond{isNot(0, "pid", value{0, "0"})}
)

const namedWhy = "the host's processes can be named; one's own pid is not known to a filter"

// sharedRules are about what processes of one user share where namespaces do
// not part them.
func sharedRules() []rule {
	return []rule{
		{"shared memory and queues", sysV, nil, unix.ENOSYS, strict | noNamespaces, "any process of the same user may attach"},
		{"shared memory and queues", mq, nil, unix.ENOSYS, strict | noNamespaces, "any process of the same user may open them"},
		{"scheduling of others", []string{"sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"}, other, unix.EPERM, noNamespaces, namedWhy},
		{"scheduling of others", []string{"setpriority", "ioprio_set"}, []cond{isNot(1, "who", value{0, "0"})}, unix.EPERM, noNamespaces, namedWhy},
		{"scheduling of others", []string{"setpriority"}, []cond{is(0, "which", value{unix.PRIO_USER, "PRIO_USER"})}, unix.EPERM, noNamespaces, "all processes of the user"},
		{"scheduling of others", []string{"ioprio_set"}, []cond{is(0, "which", value{3, "IOPRIO_WHO_USER"})}, unix.EPERM, noNamespaces, "all processes of the user"},
	}
}
