//go:build linux

package escape

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// networkAttacks are tried without a network.
func networkAttacks() []row {
	rows := append(socketAttacks(),
		row{name: "connect to a service on 127.0.0.1", args: []string{"tcp", "{tcp}"}, want: "ECONNREFUSED", landlock: "EACCES"},
		row{name: "send to a service on 127.0.0.1", args: []string{"udp", "{udp}"}, want: "ECONNREFUSED", landlock: "EACCES"},
		row{name: "send to another host", args: []string{"udp-far", "192.0.2.1:9"}, want: "ENETUNREACH", landlock: "EACCES", unless: "ENETUNREACH|EPERM|EACCES"},
		row{name: "serve a port of the host's", args: []string{"listen", "tcp", "127.0.0.1:0"}, want: succeeded, why: "it is the sandbox's own loopback", landlock: "EACCES"},
		row{name: "see another interface than lo", args: []string{"ifaces"}, want: "lo alone", unless: "lo alone", landlock: "EACCES"})
	rows = append(rows, row{name: "list the host's connections", args: []string{"listed", "{tcp}"}, want: "not listed", lost: "what /proc tells"})
	return append(rows, unixAttacks("ECONNREFUSED")...)
}

// hostNetworkAttacks are tried with the host's network.
func hostNetworkAttacks() []row {
	const hosts = "the host's network is the host's"
	return append(append(socketAttacks(), unixAttacks("EPERM")...),
		row{name: "find a process of the host's", args: []string{"find-process", "{token}"}, want: "not visible", lost: "other processes"},
		row{name: "connect to a service on 127.0.0.1", args: []string{"tcp", "{tcp}"}, want: succeeded, why: hosts},
		row{name: "serve a port of the host's", args: []string{"listen", "tcp", "127.0.0.1:0"}, want: succeeded, why: hosts})
}

// unixAttacks are after services of the host's that listen on Unix sockets.
// At the landlock level no such socket can be made, and a pair of them cannot
// be used for others.
func unixAttacks(abstract string) []row {
	return []row{
		{name: "connect to an abstract socket", args: []string{"abstract", "{abstract}"}, want: abstract, landlock: "EACCES"},
		{name: "connect to a socket with a path", args: []string{"socket-at", "{socket}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "connect to another sandbox's agent", args: []string{"socket-at", "{sibling-socket}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "send from a pair to a socket with a path", args: []string{"pair-send", "{packets}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "connect a pair to a socket with a path", args: []string{"pair-connect", "{packets}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "send from a pair to an abstract socket", args: []string{"pair-send", "{abstract-packets}"}, want: abstract, landlock: "EACCES"},
		{name: "connect a pair to an abstract socket", args: []string{"pair-connect", "{abstract-packets}"}, want: abstract, landlock: "EACCES"},
	}
}

func socketAttacks() []row {
	sock := func(family, kind, protocol int) []string {
		return []string{"socket", fmt.Sprint(family), fmt.Sprint(kind), fmt.Sprint(protocol)}
	}
	const unsupported = "EAFNOSUPPORT|EPROTONOSUPPORT"
	rows := []row{
		{name: "make a vsock socket", args: sock(unix.AF_VSOCK, unix.SOCK_STREAM, 0), want: "EPERM"},
		{name: "make a packet socket", args: sock(unix.AF_PACKET, unix.SOCK_RAW, 0), want: "EPERM", control: private},
		{name: "make an XDP socket", args: sock(unix.AF_XDP, unix.SOCK_RAW, 0), want: "EPERM", control: private},
		{name: "make a crypto API socket", args: sock(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), want: "EAFNOSUPPORT"},
		{name: "make a Qualcomm IPC socket", args: sock(unix.AF_QIPCRTR, unix.SOCK_DGRAM, 0), want: "EAFNOSUPPORT"},
		{name: "make a Bluetooth socket", args: sock(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1), want: "EAFNOSUPPORT"},
		{name: "make a CAN socket", args: sock(unix.AF_CAN, unix.SOCK_RAW, 1), want: "EAFNOSUPPORT"},
		{name: "make a raw IP socket", args: sock(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), want: "EPERM", landlock: "EPERM|EACCES", control: private},
		{name: "make a raw IPv6 socket", args: sock(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6), want: "EPERM", landlock: "EPERM|EACCES", control: private},
		{name: "make a multipath TCP socket", args: sock(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), want: "EPROTONOSUPPORT", landlock: "EPROTONOSUPPORT|EACCES"},
		{name: "make an SCTP socket", args: sock(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP), want: "EPROTONOSUPPORT", landlock: "EPROTONOSUPPORT|EACCES"},
		{name: "listen to the kernel's device events", args: sock(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT), want: "EPROTONOSUPPORT", landlock: "EPROTONOSUPPORT|EACCES"},
		{name: "talk to the audit system", args: sock(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT), want: "EPROTONOSUPPORT", landlock: "EPROTONOSUPPORT|EACCES"},
		{name: "talk to the packet filter", args: sock(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER), want: "EPROTONOSUPPORT", landlock: "EPROTONOSUPPORT|EACCES"},
		{name: "ask for everybody's sockets", args: sock(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG), want: "EPROTONOSUPPORT", landlock: "EPROTONOSUPPORT|EACCES"},
		{name: "add an address to lo", args: []string{"route"}, want: "EPERM", landlock: "EPERM|EACCES", control: private},
		{name: "change the flags of lo", args: []string{"lo-down"}, want: "EPERM", landlock: "EPERM|EACCES", control: private},
	}
	for i := range rows {
		if rows[i].args[0] == "socket" {
			rows[i].unless = unsupported
		}
	}
	return rows
}
