package httpd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute // for what should take milliseconds

type principalKey struct{}

// backend stands in for what serves principals: a POST without a session begins
// one, a GET is a stream until its context ends, and "block" in a body waits for
// that, too.
type backend struct {
	mu       sync.Mutex
	sessions map[string]string // to principals
	forgot   []string
	began    chan string // what streams and blocked requests say, and "end" after it
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, _ := r.Context().Value(principalKey{}).(string)
	body, _ := io.ReadAll(r.Body)
	id := r.Header.Get(sessionHeader)
	switch {
	case r.Method == http.MethodPost && id == "" && !strings.Contains(string(body), "none"):
		b.mu.Lock()
		id = fmt.Sprintf("s%d", len(b.sessions)+1)
		b.sessions[id] = who
		b.mu.Unlock()
		w.Header().Set(sessionHeader, id)
	case r.Method == http.MethodDelete:
		b.mu.Lock()
		if b.sessions[id] == who {
			b.sessions[id] = "ended"
		}
		b.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method == http.MethodGet || strings.Contains(string(body), "block"):
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		b.began <- who
		<-r.Context().Done()
		b.began <- "end"
		return
	case strings.Contains(string(body), "flood"):
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				b.began <- "flood ended"
				return
			}
		}
	}
	fmt.Fprintf(w, "%s %d", who, len(body))
}

func (b *backend) ended(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[id] == "ended"
}

func (b *backend) forgotten() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.forgot...)
}

// world is a server with what it stands before, and two principals.
type world struct {
	t        *testing.T
	f        *Server
	b        *backend
	store    *token.Store
	ann, bob string // tokens
	annID    string
	log      *bytes.Buffer
	logMu    sync.Mutex
	stop     context.CancelFunc
	served   chan error
}

func (w *world) Write(data []byte) (int, error) {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	return w.log.Write(data)
}

func (w *world) logged() string {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	return w.log.String()
}

func tokens(t *testing.T) *token.Store {
	t.Helper()
	s, err := token.Open(filepath.Join(t.TempDir(), "state", token.FileName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func boundsOver(dir string) *token.Bounds {
	return &token.Bounds{
		Ceiling: policy.Ceiling{Workspace: []policy.Place{{Source: dir, Mode: "rw"}}},
		Default: policy.Spec{Workspace: policy.Workspace{Source: dir}},
	}
}

func addToken(t *testing.T, s *token.Store, principal, dir string, expires time.Time) (text, id string) {
	t.Helper()
	n := token.New{Principal: principal, Expires: expires}
	if dir != "" {
		n.Bounds = boundsOver(dir)
	}
	text, made, err := s.Create(t.Context(), n, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return text, made.Token.ID
}

// addExpired adds one whose time was up long ago.
func addExpired(t *testing.T, s *token.Store, principal string) string {
	t.Helper()
	then := time.Now().Add(-time.Hour)
	text, _, err := s.Create(t.Context(), token.New{Principal: principal, Bounds: boundsOver("/srv/ann"), Expires: then.Add(time.Minute)}, then)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// begin serves with these options, on a loopback address where they have none.
func begin(t *testing.T, opts Options) *world {
	t.Helper()
	w := &world{t: t, b: &backend{sessions: map[string]string{}, began: make(chan string, 1000)}, log: &bytes.Buffer{}, served: make(chan error, 1)}
	w.store = tokens(t)
	w.ann, w.annID = addToken(t, w.store, "ann", "/srv/ann", time.Time{})
	w.bob, _ = addToken(t, w.store, "bob", "/srv/bob", time.Time{})
	if opts.Address == "" {
		opts.Address = "127.0.0.1:0"
	}
	opts.Tokens, opts.Handler, opts.Log = w.store, w.b, slog.New(slog.NewTextHandler(w, nil))
	opts.As = func(ctx context.Context, who string) context.Context {
		return context.WithValue(ctx, principalKey{}, who)
	}
	opts.Forget = func(who string) error {
		w.b.mu.Lock()
		defer w.b.mu.Unlock()
		w.b.forgot = append(w.b.forgot, who)
		for id, owner := range w.b.sessions {
			if owner == who {
				w.b.sessions[id] = "ended"
			}
		}
		return nil
	}
	opts.Close = func() error { return nil }
	f, err := Listen(opts)
	if err != nil {
		t.Fatal(err)
	}
	w.f = f
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() { w.served <- f.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := w.end(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// end waits for the end of serving.
func (w *world) end() error {
	select {
	case err := <-w.served:
		w.served <- nil // for who asks again
		return err
	case <-time.After(patience):
		return errors.New("it does not end")
	}
}

// ask is one request.
type ask struct {
	method, path, token, session, origin, host, body string
	header                                           http.Header
}

func (w *world) request(a ask) *http.Request {
	w.t.Helper()
	method, path := a.method, a.path
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = Path
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.f.listener.Addr().String()+path, strings.NewReader(a.body))
	if err != nil {
		w.t.Fatal(err)
	}
	for name, values := range a.header {
		r.Header[name] = values
	}
	set := func(name, value string) {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if a.token != "" {
		set("Authorization", "Bearer "+a.token)
	}
	set(sessionHeader, a.session)
	set("Origin", a.origin)
	r.Host = a.host
	return r
}

// answer is what came of a request.
type answer struct {
	status int
	header http.Header
	body   string
}

var plain = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

func (w *world) do(a ask) answer {
	w.t.Helper()
	res, err := plain.Do(w.request(a))
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

// stream opens one, and gives what closes when the server has ended it.
func (w *world) stream(a ask) (ended chan struct{}) {
	w.t.Helper()
	res, err := plain.Do(w.request(a))
	if err != nil {
		w.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		w.t.Fatalf("a stream is %d", res.StatusCode)
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
	}()
	return ended
}

// session begins one.
func (w *world) session(token string) string {
	w.t.Helper()
	a := w.do(ask{token: token, body: "{}"})
	id := a.header.Get(sessionHeader)
	if a.status != http.StatusOK || id == "" {
		w.t.Fatalf("a session: %+v", a)
	}
	return id
}

func (w *world) wait(what string, ok func() bool) {
	w.t.Helper()
	testkit.Eventually(w.t, what, ok)
}

func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("it did not happen: %s", what)
		panic("unreachable")
	}
}

// dial opens a bare connection.
func (w *world) dial() net.Conn {
	w.t.Helper()
	conn, err := net.Dial(w.f.listener.Addr().Network(), w.f.listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}
