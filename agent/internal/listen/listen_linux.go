// Package listen opens the listeners of an agent on its own: vsock, a virtio serial
// port, Unix and TCP sockets, an inherited descriptor, or standard input and output.
package listen

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/internal/stdiomux"
)

const addressHint = "write vsock://[:PORT], virtio://PORT, unix:///PATH, tcp://HOST:PORT, fd://N or stdio"

// Options says who may connect.
type Options struct {
	HasToken         bool     // each request must bring a token
	InsecureLoopback bool     // TCP on a loopback address is allowed without a token
	VsockCIDs        []uint32 // peers over vsock; none means the host and the hypervisor
}

// Listener is a listener that checks who connects.
type Listener struct {
	net.Listener
	Check func(net.Conn) error // nil if anybody may connect
}

// Open opens one address.
func Open(address string, c *Options) (net.Listener, error) {
	ln, err := listenAt(address, c)
	var h core.HintError
	if err == nil || errors.As(err, &h) {
		return ln, err
	}
	return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
}

func listenAt(address string, c *Options) (net.Listener, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	switch {
	case address == "stdio":
		return stdiomux.Listen(os.Stdin, os.Stdout)
	case scheme == "vsock":
		return listenVsock(rest, c.VsockCIDs)
	case scheme == "virtio":
		return listenVirtio(rest)
	case scheme == "unix":
		return listenUnix(rest)
	case scheme == "tcp":
		return listenTCP(rest, c)
	case scheme == "fd":
		return inherit(rest, c)
	}
	return nil, core.WithHint(fmt.Errorf("cannot listen on %s: not an address", address), addressHint)
}

// listenUnix makes a socket that only its owner and root can connect to. It replaces a
// socket that is not served any more.
func listenUnix(path string) (net.Listener, error) {
	if !filepath.IsAbs(path) {
		return nil, core.WithHint(errors.New("cannot listen on unix://"+path+": the path is not absolute"), addressHint)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	old := unix.Umask(0o177) // so that others can never connect; no other thread creates files yet
	ln, err := net.Listen("unix", path)
	unix.Umask(old)
	if err != nil {
		return nil, core.CauseOf(err)
	}
	return &Listener{ln, checkPeer}, nil
}

// removeStale removes a socket that no process serves. It fails if one does.
func removeStale(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return core.CauseOf(err)
	case st.Mode()&os.ModeSocket == 0:
		return errors.New("the path exists and is not a socket")
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return errors.New("another process serves it already")
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return core.CauseOf(err)
	}
	return os.Remove(path)
}

// checkPeer refuses users other than root and the agent's own.
func checkPeer(conn net.Conn) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	cerr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if cerr != nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("cannot read the peer's credentials: %w", err)
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("uid %d may not connect", peer.Uid)
	}
	return nil
}

// listenTCP listens on a TCP address, with the checks of mayListen.
func listenTCP(address string, c *Options) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, core.WithHint(fmt.Errorf("cannot listen on tcp://%s: not HOST:PORT", address), addressHint)
	}
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	if err := mayListen(addr, c); err != nil {
		return nil, err
	}
	ln, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, core.CauseOf(err)
	}
	return ln, nil
}

// mayListen refuses TCP without a token, unless the operator allows it on a loopback
// address: every user of the machine can connect to it.
func mayListen(addr *net.TCPAddr, c *Options) error {
	ip, _ := netip.AddrFromSlice(addr.IP)
	switch {
	case c.HasToken:
		return nil
	case !ip.Unmap().IsLoopback():
		return core.WithHint(fmt.Errorf("cannot listen on tcp://%s: everybody who reaches it could run commands", addr),
			"ask for a token: --token-file FILE")
	case !c.InsecureLoopback:
		return core.WithHint(fmt.Errorf("cannot listen on tcp://%s: every user of this machine could run commands", addr),
			"ask for a token with --token-file FILE, or allow it with --insecure-loopback")
	}
	return nil
}

// inherit takes over a listening socket. The process that made it decides who connects.
func inherit(number string, c *Options) (net.Listener, error) {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return nil, core.WithHint(fmt.Errorf("cannot listen on fd://%s: the number must be 3 or more", number), addressHint)
	}
	unix.CloseOnExec(fd)
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	switch {
	case err != nil:
		return nil, err
	case listening == 0:
		return nil, errors.New("not a listening socket")
	}
	if family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil && family == unix.AF_VSOCK {
		return newVsock(fd)
	}
	file := os.NewFile(uintptr(fd), "listen")
	defer file.Close()
	ln, err := net.FileListener(file) // on a duplicate
	if err != nil {
		return nil, core.CauseOf(err)
	}
	if addr, ok := ln.Addr().(*net.TCPAddr); ok {
		if err := mayListen(addr, c); err != nil {
			ln.Close()
			return nil, err
		}
	}
	return ln, nil
}
