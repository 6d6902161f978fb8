package httpd

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSlowClients: who sends too slowly, or too much, or reads nothing, is cut off.
func TestSlowClients(t *testing.T) {
	w := begin(t, Options{Limits: Limits{Header: time.Second, Request: 2 * time.Second, Write: 2 * time.Second}})
	head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
	for name, tt := range map[string]struct {
		send, want string
	}{
		"a header that does not end": {head + "X-", ""},
		"nothing at all":             {"", ""},
		"a body that does not end":   {head + "Authorization: Bearer " + w.ann + "\r\nContent-Length: 10\r\n\r\n12345", "HTTP/1.1 408"},
		"chunks that do not end":     {head + "Authorization: Bearer " + w.ann + "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n", "HTTP/1.1 408"},
		"no token, and a slow body":  {head + "Content-Length: 10\r\n\r\n12345", "HTTP/1.1 401"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := w.dial()
			_, _ = io.WriteString(conn, tt.send)
			answer, err := io.ReadAll(conn) // until the server ends it
			if !strings.HasPrefix(string(answer), tt.want) || strings.HasPrefix(string(answer), "HTTP/1.1 200") {
				t.Errorf("%q, %v", answer, err)
			}
		})
	}
	t.Run("reads nothing", func(t *testing.T) {
		t.Parallel()
		conn := w.dial()
		_, _ = io.WriteString(conn, head+"Authorization: Bearer "+w.ann+"\r\nContent-Length: 9\r\n\r\nfloodnone")
		for await(t, "the flood ends", w.b.began) != "flood ended" {
		}
	})
	t.Run("a stream outlives every bound", func(t *testing.T) {
		t.Parallel()
		id := w.session(w.ann)
		stream := w.stream(ask{method: http.MethodGet, token: w.ann, session: id}) // has begun
		select {
		case <-stream:
			t.Error("it ended")
		case <-time.After(3 * time.Second): // longer than any of the bounds
		}
	})
}

func TestLargeRequests(t *testing.T) {
	w := begin(t, Options{Limits: Limits{Body: 1000, Bodies: 1500}})
	for name, tt := range map[string]struct {
		size   int
		hidden bool
		status int
	}{
		"as much as goes": {1000, false, 200}, "in chunks": {1000, true, 200},
		"more": {1001, false, 413}, "more in chunks": {1001, true, 413}, "much more": {10 << 20, true, 413},
	} {
		r := w.request(ask{token: w.ann, body: strings.Repeat("x", tt.size)})
		if tt.hidden {
			r.ContentLength = -1
			r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", tt.size)))
		}
		res, err := plain.Do(r)
		if err != nil && tt.size > 1<<20 {
			continue // the connection was cut before all was sent
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != tt.status {
			t.Errorf("%s: %d, want %d", name, res.StatusCode, tt.status)
		}
	}
	// Together they have a bound, too.
	stream := w.stream(ask{token: w.ann, session: w.session(w.ann), body: "block" + strings.Repeat("x", 900)})
	await(t, "it blocks", w.b.began)
	if a := w.do(ask{token: w.bob, body: strings.Repeat("x", 900)}); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" {
		t.Errorf("%+v", a)
	}
	w.revoke("", "ann")
	w.f.sessions.sweep(time.Now())
	await(t, "it ends", stream)
	w.wait("there is room again", func() bool { return w.do(ask{token: w.bob, body: strings.Repeat("x", 900)}).status == http.StatusOK })
}

func TestConnections(t *testing.T) {
	w := begin(t, Options{Limits: Limits{Connections: 2}})
	first, second := w.dial(), w.dial()
	for _, conn := range []io.ReadWriter{first, second} {
		_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 200") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	if n, err := w.dial().Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("a third is open")
	}
	_ = first.Close()
	w.wait("there is room again", func() bool {
		conn := w.dial()
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		line, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.HasPrefix(line, "HTTP/1.1 200")
	})
}

// TestEnd: what is in flight is cancelled, and the server ends within its bound.
func TestEnd(t *testing.T) {
	w := begin(t, Options{})
	id := w.session(w.ann)
	stream := w.stream(ask{method: http.MethodGet, token: w.ann, session: id})
	blocked := w.stream(ask{token: w.ann, session: id, body: "block"})
	_, _ = await(t, "one begins", w.b.began), await(t, "another begins", w.b.began)
	w.stop()
	for range 2 {
		if got := await(t, "a request is cancelled", w.b.began); got != "end" {
			t.Error(got)
		}
	}
	await(t, "the stream ends", stream)
	await(t, "the request ends", blocked)
	if err := w.end(); err != nil {
		t.Error(err)
	}
}
