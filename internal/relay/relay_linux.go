// Package relay copies bytes both ways between two connections.
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
	// hangupInterval is how often a half-closed connection is polled.
	hangupInterval = 50 * time.Millisecond
	// bufferSize is the size of the buffer of one direction, in bytes.
	bufferSize = 64 << 10
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// AwaitHangup waits until a peer that has finished sending has closed its
// other half as well, or until stopped is closed. It reports whether the peer is gone.
// For a connection without a descriptor it returns true at once.
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

// Join copies bytes both ways between a client and its server until
// either has closed its connection, and closes both.
//
// The server's connection cannot pass on a half-close. So a client that has only
// finished sending still gets its answer, and Join ends its request line if it has not.
func Join(client, server net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = copyBytes(client, server)
		_ = client.Close()
		_ = server.Close() // which reads no more: what is being written to it ends
	}()
	line := &firstLine{Writer: server}
	if copyBytes(line, client) == nil {
		if line.begun && !line.ended {
			_, _ = server.Write([]byte{'\n'})
		}
		AwaitHangup(client, done)
	}
	_ = server.Close()
	<-done
}

// copyBytes copies until from ends.
func copyBytes(to io.Writer, from io.Reader) error {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	// The structs hide ReadFrom and WriteTo, which would allocate further buffers.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buf[:])
	return err
}

// firstLine records whether the first line has begun and ended.
type firstLine struct {
	io.Writer
	begun, ended bool
}

// Write writes p to the connection.
func (f *firstLine) Write(p []byte) (int, error) {
	f.begun = true
	f.ended = f.ended || bytes.IndexByte(p, '\n') >= 0
	return f.Writer.Write(p)
}
