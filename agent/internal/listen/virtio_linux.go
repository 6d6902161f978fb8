package listen

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/internal/stdiomux"
)

// virtioPorts is where the kernel lists the names that the host has given to ports.
// Device links with these names would need udev.
const virtioPorts = "/sys/class/virtio-ports"

// listenVirtio accepts many connections over one virtio-serial port. The process that
// holds its other end is called the host here.
func listenVirtio(name string) (net.Listener, error) {
	path := ""
	files, _ := filepath.Glob(virtioPorts + "/*/name")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && name != "" && string(bytes.TrimSpace(text)) == name {
			path = "/dev/" + filepath.Base(filepath.Dir(file))
			break
		}
	}
	if path == "" {
		return nil, core.WithHint(fmt.Errorf("cannot listen on virtio://%s: the machine has no such virtio-serial port", name),
			"the names of its ports are in "+virtioPorts+"/*/name")
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &virtio{addr: virtioAddr(name), file: file, raw: raw}, nil
}

// virtio serves one host after the other: when one hangs up, its connections
// end, and the next one starts afresh.
type virtio struct {
	addr virtioAddr
	file *os.File
	raw  syscall.RawConn

	mu     sync.Mutex
	closed bool
	link   *virtioLink        // to the current host
	host   *stdiomux.Listener // its connections
}

// Accept waits for a connection of any host.
func (v *virtio) Accept() (net.Conn, error) {
	for {
		host, link, err := v.current()
		if err != nil {
			return nil, err
		}
		conn, err := host.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		<-link.ended
		if link.err != nil { // the port has failed; else the host has hung up
			return nil, link.err
		}
	}
}

// current returns the link to the current host, or a new one for the next host.
func (v *virtio) current() (*stdiomux.Listener, *virtioLink, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, nil, net.ErrClosed
	}
	if v.link == nil || v.link.closed.Load() {
		link := &virtioLink{v: v, ended: make(chan struct{})}
		host, err := stdiomux.Listen(link, link)
		if err != nil {
			return nil, nil, err
		}
		v.link, v.host = link, host
	}
	return v.host, v.link, nil
}

// Close accepts no more connections; those that are open go on.
func (v *virtio) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	if v.host == nil {
		return nil
	}
	return v.host.Close()
}

// Addr returns the name of the port.
func (v *virtio) Addr() net.Addr { return v.addr }

type virtioAddr string

// Network returns "virtio".
func (virtioAddr) Network() string { return "virtio" }

// String returns the name of the port.
func (a virtioAddr) String() string { return string(a) }

// virtioLink is the port from a host's first byte to its hanging up.
type virtioLink struct {
	v      *virtio
	begun  atomic.Bool // a host has sent something
	left   atomic.Bool // it has hung up
	closed atomic.Bool
	using  sync.RWMutex  // read-locked while the port is in use
	ended  chan struct{} // closed when the link does not use the port any more
	err    error         // of the port; may be read once ended is closed
}

// Read waits for bytes. A port whose other end is closed returns 0 bytes at
// once; before the first byte that does not mean the end.
func (l *virtioLink) Read(b []byte) (n int, err error) {
	l.using.RLock()
	defer l.using.RUnlock()
	if l.closed.Load() {
		return 0, io.EOF
	}
	stopped := l.v.raw.Read(func(fd uintptr) bool {
		n, err = unix.Read(int(fd), b)
		return !errors.Is(err, unix.EAGAIN) && (n != 0 || err != nil || l.begun.Load())
	})
	switch {
	case stopped != nil:
		return 0, io.EOF
	case n == 0 && err == nil:
		l.left.Store(true)
		return 0, io.EOF
	case err != nil:
		l.err = err
		return 0, err
	}
	l.begun.Store(true)
	return n, nil
}

// Write waits for room. It fails if no host is there, since it would wait for ever.
func (l *virtioLink) Write(b []byte) (int, error) {
	l.using.RLock()
	defer l.using.RUnlock()
	if l.closed.Load() || !l.begun.Load() {
		return 0, io.ErrClosedPipe
	}
	return l.v.file.Write(b)
}

// Close ends reads and writes that wait, and frees the port for the next link. If a host
// is still there, it is another one than before or broke the protocol: Close writes
// bytes that end its connections.
func (l *virtioLink) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	_ = l.v.file.SetDeadline(time.Now())
	l.using.Lock()
	defer l.using.Unlock()
	defer close(l.ended)
	if l.begun.Load() && !l.left.Load() {
		_ = l.v.raw.Control(func(fd uintptr) { _, _ = unix.Write(int(fd), stdiomux.Broken) })
	}
	return l.v.file.SetDeadline(time.Time{})
}
