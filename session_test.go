package paddock

import (
	"context"
	"errors"
	"testing"
	"time"
)

func openTestSession(t *testing.T, opts SessionOptions) (*Sandbox, *Session) {
	t.Helper()
	s := openWalled(t, Spec{})
	n, err := s.OpenSession(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return s, n
}

func mustRun(t *testing.T, n *Session, c SessionCommand) *SessionResult {
	t.Helper()
	r, err := n.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("%q: %v", c.Text, err)
	}
	return r
}

func TestSessionKeepsState(t *testing.T) {
	_, n := openTestSession(t, SessionOptions{Env: []string{"A=1"}, Startup: []string{"b=2"}})
	mustRun(t, n, SessionCommand{Text: "cd /tmp; c=3"})
	r := mustRun(t, n, SessionCommand{Text: "echo $A$b$c; pwd; cat >&2", Stdin: []byte("in")})
	if r.Stdout() != "123\n/tmp\n" || r.Stderr() != "in" || r.Dir != "/tmp" || !r.StateKept || !r.Isolation.Verified {
		t.Errorf("%+v", r)
	}
	r = mustRun(t, n, SessionCommand{Text: `printf '\377'; cat`, Stdin: []byte{0, 0xfe}, Raw: true})
	if r.Stdout() != "\xff\x00\xfe" {
		t.Errorf("raw: %q", r.Stdout())
	}
	if err := n.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r = mustRun(t, n, SessionCommand{Text: "echo $b$c"}); r.Stdout() != "2\n" {
		t.Errorf("after a restart: %q", r.Stdout())
	}
	if s, err := n.Summary(t.Context()); err != nil || s.State != "ready" || s.Restarts != 1 || s.Commands != 4 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if _, err := n.Run(t.Context(), SessionCommand{Text: "true"}); err == nil {
		t.Error("a closed session runs commands")
	}
}

// A context that ends interrupts the command, whose result comes all the same.
func TestSessionContext(t *testing.T) {
	_, n := openTestSession(t, SessionOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r, err := n.Run(ctx, SessionCommand{Text: "x=1; echo partial; sleep 100"})
	if !errors.Is(err, context.DeadlineExceeded) || r == nil || !r.Interrupted || !r.StateKept || r.Stdout() != "partial\n" {
		t.Errorf("%+v, %v", r, err)
	}
	r = mustRun(t, n, SessionCommand{Text: "sleep 100", Timeout: 100 * time.Millisecond})
	if !r.TimedOut || r.ExitCode != TimeoutStatus || !r.DeathProved {
		t.Errorf("%+v", r)
	}
	if r = mustRun(t, n, SessionCommand{Text: "echo $x; exit 3"}); r.Stdout() != "1\n" || r.ExitCode != 3 || !r.ShellEnded {
		t.Errorf("%+v", r)
	}
}

func TestSessionErrors(t *testing.T) {
	s, n := openTestSession(t, SessionOptions{ID: "one"})
	for _, tt := range []struct {
		opts SessionOptions
		want string
	}{
		{SessionOptions{ID: "one"}, "cannot open the session: session 'one' already exists"},
		{SessionOptions{Shell: []string{}}, "cannot open the session: Shell command must contain at least one argument."},
		{SessionOptions{MaxLines: -1}, "cannot open the session: max_output_lines must be positive."},
		{SessionOptions{Startup: []string{"false"}}, "cannot open the session: Startup command 'false' failed with exit code 1"},
		{SessionOptions{Env: []string{"bad"}}, "cannot start the command: an entry of its environment is not K=V without NUL bytes"},
	} {
		if _, err := s.OpenSession(t.Context(), tt.opts); err == nil || err.Error() != tt.want {
			t.Errorf("%+v: %v, want %q", tt.opts, err, tt.want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Run(t.Context(), SessionCommand{Text: "true"}); !errors.Is(err, ErrClosed) {
		t.Errorf("in a sandbox that has ended: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Errorf("to close what has ended: %v", err)
	}
}
