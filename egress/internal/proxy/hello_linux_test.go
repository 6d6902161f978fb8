package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/egress"
)

// startTLS serves a rule with a host that echoes over TLS, at both ports.
func startTLS(t *testing.T, change func(*Options)) (*env, *x509.CertPool) {
	t.Helper()
	a := newAuthority(t, "api.test")
	e := start(t, change, "api.test:tls,other", "also.test:tls,other", "127.0.0.1:tls,other")
	e.hosts.set("api.test", "127.0.0.1")
	e.hosts.set("also.test", "127.0.0.1")
	l := listen(t, a.echoTLS)
	e.hosts.serveAt(e.tls, l)
	e.hosts.serveAt(e.other, l)
	return e, a.roots
}

func TestTLS(t *testing.T) {
	e, roots := startTLS(t, nil)
	for _, port := range []uint16{e.tls, e.other} {
		for what, conn := range map[string]net.Conn{
			"at once":              e.dial("api.test", port),
			"in one-byte segments": &slow{Conn: e.dial("api.test", port), size: 1},
			"in 50-byte segments":  &slow{Conn: e.dial("api.test", port), size: 50},
			"by address":           e.dial("127.0.0.1", port),
		} {
			secure := tls.Client(conn, &tls.Config{ServerName: "api.test", RootCAs: roots, MinVersion: tls.VersionTLS12})
			if _, err := io.WriteString(secure, "hello"); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if err := secure.CloseWrite(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got, err := io.ReadAll(secure); string(got) != "hello" || err != nil {
				t.Errorf("%s: the echo is %q, %v", what, got, err)
			}
			_ = secure.Close()
		}
	}
	if s := e.State(); s.Denied != 0 {
		t.Errorf("the state is %+v", s)
	}
}

// slow writes in segments.
type slow struct {
	net.Conn
	size int
}

func (s *slow) Write(p []byte) (int, error) {
	for i := 0; i < len(p); i += s.size {
		if _, err := s.Conn.Write(p[i:min(i+s.size, len(p))]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

func TestRefusedHellos(t *testing.T) {
	e, _ := startTLS(t, nil)
	named := func(name string) []byte { return hello(t, &tls.Config{ServerName: name}) }
	right := named("api.test")
	for _, tt := range []struct {
		what   string
		data   []byte
		reason string
		any    bool // at other ports, too
	}{
		{"another name", named("evil.test"), "names another server: evil.test", true},
		{"another allowed name", named("also.test"), "names another server: also.test", true},
		{"a name below it", named("x.api.test"), "names another server: x.api.test", true},
		{"no name", hello(t, &tls.Config{}), "names no server", false},
		{"an address", hello(t, &tls.Config{ServerName: "127.0.0.1"}), "names no server", false},
		{"a name with a dot", bytes.Replace(named("api.testx"), []byte("api.testx"), []byte("api.test."), 1), "does not begin with a TLS hello", true},
		{"SSH", []byte("SSH-2.0-OpenSSH_9.9\r\n"), "does not begin with a TLS hello", false},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"), "does not begin with a TLS hello", false},
		{"a broken hello", append(right[:60:60], bytes.Repeat([]byte{255}, len(right)-60)...), "does not begin with a TLS hello", true},
		{"an endless one", append([]byte{22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff}, bytes.Repeat([]byte{22, 3, 1, 0x40, 0}, 20_000)...), "hello", true},
	} {
		ports := []uint16{e.tls}
		if tt.any {
			ports = append(ports, e.other)
		}
		for _, port := range ports {
			last := e.State().Last
			conn := e.dial("api.test", port)
			go func() { _, _ = conn.Write(tt.data) }()
			e.mustBeReset(conn)
			r := e.record(last, func(r egress.Record) bool { return true })
			if r.Kind != egress.KindDenied || r.Host != "api.test" || r.Port != port || !strings.Contains(r.Reason, tt.reason) || r.Sent != 0 {
				t.Errorf("%s at %d: the record is %+v", tt.what, port, r)
			}
		}
	}
	if asked := e.hosts.questions(); len(asked) != 6 { // only at the other port
		t.Errorf("the host was asked for %q", asked)
	}
}

func TestSlowHello(t *testing.T) {
	e, _ := startTLS(t, func(o *Options) { o.HelloTimeout = 50 * time.Millisecond })
	conn := e.dial("api.test", e.tls)
	if _, err := conn.Write(hello(t, &tls.Config{ServerName: "api.test"})[:40]); err != nil {
		t.Fatal(err)
	}
	e.mustBeReset(conn)
	e.wants(0, egress.KindDenied, "api.test", "there was no TLS hello within 50ms")
	_ = e.dial("api.test", e.tls).Close() // says nothing
	e.wants(0, egress.KindConnection, "api.test", "")
}

// At other ports nothing is looked at that comes after the host has spoken, and what is no TLS
// passes.
func TestOtherProtocols(t *testing.T) {
	e := start(t, nil, "db.test:other", "echo.test:other")
	e.hosts.set("db.test", "127.0.0.1")
	e.hosts.serveAt(e.other, listen(t, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, "220 ready\r\n")
		echo(conn)
	}))
	conn := e.dial("db.test", e.other)
	if _, err := io.ReadFull(conn, make([]byte, 11)); err != nil {
		t.Fatal(err)
	}
	evil := hello(t, &tls.Config{ServerName: "evil.test"})
	if _, err := conn.Write(evil); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(evil))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, evil) {
		t.Errorf("after the host spoke: %v", err)
	}

	e.hosts.set("echo.test", "127.0.0.1")
	e.hosts.serveAt(e.other, listen(t, echo))
	for _, first := range []string{"x", "\x16", "\x16\x02", "\x16\x04\x16\x03", "\x00\x16\x03", strings.Repeat("y", 300_000)} {
		conn := e.dial("echo.test", e.other)
		go func() {
			_, _ = io.WriteString(conn, first)
			_ = conn.CloseWrite()
		}()
		if got, err := io.ReadAll(conn); string(got) != first || err != nil {
			t.Errorf("the echo of %.10q is %.10q, %v", first, got, err)
		}
	}
}
