package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit"
)

// startEcho serves rules with a host that echoes at the other port.
func startEcho(t *testing.T, change func(*Options), rules ...string) *env {
	t.Helper()
	e := start(t, change, rules...)
	e.hosts.set("api.test", "127.0.0.1")
	e.hosts.serveAt(e.other, listen(t, echo))
	return e
}

func TestConnectionByName(t *testing.T) {
	e := startEcho(t, nil, "api.test:other")
	conn := e.dial("API.test", e.other)
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); string(got) != "hello" || err != nil {
		t.Errorf("the answer is %q, %v; want all of it after closing one direction", got, err)
	}
	r := e.wants(0, egress.KindConnection, "api.test", "")
	if r.Port != e.other || r.Address != "127.0.0.1" || r.Rule != "api.test" || r.Sent != 5 || r.Received != 5 || r.Duration <= 0 {
		t.Errorf("the record is %+v", r)
	}
	s := e.State()
	if s.Open != 0 || s.Connections != 1 || s.Denied != 0 || s.Sent != 5 || s.Received != 5 || s.Last != r.Seq {
		t.Errorf("the state is %+v", s)
	}
}

// A host may speak first, and close first.
func TestServerFirst(t *testing.T) {
	e := start(t, nil, "db.test:other")
	e.hosts.set("db.test", "127.0.0.1")
	e.hosts.serveAt(e.other, listen(t, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, "ready")
		_ = conn.CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	}))
	conn := e.dial("db.test", e.other)
	if got, err := io.ReadAll(conn); string(got) != "ready" || err != nil {
		t.Fatalf("the host said %q, %v", got, err)
	}
	if _, err := io.WriteString(conn, "bye"); err != nil {
		t.Error("the other direction is closed, too:", err)
	}
	_ = conn.Close()
	e.wants(0, egress.KindConnection, "db.test", "")
}

func TestDeniedConnections(t *testing.T) {
	e := startEcho(t, nil, "api.test:other", "web.test", "10.0.0.0/8:other", "*.wild.test:other", "!bad.wild.test")
	if _, err := e.lookup("api.test."); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host   string
		port   uint16
		record string
		reason string
	}{
		{"api.test", e.tls, "api.test", "no rule opens its port"},
		{"web.test", e.other, "web.test", "no rule opens its port"},
		{"127.0.0.1", e.other, "127.0.0.1", "no rule opens this address"},
		{"127.0.0.1", e.http, "127.0.0.1", "no rule opens this address"},
		{"127.64.0.1", e.other, "127.64.0.1", "no name has this address"},
		{"127.99.9.9", e.tls, "127.99.9.9", "no name has this address"},
	} {
		last := e.State().Last
		e.mustNotOpen(tt.host, tt.port)
		r := e.wants(last, egress.KindDenied, tt.record, tt.reason)
		if r.Port != tt.port {
			t.Errorf("the record of %s is %+v", tt.host, r)
		}
	}
	if asked := e.hosts.questions(); len(asked) > 0 {
		t.Errorf("the host was asked for %q", asked)
	}
}

func TestUnreachable(t *testing.T) {
	e := start(t, nil, "gone.test:other", "none.test:other")
	l := listen(t, echo)
	e.hosts.serveAt(e.other, l)
	_ = l.Close()
	e.hosts.set("gone.test", "127.0.0.1")
	for host, reason := range map[string]string{"gone.test": "connection refused", "none.test": "no such host"} {
		e.mustNotOpen(host, e.other)
		e.wants(0, egress.KindFailed, host, reason)
	}
}

func TestConnectionLimit(t *testing.T) {
	e := startEcho(t, func(o *Options) { o.Network.Limits.Connections = 2 }, "api.test:other")
	var open []net.Conn
	for range 2 {
		conn := e.dial("api.test", e.other)
		ping(t, conn)
		open = append(open, conn)
	}
	e.mustNotOpen("api.test", e.other)
	e.wants(0, egress.KindDenied, "api.test", "2 connections are open, which is the limit")
	_ = open[0].Close()
	e.wants(0, egress.KindConnection, "api.test", "")
	ping(t, e.dial("api.test", e.other))
}

// A host that neither reads nor closes keeps its connections and no others, until rules end them.
func TestHostNeverCloses(t *testing.T) {
	e := start(t, func(o *Options) { o.Network.Limits.Connections = 3 }, "api.test:other", "mute.test:other")
	e.hosts.set("api.test", "127.0.0.1")
	e.hosts.set("mute.test", "127.0.0.1")
	stop, reached := make(chan struct{}), make(chan struct{}, 2)
	e.hosts.serveAt(e.other, listen(t, func(conn *net.TCPConn) {
		first := make([]byte, 4)
		if _, err := io.ReadFull(conn, first); err != nil {
			return
		}
		if string(first) == "mute" {
			reached <- struct{}{}
			<-stop
			return
		}
		_, _ = conn.Write(first)
		echo(conn)
	}))
	t.Cleanup(func() { close(stop) }) // before the listener waits for its connections
	var open []*net.TCPConn
	for range 2 {
		conn := e.dial("mute.test", e.other)
		if _, err := io.WriteString(conn, "mute and more"); err != nil {
			t.Fatal(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		<-reached
		open = append(open, conn)
	}
	ping(t, e.dial("api.test", e.other))
	if _, err := e.Set(e.network("api.test:other")); err != nil {
		t.Fatal(err)
	}
	for _, conn := range open {
		e.mustBeReset(conn)
	}
	e.wants(0, egress.KindConnection, "mute.test", "no rule opens it")
	ping(t, e.dial("api.test", e.other))
}

func ping(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.WriteString(conn, "ping"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" {
		t.Fatalf("the echo is %q, %v", got, err)
	}
}

func TestBytesOut(t *testing.T) {
	e := startEcho(t, func(o *Options) { o.Network.Limits.BytesOut = 10 }, "api.test:other")
	one, two := e.dial("api.test", e.other), e.dial("api.test", e.other)
	ping(t, one)
	ping(t, two)
	if _, err := io.WriteString(one, "more"); err != nil {
		t.Fatal(err)
	}
	e.mustBeReset(one)
	r := e.wants(0, egress.KindConnection, "api.test", "is used up")
	if r.Sent != 4 || !strings.Contains(r.Reason, "10B") {
		t.Errorf("the record is %+v", r)
	}
	if _, err := io.WriteString(two, "xx"); err != nil { // fits
		t.Fatal(err)
	}
	if _, err := io.ReadFull(two, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	e.mustNotOpen("api.test", e.other)
	e.wants(0, egress.KindDenied, "api.test", "is used up")
	network := e.network("api.test:other")
	if _, err := e.Set(network); err != nil {
		t.Fatal(err)
	}
	ping(t, e.dial("api.test", e.other))
}

func TestRulesReplaced(t *testing.T) {
	e := startEcho(t, nil, "api.test:other", "old.test:other")
	e.hosts.set("old.test", "127.0.0.1")
	kept, cut := e.dial("api.test", e.other), e.dial("old.test", e.other)
	ping(t, kept)
	ping(t, cut)
	old, err := e.lookup("old.test.")
	if err != nil {
		t.Fatal(err)
	}

	var more uint16
	for port := e.other + 1; ; port++ { // others may use a port
		more = port
		last := e.State().Last
		network := e.network("api.test:other", "new.test:other,"+strconv.Itoa(int(more)))
		if _, err = e.Set(network); err == nil {
			break
		}
		if last != e.State().Last || port > e.other+10 {
			t.Fatal(err)
		}
	}
	e.mustBeReset(cut)
	if r := e.wants(0, egress.KindConnection, "old.test", "the rules were replaced"); r.Sent != 4 {
		t.Errorf("the record is %+v", r)
	}
	ping(t, kept)
	if _, err := e.lookup("old.test."); !isNotFound(err) {
		t.Errorf("the name without a rule is answered with %v", err)
	}
	last := e.State().Last
	e.mustNotOpen(old.String(), e.other)
	e.wants(last, egress.KindDenied, "old.test", "no rule opens it")
	e.hosts.set("new.test", "127.0.0.1")
	e.hosts.serveAt(more, listen(t, echo))
	ping(t, e.dial("new.test", more))
	if address, err := e.lookup("new.test."); err != nil || address == old {
		t.Errorf("another name has the address of one without a rule: %v, %v", address, err)
	}

	// A port that no rule names any more resets.
	if _, err := e.Set(e.network("api.test:other", "new.test:other")); err != nil {
		t.Fatal(err)
	}
	last = e.State().Last
	e.mustNotOpen("new.test", more)
	e.wants(last, egress.KindDenied, "new.test", "no rule opens its port")
}

func isNotFound(err error) bool {
	dns := (*net.DNSError)(nil)
	return errors.As(err, &dns) && dns.IsNotFound
}

func TestRulesThatCannotBeBound(t *testing.T) {
	e := startEcho(t, func(o *Options) {
		for _, f := range o.TCP[8:] {
			_ = f.Close()
		}
		o.TCP = o.TCP[:8]
	}, "api.test:other")
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	conn := e.dial("api.test", e.other)
	ping(t, conn)
	before := e.State()
	taken := busy.Addr().(*net.TCPAddr).AddrPort().Port()
	for what, network := range map[string][]string{
		"address already in use": {"new.test:" + strconv.Itoa(int(taken))},
		"are used up":            {"new.test:40001,40002,40003,40004,40005,40006,40007,40008,40009,40010"},
		"invalid host":           {"UPPER.test:other"},
	} {
		_, err := e.Set(e.network(network...))
		if e := (*egress.Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Message, what) {
			t.Errorf("Set of %q: %v; want an error that says %q", network, err, what)
		}
	}
	after := e.State()
	if len(after.Network.Allow) != 1 || after.Last != before.Last {
		t.Errorf("the state was %+v and is %+v", before, after)
	}
	ping(t, conn)
	if _, err := e.lookup("new.test."); !isNotFound(err) {
		t.Errorf("a name of the rules that failed: %v", err)
	}
}

// A rule change while the host is being reached holds for the connection, too.
func TestRulesReplacedDuringDial(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	var hosts *fakeHosts
	e := startEcho(t, func(o *Options) {
		hosts = o.Resolver.(*fakeHosts)
		o.Dial = func(ctx context.Context, network, address string, control func(string, string, syscall.RawConn) error) (net.Conn, error) {
			close(entered)
			<-leave
			return hosts.dial(context.WithoutCancel(ctx), network, address, control)
		}
	}, "api.test:other")
	conn := e.dial("api.test", e.other)
	<-entered
	if _, err := e.Set(e.network("else.test:other")); err != nil {
		t.Fatal(err)
	}
	close(leave)
	e.mustBeReset(conn)
	e.wants(0, egress.KindConnection, "api.test", "the rules were replaced")
}

// Peers that go away without a word are found, also after one direction was closed.
func TestHostResets(t *testing.T) {
	e := start(t, nil, "api.test:other")
	e.hosts.set("api.test", "127.0.0.1")
	e.hosts.serveAt(e.other, listen(t, func(conn *net.TCPConn) {
		_, _ = io.ReadAll(conn)
		reset(conn)
	}))
	conn := e.dial("api.test", e.other)
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	e.mustBeReset(conn)
	e.wants(0, egress.KindConnection, "api.test", "the host ended it: connection reset by peer")
}

func TestCommandResetsAfterHalfClose(t *testing.T) {
	e := start(t, nil, "api.test:other")
	e.hosts.set("api.test", "127.0.0.1")
	gone := make(chan error, 1)
	half := make(chan struct{})
	e.hosts.serveAt(e.other, listen(t, func(conn *net.TCPConn) {
		_, _ = io.ReadAll(conn)
		close(half)
		gone <- awaitGone(conn)
	}))
	conn := e.dial("api.test", e.other)
	_ = conn.CloseWrite()
	<-half
	reset(conn)
	if err := <-gone; err == nil {
		t.Error("the host was not told")
	}
	e.wants(0, egress.KindConnection, "api.test", "")
}

// Connections that come while descriptors are short are served later.
func TestDescriptorsShort(t *testing.T) {
	e := startEcho(t, nil, "api.test:other")
	address, err := e.lookup("api.test.")
	if err != nil {
		t.Fatal(err)
	}
	var clients []int
	for range 10 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		clients = append(clients, fd)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 3
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	connect := func() error {
		for _, fd := range clients {
			if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: address.As4(), Port: int(e.other)}); err != nil {
				return err
			}
		}
		time.Sleep(20 * time.Millisecond) // some attempts to accept fail
		return nil
	}
	err = connect()
	if restore := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); restore != nil {
		t.Fatal(restore)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range clients {
		if _, err := unix.Write(fd, []byte("ping")); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(fd, make([]byte, 4)); n != 4 || err != nil {
			t.Errorf("the echo has %d bytes, %v", n, err)
		}
	}
}

// BenchmarkCopy shows the throughput of a connection, directly and through the server.
func BenchmarkCopy(b *testing.B) {
	for _, direct := range []bool{true, false} {
		name := map[bool]string{true: "direct", false: "copied"}[direct]
		b.Run(name, func(b *testing.B) { benchmarkCopy(b, direct) })
	}
}

func benchmarkCopy(b *testing.B, direct bool) {
	const size = 256 << 20
	source := listen(b, func(conn *net.TCPConn) {
		chunk := make([]byte, 1<<20)
		for range size / len(chunk) {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
		}
	})
	e := start(b, nil, "api.test:other")
	e.hosts.set("api.test", "127.0.0.1")
	e.hosts.serveAt(e.other, source)
	b.SetBytes(size)
	buffer := make([]byte, 1<<20)
	for b.Loop() {
		var conn net.Conn
		if direct {
			var err error
			if conn, err = net.Dial("tcp", source.Addr().String()); err != nil {
				b.Fatal(err)
			}
		} else {
			conn = e.dial("api.test", e.other)
		}
		if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, buffer); n != size || err != nil {
			b.Fatalf("%d bytes, %v", n, err)
		}
		_ = conn.Close()
	}
}

// descriptors counts those of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestManyConnections(t *testing.T) {
	authority := newAuthority(t, "web.test")
	e := start(t, nil, "api.test:other", "web.test")
	e.hosts.set("api.test", "127.0.0.1")
	e.hosts.set("web.test", "127.0.0.1")
	e.hosts.serveAt(e.other, listen(t, echo))
	e.hosts.serveAt(e.tls, listen(t, authority.echoTLS))
	once := func(big []byte) error {
		begun := time.Now()
		address, err := e.lookup("api.test.")
		for late := new(net.DNSError); errors.As(err, &late) && late.IsTimeout && time.Since(begun) < testkit.Patience; {
			address, err = e.lookup("api.test.") // a busy machine loses datagrams
		}
		if err != nil {
			return err
		}
		conn, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: address.AsSlice(), Port: int(e.other)})
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
		go func() {
			_, _ = conn.Write(big)
			_ = conn.CloseWrite()
		}()
		got, err := io.ReadAll(conn)
		if err == nil && !bytes.Equal(got, big) {
			err = errors.New("the echo differs")
		}
		return err
	}
	if err := once([]byte("first")); err != nil {
		t.Fatal(err)
	}
	e.wants(0, egress.KindConnection, "api.test", "")
	before := descriptors(t)
	sequence := 10_000
	if testing.Short() {
		sequence = 1000
	}
	for i := range sequence {
		if err := once([]byte("again")); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	for range 500 {
		all.Go(func() {
			if err := once(big); err != nil {
				failed.Store(&err)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		t.Error("of 500 at once:", *err)
	}
	var secure sync.WaitGroup
	for range 50 {
		secure.Go(func() {
			conn := tls.Client(e.dial("web.test", e.tls), &tls.Config{ServerName: "web.test", RootCAs: authority.roots, MinVersion: tls.VersionTLS12})
			defer conn.Close()
			if _, err := io.WriteString(conn, "ping"); err != nil {
				t.Error(err)
				return
			}
			if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
				t.Error(err)
			}
		})
	}
	secure.Wait()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		after := descriptors(t)
		if after <= before && e.State().Open == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("there were %d descriptors, and %d are left; %d connections are open", before, after, e.State().Open)
		}
	}
	if s := e.State(); s.Connections != uint64(sequence)+551 || (s.Lost == 0) != testing.Short() {
		t.Errorf("the state is %+v", s)
	}
}
