package paddock

import (
	"bufio"
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/wire"
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

// scripted is a session whose agent is a function that answers requests by their action.
func scripted(t *testing.T, answer func(action string) any) *Session {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					line, err := wire.ReadLine(in, wire.MaxLine)
					if err != nil {
						return
					}
					head, err := wire.HeadOf(line)
					if err != nil || wire.WriteLine(conn, answer(head.Action)) != nil || !head.KeepAlive {
						return
					}
				}
			}()
		}
	}()
	s, _ := openFake(t, Spec{})
	s.client.Dial = func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", l.Addr().String())
	}
	n := &Session{sandbox: s, id: "s", command: time.Minute, turn: make(chan struct{}, 1), kept: wire.Kept{Client: &s.client}}
	n.turn <- struct{}{}
	return n
}

// A cancelled command is interrupted also where the interrupt overtakes it.
func TestSessionInterruptBeforeCommand(t *testing.T) {
	tries, interrupted := make(chan bool, 100), make(chan bool)
	n := scripted(t, func(action string) any {
		if action == wire.RunSession.Name {
			for range 3 {
				<-tries
			}
			close(interrupted)
			<-tries
			return wire.RunSessionResult{SessionID: "s", ExitCode: 130, Interrupted: true}
		}
		r := wire.InterruptSessionResult{SessionID: "s"}
		select {
		case <-interrupted:
			r.Interrupted = true
		default:
		}
		tries <- true
		return r
	})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	r, err := n.Run(ctx, SessionCommand{Text: "sleep 100"})
	if !errors.Is(err, context.Canceled) || r == nil || !r.Interrupted {
		t.Errorf("%+v, %v", r, err)
	}
}

// An interrupt that comes too late does not meet the next command.
func TestSessionInterruptAfterCommand(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	note := func(what string) int {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, what)
		return len(seen)
	}
	came := make(chan bool, 1)
	n := scripted(t, func(action string) any {
		if action == wire.RunSession.Name {
			if note("command") == 1 {
				<-came
			}
			return wire.RunSessionResult{SessionID: "s"}
		}
		came <- true
		time.Sleep(200 * time.Millisecond) // the command ends meanwhile
		note("interrupt")
		return wire.InterruptSessionResult{SessionID: "s"}
	})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	for _, ctx := range []context.Context{ctx, t.Context()} {
		if _, err := n.Run(ctx, SessionCommand{Text: "true"}); err != nil {
			t.Error(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"command", "interrupt", "command"}; !slices.Equal(seen, want) {
		t.Errorf("the order is %q", seen)
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
