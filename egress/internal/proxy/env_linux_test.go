package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// env is a server of the test's, with sockets of its own network namespace, and hosts on
// loopback.
type env struct {
	*Server
	t                testing.TB
	dns              netip.AddrPort
	tls, http, other uint16 // ports as commands see them
	hosts            *fakeHosts
	stop             context.CancelFunc
	done             chan error
}

// fakeHosts resolves names, and knows where the ports of all hosts are.
type fakeHosts struct {
	mu        sync.Mutex
	addresses map[string][]netip.Addr
	ports     map[uint16]uint16
	asked     []string
}

func (h *fakeHosts) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	h.mu.Lock()
	h.asked = append(h.asked, host)
	addresses, ok := h.addresses[host]
	h.mu.Unlock()
	switch {
	case !ok:
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	case len(addresses) == 0: // hangs, and does not hear of the end of ctx
		time.Sleep(time.Until(deadline(ctx)) + 100*time.Millisecond)
		return nil, context.DeadlineExceeded
	}
	return addresses, nil
}

func deadline(ctx context.Context) time.Time {
	end, _ := ctx.Deadline()
	return end
}

func (h *fakeHosts) set(name string, addresses ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addresses[name] = nil
	for _, a := range addresses {
		h.addresses[name] = append(h.addresses[name], netip.MustParseAddr(a))
	}
}

// dial is a DialFunc that connects to the ports of the test's hosts.
func (h *fakeHosts) dial(ctx context.Context, network, address string, control func(network, address string, c syscall.RawConn) error) (net.Conn, error) {
	to := netip.MustParseAddrPort(address)
	h.mu.Lock()
	port := h.ports[to.Port()]
	h.mu.Unlock()
	return dialDirectly(ctx, network, netip.AddrPortFrom(to.Addr(), port).String(), control)
}

// serveAt tells at which port of loopback a port of all hosts is.
func (h *fakeHosts) serveAt(port uint16, l net.Listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ports[port] = l.Addr().(*net.TCPAddr).AddrPort().Port()
}

func (h *fakeHosts) questions() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.asked...)
}

// start serves rules. A rule of ports ":tls", ":http" and ":other" has those of the test.
func start(t testing.TB, change func(*Options), rules ...string) *env {
	t.Helper()
	e := &env{t: t, hosts: &fakeHosts{addresses: map[string][]netip.Addr{}, ports: map[uint16]uint16{}}, done: make(chan error, 1)}
	var failure error
	for range 50 { // others may use a port
		// Below the ports that the kernel gives to clients.
		base := uint16(10000 + mathrand.IntN(20000))
		e.dns = netip.AddrPortFrom(netip.MustParseAddr("127.64.0.1"), base)
		e.tls, e.http, e.other = base+1, base+2, base+3
		o := Options{
			Network: e.network(rules...), DNS: e.dns, Range: netip.MustParsePrefix("127.64.0.0/10"),
			Resolver: e.hosts, Dial: e.hosts.dial, AllowAddress: func(a netip.Addr) bool { return a == netip.MustParseAddr("127.0.0.1") },
			TLSPort: e.tls, HTTPPort: e.http, HostSockets: true,
		}
		o.UDP, o.TCP = sockets(t, 16)
		if change != nil {
			change(&o)
		}
		if e.Server, failure = New(o); failure == nil {
			break
		}
		if !strings.Contains(failure.Error(), "address already in use") {
			t.Fatal(failure)
		}
	}
	if failure != nil {
		t.Fatal(failure)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.stop = cancel
	go func() { e.done <- e.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-e.done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	// Connections are counted from now on.
	for e.State().Last == 0 && !e.served() {
		time.Sleep(time.Millisecond)
	}
	return e
}

func (e *env) served() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ctx != nil
}

func (e *env) network(rules ...string) policy.Network {
	n := policy.Network{Mode: policy.NetworkAllow, Limits: policy.NetworkLimits{Connections: 1024}}
	for _, rule := range rules {
		if host, ok := strings.CutPrefix(rule, "!"); ok {
			n.Deny = append(n.Deny, policy.NetworkDenial{Host: host, Reason: "because"})
			continue
		}
		host, words, ok := strings.Cut(rule, ":")
		r := policy.NetworkRule{Host: host, Ports: []policy.Port{policy.Port(e.tls), policy.Port(e.http)}}
		if ok {
			r.Ports = nil
		}
		for word := range strings.SplitSeq(words, ",") {
			switch word {
			case "":
			case "tls":
				r.Ports = append(r.Ports, policy.Port(e.tls))
			case "http":
				r.Ports = append(r.Ports, policy.Port(e.http))
			case "other":
				r.Ports = append(r.Ports, policy.Port(e.other))
			default:
				n, err := strconv.Atoi(word)
				if err != nil {
					panic(err)
				}
				r.Ports = append(r.Ports, policy.Port(n))
			}
		}
		n.Allow = append(n.Allow, r)
	}
	return n
}

// sockets returns what the agent would hand out.
func sockets(t testing.TB, stock int) (udp *os.File, tcp []*os.File) {
	t.Helper()
	socket := func(kind int) *os.File {
		fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), "socket")
	}
	for range stock {
		tcp = append(tcp, socket(unix.SOCK_STREAM))
	}
	return socket(unix.SOCK_DGRAM), tcp
}

// lookup asks for a name as commands do.
func (e *env) lookup(name string) (netip.Addr, error) {
	r := net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, e.dns.String())
	}}
	addresses, err := r.LookupNetIP(e.t.Context(), "ip4", name)
	if err != nil {
		return netip.Addr{}, err
	}
	return addresses[0].Unmap(), nil
}

// dial connects to a name or an address as commands do.
func (e *env) dial(name string, port uint16) *net.TCPConn {
	e.t.Helper()
	conn, err := e.tryDial(name, port)
	if err != nil {
		e.t.Fatal(err)
	}
	return conn
}

func (e *env) tryDial(name string, port uint16) (*net.TCPConn, error) {
	address, err := netip.ParseAddr(name)
	if err != nil {
		if address, err = e.lookup(name + "."); err != nil {
			return nil, err
		}
	}
	conn, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, port)))
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	e.t.Cleanup(func() { _ = conn.Close() })
	return conn, nil
}

// mustBeReset reads until the connection is reset, and fails if anything comes.
func (e *env) mustBeReset(conn net.Conn) {
	e.t.Helper()
	if got, err := io.ReadAll(conn); len(got) > 0 || !errors.Is(err, syscall.ECONNRESET) {
		e.t.Errorf("the connection got %q and then %v; want a reset", got, err)
	}
}

// mustNotOpen connects to a target, and fails unless that is reset, perhaps at once.
func (e *env) mustNotOpen(name string, port uint16) {
	e.t.Helper()
	conn, err := e.tryDial(name, port)
	if err == nil {
		e.mustBeReset(conn)
	} else if !errors.Is(err, syscall.ECONNRESET) {
		e.t.Errorf("connecting to %s: %v; want a reset", name, err)
	}
}

// record waits for the first record after a number that f accepts.
func (e *env) record(after uint64, f func(egress.Record) bool) egress.Record {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Minute)
	defer cancel()
	var found egress.Record
	var seen []egress.Record
	stop := errors.New("found")
	if err := e.records.each(ctx, after, true, func(r egress.Record) error {
		if f(r) {
			found = r
			return stop
		}
		seen = append(seen, r)
		return nil
	}); !errors.Is(err, stop) {
		e.t.Fatalf("there is no such record, but %+v: %v", seen, err)
	}
	return found
}

// next waits for the next record of a kind about a host, and checks a part of its reason.
func (e *env) wants(after uint64, kind, host, reason string) egress.Record {
	e.t.Helper()
	r := e.record(after, func(r egress.Record) bool { return r.Kind == kind && r.Host == host })
	if !strings.Contains(r.Reason, reason) || reason == "" && r.Reason != "" {
		e.t.Errorf("the record is %+v, want a reason with %q", r, reason)
	}
	return r
}

// listen serves connections on loopback.
func listen(t testing.TB, serve func(*net.TCPConn)) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				stop := context.AfterFunc(t.Context(), func() { _ = conn.Close() })
				defer stop()
				serve(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return l
}

func echo(conn *net.TCPConn) {
	_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
	_ = conn.CloseWrite()
}

// authority makes certificates for the names of the test.
type authority struct {
	roots *x509.CertPool
	tls.Certificate
}

func newAuthority(t *testing.T, names ...string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{roots: x509.NewCertPool(), Certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
	a.roots.AddCert(cert)
	return a
}

// echoTLS is a host that echoes over TLS.
func (a *authority) echoTLS(conn *net.TCPConn) {
	secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{a.Certificate}, MinVersion: tls.VersionTLS12})
	_, _ = io.Copy(secure, secure)
	_ = secure.CloseWrite()
}
