package proxy

import (
	"net"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// TestCutDuringHandshake: a connection that is cut before its TLS has begun, or while it begins,
// ends once: no other connection loses its place, and the server goes on.
func TestCutDuringHandshake(t *testing.T) {
	for name, begins := range map[string]bool{"before its hello": false, "after its hello": true} {
		t.Run(name, func(t *testing.T) {
			l := look(t, nil, nil)
			l.hosts.serveAt(l.tls, listen(t, func(conn *net.TCPConn) { _, _ = conn.Read(make([]byte, 4<<10)); <-t.Context().Done() }))
			for range 20 {
				conn := l.dial("api.test", l.tls)
				if begins {
					if _, err := conn.Write(hello(t, testConfig("api.test"))); err != nil {
						t.Fatal(err)
					}
					if _, err := conn.Read(make([]byte, 1)); err != nil {
						t.Fatal(err)
					}
				}
			}
			l.awaitOpen(20)
			network := l.rules().Network()
			less := network
			less.Allow = []policy.NetworkRule{{Host: "copied.test", Ports: []policy.Port{policy.Port(l.tls)}}}
			if _, err := l.Set(less); err != nil {
				t.Fatal(err)
			}
			l.awaitOpen(0)
			if r := l.wants(0, egress.KindConnection, "api.test", "the rules were replaced: no rule opens it"); (r.Sent > 0) != begins {
				t.Error(r)
			}
			l.awaitSlots()
		})
	}
}

// awaitOpen waits until so many connections are open.
func (e *env) awaitOpen(want int) {
	e.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); e.State().Open != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			e.t.Fatalf("%d connections are open, want %d", e.State().Open, want)
		}
	}
}

// awaitSlots waits until each listener holds a place, and nobody else one.
func (e *env) awaitSlots() {
	e.t.Helper()
	e.mu.Lock()
	want := len(e.listeners)
	e.mu.Unlock()
	for deadline := time.Now().Add(30 * time.Second); len(e.slots) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			e.t.Fatalf("%d places are taken, want %d", len(e.slots), want)
		}
	}
}
