// Package relay joins connections, of which one is a Unix socket.
package relay

import (
	"bytes"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// hangupInterval is how often a half-closed connection is looked at.
	hangupInterval = 50 * time.Millisecond
	// bufferSize is that of one direction, in bytes.
	bufferSize = 64 << 10
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// AwaitHangup waits until a peer that has finished sending has closed its
// other half as well, or until stopped. It reports whether the peer is gone.
// A connection without a descriptor cannot tell: its peer is taken to be gone.
func AwaitHangup(conn net.Conn, stopped <-chan struct{}) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	for {
		hungUp := false
		err := raw.Control(func(fd uintptr) {
			fds := []unix.PollFd{{Fd: int32(fd)}} // POLLHUP and POLLERR are always reported
			n, _ := unix.Poll(fds, 0)
			hungUp = n > 0
		})
		if err != nil || hungUp {
			return true
		}
		select {
		case <-stopped:
			return false
		case <-time.After(hangupInterval):
		}
	}
}

// Join carries bytes both ways between a client and what serves it, until
// either has closed its connection, and closes both.
//
// What serves it cannot be told of a half-close: a client that has only
// finished sending still gets its answer, and its request line is ended for it.
func Join(client, server net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = carry(client, server)
		_ = client.Close()
	}()
	line := &firstLine{Writer: server}
	if carry(line, client) == nil {
		line.end()
		AwaitHangup(client, done)
	}
	_ = server.Close()
	<-done
}

// carry copies until from ends, which is no error.
func carry(to io.Writer, from io.Reader) error {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	// Without the connection's own ways, which have buffers of their own.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buf[:])
	return err
}

// firstLine notes whether the first line has ended.
type firstLine struct {
	io.Writer
	begun, ended bool
}

// Write hands on p.
func (f *firstLine) Write(p []byte) (int, error) {
	f.begun = true
	f.ended = f.ended || bytes.IndexByte(p, '\n') >= 0
	return f.Writer.Write(p)
}

// end ends a line that was ended by the end of what was sent.
func (f *firstLine) end() {
	if f.begun && !f.ended {
		_, _ = f.Writer.Write([]byte{'\n'})
	}
}
