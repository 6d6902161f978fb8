package proxy

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/egress"
)

// TestFewPipes: connections that carry much take few pipes, of which all programs of a user
// together have a budget: when it is used up, new pipes of the others are smaller. None is left
// when the connections have ended.
func TestFewPipes(t *testing.T) {
	e := start(t, nil, "api.test:other")
	e.hosts.set("api.test", "127.0.0.1")
	e.hosts.serveAt(e.other, listen(t, func(conn *net.TCPConn) {
		for part := make([]byte, 256<<10); ; {
			if _, err := conn.Write(part); err != nil {
				return
			}
		}
	}))
	before, size := openPipes(t), sizeOfPipe(t)
	var conns []net.Conn
	for i := range 40 {
		conn := e.dial("api.test", e.other)
		if _, err := io.CopyN(io.Discard, conn, 2*spliceAfter); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, conn)
	}
	// All of them are still open, and have more to carry.
	if now := openPipes(t); now == before || now > before+2*mostPipes {
		t.Errorf("%d pipe ends are open, before the connections %d; want some more, and at most %d", now, before, 2*mostPipes)
	}
	if now := sizeOfPipe(t); now < size {
		t.Errorf("a new pipe has %d bytes, before the connections %d", now, size)
	}
	for _, conn := range conns {
		reset(conn)
	}
	for deadline := time.Now().Add(30 * time.Second); openPipes(t) > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d pipe ends are open after all connections have ended, before them %d", openPipes(t), before)
		}
	}
}

// TestMuch: what is copied is the same whoever moves it, in both directions at once, and counts.
func TestMuch(t *testing.T) {
	e := start(t, nil, "api.test:other")
	e.hosts.set("api.test", "127.0.0.1")
	e.hosts.serveAt(e.other, listen(t, func(conn *net.TCPConn) {
		_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
		_ = conn.CloseWrite()
	}))
	const size = 3*spliceAfter + 12345
	conn := e.dial("api.test", e.other)
	sent, got := sha256.New(), sha256.New()
	written := make(chan error, 1)
	go func() {
		random := mathrand.NewChaCha8([32]byte{})
		_, err := io.CopyN(io.MultiWriter(conn, sent), random, size)
		written <- errors.Join(err, closeWrite(conn))
	}()
	n, err := io.Copy(got, conn)
	if err := errors.Join(err, <-written); err != nil || n != size || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Errorf("%d bytes came back, %v; want the same %d", n, err, size)
	}
	record := e.wants(0, egress.KindConnection, "api.test", "")
	if record.Sent != size || record.Received != size {
		t.Errorf("the record has %d bytes sent and %d received, want %d", record.Sent, record.Received, size)
	}
}

// TestUrgent: urgent data, which is not passed on, does not hold up what comes after it, whoever
// moves that.
func TestUrgent(t *testing.T) {
	e := start(t, nil, "api.test:other")
	e.hosts.set("api.test", "127.0.0.1")
	e.hosts.serveAt(e.other, listen(t, echo))
	for name, size := range map[string]int{"copied": 1 << 20, "spliced": 2 * spliceAfter} {
		conn := e.dial("api.test", e.other)
		written := make(chan error, 1)
		go func() {
			_, err := conn.Write(make([]byte, size))
			written <- err
		}()
		if _, err := io.CopyN(io.Discard, conn, int64(size)); err != nil {
			t.Fatal(err)
		}
		raw, err := conn.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var sendErr error
		err = raw.Write(func(fd uintptr) bool {
			sendErr = unix.Send(int(fd), []byte("!"), unix.MSG_OOB)
			return !errors.Is(sendErr, unix.EAGAIN)
		})
		if err := errors.Join(err, sendErr, <-written); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "after"); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if n, err := io.ReadFull(conn, got); err != nil || string(got) != "after" {
			t.Errorf("%s: got %q, %v; want what was sent after the urgent byte", name, got[:n], err)
		}
		_ = closeWrite(conn)
		if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
			t.Errorf("%s: at the end %q, %v", name, rest, err)
		}
	}
}

// openPipes returns how many ends of pipes this process has.
func openPipes(t *testing.T) (pipes int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(to, "pipe:") {
			pipes++
		}
	}
	return pipes
}

// sizeOfPipe returns the size of a new pipe.
func sizeOfPipe(t *testing.T) int {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	size, err := unix.FcntlInt(w.Fd(), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// TestGoneWhileWriting: a command that is gone leaves no connection to a host that reads nothing,
// whoever moves its bytes.
func TestGoneWhileWriting(t *testing.T) {
	const size = spliceAfter + 1<<20
	e := start(t, func(o *Options) { o.LookEach = 50 * time.Millisecond }, "api.test:other")
	e.hosts.set("api.test", "127.0.0.1")
	end := make(chan struct{})
	defer close(end)
	e.hosts.serveAt(e.other, listen(t, func(conn *net.TCPConn) {
		var first [1]byte
		if _, err := io.ReadFull(conn, first[:]); err == nil && first[0] == 'm' {
			_, _ = io.CopyN(io.Discard, conn, size)
		}
		<-end
	}))
	for _, much := range []bool{false, true} {
		conn := e.dial("api.test", e.other)
		start := []byte{'f'}
		if much {
			start = bytes.Repeat([]byte{'m'}, size)
		}
		_ = conn.SetWriteDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Write(start); err != nil {
			t.Fatal(err)
		}
		for err := error(nil); err == nil; { // until nobody takes any more
			_ = conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			_, err = conn.Write(make([]byte, 64<<10))
		}
		reset(conn)
	}
	for deadline := time.Now().Add(time.Minute); e.State().Open > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are open", e.State().Open)
		}
	}
}
