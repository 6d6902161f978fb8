package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

const tokenValue = "ghp_Abcdefghijkl0123456789"

// looking is a server that looks into TLS to api.test, behind which a host of the test is.
type looking struct {
	*env
	ca    *authority // of the hosts
	roots *x509.CertPool
	mu    sync.Mutex
	seen  []*http.Request // by the host
	now   func() time.Time
}

// look starts one. change changes the rule for api.test.
func look(t *testing.T, change func(*policy.NetworkRule), handler http.HandlerFunc) *looking {
	t.Helper()
	return lookWith(t, nil, change, handler)
}

// lookWith starts one with options that set changes.
func lookWith(t *testing.T, set func(*Options), change func(*policy.NetworkRule), handler http.HandlerFunc) *looking {
	t.Helper()
	l := &looking{ca: newAuthority(t, "api.test", "other.test"), roots: x509.NewCertPool(), now: time.Now}
	own, err := egress.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	l.roots.AppendCertsFromPEM(own.PEM())
	l.env = start(t, func(o *Options) {
		port := []policy.Port{policy.Port(o.TLSPort)}
		rule := policy.NetworkRule{Host: "api.test", Ports: port, Secret: &policy.NetworkSecret{Name: "TOKEN", Header: "Authorization", Format: "Bearer {}"}}
		if change != nil {
			change(&rule)
		}
		o.Network.Allow = append(o.Network.Allow, rule, policy.NetworkRule{Host: "other.test", Ports: port, HTTP: []policy.HTTPRule{{}}}, policy.NetworkRule{Host: "copied.test", Ports: port})
		o.Authority, o.Roots = own, l.ca.roots
		o.Secrets = []egress.Secret{{Name: "TOKEN", Value: tokenValue, StandIn: "ghp_Zyxwvutsrqpo9876543210"}}
		o.Now = func() time.Time {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.now()
		}
		if set != nil {
			set(o)
		}
	})
	for _, name := range []string{"api.test", "other.test", "copied.test"} {
		l.hosts.set(name, "127.0.0.1")
	}
	l.serveHost(handler)
	return l
}

// serveHost makes the handler that of all hosts.
func (l *looking) serveHost(handler http.Handler) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	server := &http.Server{TLSConfig: &tls.Config{Certificates: []tls.Certificate{l.ca.Certificate}, NextProtos: []string{"h2", "http/1.1"}},
		ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.mu.Lock()
			l.seen = append(l.seen, r.Clone(context.Background()))
			l.mu.Unlock()
			handler.ServeHTTP(w, r)
		})}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	l.t.Cleanup(func() { _ = server.Close() })
	l.hosts.serveAt(l.tls, listener)
}

// last returns the last request that a host got.
func (l *looking) last() *http.Request {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) == 0 {
		l.t.Fatal("no host got a request")
	}
	return l.seen[len(l.seen)-1]
}

func (l *looking) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

// client returns a client of HTTP/2, or of HTTP/1.1.
func (l *looking) client(two bool) *http.Client {
	p := &http.Protocols{}
	p.SetHTTP1(!two)
	p.SetHTTP2(two)
	transport := &http.Transport{Protocols: p, DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: l.roots},
		DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return l.tryDial(host, l.tls)
		}}
	l.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func (l *looking) url(path string) string { return fmt.Sprintf("https://api.test:%d%s", l.tls, path) }

// do sends a request and returns the answer with its body.
func (l *looking) do(c *http.Client, method, url string, body io.Reader, header ...string) (*http.Response, string) {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), method, url, body)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	answer, err := c.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		l.t.Fatalf("after %q: %v", text, err)
	}
	return answer, string(text)
}

// raw connects with TLS of HTTP/1.1.
func (l *looking) raw(name string) *tls.Conn {
	l.t.Helper()
	conn := tls.Client(l.dial(name, l.tls), &tls.Config{RootCAs: l.roots, ServerName: name})
	if err := conn.Handshake(); err != nil {
		l.t.Fatal(err)
	}
	return conn
}

var protocols = map[string]bool{"HTTP/1.1": false, "HTTP/2": true}

// TestRulesDuringARequest: when what requests may be changes, those under way end.
func TestRulesDuringARequest(t *testing.T) {
	begun := make(chan bool, 1)
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		begun <- true
		<-r.Context().Done()
	})
	answer, err := l.client(false).Get(l.url("/"))
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	network := l.State().Network
	changed := network.Clone()
	changed.Allow[len(changed.Allow)-3].HTTP = []policy.HTTPRule{{Methods: []string{"GET"}}}
	if _, err := l.Set(changed); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("the answer ended as one that is whole")
	}
	l.wants(0, egress.KindConnection, "api.test", "the rules were replaced")
	// A name that was copied before can be intercepted: nothing inside changes.
	changed.Allow[len(changed.Allow)-1].HTTP = []policy.HTTPRule{{}}
	if _, err := l.Set(changed); err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(l.dial("copied.test", l.tls), &tls.Config{RootCAs: l.roots, ServerName: "copied.test"})
	if err := conn.Handshake(); err != nil {
		t.Error(err)
	}
	// Unknown secrets are refused, and nothing changes.
	unknown := changed.Clone()
	unknown.Allow[len(changed.Allow)-3].Secret.Name = "OTHER"
	if _, err := l.Set(unknown); err == nil || !strings.Contains(err.Error(), "secret OTHER cannot be used") {
		t.Errorf("an unknown secret: %v", err)
	}
	if got := l.State().Network.Allow; got[len(got)-3].Secret.Name != "TOKEN" {
		t.Error("a change that was refused has changed the rules")
	}
	plain := start(t, nil, "api.test:tls")
	if _, err := plain.Set(changed); err == nil || !strings.Contains(err.Error(), "no rule can have http or secret") {
		t.Errorf("a sandbox without interception: %v", err)
	}
}

// TestCertificates: they are for exact names, limited to those of rules, and renewed.
func TestCertificates(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {})
	state := l.raw("api.test").ConnectionState()
	leaf, middle := state.PeerCertificates[0], state.PeerCertificates[1]
	if !slices.Equal(leaf.DNSNames, []string{"api.test"}) || leaf.IsCA || !slices.Equal(middle.PermittedDNSDomains, []string{"api.test", "other.test"}) ||
		!middle.PermittedDNSDomainsCritical || len(middle.ExcludedIPRanges) != 2 || !middle.MaxPathLenZero {
		t.Errorf("the certificates are %+v and %+v", leaf, middle)
	}
	at := func(d time.Duration) {
		l.mu.Lock()
		l.now = func() time.Time { return time.Now().Add(d) }
		l.mu.Unlock()
	}
	for _, passed := range []time.Duration{11 * time.Hour, 13 * time.Hour, 6 * 24 * time.Hour, 400 * 24 * time.Hour} {
		at(passed)
		conn := tls.Client(l.dial("api.test", l.tls), &tls.Config{RootCAs: l.roots, ServerName: "api.test", Time: func() time.Time { return time.Now().Add(passed) }})
		if err := conn.Handshake(); err != nil {
			t.Fatalf("after %v: %v", passed, err)
		}
		chain := conn.ConnectionState().PeerCertificates
		if same := chain[0].Equal(leaf); same != (passed < 12*time.Hour) {
			t.Errorf("after %v the same certificate: %v", passed, same)
		}
		if same := chain[1].Equal(middle); same != (passed < 3*24*time.Hour) {
			t.Errorf("after %v the same intermediate: %v", passed, same)
		}
	}
	at(0)
	for _, name := range []string{"evil.test", "copied.test", "", "sub.api.test"} {
		conn := tls.Client(l.dial("api.test", l.tls), &tls.Config{InsecureSkipVerify: true, ServerName: name}) // what it gets is what is tested
		if err := conn.Handshake(); err == nil {
			t.Errorf("TLS to %q was accepted", name)
		}
	}
	l.wants(0, egress.KindDenied, "api.test", "names another server: evil.test")
	// A program that trusts others.
	conn := tls.Client(l.dial("api.test", l.tls), &tls.Config{RootCAs: l.ca.roots, ServerName: "api.test", MaxVersion: tls.VersionTLS12})
	if err := conn.Handshake(); err == nil {
		t.Error("the sandbox's certificate was trusted by the host's authority")
	}
	l.record(0, func(r egress.Record) bool {
		return r.Kind == egress.KindDenied && strings.Contains(r.Reason, "does not trust the sandbox's certificates")
	})
	plain := l.dial("api.test", l.tls)
	_, _ = io.WriteString(plain, "GET / HTTP/1.1\r\n\r\n")
	_, _ = io.ReadAll(plain)
	l.record(0, func(r egress.Record) bool {
		return r.Kind == egress.KindDenied && strings.Contains(r.Reason, "does not begin with a TLS hello")
	})
}

// TestUntrustedHost: a host is verified as ever, and gets nothing before that.
func TestUntrustedHost(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {})
	for name, other := range map[string]*authority{"its authority": newAuthority(t, "api.test"), "its name": nil} {
		if other != nil {
			l.ca.Certificate = other.Certificate
		} else {
			l.hosts.set("other.test", "127.0.0.1")
			l.ca = newAuthority(t, "elsewhere.test")
		}
		l.serveHost(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("a host that is not trusted got a request") }))
		answer, text := l.do(l.client(true), "GET", l.url("/"), nil)
		if answer.StatusCode != http.StatusBadGateway || !strings.Contains(text, "its certificate is not trusted") {
			t.Errorf("%s: %d %s", name, answer.StatusCode, text)
		}
	}
	l.wants(0, egress.KindFailed, "api.test", "its certificate is not trusted")
}

// TestHostOfInterceptedFails: failures have answers that say why, and records.
func TestHostOfInterceptedFails(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
			return
		}
		panic(http.ErrAbortHandler)
	})
	if answer, _ := l.do(l.client(false), "POST", l.url("/"), strings.NewReader("x")); answer.StatusCode != http.StatusBadGateway {
		t.Errorf("a host that closes: %d", answer.StatusCode)
	}
	l.hosts.set("api.test", "10.1.2.3")
	answer, text := l.do(l.client(false), "GET", l.url("/"), nil)
	if answer.StatusCode != http.StatusBadGateway || !strings.Contains(text, "10.1.2.3") {
		t.Errorf("a private address: %d %s", answer.StatusCode, text)
	}
	l.record(0, func(r egress.Record) bool {
		return r.Kind == egress.KindDenied && strings.Contains(r.Reason, "10.1.2.3")
	})
}

// TestOperatorsProxyRefusesIntercepted: what is looked into goes through the operator's proxy, too,
// and nowhere when that refuses.
func TestOperatorsProxyRefusesIntercepted(t *testing.T) {
	refusing := listen(t, func(conn *net.TCPConn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
		}
	})
	l := lookWith(t, func(o *Options) { o.Proxy = map[string]string{"HTTPS_PROXY": "http://" + refusing.Addr().String()} }, nil,
		func(w http.ResponseWriter, r *http.Request) { t.Error("the host got a request") })
	for name, two := range protocols {
		if answer, text := l.do(l.client(two), "GET", l.url("/"), nil); answer.StatusCode != http.StatusBadGateway || !strings.Contains(text, "403 Forbidden") {
			t.Errorf("%s: %d %s", name, answer.StatusCode, text)
		}
	}
	if asked := l.hosts.questions(); len(asked) > 0 {
		t.Errorf("the host was asked for %q", asked)
	}
	l.wants(0, egress.KindFailed, "api.test", "403 Forbidden")
}

// TestHostExpires: a host whose certificate expires while the sandbox lives gets nothing more.
func TestHostExpires(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {})
	if answer, text := l.do(l.client(true), "GET", l.url("/"), nil); answer.StatusCode != http.StatusOK {
		t.Fatalf("before: %d %s", answer.StatusCode, text)
	}
	before := l.count()
	l.mu.Lock()
	l.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	l.mu.Unlock()
	for name, two := range protocols {
		if answer, text := l.do(l.client(two), "GET", l.url("/"), nil); answer.StatusCode != http.StatusBadGateway || !strings.Contains(text, "its certificate is not trusted") || !strings.Contains(text, "expired") {
			t.Errorf("%s: %d %s", name, answer.StatusCode, text)
		}
	}
	if l.count() != before {
		t.Error("the host got a request")
	}
}

// TestGoAway: a host that ends its connection gets the next request over a new one.
func TestGoAway(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // GOAWAY, over HTTP/2
		fmt.Fprint(w, "answer")
	})
	c := l.client(true)
	for range 5 {
		if answer, text := l.do(c, "GET", l.url("/"), nil); answer.StatusCode != http.StatusOK || text != "answer" {
			t.Errorf("%d %s", answer.StatusCode, text)
		}
	}
}

// TestManyStreams: one connection inside can have many requests at once, and leaves nothing open.
func TestManyStreams(t *testing.T) {
	all := make(chan bool)
	var arrived sync.WaitGroup
	const many = 50
	arrived.Add(many)
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
		arrived.Done()
		<-all
		fmt.Fprint(w, r.URL.Path)
	})
	go func() { arrived.Wait(); close(all) }()
	c := l.client(true)
	var running sync.WaitGroup
	for i := range many {
		running.Go(func() {
			path := fmt.Sprintf("/%d", i)
			answer, err := c.Get(l.url(path))
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			if text, err := io.ReadAll(answer.Body); err != nil || string(text) != path {
				t.Errorf("%s: %q, %v", path, text, err)
			}
		})
	}
	running.Wait()
	c.CloseIdleConnections()
	for l.State().Open > 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestLimitOfIntercepted: bytes that are sent count, and the limit ends connections.
func TestLimitOfIntercepted(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	network := l.State().Network.Clone()
	network.Limits.BytesOut = 256 * policy.KiB
	if _, err := l.Set(network); err != nil {
		t.Fatal(err)
	}
	answer, err := l.client(false).Post(l.url("/"), "", bytes.NewReader(make([]byte, 1<<20)))
	if err == nil && answer.StatusCode == http.StatusOK {
		t.Error("more than the limit was sent")
	}
	l.wants(0, egress.KindConnection, "api.test", "is used up")
}
