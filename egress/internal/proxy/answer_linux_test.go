package proxy

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/egress"
)

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

// TestRedactReasons: what the log says of an answer that is no HTTP has no value, either.
func TestRedactReasons(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+r.Header.Get("Authorization")+"\r\n\r\n")
		_ = conn.Close()
	})
	answer, text := l.do(l.client(false), "GET", l.url("/"), nil)
	if answer.StatusCode != http.StatusBadGateway || strings.Contains(text, tokenValue) {
		t.Errorf("%d %s", answer.StatusCode, text)
	}
	failed := 0
	for _, r := range l.kept() {
		if r.Kind == egress.KindFailed && strings.Contains(r.Reason, "malformed") {
			failed++
		}
		if strings.Contains(r.Reason, tokenValue) {
			t.Errorf("the log has the value: %+v", r)
		}
	}
	if failed == 0 {
		t.Errorf("the log: %+v", l.kept())
	}
}

// TestRanges: of a host that gets a secret nobody gets an answer in pieces; of another one, as ever.
func TestRanges(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader("before "+r.Header.Get("Authorization")+" after"))
	})
	for name, two := range protocols {
		c := l.client(two)
		got := ""
		for at := range 12 {
			answer, text := l.do(c, "GET", l.url("/"), nil, "Range", fmt.Sprintf("bytes=%d-%d", 5*at, 5*at+4), "Request-Range", "bytes=0-4", "If-Range", `"x"`)
			if answer.StatusCode != http.StatusOK || strings.Contains(text, tokenValue) {
				t.Errorf("%s: %d %s", name, answer.StatusCode, text)
			}
			got += text
		}
		if strings.Contains(got, tokenValue) {
			t.Errorf("%s: the pieces are %q", name, got)
		}
		if sent := l.last().Header; sent.Get("Range") != "" || sent.Get("Request-Range") != "" || sent.Get("If-Range") != "" {
			t.Errorf("%s: the host was asked for %v", name, sent)
		}
		if answer, text := l.do(c, "GET", fmt.Sprintf("https://other.test:%d/", l.tls), nil, "Range", "bytes=0-4"); answer.StatusCode != http.StatusPartialContent || text != "befor" {
			t.Errorf("%s: of a host without a secret: %d %q", name, answer.StatusCode, text)
		}
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
