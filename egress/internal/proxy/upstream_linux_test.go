package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/egress"
)

// Names that resolve to what no rule names lead nowhere.
func TestRefusedAddresses(t *testing.T) {
	e := start(t, func(o *Options) { o.AllowAddress = nil }, "api.test:other", "10.1.0.0/16:other", "127.0.0.7:other", "169.254.0.0/16:other", "!203.0.113.0/24")
	e.hosts.serveAt(e.other, listen(t, echo))
	for address, reason := range map[string]string{
		"127.0.0.1":            "a loopback address",
		"127.9.9.9":            "a loopback address",
		"::1":                  "a loopback address",
		"0.0.0.0":              "an unspecified address",
		"::":                   "an unspecified address",
		"10.2.0.1":             "a private address",
		"172.16.0.1":           "a private address",
		"192.168.1.1":          "a private address",
		"fd12::1":              "a private address",
		"fec0::1":              "a private address",
		"100.64.0.1":           "a carrier's own network",
		"169.254.1.1":          "a link-local address",
		"fe80::1":              "a link-local address",
		"fe80::1%lo":           "a link-local address",
		"169.254.169.254":      "a cloud's metadata",
		"168.63.129.16":        "a cloud's metadata",
		"192.0.0.192":          "a cloud's metadata",
		"fd00:ec2::254":        "a cloud's metadata",
		"fd20:ce::254":         "a cloud's metadata",
		"224.0.0.1":            "a multicast address",
		"ff02::1":              "a multicast address",
		"255.255.255.255":      "a reserved address",
		"192.0.0.8":            "a reserved address",
		"198.18.0.1":           "for benchmarks",
		"203.0.113.5":          "because",
		"::ffff:127.0.0.1":     "a loopback address",
		"::ffff:10.2.0.1":      "a private address",
		"::7f00:1":             "a reserved address",
		"64:ff9b::7f00:1":      "an IPv4 address that is translated",
		"64:ff9b:1::a00:1":     "an IPv4 address that is translated",
		"2002:7f00:1::":        "an IPv4 address that is translated",
		"2001:0:7f00:1::":      "an IPv4 address that is translated",
		"4000::1":              "a reserved address",
		ownAddress(t).String(): "and no rule names that address",
	} {
		last := e.State().Last
		e.hosts.set("api.test", address)
		e.mustNotOpen("api.test", e.other)
		e.wants(last, egress.KindDenied, "api.test", reason)
	}
	many := make([]string, 4000)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}).String()
	}
	last := e.State().Last
	e.hosts.set("api.test", many...)
	e.mustNotOpen("api.test", e.other)
	e.wants(last, egress.KindDenied, "api.test", "a private address")

	// A rule that names the very address opens it, also by name.
	e.hosts.serveAt(e.other, listenAt(t, "127.0.0.7", echo))
	e.hosts.set("api.test", "10.2.0.1", "127.0.0.7")
	ping(t, e.dial("api.test", e.other))
}

// ownAddress returns an address of this host that is none of loopback, or one of loopback.
func ownAddress(t *testing.T) netip.Addr {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			return p.Addr()
		}
	}
	return netip.MustParseAddr("127.0.0.2")
}

func listenAt(t *testing.T, address string, serve func(*net.TCPConn)) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestHostHas(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": true, ownAddress(t).String(): true, "1.1.1.1": false} {
		got, err := hostHas(netip.AddrPortFrom(netip.MustParseAddr(address), 443))
		if errors.Is(err, syscall.ENETUNREACH) {
			continue // without a route there is no connection, either
		}
		if got != want || err != nil {
			t.Errorf("the host has %s: %v, %v; want %v", address, got, err, want)
		}
	}
}

// A resolver that hangs ends the connection that asked it, and no other.
func TestResolverHangs(t *testing.T) {
	e := startEcho(t, func(o *Options) { o.DialTimeout = 3 * time.Second }, "api.test:other", "slow.test:other")
	e.hosts.set("slow.test")
	slow := e.dial("slow.test", e.other)
	ping(t, e.dial("api.test", e.other))
	e.mustBeReset(slow)
	e.wants(0, egress.KindFailed, "slow.test", "there was no connection within 3s")
}

// The next address is tried when one fails, and the other family, too.
func TestFallback(t *testing.T) {
	e := start(t, func(o *Options) {
		hosts := o.Resolver.(*fakeHosts)
		o.AllowAddress = func(netip.Addr) bool { return true }
		o.Dial = func(ctx context.Context, network, address string, control func(string, string, syscall.RawConn) error) (net.Conn, error) {
			switch to := netip.MustParseAddrPort(address); to.Addr() {
			case netip.MustParseAddr("127.0.0.1"):
				return hosts.dial(ctx, network, address, control)
			case netip.MustParseAddr("2001:db8::1"):
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, syscall.ECONNREFUSED
		}
	}, "api.test:other")
	e.hosts.serveAt(e.other, listen(t, echo))
	for _, addresses := range [][]string{
		{"192.0.2.1", "192.0.2.2", "127.0.0.1"},
		{"2001:db8::1", "127.0.0.1"},
		{"2001:db8::2", "192.0.2.1", "127.0.0.1"},
		{"127.0.0.1", "127.0.0.1", "2001:db8::1"},
	} {
		e.hosts.set("api.test", addresses...)
		ping(t, e.dial("api.test", e.other))
	}
	e.hosts.set("api.test", "192.0.2.1", "2001:db8::2")
	e.mustNotOpen("api.test", e.other)
	e.wants(0, egress.KindFailed, "api.test", "connection refused")
}

// connectProxy is an operator's proxy, which sends all connections to one address.
func connectProxy(t *testing.T, to net.Listener, asked chan<- string) net.Listener {
	t.Helper()
	return listen(t, func(conn *net.TCPConn) {
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		asked <- fmt.Sprint(r.Method, " ", r.Host, " ", r.Header.Get("Proxy-Authorization"))
		if strings.HasPrefix(r.Host, "no.test") {
			_, _ = io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
			return
		}
		if strings.HasPrefix(r.Host, "hang.test") {
			_, _ = io.Copy(io.Discard, conn)
			return
		}
		host, err := net.Dial("tcp", to.Addr().String())
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: y\r\n\r\n")
		copyBoth(conn, host)
	})
}

// copyBoth copies between two connections until they end.
func copyBoth(a, b net.Conn) {
	ended := make(chan struct{})
	relay(a, b, func() error { return copyAll(b, a) }, func() error { return copyAll(a, b) }, func(error) { close(ended) })
	<-ended
}

func TestOperatorProxy(t *testing.T) {
	host := listen(t, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, "early")
		echo(conn)
	})
	asked := make(chan string, 100)
	proxy := connectProxy(t, host, asked)
	e := start(t, func(o *Options) {
		o.Proxy = map[string]string{"HTTPS_PROXY": "http://user:secret@" + proxy.Addr().String(), "NO_PROXY": "direct.test, 192.0.2.0/24"}
	}, "api.test:other", "no.test:other", "hang.test:other", "direct.test:other", "10.0.0.1:other")
	port := strconv.Itoa(int(e.other))
	for _, name := range []string{"api.test"} {
		conn := e.dial(name, e.other)
		early := make([]byte, 5)
		if _, err := io.ReadFull(conn, early); err != nil || string(early) != "early" {
			t.Fatalf("what comes right after the proxy's answer is %q, %v", early, err)
		}
		ping(t, conn)
		_ = conn.Close()
		if got := <-asked; got != "CONNECT "+name+":"+port+" Basic dXNlcjpzZWNyZXQ=" {
			t.Errorf("the proxy was asked %q", got)
		}
		r := e.wants(0, egress.KindConnection, name, "")
		if r.Address != "" {
			t.Errorf("the record has an address that only the proxy knows: %+v", r)
		}
	}
	e.mustNotOpen("no.test", e.other)
	r := e.wants(0, egress.KindFailed, "no.test", "the operator's proxy "+proxy.Addr().String()+": it answered \"HTTP/1.1 403 Forbidden\"")
	if strings.Contains(r.Reason, "secret") {
		t.Errorf("the record has the password: %+v", r)
	}
	if len(e.hosts.questions()) > 0 {
		t.Errorf("the host was asked for %q", e.hosts.questions())
	}
	e.hosts.set("direct.test", "127.0.0.1")
	e.hosts.serveAt(e.other, listen(t, echo))
	ping(t, e.dial("direct.test", e.other))

	_ = proxy.Close()
	e.hosts.set("api.test", "127.0.0.1")
	e.mustNotOpen("api.test", e.other)
	e.wants(0, egress.KindFailed, "api.test", "connection refused")
}

func TestOperatorProxyHangs(t *testing.T) {
	asked := make(chan string, 1)
	proxy := connectProxy(t, nil, asked)
	e := start(t, func(o *Options) {
		o.Proxy = map[string]string{"ALL_PROXY": proxy.Addr().String()}
		o.DialTimeout = 100 * time.Millisecond
	}, "hang.test:other")
	conn := e.dial("hang.test", e.other)
	<-asked
	e.mustBeReset(conn)
	e.wants(0, egress.KindFailed, "hang.test", "there was no connection within 100ms")
}

func TestSOCKSProxy(t *testing.T) {
	host := listen(t, echo)
	proxy := listen(t, func(conn *net.TCPConn) {
		greeting := make([]byte, 3)
		_, _ = io.ReadFull(conn, greeting)
		_, _ = conn.Write([]byte{5, 0})
		request := make([]byte, 4+1+8+2) // for api.test
		_, _ = io.ReadFull(conn, request)
		if string(request[5:13]) != "api.test" {
			t.Errorf("the proxy was asked %q", request)
		}
		to, err := net.Dial("tcp", host.Addr().String())
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		copyBoth(conn, to)
	})
	e := start(t, func(o *Options) { o.Proxy = map[string]string{"ALL_PROXY": "socks5h://" + proxy.Addr().String()} }, "api.test:other")
	conn := e.dial("api.test", e.other)
	ping(t, conn)
	_ = conn.CloseWrite()
	if got, err := io.ReadAll(conn); len(got) > 0 || err != nil {
		t.Errorf("the end of the connection is %q, %v", got, err)
	}
}
