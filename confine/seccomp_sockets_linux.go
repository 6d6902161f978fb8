package confine

import "golang.org/x/sys/unix"

var (
	afInet      = []value{{unix.AF_INET, "AF_INET"}, {unix.AF_INET6, "AF_INET6"}}
	afUnix      = value{unix.AF_UNIX, "AF_UNIX"}
	afNetlink   = value{unix.AF_NETLINK, "AF_NETLINK"}
	netFamilies = []value{{unix.AF_INET, "AF_INET"}, {unix.AF_INET6, "AF_INET6"}, {unix.AF_NETLINK, "AF_NETLINK"}}
	afRaw       = []value{{unix.AF_PACKET, "AF_PACKET"}, {unix.AF_XDP, "AF_XDP"}, {unix.AF_VSOCK, "AF_VSOCK"}}
	afKnown     = []value{{unix.AF_UNIX, "AF_UNIX"}, {unix.AF_INET, "AF_INET"}, {unix.AF_INET6, "AF_INET6"}, {unix.AF_NETLINK, "AF_NETLINK"}}
	ipTypes     = []value{{unix.SOCK_STREAM, "SOCK_STREAM"}, {unix.SOCK_DGRAM, "SOCK_DGRAM"}, {unix.SOCK_RAW, "SOCK_RAW"}} // the agent lacks the capability for the last
	pairTypes   = []value{{unix.SOCK_STREAM, "SOCK_STREAM"}, {unix.SOCK_SEQPACKET, "SOCK_SEQPACKET"}}
	// ipProtocols leave out what Landlock's rules for TCP do not see (MPTCP) and
	// what is loaded as a module on request (SCTP, DCCP, L2TP).
	ipProtocols = []value{{0, "0"}, {unix.IPPROTO_TCP, "TCP"}, {unix.IPPROTO_UDP, "UDP"}, {unix.IPPROTO_ICMP, "ICMP"}, {unix.IPPROTO_ICMPV6, "ICMPV6"}}
)

const sockTypeMask = 0xf // the rest of socket's second argument are flags

// socketRules leave the families that programs use: unix, IP, and the routing
// part of netlink, with which interfaces are listed.
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

// sharedRules are about what processes of one user share where namespaces do
// not part them.
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
