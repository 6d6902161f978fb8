package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SandboxLink is the interface inside that leads to the gateway.
const SandboxLink = "s0"

// gatewayLink is its other end, in the gateway.
const gatewayLink = "g0"

// Their addresses. The sandbox routes everything to gatewayAddr; in the gateway's namespace
// every address but the sandbox's own is local.
var (
	gatewayAddr = [4]byte{198, 18, 0, 1}
	sandboxAddr = [4]byte{198, 19, 255, 254}
)

// gateway makes the gateway: a network namespace that is connected to the sandbox's by a pair
// of interfaces, and in which every address is local. No process stays in it. It returns
// unbound sockets of that namespace, which keep it alive: one for UDP, then TCP sockets, count
// in all. When all of them are closed, the interfaces end, too.
//
// The calling thread is in the sandbox's namespace afterwards, as before. If that cannot be
// had, the sandbox cannot be started, so errors leave the thread as it is.
func gateway(count int) (sockets []int, err error) {
	defer func() {
		if err != nil {
			for _, fd := range sockets {
				_ = unix.Close(fd)
			}
			sockets = nil
		}
	}()
	sandbox, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(sandbox)
	inside, err := newNetlink()
	if err != nil {
		return nil, err
	}
	defer inside.close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("cannot make its namespace: %w", err)
	}
	for i := range count {
		kind := unix.SOCK_STREAM
		if i == 0 {
			kind = unix.SOCK_DGRAM
		}
		fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return sockets, err
		}
		sockets = append(sockets, fd)
	}
	there, err := newNetlink()
	if err != nil {
		return sockets, err
	}
	defer there.close()
	ns, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return sockets, err
	}
	defer unix.Close(ns)
	if err := inside.addPair(ns); err != nil {
		return sockets, fmt.Errorf("cannot make a pair of virtual interfaces (veth): %w", err)
	}
	g0, err := there.gatewaySide()
	if err != nil {
		return sockets, err
	}
	if err := unix.Setns(sandbox, unix.CLONE_NEWNET); err != nil {
		return sockets, fmt.Errorf("cannot return from its namespace: %w", err)
	}
	if err := inside.sandboxSide(); err != nil {
		return sockets, err
	}
	return sockets, there.activate(g0)
}

// gatewaySide sets up the gateway, in which the calling thread is: everything is local but the
// sandbox's address. It returns the number of the interface to the sandbox.
func (n netlink) gatewaySide() (uint32, error) {
	// Names lead to IPv4 addresses alone. Without the file there is no IPv6.
	if err := writeSysctl("net/ipv6/conf/all/disable_ipv6", "1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	// Who binds the sockets need not have any capability here. An owner of the user namespace
	// has them all: if this fails, that one can still bind low ports.
	_ = writeSysctl("net/ipv4/ip_unprivileged_port_start", "0")
	// Datagrams are refused, not only one in a second: what tries QUIC falls back at once.
	_ = writeSysctl("net/ipv4/icmp_ratelimit", "0")
	if err := errors.Join(loopbackUp(), n.wire(gatewayLink, gatewayAddr)); err != nil {
		return 0, err
	}
	lo, err := linkIndex("lo")
	if err != nil {
		return 0, err
	}
	g0, err := linkIndex(gatewayLink)
	if err != nil {
		return 0, err
	}
	// In the local table the longest prefix wins, too: what is for the sandbox goes there.
	err = errors.Join(
		n.addRoute(route{table: unix.RT_TABLE_LOCAL, kind: unix.RTN_LOCAL, scope: unix.RT_SCOPE_HOST, link: lo}),
		n.addRoute(route{to: &sandboxAddr, table: unix.RT_TABLE_LOCAL, kind: unix.RTN_UNICAST, scope: unix.RT_SCOPE_LINK, link: g0}))
	if err != nil {
		return 0, fmt.Errorf("cannot make the gateway's routes: %w", err)
	}
	return g0, nil
}

// sandboxSide sets up the sandbox's end, in whose namespace the calling thread is.
func (n netlink) sandboxSide() error {
	if err := writeSysctl("net/ipv6/conf/"+SandboxLink+"/disable_ipv6", "1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := n.wire(SandboxLink, sandboxAddr); err != nil {
		return err
	}
	s0, err := linkIndex(SandboxLink)
	if err != nil {
		return err
	}
	err = n.addRoute(route{to: &gatewayAddr, table: unix.RT_TABLE_MAIN, kind: unix.RTN_UNICAST, scope: unix.RT_SCOPE_LINK, link: s0})
	if err == nil {
		err = n.addRoute(route{via: &gatewayAddr, table: unix.RT_TABLE_MAIN, kind: unix.RTN_UNICAST, scope: unix.RT_SCOPE_UNIVERSE, link: s0})
	}
	if err != nil {
		return fmt.Errorf("cannot make the sandbox's routes: %w", err)
	}
	return nil
}

// activate makes an interface send from now on. One that was set up before its peer drops
// everything until the kernel has noticed that it has a carrier, in the background; then the
// first connection would take a second. Giving it the queue that it has anyway does it at once.
func (n netlink) activate(link uint32) error {
	var header struct { // struct tcmsg
		family         uint8
		_              [3]uint8
		index          int32
		handle, parent uint32
		info           uint32
	}
	const root = 0xffffffff // TC_H_ROOT
	const kind = 1          // TCA_KIND
	header.index, header.parent = int32(link), root
	if err := n.do(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, append(bytesOf(&header), attribute(kind, []byte("noqueue\x00"))...)); err != nil {
		return fmt.Errorf("cannot make %s send: %w", gatewayLink, err)
	}
	return nil
}

// linkIndex returns the index of an interface of the thread's network namespace.
func linkIndex(name string) (uint32, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return ifr.Uint32(), nil
}

// netlink is a socket for requests about interfaces and routes (rtnetlink(7)). It stays in the
// network namespace in which it was made.
type netlink struct{ fd int }

func newNetlink() (netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	return netlink{fd}, err
}

func (n netlink) close() { _ = unix.Close(n.fd) }

// do sends a request that makes or changes something, and returns the kernel's answer.
func (n netlink) do(kind uint16, flags uint16, body []byte) error {
	header := unix.NlMsghdr{Len: uint32(unix.SizeofNlMsghdr + len(body)), Type: kind, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | flags, Seq: 1}
	message := append(bytesOf(&header), body...)
	if err := unix.Sendto(n.fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	size, _, err := unix.Recvfrom(n.fd, answer, 0)
	if err != nil {
		return err
	}
	if size < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return errors.New("netlink gave no answer")
	}
	if errno := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return syscall.Errno(-errno)
	}
	return nil
}

// addPair makes the pair of interfaces, the gateway's end in the namespace that ns is a handle
// of.
func (n netlink) addPair(ns int) error {
	peer := append(bytesOf(&unix.IfInfomsg{}), attribute(unix.IFLA_IFNAME, append([]byte(gatewayLink), 0))...)
	peer = append(peer, attribute(unix.IFLA_NET_NS_FD, binary.NativeEndian.AppendUint32(nil, uint32(ns)))...)
	const vethInfoPeer = 1 // VETH_INFO_PEER
	info := append(attribute(unix.IFLA_INFO_KIND, []byte("veth")), attribute(unix.IFLA_INFO_DATA, attribute(vethInfoPeer, peer))...)
	body := append(bytesOf(&unix.IfInfomsg{}), attribute(unix.IFLA_IFNAME, append([]byte(SandboxLink), 0))...)
	return n.do(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, append(body, attribute(unix.IFLA_LINKINFO, info)...))
}

// wire gives an interface of the thread's namespace, which must be the socket's, its address,
// and sets it up.
func (n netlink) wire(name string, address [4]byte) error {
	link, err := linkIndex(name)
	if err != nil {
		return err
	}
	body := append(bytesOf(&unix.IfAddrmsg{Family: unix.AF_INET, Prefixlen: 32, Index: link}), attribute(unix.IFA_LOCAL, address[:])...)
	if err := n.do(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, append(body, attribute(unix.IFA_ADDRESS, address[:])...)); err != nil {
		return fmt.Errorf("cannot give %s its address: %w", name, err)
	}
	if err := n.do(unix.RTM_NEWLINK, 0, bytesOf(&unix.IfInfomsg{Index: int32(link), Flags: unix.IFF_UP, Change: unix.IFF_UP})); err != nil {
		return fmt.Errorf("cannot set %s up: %w", name, err)
	}
	return nil
}

// route is a route to one address, or to all if to is nil.
type route struct {
	to, via            *[4]byte
	table, kind, scope uint8
	link               uint32
}

func (n netlink) addRoute(r route) error {
	header := unix.RtMsg{Family: unix.AF_INET, Table: r.table, Protocol: unix.RTPROT_STATIC, Scope: r.scope, Type: r.kind}
	var attributes []byte
	if r.to != nil {
		header.Dst_len = 32
		attributes = append(attributes, attribute(unix.RTA_DST, r.to[:])...)
	}
	if r.via != nil {
		attributes = append(attributes, attribute(unix.RTA_GATEWAY, r.via[:])...)
	}
	attributes = append(attributes, attribute(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, r.link))...)
	return n.do(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, append(bytesOf(&header), attributes...))
}

// attribute returns a netlink attribute, padded to a multiple of four bytes.
func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

// bytesOf returns the bytes of a struct of the kernel's, which has no pointers.
func bytesOf[T any](v *T) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))...)
}
