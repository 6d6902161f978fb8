//go:build linux

package mcp

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is one that listens on a port of its own.
type server struct {
	setup
	url string
	pid int
	log *notes
}

var listening = regexp.MustCompile(`listening on (\S+)`)

// startHTTP starts a server that listens. At the end of the test it is asked to
// end, and has to, cleanly.
func startHTTP(t *testing.T, s setup, more ...string) *server {
	t.Helper()
	var flags []string
	if len(more) > 0 {
		flags = []string{"--workspace", s.workspace}
	}
	cmd := s.program(append(append(flags, "--http", "127.0.0.1:0"), more...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &server{setup: s, pid: cmd.Process.Pid, log: &notes{}}
	found := make(chan string, 1)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			_, _ = h.log.Write(append(lines.Bytes(), '\n')) // a buffer
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
			}
		}
	}()
	t.Cleanup(func() { h.stop(t, cmd, drained) })
	select {
	case h.url = <-found:
	case <-drained:
		t.Fatalf("the server ended: %s", h.log)
	case <-time.After(patience):
		t.Fatalf("the server does not listen: %s", h.log)
	}
	return h
}

// stop ends the server as an operator does.
func (h *server) stop(t *testing.T, cmd *exec.Cmd, drained <-chan struct{}) {
	t.Helper()
	if !alive(h.pid) {
		t.Errorf("the server is gone: %s", h.log)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	<-drained
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server did not end as it should: %v\n%s", err, h.log)
	}
	if !late.Stop() {
		t.Errorf("the server did not end within %v: %s", patience, h.log)
	}
	if strings.Contains(h.log.String(), "panic") {
		t.Errorf("the server panicked:\n%s", h.log)
	}
}

// token makes a token for a principal over a workspace, and gives it.
func (s setup) token(t *testing.T, principal, workspace string, more ...string) string {
	t.Helper()
	var made struct{ Token string }
	out := s.paddock(t, append([]string{"token", "create", principal, "--workspace", workspace, "--json"}, more...)...)
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Token == "" {
		t.Fatalf("no token was made: %s", out)
	}
	return made.Token
}

// bearer shows a token with each request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// connect opens a session; without a token where none is asked for.
func (h *server) connect(t *testing.T, token string) *client {
	t.Helper()
	session, err := newClient(clientOptions).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: h.url, HTTPClient: &http.Client{Transport: bearer{token}}}, nil)
	if err != nil {
		t.Fatalf("cannot connect: %v\n%s", err, h.log)
	}
	t.Cleanup(func() { _ = session.Close() }) // the server may have ended it
	return &client{session: session, pid: h.pid, log: h.log}
}
