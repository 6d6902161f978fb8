package listen

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
)

// defaultPort is the usual port of guest agents.
const defaultPort = 5005

var errNoVsock = core.WithHint(errors.New("AF_VSOCK is unavailable"),
	"the kernel lacks CONFIG_VSOCKETS, or the machine a vsock device; --listen unix:///PATH serves without")

// listenVsock accepts connections from the given peers; none means the host
// and the hypervisor.
func listenVsock(text string, peers []uint32) (net.Listener, error) {
	port := uint32(defaultPort)
	if text != "" {
		n, err := strconv.ParseUint(text[1:], 10, 32)
		if text[0] != ':' || err != nil || n == unix.VMADDR_PORT_ANY {
			return nil, core.WithHint(fmt.Errorf("cannot listen on vsock://%s: not a port", text), addressHint)
		}
		port = uint32(n)
	}
	if len(peers) == 0 {
		peers = []uint32{unix.VMADDR_CID_HYPERVISOR, unix.VMADDR_CID_HOST}
	}
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EPROTONOSUPPORT):
		return nil, errNoVsock
	case err != nil:
		return nil, err
	}
	if err = unix.Bind(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_ANY, Port: port}); err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	ln, err := newVsock(fd)
	if err != nil {
		return nil, err
	}
	return &Listener{ln, func(conn net.Conn) error {
		peer := conn.RemoteAddr().(vsockAddr)
		if !slices.Contains(peers, peer.CID) {
			return fmt.Errorf("%s may not connect", peer)
		}
		return nil
	}}, nil
}

// vsock is a listening vsock socket, for which package net has no type. The
// runtime's poller handles it like any non-blocking file.
type vsock struct {
	file *os.File
	addr vsockAddr
}

// newVsock takes over a listening descriptor.
func newVsock(fd int) (*vsock, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	v := &vsock{file: os.NewFile(uintptr(fd), "vsock")}
	if sa, err := unix.Getsockname(fd); err == nil {
		v.addr = vsockAddrOf(sa)
	}
	return v, nil
}

// Accept waits for a connection.
func (v *vsock) Accept() (net.Conn, error) {
	raw, err := v.file.SyscallConn()
	if err != nil {
		return nil, net.ErrClosed
	}
	fd := -1
	var sa unix.Sockaddr
	rerr := raw.Read(func(listening uintptr) bool {
		fd, sa, err = unix.Accept4(int(listening), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case rerr != nil:
		return nil, net.ErrClosed
	case err != nil:
		return nil, err
	}
	return &vsockConn{File: os.NewFile(uintptr(fd), "vsock"), local: v.addr, remote: vsockAddrOf(sa)}, nil
}

// Close ends a waiting Accept as well.
func (v *vsock) Close() error { return v.file.Close() }

// Addr returns the address that it listens on.
func (v *vsock) Addr() net.Addr { return v.addr }

type vsockConn struct {
	*os.File
	local, remote vsockAddr
}

// LocalAddr returns this side's address.
func (c *vsockConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's address.
func (c *vsockConn) RemoteAddr() net.Addr { return c.remote }

type vsockAddr struct{ CID, Port uint32 }

func vsockAddrOf(sa unix.Sockaddr) vsockAddr {
	if vm, ok := sa.(*unix.SockaddrVM); ok {
		return vsockAddr{vm.CID, vm.Port}
	}
	return vsockAddr{unix.VMADDR_CID_ANY, unix.VMADDR_PORT_ANY}
}

// Network returns "vsock".
func (vsockAddr) Network() string { return "vsock" }

// String returns the peer and its port.
func (a vsockAddr) String() string { return fmt.Sprintf("vsock cid %d port %d", a.CID, a.Port) }
