package proxy

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// TestBuffersOfMany: connections from which nobody reads keep little of what hosts send, if
// there are many of them.
func TestBuffersOfMany(t *testing.T) {
	e := start(t, nil, "api.test:other")
	e.hosts.set("api.test", "127.0.0.1")
	var sent [mostWide + 4]atomic.Int64
	e.hosts.serveAt(e.other, listen(t, func(conn *net.TCPConn) {
		_ = conn.SetWriteBuffer(64 << 10)
		which := make([]byte, 1)
		if _, err := conn.Read(which); err != nil {
			return
		}
		part := make([]byte, 64<<10)
		for {
			n, err := conn.Write(part)
			if sent[which[0]].Add(int64(n)); err != nil {
				return
			}
		}
	}))
	for i := range sent {
		conn := e.dial("api.test", e.other)
		_ = conn.SetReadBuffer(64 << 10)
		if _, err := conn.Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		for sent[i].Load() == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	last := &sent[len(sent)-1]
	for before := int64(-1); before != last.Load(); { // until nothing more fits
		before = last.Load()
		time.Sleep(500 * time.Millisecond)
	}
	if got := last.Load(); got > 2<<20 {
		t.Errorf("the host could send %d bytes that nobody reads", got)
	}
}
