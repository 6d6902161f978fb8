package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/paddock-dev/paddock/wire"
)

// However much is printed, the answer is bounded, and says how much it was.
func TestSessionBounds(t *testing.T) {
	t.Parallel()
	s := openSession(t, wire.OpenSessionRequest{})
	r := s.sh("head -c 104857600 /dev/zero | tr '\\0' x")
	if r.TotalBytes != 100<<20 || r.TotalLines != 1 || !r.TruncatedByBytes || r.TruncatedByLines || len(printed(r, "stdout")) != 1<<20 {
		t.Errorf("100 MiB on one line: %d bytes, %d lines, %d kept", r.TotalBytes, r.TotalLines, len(printed(r, "stdout")))
	}
	r = s.sh("seq 1000; echo e >&2")
	if r.TotalLines != 1001 || !r.TruncatedByLines || r.TruncatedByBytes || strings.Count(printed(r, "stdout"), "\n") != 100 {
		t.Errorf("many lines: %d, %q", r.TotalLines, printed(r, "stdout"))
	}
	r = s.do(wire.RunSessionRequest{Command: "printf 'aé€'", MaxOutputBytes: 5})
	if printed(r, "stdout") != "aé" || !r.TruncatedByBytes || r.TotalBytes != 6 {
		t.Errorf("a cut character: %+v", r)
	}
	r = s.do(wire.RunSessionRequest{Command: `printf 'a\377\303'; printf '\251'; cat`, Stdin: "AP8=", Encoding: "base64"})
	if printed(r, "stdout") == "" || r.Encoding != "base64" {
		t.Errorf("base64: %+v", r)
	}
	r = s.sh(`printf 'a\377\303'; sleep 0.05; printf '\251'`)
	if printed(r, "stdout") != "a\uFFFDé" {
		t.Errorf("a split character: %q", printed(r, "stdout"))
	}
	r = s.sh("for i in 1 2 3; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done")
	var order strings.Builder
	for _, c := range r.Output {
		order.WriteString(c.Stream[3:4] + c.Data)
	}
	if order.String() != "oo1\nee1\noo2\nee2\noo3\nee3\n" {
		t.Errorf("the order: %q", r.Output)
	}
	long := "x='" + strings.Repeat("y", 1<<20) + "'; echo ${#x}"
	if r = s.sh(long); printed(r, "stdout") != "1048576\n" {
		t.Errorf("a long command: %+v", r)
	}
	if r = s.sh("export big=$(head -c 100000 /dev/zero | tr '\\0' e); env | wc -c"); r.ExitCode != 0 {
		t.Errorf("a large environment: %+v", r)
	}
}

// A field that is null is absent, on the socket.
func TestSessionNulls(t *testing.T) {
	t.Parallel()
	b := bare(t)
	each(t, b, []call{
		{request: `{"action":"open_session","session_id":"s","shell_command":null,"cwd":null,"env":null,"secret_env":null,"startup_commands":null,"shutdown_commands":null,` +
			`"command_timeout":null,"startup_timeout":null,"termination_timeout":null,"max_output_lines":null,"max_output_bytes":null,"limits":null,"redact_values":null,"redaction":null}`,
			want: `{"session_id":"s","cwd":"/workspace"}`},
		{request: `{"action":"run_session","session_id":"s","command":"echo x","stdin":null,"timeout":null,"max_output_lines":null,"max_output_bytes":null,"max_tail_bytes":null,"encoding":null}`,
			want: `{"exit_code":0,"total_lines":1}`},
		{request: `{"action":"run_session","session_id":null,"command":"echo x"}`, err: anyError},
		{request: `{"action":"close_session","session_id":"s","keep_alive":null}`, want: `{}`},
	})
}

// What a job prints when no command runs comes with the next one, apart.
func TestSessionLateOutput(t *testing.T) {
	t.Parallel()
	s := openSession(t, wire.OpenSessionRequest{})
	r := s.sh("(while ! test -e go; do sleep 0.1; done; echo late; touch gone; exec sleep 100) & echo now")
	if printed(r, "stdout") != "now\n" || r.Jobs == 0 {
		t.Fatalf("%+v", r)
	}
	b := s.box
	b.sh("touch go; while ! test -e gone; do sleep 0.1; done")
	r = s.sh("echo next")
	if printed(r, "stdout") != "next\n" || len(r.Late) != 1 || r.Late[0] != (wire.SessionChunk{Stream: "stdout", Data: "late\n"}) || r.LateBytes != 5 {
		t.Errorf("%+v", r)
	}
	r = s.sh("kill %1; wait; echo done")
	if r.Jobs != 0 || printed(r, "stdout") != "done\n" {
		t.Errorf("%+v", r)
	}
}

// A command ends when its client asks for it, or goes.
func TestSessionInterrupt(t *testing.T) {
	t.Parallel()
	s := openSession(t, wire.OpenSessionRequest{})
	done := make(chan wire.RunSessionResult, 1)
	go func() {
		r, _ := s.try(wire.RunSessionRequest{Command: "x=1; touch begun; sleep 100; touch wrong"})
		done <- r
	}()
	begun := func() { s.box.sh("while ! test -e begun; do sleep 0.1; done; rm begun") }
	begun()
	if r, err := wire.Call(s.context(), s.client, wire.InterruptSession, wire.SessionRequest{SessionID: s.id}); err != nil || !r.Interrupted {
		t.Fatal(r, err)
	}
	if r := <-done; !r.Interrupted || r.TimedOut || !r.StateKept || r.ExitCode != 130 {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(s.context())
	gone := make(chan error, 1)
	go func() {
		_, err := wire.Call(ctx, s.client, wire.RunSession, wire.RunSessionRequest{SessionID: s.id, Command: "touch begun; sleep 100; touch wrong"})
		gone <- err
	}()
	begun()
	cancel()
	if err := <-gone; err == nil {
		t.Error("a client that has gone got an answer")
	}
	if r := s.sh("echo $x; ls"); printed(r, "stdout") != "1\n" {
		t.Errorf("%+v", r)
	}
	if r, err := wire.Call(s.context(), s.client, wire.InterruptSession, wire.SessionRequest{SessionID: s.id}); err != nil || r.Interrupted {
		t.Error("an interrupt of nothing", r, err)
	}
}

// Commands of several clients wait for each other.
func TestSessionTurns(t *testing.T) {
	t.Parallel()
	s := openSession(t, wire.OpenSessionRequest{})
	s.sh("n=0")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { _, _ = s.try(wire.RunSessionRequest{Command: "n=$((n+1))"}) })
	}
	all.Wait()
	if r := s.sh("echo $n"); printed(r, "stdout") != "20\n" {
		t.Errorf("%+v", r)
	}
}

func TestSessionStartAndEnd(t *testing.T) {
	t.Parallel()
	b := start(t)
	open := func(q wire.OpenSessionRequest) error {
		_, err := wire.Call(b.context(), b.client, wire.OpenSession, q)
		return err
	}
	for _, tt := range []struct {
		q    wire.OpenSessionRequest
		code wire.Code
		want string
	}{
		{wire.OpenSessionRequest{}, wire.CodeBadRequest, "session_id is required"},
		{wire.OpenSessionRequest{SessionID: "../x"}, wire.CodeBadRequest, "session_id is invalid"},
		{wire.OpenSessionRequest{SessionID: "x", ShellCommand: []string{}}, wire.CodeBadRequest, "Shell command must contain at least one argument."},
		{wire.OpenSessionRequest{SessionID: "x", MaxOutputLines: -1}, wire.CodeBadRequest, "max_output_lines must be positive."},
		{wire.OpenSessionRequest{SessionID: "x", CommandTimeout: -1}, wire.CodeBadRequest, "command_timeout must be above 0 and at most 2147483647"},
		{wire.OpenSessionRequest{SessionID: "x", Cwd: "/workspace/none"}, wire.CodeNotFound, ""},
		{wire.OpenSessionRequest{SessionID: "x", ShellCommand: []string{"/no/shell"}}, wire.CodeNotFound, ""},
		{wire.OpenSessionRequest{SessionID: "x", ShellCommand: []string{"/bin/false"}}, wire.CodeStart, "cannot start the session: its shell has ended with exit status 1"},
		{wire.OpenSessionRequest{SessionID: "x", ShellCommand: []string{"/bin/sleep", "100"}, StartupTimeout: 0.2}, wire.CodeStart, ""},
		{wire.OpenSessionRequest{SessionID: "x", ShellCommand: []string{"/bin/sh", "-c", "sleep 100"}, StartupTimeout: 0.2}, wire.CodeTimeout, "cannot start the session: its shell does not answer"},
		{wire.OpenSessionRequest{SessionID: "x", StartupCommands: []string{"true", "(exit 4)"}}, wire.CodeConflict, "Startup command '(exit 4)' failed with exit code 4"},
		{wire.OpenSessionRequest{SessionID: "x", StartupCommands: []string{"exit 5"}}, wire.CodeConflict, "Startup command 'exit 5' failed with exit code 5"},
		{wire.OpenSessionRequest{SessionID: "x", StartupCommands: []string{"sleep 100"}, StartupTimeout: 0.2}, wire.CodeConflict, "Startup command 'sleep 100' failed with exit code None"},
	} {
		var e *wire.Error
		if err := open(tt.q); !errors.As(err, &e) || e.Code != tt.code || tt.want != "" && e.Message != tt.want {
			t.Errorf("%+v: %v, want %s %q", tt.q, err, tt.code, tt.want)
		}
	}
	s := b.session(wire.OpenSessionRequest{SessionID: "a", StartupCommands: []string{"x=1; cd /tmp"}, ShutdownCommands: []string{"echo $x >/workspace/shut", "sleep 100 &"}})
	if err := open(wire.OpenSessionRequest{SessionID: "a"}); err == nil {
		t.Error("two sessions have one id")
	}
	if r := s.sh("echo $x; pwd; echo $PPID >/dev/null; x=2"); printed(r, "stdout") != "1\n/tmp\n" || r.Cwd != "/tmp" {
		t.Errorf("%+v", r)
	}
	list, err := wire.Call(b.context(), b.client, wire.ListSessions, wire.ListSessionsRequest{})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].State != "ready" || list.Sessions[0].Commands != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	end, err := wire.Call(b.context(), b.client, wire.CloseSession, wire.SessionRequest{SessionID: "a"})
	if err != nil || !end.Closed || !end.DeathProved || end.ExitCode == nil || *end.ExitCode != 0 || end.State != "ended" {
		t.Errorf("%+v, %v", end, err)
	}
	if text := b.sh("cat shut").Stdout; text != "2\n" {
		t.Errorf("the shutdown command wrote %q", text)
	}
	if _, err := s.try(wire.RunSessionRequest{Command: "true"}); err == nil {
		t.Error("a closed session runs commands")
	}
}

// Secrets are hidden in all that is told of a session.
func TestSessionRedacts(t *testing.T) {
	t.Parallel()
	s := openSession(t, wire.OpenSessionRequest{RedactValues: []string{"hunter2"}})
	r := s.sh("printf hun; sleep 0.02; echo ter2; echo hunter2 >&2; mkdir -p /tmp/hunter2; cd /tmp/hunter2")
	if printed(r, "stdout") != "[REDACTED]\n" || printed(r, "stderr") != "[REDACTED]\n" || r.Cwd != "/tmp/[REDACTED]" {
		t.Errorf("%+v", r)
	}
}

// Rules see each command's output by itself, and its result counts them.
func TestSessionRules(t *testing.T) {
	t.Parallel()
	s := openSession(t, wire.OpenSessionRequest{Redaction: wire.RedactRules{{Type: "email", Strategy: "mask"}, {Name: "key", Pattern: "sk-[a-z]+", Strategy: "block"}}})
	for _, tt := range []struct{ command, stdout, stderr, blocked, matches string }{
		{"echo ann@example.org; echo bob@x.org bob@x.org >&2", "a***@example.org\n", "b***@x.org b***@x.org\n", "", "map[email:3]"},
		{"printf ann@example.org", "a***@example.org", "", "", "map[email:1]"},
		{"echo before; echo sk-abc; echo also >&2", "Output blocked: detected key.", "", "key", "map[key:1]"},
		{"echo after", "after\n", "", "", "map[]"},
	} {
		r := s.sh(tt.command)
		if printed(r, "stdout") != tt.stdout || printed(r, "stderr") != tt.stderr || r.Blocked != tt.blocked || fmt.Sprint(r.RedactionMatches) != tt.matches {
			t.Errorf("%s: %+v", tt.command, r)
		}
	}
}

func TestSessionLeaksNothing(t *testing.T) {
	b := start(t)
	b.leaksNothing(func() {
		s := b.session(wire.OpenSessionRequest{})
		s.sh("sleep 100 & echo x")
		s.sh("if")
		s.do(wire.RunSessionRequest{Command: "sleep 100", Timeout: 0.05})
		s.sh("exit 1")
		s.restart()
		s.sh("true")
		if _, err := wire.Call(b.context(), b.client, wire.CloseSession, wire.SessionRequest{SessionID: s.id}); err != nil {
			t.Error(err)
		}
	})
}
