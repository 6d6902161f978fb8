//go:build linux

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// busy starts a command that lasts, in the background, and one that is waited
// for; the second's end is told.
func (c *client) busy(t *testing.T, mark string) <-chan error {
	t.Helper()
	c.call(t, "exec", map[string]any{"command": "setsid sleep " + mark + " & sleep " + mark, "background": true})
	done := make(chan error, 1)
	go func() {
		got, err := c.session.CallTool(t.Context(), &sdk.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "sleep " + mark}})
		if err == nil && got.IsError {
			err = errors.New(textOf(got))
		}
		done <- err
	}()
	testkit.Eventually(t, "it is started", func() bool { return len(marked(mark)) >= 3 })
	return done
}

// TestRevoked takes a token away from a client that is at work: it is refused from
// then on, what it had started is gone, and others go on.
func TestRevoked(t *testing.T) {
	boxtest.RequireWalls(t)
	s := plain(t)
	ann, ben := s.token(t, "ann", publicDir(t)), s.token(t, "ben", publicDir(t))
	h := startHTTP(t, s)
	gone, stays := h.connect(t, ann), h.connect(t, ben)
	mark, other := newMark(), newMark()
	done := gone.busy(t, mark)
	stays.busy(t, other)
	s.paddock(t, "token", "revoke", "--principal", "ann")
	if _, err := gone.session.ListTools(t.Context(), nil); err == nil {
		t.Error("the next request is answered")
	}
	if err := <-done; err == nil {
		t.Error("the command was not ended")
	}
	testkit.Eventually(t, "its processes are gone", func() bool { return len(marked(mark)) == 0 })
	if len(marked(other)) < 3 {
		t.Error("another principal's processes are gone")
	}
	stays.call(t, "exec", map[string]any{"command": "true"})
	// Who gets a token again begins anew.
	again := h.connect(t, s.token(t, "ann", publicDir(t)))
	if got := again.call(t, "exec", map[string]any{"command": "ls"}); got["stdout"] != "" {
		t.Errorf("the old workspace is there: %v", got)
	}
	if log := h.log.String(); strings.Contains(log, ann[13:]) || strings.Contains(log, ben[13:]) {
		t.Errorf("the log has a token: %s", log)
	}
}

// TestOneOfTwoTokens takes one token of a principal away: what was asked with it
// ends, and what the principal has stays.
func TestOneOfTwoTokens(t *testing.T) {
	boxtest.RequireWalls(t)
	s := plain(t)
	first := s.token(t, "ann", s.workspace)
	var second struct{ Token string }
	if err := json.Unmarshal([]byte(s.paddock(t, "token", "create", "ann", "--json")), &second); err != nil {
		t.Fatal(err)
	}
	h := startHTTP(t, s)
	gone, stays := h.connect(t, first), h.connect(t, second.Token)
	waited, kept := newMark(), newMark()
	stays.call(t, "exec", map[string]any{"command": "sleep " + kept, "background": true})
	done := make(chan error, 1)
	go func() {
		_, err := gone.session.CallTool(t.Context(), &sdk.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "sleep " + waited}})
		done <- err
	}()
	testkit.Eventually(t, "it is started", func() bool { return len(marked(waited)) > 0 && len(marked(kept)) > 0 })
	s.paddock(t, "token", "revoke", strings.Split(first, "_")[1])
	if err := <-done; err == nil {
		t.Error("the command was not ended")
	}
	testkit.Eventually(t, "its process is gone", func() bool { return len(marked(waited)) == 0 })
	stays.call(t, "exec", map[string]any{"command": "true"})
	if len(marked(kept)) == 0 {
		t.Error("what the other session started is gone")
	}
}

// TestAskedToEnd asks a server that is at work to end: it does, with all that it
// has started.
func TestAskedToEnd(t *testing.T) {
	boxtest.RequireWalls(t)
	s := plain(t)
	cmd := s.program("--http", "unix://"+filepath.Join(s.state, "mcp.sock"), "--no-auth", "--workspace", s.workspace)
	if err := os.MkdirAll(s.state, 0o700); err != nil {
		t.Fatal(err)
	}
	log := &notes{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.state, "mcp.sock")
	testkit.Eventually(t, "it listens", func() bool { _, err := os.Stat(path); return err == nil })
	session, err := newClient(clientOptions).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: "http://localhost/mcp", HTTPClient: overSocket(path), MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mark := newMark()
	c := &client{session: session, pid: cmd.Process.Pid, log: log}
	done := c.busy(t, mark)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the command was not ended")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left")
	}
	_ = session.Close() // its server is gone
}

// overSocket is a client of a server that listens at a socket.
func overSocket(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

// TestTokenBounds: a principal has what its token says and what its name was
// granted, and nothing of the operator's.
func TestTokenBounds(t *testing.T) {
	boxtest.RequireWalls(t)
	s := plain(t)
	s.profile = "full"
	own := publicDir(t)
	token := s.token(t, localPrincipal(t)+"-agent", own, "--with-privileges")
	h := startHTTP(t, s)
	c := h.connect(t, token)
	for name, args := range map[string]map[string]any{
		"another workspace": {"workspace": publicDir(t)},
		"a mount":           {"ro": []string{"/etc/passwd:/passwd"}},
		"a network":         {"network": "host"},
		"no walls":          {"backend": "host"},
	} {
		args["name"] = "more"
		if said := c.refused(t, "sandbox_create", args); !strings.Contains(said, "ceiling") && !strings.Contains(said, "privilege") {
			t.Errorf("%s: %s", name, said)
		}
	}
	for name := range c.tools(t) {
		if strings.HasPrefix(name, "token_") || strings.HasPrefix(name, "audit_") {
			t.Errorf("it is offered %s", name)
		}
	}
	got := c.try(t, "privilege_list", map[string]any{})
	if text, err := json.Marshal(got.StructuredContent); err != nil || strings.Contains(string(text), `"`+localPrincipal(t)+`"`) {
		t.Errorf("it is told of others: %s, %v", text, err)
	}
}

// TestHTTPFlags is what the command line refuses.
func TestHTTPFlags(t *testing.T) {
	s := plain(t)
	for name, tt := range map[string]struct {
		flags []string
		want  string
	}{
		"no token":             {[]string{"--http", "127.0.0.1:0"}, "there is no valid token"},
		"open to others":       {[]string{"--http", ":0"}, "other hosts can reach it"},
		"flags without effect": {[]string{"--no-auth"}, "give --http ADDR too"},
		"a workspace of whose": {[]string{"--http", "127.0.0.1:0", "--workspace", "/usr"}, "each token says it"},
		"a host that is all":   {[]string{"--http", "127.0.0.1:0", "--allow-host", "*"}, "--allow-host"},
		"no sessions":          {[]string{"--http", "127.0.0.1:0", "--max-sessions", "0"}, "it is not from 1 to 65536"},
		"no certificate":       {[]string{"--http", ":0", "--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"}, "cannot use --tls-cert"},
	} {
		out, err := s.program(tt.flags...).CombinedOutput()
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) || exit.ExitCode() != 125 || !strings.Contains(string(out), tt.want) || !strings.HasPrefix(string(out), "paddock: cannot ") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
