//go:build linux

package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
)

// Passage makes a socket that is mounted in a container, [PassageName] or [SSHAgentName]. Whoever
// the container's user is can connect to it there; on this host its directory keeps others away.
func (d *Dir) Passage(name string) (*net.UnixListener, error) {
	f, err := listen(d.Path, name)
	if err == nil {
		defer f.Close()
		err = os.Chmod(filepath.Join(d.Path, name), 0o666)
	}
	if err != nil {
		return nil, backend.Failed("state", "listen on", name, err, "")
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, backend.Failed("state", "listen on", name, err, "")
	}
	return l.(*net.UnixListener), nil
}

// backlog is how many connections may wait for the agent. The kernel lowers it
// to net.core.somaxconn.
const backlog = 4096

// listen makes a socket in a sandbox's directory, which the sandbox never
// sees. Its address goes through a directory handle, because an address can have
// only 107 bytes.
func listen(dir, name string) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Fchmod(fd, 0o600) // the file that it is bound to gets this mode
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: socketAddr(d, name)})
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func socketAddr(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// Channels are the files that an agent, the keeper of the pipe to it, or an egress process is
// started with.
type Channels struct {
	Listen  *os.File // its socket
	Log     *os.File // its log, to append to
	Control *os.File // this side's end of a pair of sockets; it takes deadlines
	Theirs  *os.File // the other end
}

// Channels makes the socket, the log and the control connection of a sandbox's agent.
func (d *Dir) Channels() (*Channels, error) { return d.channels(SocketName, LogName) }

// EgressChannels makes those of a sandbox's egress process.
func (d *Dir) EgressChannels() (*Channels, error) {
	return d.channels(egressSocketName, egressLogName)
}

func (d *Dir) channels(socket, log string) (_ *Channels, err error) {
	c := &Channels{}
	defer func() {
		if err != nil {
			c.CloseTheirs()
		}
	}()
	if c.Listen, err = listen(d.Path, socket); err != nil {
		return nil, backend.Failed("state", "listen on", socket, err, "")
	}
	if c.Log, err = os.OpenFile(filepath.Join(d.Path, log), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, backend.Failed("state", "create", log, err, "")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, backend.Failed("state", "socketpair", "", err, "")
	}
	c.Theirs = os.NewFile(uintptr(pair[1]), "control")
	if err := unix.SetNonblock(pair[0], true); err != nil { // so that deadlines work
		_ = unix.Close(pair[0])
		return nil, backend.Failed("state", "fcntl", "control", err, "")
	}
	c.Control = os.NewFile(uintptr(pair[0]), "control")
	return c, nil
}

// CloseTheirs closes this process's copies of the new process's files.
func (c *Channels) CloseTheirs() {
	for _, f := range []*os.File{c.Listen, c.Log, c.Theirs} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// maxLog is how much of a log is read, in bytes.
const maxLog = 64 << 10

// Log returns the first 64 KiB of the standard error of the agent, or of its wall.
func (d *Dir) Log() string { return d.log(LogName) }

// EgressLog returns the first 64 KiB of the standard error of the egress process.
func (d *Dir) EgressLog() string { return d.log(egressLogName) }

func (d *Dir) log(name string) string {
	f, err := os.Open(filepath.Join(d.Path, name))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxLog))
	return string(text)
}

// Dial connects to the socket in a sandbox's directory. The socket exists before the
// agent does, and may be removed before everything has ended. If no process is listening any
// more, the error is [backend.ErrGone].
func Dial(ctx context.Context, dir string) (net.Conn, error) { return dial(ctx, dir, SocketName) }

// DialEgress connects to the egress process of the sandbox in this directory, as [Dial] does.
func DialEgress(ctx context.Context, dir string) (net.Conn, error) {
	return dial(ctx, dir, egressSocketName)
}

// DialKeeper connects to the keeper of a sandbox that outlives its creator.
func DialKeeper(ctx context.Context, dir string) (net.Conn, error) {
	return dial(ctx, dir, keeperSocketName)
}

// ListenKeeper makes the socket of the keeper of the sandbox with this id.
func ListenKeeper(root, id string) (*os.File, error) {
	f, err := listen(Path(root, id), keeperSocketName)
	if err != nil {
		return nil, backend.Failed("state", "listen on", keeperSocketName, err, "")
	}
	return f, nil
}

func dial(ctx context.Context, dir, name string) (net.Conn, error) {
	var conn net.Conn
	d, err := os.Open(dir)
	if err == nil {
		defer d.Close()
		conn, err = new(net.Dialer).DialContext(ctx, "unix", socketAddr(d, name))
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, backend.ErrGone
	}
	return conn, err
}

// kept is a connection to a keeper instead of the agent itself. Its type prevents callers
// from passing descriptors over it.
type kept struct{ net.Conn }

// CloseWrite ends the sending direction.
func (k kept) CloseWrite() error { return k.Conn.(*net.UnixConn).CloseWrite() }

// DialKept connects as [Dial] does, to a sandbox with a keeper (Record.Kept).
func DialKept(ctx context.Context, dir string) (net.Conn, error) {
	conn, err := Dial(ctx, dir)
	if err != nil {
		return nil, err
	}
	return kept{conn}, nil
}
