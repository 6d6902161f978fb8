//go:build linux

package state

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
)

// backlog is how many connections may wait for the agent; the kernel lowers it
// to net.core.somaxconn.
const backlog = 4096

// Listen makes the socket of a sandbox's directory, which the sandbox never
// sees. Its address goes through a directory handle, because an address has
// room for 107 bytes only.
func Listen(dir string) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Fchmod(fd, 0o600) // which the file that it is bound to has then
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: socketAddr(d)})
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), SocketName), nil
}

func socketAddr(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), SocketName)
}

// Dial connects to the socket of a sandbox's directory. It is there before the
// agent is, and removed before it can be known that all has ended: where nobody
// listens any more the error is [backend.ErrGone].
func Dial(ctx context.Context, dir string) (net.Conn, error) {
	var conn net.Conn
	d, err := os.Open(dir)
	if err == nil {
		defer d.Close()
		conn, err = new(net.Dialer).DialContext(ctx, "unix", socketAddr(d))
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, backend.ErrGone
	}
	return conn, err
}

// kept is a connection of which the agent is not the other end, but a keeper:
// no descriptors can be passed over it.
type kept struct{ net.Conn }

// CloseWrite ends what is sent.
func (k kept) CloseWrite() error { return k.Conn.(*net.UnixConn).CloseWrite() }

// DialKept is [Dial] for a sandbox with a keeper (Record.Kept).
func DialKept(ctx context.Context, dir string) (net.Conn, error) {
	conn, err := Dial(ctx, dir)
	if err != nil {
		return nil, err
	}
	return kept{conn}, nil
}
