package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// readNow reads what a descriptor has, or returns EAGAIN.
func readNow(fd uintptr, buffer []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), buffer)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// isGone reports whether the peer of a connection has reset it, or has been found dead. A
// connection that both ends have closed is not gone.
func isGone(fd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0 && poll[0].Revents&unix.POLLERR != 0
}

// checkSockets returns an error unless the sockets are what the gateway hands out: IPv4, not
// in use, one UDP socket and else TCP, all of one network namespace, which is not this
// process's unless own. Who made them is not trusted.
func checkSockets(udp *os.File, tcp []*os.File, own bool) error {
	namespace, err := ownNamespace()
	if err != nil {
		return err
	}
	first, err := checkSocket(udp, unix.SOCK_DGRAM)
	if err != nil {
		return fmt.Errorf("invalid UDP socket: %w", err)
	}
	if first == namespace && !own {
		return errors.New("invalid UDP socket: it is of the host's network")
	}
	for i, f := range tcp {
		cookie, err := checkSocket(f, unix.SOCK_STREAM)
		if err != nil {
			return fmt.Errorf("invalid TCP socket %d: %w", i, err)
		}
		if cookie != first {
			return fmt.Errorf("invalid TCP socket %d: it is of another network namespace than the UDP socket", i)
		}
	}
	return nil
}

func ownNamespace() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	return networkCookie(fd)
}

// networkCookie returns the number of a socket's network namespace.
func networkCookie(fd int) (uint64, error) {
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return 0, errors.New("the kernel does not tell the network namespace of a socket: it must be Linux 5.14 or later")
	}
	return cookie, os.NewSyscallError("getsockopt", err)
}

func checkSocket(f *os.File, kind int) (cookie uint64, err error) {
	fd := int(f.Fd())
	for _, option := range []struct {
		name, want int
		what       string
	}{
		{unix.SO_DOMAIN, unix.AF_INET, "it is not of IPv4"},
		{unix.SO_TYPE, kind, "it is of another type"},
		{unix.SO_ACCEPTCONN, 0, "it is listening"},
	} {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option.name)
		if err != nil {
			return 0, os.NewSyscallError("getsockopt", err)
		}
		if got != option.want {
			return 0, errors.New(option.what)
		}
	}
	local, err := unix.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	if at, ok := local.(*unix.SockaddrInet4); !ok || at.Port != 0 {
		return 0, errors.New("it is bound")
	}
	return networkCookie(fd)
}

// listenTCP binds a socket of the stock and listens at it. It closes the file.
func listenTCP(f *os.File, at netip.AddrPort) (*net.TCPListener, error) {
	defer f.Close()
	fd := int(f.Fd())
	// Connections that have ended must not keep a port at which nobody listens.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(fd, 4096); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// listenUDP binds the UDP socket. It closes the file.
func listenUDP(f *os.File, at netip.AddrPort) (*net.UDPConn, error) {
	defer f.Close()
	// With SO_REUSEADDR another UDP socket could be bound to the same address.
	fd := int(f.Fd())
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// mostDescriptors returns how many descriptors this process can have.
func mostDescriptors() (uint64, error) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return limit.Cur, os.NewSyscallError("getrlimit", err)
}
