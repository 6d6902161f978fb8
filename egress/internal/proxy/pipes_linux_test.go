package proxy

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoPipes: connections that carry much take no pipes, of which all programs of a user
// together have a budget: when it is used up, new pipes of the others are smaller.
func TestNoPipes(t *testing.T) {
	e := start(t, nil, "api.test:other")
	e.hosts.set("api.test", "127.0.0.1")
	e.hosts.serveAt(e.other, listen(t, func(conn *net.TCPConn) {
		for part := make([]byte, 256<<10); ; {
			if _, err := conn.Write(part); err != nil {
				return
			}
		}
	}))
	before, size := openPipes(t), pipeSize(t)
	for i := range 40 {
		conn := e.dial("api.test", e.other)
		if _, err := io.CopyN(io.Discard, conn, 4<<20); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	// All of them are still open, and have more to carry.
	if now := openPipes(t); now > before {
		t.Errorf("%d pipes are open, before the connections %d", now, before)
	}
	if now := pipeSize(t); now < size {
		t.Errorf("a new pipe has %d bytes, before the connections %d", now, size)
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

// pipeSize returns the size of a new pipe.
func pipeSize(t *testing.T) int {
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
