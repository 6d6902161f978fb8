package proxy

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
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
			l.wants(0, egress.KindConnection, "api.test", "the rules were replaced: no rule opens it")
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

// TestHostileEnds: connections that end in every way, at every point, leave no place taken and
// nothing open.
func TestHostileEnds(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/much":
			_, _ = w.Write(make([]byte, 1<<20))
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/early":
			w.WriteHeader(http.StatusEarlyHints)
		}
	})
	l.hosts.serveAt(l.other, listen(t, echo))
	network := l.rules().Network()
	network.Allow = append(network.Allow, policy.NetworkRule{Host: "api.test", Ports: []policy.Port{policy.Port(l.other)}})
	if _, err := l.Set(network); err != nil {
		t.Fatal(err)
	}
	address, err := l.lookup("api.test.")
	if err != nil {
		t.Fatal(err)
	}
	attacks := l.attacks()
	const each = 400
	var running sync.WaitGroup
	for k := range 16 {
		running.Go(func() {
			for i := k; i < each*len(attacks); i += 16 {
				conn, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, []uint16{l.tls, l.other}[i%9/8])))
				if err != nil {
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
				attacks[i/each](conn, i)
				if i%3 > 0 {
					reset(conn)
				}
				_ = conn.Close()
			}
		})
	}
	// Rules that forbid them come and go meanwhile.
	done := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() { l.changeRules(network, done) })
	running.Wait()
	close(done)
	changing.Wait()
	if _, err := l.Set(network); err != nil {
		t.Fatal(err)
	}
	l.awaitOpen(0)
	l.awaitSlots()
	if got := len(l.interceptor.extra); got != 0 {
		t.Errorf("%d extra connections are counted", got)
	}
	if _, body := l.do(l.client(true), "GET", l.url("/much"), nil); len(body) != 1<<20 {
		t.Errorf("got %d bytes", len(body))
	}
}

// changeRules has rules come and go until done is closed.
func (l *looking) changeRules(network policy.Network, done <-chan struct{}) {
	none := network
	none.Allow = network.Allow[1:2]
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
		rules := network
		if i%2 == 0 {
			rules = none
		}
		if _, err := l.Set(rules); err != nil {
			l.t.Error(err)
		}
	}
}

// attacks are ways in which commands end connections, at point i.
func (l *looking) attacks() []func(conn *net.TCPConn, i int) {
	first := hello(l.t, testConfig("api.test"))
	return []func(conn *net.TCPConn, i int){
		func(conn *net.TCPConn, i int) { _, _ = conn.Write(first[:i%len(first)]) },
		func(conn *net.TCPConn, i int) {
			_, _ = conn.Write(first)
			_, _ = io.CopyN(io.Discard, conn, int64(i%3000))
		},
		func(conn *net.TCPConn, i int) {
			cut := &cutAfter{Conn: conn, left: i * 7 % 6000}
			secure := tls.Client(cut, &tls.Config{RootCAs: l.roots, ServerName: "api.test", NextProtos: []string{[]string{"h2", "http/1.1"}[i%2]}})
			if secure.Handshake() == nil {
				_, _ = io.WriteString(secure, []string{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "GET /much HTTP/1.1\r\nHost: api.test\r\n\r\n"}[i%2])
				_, _ = io.CopyN(io.Discard, secure, int64(i%70000))
			}
		},
		func(conn *net.TCPConn, i int) {
			secure := tls.Client(conn, &tls.Config{RootCAs: l.roots, ServerName: "api.test"})
			if secure.Handshake() == nil {
				_, _ = io.WriteString(secure, "GET "+[]string{"/much", "/abort", "/early", "/"}[i%4]+" HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				_, _ = io.CopyN(io.Discard, secure, int64(i%200))
			}
		},
	}
}

// cutAfter resets a connection after so many bytes have been written.
type cutAfter struct {
	net.Conn
	left int
}

func (c *cutAfter) Write(p []byte) (int, error) {
	if len(p) < c.left {
		c.left -= len(p)
		return c.Conn.Write(p)
	}
	_, _ = c.Conn.Write(p[:c.left])
	reset(c.Conn)
	return 0, net.ErrClosed
}
