package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/egress"
)

// startHTTP serves a rule with a host of HTTP, which is returned what it gets.
func startHTTP(t *testing.T) (*env, chan string) {
	t.Helper()
	e := start(t, nil, "api.test", "also.test", "127.0.0.1:http")
	e.hosts.set("api.test", "127.0.0.1")
	e.hosts.set("also.test", "127.0.0.1")
	got := make(chan string, 100)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got <- fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Host, " ", string(body), " ", err, " ", r.Trailer.Get("Sum"))
		if r.Header.Get("Upgrade") != "" {
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nwelcome")
			_ = rw.Flush()
			_, _ = io.Copy(conn, rw)
			return
		}
		_, _ = io.WriteString(w, "path "+r.URL.Path)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	e.hosts.serveAt(e.http, l)
	return e, got
}

// ask sends requests at once, and returns the answers.
func (e *env) ask(text string, answers int) (codes []int, bodies []string) {
	e.t.Helper()
	conn := e.dial("api.test", e.http)
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		e.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for range answers {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			e.t.Fatalf("%q: %v", text, err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			e.t.Fatalf("%q: %v", text, err)
		}
		codes, bodies = append(codes, r.StatusCode), append(bodies, string(body))
	}
	return codes, bodies
}

func TestHTTP(t *testing.T) {
	e, got := startHTTP(t)
	port := strconv.Itoa(int(e.http))
	for _, tt := range []struct{ text, want string }{
		{"GET /a HTTP/1.1\r\nHost: api.test\r\n\r\n", "GET /a api.test  <nil> "},
		{"GET /a HTTP/1.0\r\nhost:\tApi.Test. \r\n\r\n", "GET /a Api.Test.  <nil> "},
		{"GET http://api.test:" + port + "/b?c HTTP/1.1\r\nHost: api.test:" + port + "\r\n\r\n", "GET /b?c api.test:" + port + "  <nil> "},
		{"GET HTTP://api.test HTTP/1.1\r\nHost: API.test\r\n\r\n", "GET / API.test  <nil> "},
		{"OPTIONS * HTTP/1.1\r\nHost: api.test\r\n\r\n", ""},
		{"POST /p HTTP/1.1\r\nHost: api.test\r\nContent-Length: 5\r\n\r\nhello", "POST /p api.test hello <nil> "},
		{"POST /p HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: Chunked\r\nTrailer: Sum\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nSum: 42\r\n\r\n", "POST /p api.test hello <nil> 42"},
		{"GET /h2c HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n\r\n", "GET /h2c api.test  <nil> "},
	} {
		codes, _ := e.ask(tt.text, 1)
		if codes[0] != 200 {
			t.Errorf("%q: %v", tt.text, codes)
		}
		if tt.want != "" && <-got != tt.want {
			t.Errorf("%q: the host got something else than %q", tt.text, tt.want)
		}
	}
	codes, bodies := e.ask("POST /1 HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2\r\n\r\nxxGET /2 HTTP/1.1\r\nHost: api.test\r\n\r\nGET /3 HTTP/1.1\r\nHost: api.test\r\n\r\n", 3)
	if fmt.Sprint(codes, bodies) != "[200 200 200] [path /1 path /2 path /3]" {
		t.Errorf("requests in a row: %v %q", codes, bodies)
	}
	if s := e.State(); s.Denied != 0 {
		t.Errorf("the state is %+v", s)
	}
}

// Clients as they are, with a large body both ways.
func TestHTTPClient(t *testing.T) {
	e, got := startHTTP(t)
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return e.tryDial("api.test", e.http)
	}}}
	defer client.CloseIdleConnections()
	body := strings.Repeat("x", 1<<20)
	for range 3 {
		r, err := client.Post("http://api.test:"+strconv.Itoa(int(e.http))+"/x", "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if string(answer) != "path /x" || err != nil {
			t.Errorf("the answer is %q, %v", answer, err)
		}
		if asked := <-got; !strings.Contains(asked, body) {
			t.Errorf("the host got %.100q", asked)
		}
	}
	if s := e.State(); s.Connections != 1 {
		t.Errorf("there were %d connections for requests in a row, want 1", s.Connections)
	}
}

func TestRefusedRequests(t *testing.T) {
	e, got := startHTTP(t)
	const good = "GET /ok HTTP/1.1\r\nHost: api.test\r\n\r\n"
	for _, tt := range []struct {
		what, text string
		code       int
	}{
		{"another Host", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421},
		{"another allowed Host", "GET / HTTP/1.1\r\nHost: also.test\r\n\r\n", 421},
		{"forwarded for another", "GET / HTTP/1.1\r\nHost: api.test\r\nx_forwarded_host: evil.test\r\n\r\n", 421},
		{"Forwarded for another", "GET / HTTP/1.1\r\nHost: api.test\r\nForwarded: for=192.0.2.1;host=evil.test\r\n\r\n", 421},
		{"absolute form of another", "GET http://evil.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n", 421},
		{"absolute form of another, and its Host", "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421},
		{"absolute form with a user", "GET http://u@api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n", 421},
		{"absolute form of https", "GET https://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n", 421},
		{"CONNECT", "CONNECT evil.test:443 HTTP/1.1\r\nHost: api.test\r\n\r\n", 421},
		{"two Hosts", "GET / HTTP/1.1\r\nHost: api.test\r\nHost: evil.test\r\n\r\n", 400},
		{"the same Host twice", "GET / HTTP/1.1\r\nHost: api.test\r\nhost: api.test\r\n\r\n", 400},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", 421},
		{"no Host, 1.0", "GET / HTTP/1.0\r\n\r\n", 421},
		{"an empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 421},
		{"a user in Host", "GET / HTTP/1.1\r\nHost: evil.test@api.test\r\n\r\n", 400},
		{"another port in Host", "GET / HTTP/1.1\r\nHost: api.test:81\r\n\r\n", 421},
		{"a list in Host", "GET / HTTP/1.1\r\nHost: api.test, evil.test\r\n\r\n", 400},
		{"an address in Host", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400},
		{"two lengths", "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400},
		{"the same length twice", "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400},
		{"a list of lengths", "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1, 1\r\n\r\nx", 400},
		{"a signed length", "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: +1\r\n\r\nx", 400},
		{"length and coding", "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		{"an unknown coding", "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
		{"two codings", "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
		{"coding twice", "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", 400},
		{"a space before the colon", "GET / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding : chunked\r\n\r\n", 400},
		{"a coding with another line", "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer_Encoding: chunked\r\n\r\n", 400},
		{"a length with another line", "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\ncontent_LENGTH: 0\r\n\r\nx", 400},
		{"a folded line", "GET / HTTP/1.1\r\nX: y\r\n Host: evil.test\r\nHost: api.test\r\n\r\n", 400},
		{"bare line feeds", "GET / HTTP/1.1\nHost: api.test\n\n", 400},
		{"a bare line feed in a field", "GET / HTTP/1.1\r\nX: y\nHost: evil.test\r\nHost: api.test\r\n\r\n", 400},
		{"a bare CR", "GET / HTTP/1.1\r\nX: y\rHost: evil.test\r\nHost: api.test\r\n\r\n", 400},
		{"a NUL", "GET / HTTP/1.1\r\nHost: api.test\x00.evil.test\r\n\r\n", 400},
		{"a Connection that drops Host", "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close, host\r\n\r\n", 400},
		{"a Connection that drops the length", "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\nConnection: close\r\nConnection: Content-Length\r\n\r\nx", 400},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
		{"HTTP/0.9", "GET /\r\n\r\n", 400},
		{"two spaces", "GET  / HTTP/1.1\r\nHost: api.test\r\n\r\n", 400},
		{"a space in the path", "GET /a b HTTP/1.1\r\nHost: api.test\r\n\r\n", 400},
		{"an empty line first", "\r\nGET / HTTP/1.1\r\nHost: api.test\r\n\r\n", 400},
		{"TLS", string(hello(t, testConfig("api.test"))) + "\n", 400},
		{"SSH", "SSH-2.0-OpenSSH_9.9\r\n\r\n", 400},
		{"a long header", "GET / HTTP/1.1\r\nHost: api.test\r\nX: " + strings.Repeat("x", 70_000) + "\r\n\r\n", 431},
		{"many fields", "GET / HTTP/1.1\r\nHost: api.test\r\n" + strings.Repeat("X: y\r\n", 1000) + "\r\n", 431},
	} {
		for _, before := range []string{"", good, good + good} {
			last := e.State().Last
			answers := strings.Count(before, "GET") + 1
			codes, bodies := e.ask(before+tt.text, answers)
			if codes[answers-1] != tt.code || !strings.HasPrefix(bodies[answers-1], "paddock: ") {
				t.Errorf("%s after %d requests: %v %q, want %d", tt.what, answers-1, codes, bodies, tt.code)
			}
			for range answers - 1 {
				if g := <-got; !strings.HasPrefix(g, "GET /ok") {
					t.Errorf("%s: the host got %q", tt.what, g)
				}
			}
			e.wants(last, egress.KindDenied, "api.test", "a request was refused: ")
			if answers > 1 {
				e.wants(last, egress.KindConnection, "api.test", "")
			}
		}
	}
	select {
	case g := <-got:
		t.Errorf("the host got %q", g)
	default:
	}
}

// What is wrong with a body is found when some of it has been sent.
func TestRefusedBodies(t *testing.T) {
	e, _ := startHTTP(t)
	for what, body := range map[string]string{
		"no size":         "\r\n",
		"a negative size": "-1\r\n",
		"a size in words": "0x1\r\nx\r\n0\r\n\r\n",
		"a long chunk":    "1\r\nxy\r\n0\r\n\r\n",
		"a huge size":     "fffffffffffffffff\r\n",
		"a bare LF":       "1\nx\n0\n\n",
		"a bad trailer":   "0\r\nno field\r\n\r\n",
	} {
		last := e.State().Last
		conn := e.dial("api.test", e.http)
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"+body); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		e.mustBeReset(conn)
		e.wants(last, egress.KindDenied, "api.test", "a request was refused: ")
	}
}

func TestWebSocket(t *testing.T) {
	e, got := startHTTP(t)
	const upgrade = "GET /ws HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n"
	conn := e.dial("api.test", e.http)
	if _, err := io.WriteString(conn, upgrade+"ping"); err != nil {
		t.Fatal(err)
	}
	want := "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nwelcomeping"
	answer := make([]byte, len(want))
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != want {
		t.Fatalf("the answer is %q, %v", answer, err)
	}
	<-got
	ping(t, conn)
	if _, err := io.WriteString(conn, "\x16\x03\x01 GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 22)); err != nil {
		t.Error("bytes that are no HTTP:", err)
	}
	// A rule change ends it.
	if _, err := e.Set(e.network("also.test")); err != nil {
		t.Fatal(err)
	}
	e.mustBeReset(conn)
	e.wants(0, egress.KindConnection, "api.test", "the rules were replaced")
	if _, err := e.Set(e.network("api.test")); err != nil {
		t.Fatal(err)
	}

	// A host that does not agree gets no other bytes than requests.
	e.hosts.serveAt(e.http, listen(t, func(conn *net.TCPConn) {
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		got <- r.URL.Path
		_, _ = io.WriteString(conn, "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n")
		rest, _ := io.ReadAll(conn)
		got <- string(rest)
	}))
	codes, _ := e.ask(upgrade+"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 2)
	if fmt.Sprint(codes) != "[426 421]" {
		t.Errorf("after a host that did not agree: %v", codes)
	}
	if path, rest := <-got, <-got; path != "/ws" || rest != "" {
		t.Errorf("the host got %q and %q", path, rest)
	}
	codes, _ = e.ask("GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"+upgrade, 2)
	if codes[1] != 400 {
		t.Errorf("as the second request: %v", codes)
	}
	// Nor does one that goes away at once leave anything.
	e.hosts.serveAt(e.http, listen(t, func(*net.TCPConn) {}))
	conn = e.dial("api.test", e.http)
	_, _ = io.WriteString(conn, upgrade)
	_ = conn.CloseWrite()
	_, _ = io.ReadAll(conn)
}

func TestSilentHTTPHost(t *testing.T) {
	e, _ := startHTTP(t)
	e.hosts.serveAt(e.http, listen(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) }))
	conn := e.dial("api.test", e.http)
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 10\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	_ = conn.CloseWrite() // in the middle of a body
	e.mustBeReset(conn)
	e.wants(0, egress.KindConnection, "api.test", "")
}

// Where a rule opens an address, any Host is.
func TestHTTPByAddress(t *testing.T) {
	e, got := startHTTP(t)
	for _, tt := range []struct {
		host string
		code int
	}{{"127.0.0.1", 200}, {"127.0.0.1:" + strconv.Itoa(int(e.http)), 200}, {"intern.test", 200}, {"u@intern.test", 400}} {
		conn := e.dial("127.0.0.1", e.http)
		if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", tt.host); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.StatusCode != tt.code {
			t.Errorf("%s: %v", tt.host, r.Status)
		}
		if tt.code == 200 {
			<-got
		}
	}
}
