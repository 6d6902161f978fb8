package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
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

// TestInject: the header that commands send is dropped, and the host gets the secret's, of
// which no answer has a byte.
func TestInject(t *testing.T) {
	for name, two := range protocols {
		t.Run(name, func(t *testing.T) {
			l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Echo", r.Header.Get("Authorization"))
				w.Header().Set("Alt-Svc", `h3=":443"`)
				body, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL, r.Header.Get("Authorization"), body)
			})
			answer, text := l.do(l.client(two), "POST", l.url("/a%20b?x=1;2&y"), strings.NewReader("body"), "Authorization", "mine", "authorization_", "x", "Cookie", "c=1", "X-Forwarded-For", "192.0.2.1")
			stars := "Bearer ghp_Zyxwvutsrqpo9876543210"
			if want := "POST /a%20b?x=1;2&y " + stars + " body"; text != want || answer.Header.Get("X-Echo") != stars || answer.StatusCode != http.StatusOK || answer.Header.Get("Alt-Svc") != "" {
				t.Errorf("the answer is %v %q, want %q", answer, text, want)
			}
			if int64(len(text)) != answer.ContentLength {
				t.Errorf("Content-Length is %d", answer.ContentLength)
			}
			r := l.last()
			if got := r.Header["Authorization"]; !slices.Equal(got, []string{"Bearer " + tokenValue}) || r.Header.Get("Cookie") != "c=1" || r.Header.Get("X-Forwarded-For") != "192.0.2.1" || (r.ProtoMajor == 2) != two {
				t.Errorf("the host got %v %v", r.Proto, r.Header)
			}
			record := l.record(0, func(r egress.Record) bool { return r.Kind == egress.KindRequest })
			if record.Method != http.MethodPost || record.Path != "/a%20b" || record.Status != 200 || record.Host != "api.test" || record.Rule != "api.test" || record.Port != l.tls {
				t.Errorf("the record is %+v", record)
			}
		})
	}
}

// TestSubstitute: the stand-in becomes the value in the header of the rule alone, and goes
// nowhere else.
func TestSubstitute(t *testing.T) {
	const standIn = "ghp_Zyxwvutsrqpo9876543210"
	substitute := func(r *policy.NetworkRule) { r.Secret.Substitute = true }
	l := look(t, substitute, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s|%s", r.Header.Get("Authorization"), body)
	})
	c := l.client(true)
	encode := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	for sent, want := range map[string]string{
		"Bearer " + standIn:            "Bearer " + tokenValue,
		"token " + standIn + ", x":     "token " + tokenValue + ", x",
		"something else":               "something else",
		encode("git:" + standIn):       encode("git:" + tokenValue),
		encode("git:another password"): encode("git:another password"),
	} {
		_, text := l.do(c, "POST", l.url("/"), strings.NewReader("in a body "+standIn), "Authorization", sent)
		if got := l.last().Header.Get("Authorization"); got != want {
			t.Errorf("of %q the host got %q, want %q", sent, got, want)
		}
		if text != sent+"|in a body "+standIn {
			t.Errorf("of %q the answer is %q", sent, text)
		}
	}
	before := l.count()
	other := fmt.Sprintf("https://other.test:%d", l.tls)
	for i, try := range []struct {
		url    string
		header []string
	}{
		{other + "/", []string{"Authorization", "Bearer " + standIn}},
		{other + "/", []string{"Authorization", encode("x:" + standIn)}},
		{other + "/?q=" + standIn, nil},
		{other + "/" + standIn, nil},
		{l.url("/"), []string{"X-Other", standIn}},
		{l.url("/?q=%67hp_Zyxwvutsrqpo9876543210"), nil},
	} {
		if answer, text := l.do(c, "GET", try.url, nil, try.header...); answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "stand-in of TOKEN") || strings.Contains(text, standIn) {
			t.Errorf("%d: %d %s", i, answer.StatusCode, text)
		}
	}
	if l.count() != before {
		t.Error("a host got a stand-in")
	}
	l.record(0, func(r egress.Record) bool {
		return r.Kind == egress.KindDenied && r.Host == "other.test" && strings.Contains(r.Reason, "stand-in of TOKEN")
	})
	for _, r := range l.kept() {
		if text := fmt.Sprintf("%+v", r); strings.Contains(text, tokenValue) || strings.Contains(text, standIn) {
			t.Errorf("a record has the value or its stand-in: %s", text)
		}
	}
}

// kept returns all records.
func (l *looking) kept() (all []egress.Record) {
	_ = l.records.each(l.t.Context(), 0, false, func(r egress.Record) error { all = append(all, r); return nil })
	return all
}

// TestRequestsOfRules: what a rule does not name reaches no host, however it is written.
func TestRequestsOfRules(t *testing.T) {
	l := look(t, func(r *policy.NetworkRule) {
		r.HTTP = []policy.HTTPRule{{Methods: []string{"GET"}, Paths: []string{"/repos/acme/**", "/user"}}, {Methods: []string{"POST"}, Paths: []string{"/repos/*/issues"}}}
	}, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RequestURI) })
	for _, tt := range []struct {
		line, header string
		want         int
	}{
		{"GET /repos/acme/a", "", 200},
		{"GET /repos/acme/a/b?x=/../y", "", 200},
		{"GET /repos/acme/", "", 200},
		{"GET /repos/%61cme/x%20y", "", 200},
		{"GET /repos/acme/100%25", "", 200},
		{"GET /user", "", 200},
		{"POST /repos/x/issues", "Content-Length: 0", 200},
		{"GET https://api.test:PORT/user", "", 200},
		{"GET /repos/acme", "", 403},
		{"GET /repos/other/a", "", 403},
		{"GET /REPOS/acme/a", "", 403},
		{"GET /user/", "", 403},
		{"PUT /user", "Content-Length: 0", 403},
		{"get /user", "", 403},
		{"HEAD /user", "", 403},
		{"POST /repos/x/y/issues", "Content-Length: 0", 403},
		{"POST /repos//issues", "Content-Length: 0", 400},
		{"GET /repos/acme/../other", "", 400},
		{"GET /repos/acme/./a", "", 400},
		{"GET /repos/acme/%2e%2e/other", "", 400},
		{"GET /repos/acme/%2E./other", "", 400},
		{"GET /repos/acme/..%2fother", "", 400},
		{"GET /repos/acme%2f..%2f..%2fother", "", 400},
		{"GET /repos/acme/..;/other", "", 400},
		{"GET /repos/acme/..;x=y/other", "", 400},
		{"GET /repos/acme/%2e%2e%3b/other", "", 400},
		{"GET /repos/acme/;/other", "", 400},
		{"GET /repos/acme/..%5cother", "", 400},
		{"GET /repos/acme/..\\other", "", 400},
		{"GET /repos/acme/%252e%252e/other", "", 400},
		{"GET /repos/acme/%25%32e%25%32e/other", "", 400},
		{"GET /repos/acme/%c0%ae%c0%ae/other", "", 400},
		{"GET /repos/acme/%00", "", 400},
		{"GET /repos/acme/a%0d%0aX: y", "", 400},
		{"GET //repos/acme/a", "", 400},
		{"GET /repos//acme/a", "", 400},
		{"GET /repos/acme//a", "", 400},
		{"GET /repos/acme/%zz", "", 400},
		{"GET /repos/acme/..%20/other", "", 400},
		{"OPTIONS *", "", 403},
		{"GET /user", "X-HTTP-Method-Override: DELETE", 403},
		{"GET /user", "X_HTTP_Method: DELETE", 403},
		{"GET /user", "X-Original-URL: /admin", 403},
		{"GET /user", "X-Rewrite-Url: /admin", 403},
	} {
		before := l.count()
		conn := l.raw("api.test")
		line := strings.ReplaceAll(tt.line, "PORT", fmt.Sprint(l.tls))
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: api.test:%d\r\nConnection: close\r\n%s\r\n", line, l.tls, strings.TrimPrefix(tt.header+"\r\n", "\r\n"))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if answer.StatusCode != tt.want || (l.count() > before) != (tt.want == 200) {
			t.Errorf("%s %s: %d, and %d requests reached the host", line, tt.header, answer.StatusCode, l.count()-before)
		}
		_ = conn.Close()
	}
	// Also over HTTP/2, with the path as it is.
	c := l.client(true)
	if answer, _ := l.do(c, "GET", l.url("/repos/acme/%2e%2e/other"), nil); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("over HTTP/2: %d", answer.StatusCode)
	}
	r := l.record(0, func(r egress.Record) bool { return r.Kind == egress.KindDenied && r.Method == http.MethodPut })
	if r.Path != "/user" || r.Status != 403 || !strings.Contains(r.Reason, "does not let the method PUT through") {
		t.Errorf("the record is %+v", r)
	}
}

// TestAnotherHostInside: TLS to an intercepted name carries requests to it alone.
func TestAnotherHostInside(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host) })
	for name, tt := range map[string]struct {
		request string
		want    int
	}{
		"the host":            {"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n", 200},
		"with its port":       {"GET / HTTP/1.1\r\nHost: API.test.:PORT\r\n\r\n", 200},
		"another":             {"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421},
		"an allowed one":      {"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n", 421},
		"another port":        {"GET / HTTP/1.1\r\nHost: api.test:1\r\n\r\n", 421},
		"absolute":            {"GET https://evil.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n", 421},
		"absolute of http":    {"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n", 421},
		"a tunnel":            {"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", 421},
		"a tunnel to itself":  {"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n", 421},
		"two":                 {"GET / HTTP/1.1\r\nHost: api.test\r\nHost: evil.test\r\n\r\n", 400},
		"none":                {"GET / HTTP/1.0\r\n\r\n", 421},
		"with a user":         {"GET / HTTP/1.1\r\nHost: api.test@evil.test\r\n\r\n", 400},
		"two lengths":         {"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
		"an unknown coding":   {"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		"a folded header":     {"GET / HTTP/1.1\r\nHost: api.test\r\n Host: evil.test\r\n\r\n", 400},
		"a space in a header": {"GET / HTTP/1.1\r\nHost : evil.test\r\nHost: api.test\r\n\r\n", 400},
	} {
		conn := l.raw("api.test")
		before := l.count()
		_, _ = io.WriteString(conn, strings.ReplaceAll(tt.request, "PORT", fmt.Sprint(l.tls)))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if answer.StatusCode != tt.want || (l.count() > before) != (tt.want == 200) {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
		_ = conn.Close()
	}
	// A browser may use one connection for all names of a certificate.
	c := l.client(true)
	r, err := http.NewRequest(http.MethodGet, l.url("/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = fmt.Sprintf("other.test:%d", l.tls)
	if answer, err := c.Do(r); err != nil || answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("another :authority: %v, %v", answer, err)
	}
}

// TestSmuggling: what servers understand in different ways is not sent on as it is.
func TestSmuggling(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v %q", r.ContentLength, r.TransferEncoding, body)
	})
	conn := l.raw("api.test")
	inner := "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"
	fmt.Fprintf(conn, "POST /first HTTP/1.1\r\nHost: api.test\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%s", len(inner), inner)
	in := bufio.NewReader(conn)
	for range 2 { // both are requests of the command's, checked and on record
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			break
		}
		_, _ = io.Copy(io.Discard, answer.Body)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.seen {
		if r.Header.Get("Content-Length") != "" && len(r.TransferEncoding) > 0 {
			t.Errorf("the host got both lengths: %v", r.Header)
		}
		if r.Header.Get("Authorization") != "Bearer "+tokenValue {
			t.Errorf("%s came past the proxy", r.URL)
		}
	}
}

// TestTrailers: fields after a body go both ways, but none in the place of the secret.
func TestTrailers(t *testing.T) {
	for name, two := range protocols {
		t.Run(name, func(t *testing.T) {
			got := make(chan http.Header, 1)
			l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				got <- r.Trailer
				w.Header().Set("Trailer", "X-Sum, X-Leak")
				_, _ = io.WriteString(w, "body")
				w.Header().Set("X-Sum", "7")
				w.Header().Set("X-Leak", tokenValue)
			})
			r, err := http.NewRequest(http.MethodPost, l.url("/"), struct{ io.Reader }{strings.NewReader("body")})
			if err != nil {
				t.Fatal(err)
			}
			r.Trailer = http.Header{"X-Own": {"1"}}
			if !two { // there servers refuse it themselves
				r.Trailer["Authorization"] = []string{"mine"}
			}
			answer, err := l.client(two).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil || string(body) != "body" || answer.Trailer.Get("X-Sum") != "7" || strings.Contains(answer.Trailer.Get("X-Leak"), tokenValue) {
				t.Errorf("the answer is %q with %v, %v", body, answer.Trailer, err)
			}
			if sent := <-got; sent.Get("X-Own") != "1" || sent.Get("Authorization") != "" {
				t.Errorf("the host got the trailer %v", sent)
			}
		})
	}
}

// TestRedactBodies: a value does not come through, in one piece or in several, compressed or not.
func TestRedactBodies(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
		text := strings.Repeat("x", 70_000) + r.Header.Get("Authorization") + strings.Repeat("y", 70_000) + tokenValue[:10]
		switch r.URL.Path {
		case "/split":
			for i := range len(text) - 69_990 {
				if i >= 69_990 && i < 70_060 {
					_, _ = io.WriteString(w, text[i:i+1])
					_ = http.NewResponseController(w).Flush()
				}
			}
			return
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, text)
			_ = z.Close()
			return
		case "/br":
			w.Header().Set("Content-Encoding", "br")
		case "/encoding":
			text = r.Header.Get("Accept-Encoding")
		}
		_, _ = io.WriteString(w, text)
	})
	c := l.client(true)
	for _, path := range []string{"/", "/split", "/gzip"} {
		answer, text := l.do(c, "GET", l.url(path), nil, "Accept-Encoding", "gzip, br")
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Encoding") != "" || strings.Contains(text, tokenValue) || !strings.Contains(text, "Bearer ghp_Zyx") {
			t.Errorf("%s: %v %.100q", path, answer, text)
		}
		if path != "/split" && !strings.HasSuffix(text, tokenValue[:10]) {
			t.Errorf("%s: the end is lost: %q", path, text[max(0, len(text)-20):])
		}
	}
	if _, text := l.do(c, "GET", l.url("/encoding"), nil, "Accept-Encoding", "gzip, br"); text != "identity" {
		t.Errorf("the host was asked for %q", text)
	}
	if answer, text := l.do(c, "GET", l.url("/br"), nil); answer.StatusCode != http.StatusBadGateway || !strings.Contains(text, "compressed in a way") {
		t.Errorf("br: %d %s", answer.StatusCode, text)
	}
}

// TestStreams: events come as they are sent, and not when the next one does.
func TestStreams(t *testing.T) {
	next := make(chan string)
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
		for text := range next {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
	})
	go func() { next <- "data: 1\n\n" }()
	answer, err := l.client(true).Get(l.url("/"))
	if err != nil {
		t.Fatal(err)
	}
	in := make([]byte, 100)
	for _, want := range []string{"data: 1\n\n", "data: 2\n\n"} {
		if n, err := io.ReadFull(answer.Body, in[:len(want)]); err != nil || string(in[:n]) != want {
			t.Fatalf("got %q, %v", in[:n], err)
		}
		if want == "data: 1\n\n" {
			next <- "data: 2\n\n"
		}
	}
	close(next)
}

// TestInterceptedWebSocket: after an upgrade bytes go both ways, and the value does not come back.
func TestInterceptedWebSocket(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer conn.Close()
		fmt.Fprintf(both, "HTTP/1.1 101 %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Ext: %s\r\n\r\n", r.Header.Get("Authorization"), r.Header.Get("Sec-Websocket-Extensions"))
		fmt.Fprintf(both, "hello %s ", r.Header.Get("Authorization"))
		_ = both.Flush()
		line, _ := both.ReadString('\n')
		_, _ = io.WriteString(conn, "got "+line)
	})
	conn := l.raw("api.test")
	_, _ = io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: api.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols || strings.Contains(answer.Status, tokenValue) || answer.Header.Get("X-Ext") != "" {
		t.Fatalf("%v, %v", answer, err)
	}
	_, _ = io.WriteString(conn, "one\n")
	text, err := io.ReadAll(in)
	if want := "hello Bearer ghp_Zyxwvutsrqpo9876543210 got one\n"; err != nil || string(text) != want {
		t.Errorf("got %q, %v; want %q", text, err, want)
	}
	_ = conn.Close()
	if r := l.record(0, func(r egress.Record) bool { return r.Kind == egress.KindRequest }); r.Status != 101 || r.Path != "/ws" {
		t.Errorf("the record is %+v", r)
	}
}

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

func TestSearched(t *testing.T) {
	r := redactor{}.add("secret-value", "").add("value-two", "stand-in2")
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"nothing", "nothing"},
		{"a secret-value b", "a ************ b"},
		{"secret-valuesecret-value", "************************"},
		{"secret-valu", "secret-valu"},
		{"secret-value-two", "************-two"},
		{"value-two secret-secret-value", "stand-in2 secret-************"},
	} {
		for size := 1; size <= len(tt.text)+1; size++ {
			got, err := io.ReadAll(r.body(&pieces{tt.text, size}))
			if string(got) != tt.want || err != nil {
				t.Errorf("%q in pieces of %d: %q, %v", tt.text, size, got, err)
			}
		}
	}
	failure := errors.New("why")
	got, err := io.ReadAll(r.body(io.MultiReader(strings.NewReader("abc secret-"), failingReader{failure})))
	if string(got) != "abc secret-" || !errors.Is(err, failure) {
		t.Errorf("%q, %v", got, err)
	}
}

// pieces is a reader of a text in pieces.
type pieces struct {
	text string
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.text)
	p.text = p.text[n:]
	return n, nil
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }
