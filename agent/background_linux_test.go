package agent_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/wire"
)

// startBackground starts a shell text in the background.
func startBackground(t *testing.T, c *wire.Client, script string) wire.BackgroundExec {
	t.Helper()
	x, err := c.StartExec(t.Context(), wire.ExecRequest{Argv: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// readAll reads what a command in the background prints, up to its end.
func readAll(t *testing.T, c *wire.Client, id string) (stdout, stderr string, last wire.ReadExecResult) {
	t.Helper()
	q := wire.ReadExecRequest{ID: id, WaitMS: wire.MaxReadWaitMS, MaxBytes: 1000}
	for deadline := time.Now().Add(patience); ; {
		r, err := c.ReadExec(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		stdout, stderr = stdout+string(r.Stdout.Data), stderr+string(r.Stderr.Data)
		if r.Complete() {
			return stdout, stderr, r
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has not ended: %+v", id, r.BackgroundExec)
		}
		q.StdoutCursor, q.StderrCursor = r.Stdout.NextCursor, r.Stderr.NextCursor
	}
}

// What a command in the background prints is read by position, by anybody, as often as they like.
func TestBackground(t *testing.T) {
	t.Parallel()
	b := bare(t)
	x := startBackground(t, b.client, `echo one; echo two >&2; while [ ! -e go ]; do sleep 0.1; done; seq 1000; printf '\377'; exit 3`)
	if x.State != wire.ExecRunning || x.Result != nil || !strings.HasPrefix(x.Command, "sh -c echo one;") {
		t.Errorf("%+v", x)
	}
	var r wire.ReadExecResult
	eventually(t, "the first lines are there", func() (there bool) {
		var err error
		if r, err = b.client.ReadExec(t.Context(), wire.ReadExecRequest{ID: x.ID}); err != nil {
			t.Fatal(err)
		}
		return string(r.Stdout.Data) == "one\n" && string(r.Stderr.Data) == "two\n"
	})
	if r.Stdout.More || r.Stdout.NextCursor != 4 || r.Complete() {
		t.Errorf("%+v", r)
	}
	waited := make(chan wire.ReadExecResult, 1)
	go func() { // a reader that waits gets what comes
		r, _ := b.client.ReadExec(t.Context(), wire.ReadExecRequest{ID: x.ID, StdoutCursor: 4, StderrCursor: 4, WaitMS: 60_000})
		waited <- r
	}()
	put(t, "", b.workspace, "go")
	select {
	case r := <-waited:
		if r.Stdout.Cursor != 4 || !strings.HasPrefix(string(r.Stdout.Data), "1\n") {
			t.Errorf("%+v", r)
		}
	case <-time.After(patience):
		t.Fatal("a reader waits in vain")
	}
	for range 2 {
		stdout, stderr, last := readAll(t, b.client, x.ID)
		if !strings.HasPrefix(stdout, "one\n1\n2\n") || !strings.HasSuffix(stdout, "999\n1000\n\xff") || stderr != "two\n" {
			t.Errorf("%d bytes and %q", len(stdout), stderr)
		}
		res := last.Result
		if res.ExitCode != 3 || !res.DeathProved || res.TimedOut || res.StdoutTruncated || res.StdoutBytes != int64(len(stdout)) || last.EndedAt == nil {
			t.Errorf("%+v", res)
		}
	}
	list, err := b.client.ListExecs(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != x.ID || list[0].State != wire.ExecEnded {
		t.Errorf("%+v, %v", list, err)
	}
}

// A command in the background ends by itself, by its time, by a signal and by kill, and its tree with it.
func TestBackgroundEnds(t *testing.T) {
	t.Parallel()
	b := bare(t)
	t.Run("a survivor", func(t *testing.T) {
		_, _, last := readAll(t, b.client, startBackground(t, b.client, "setsid sleep 1000 & exit 0").ID)
		if last.Result.SurvivorsKilled != 1 || !last.Result.DeathProved {
			t.Errorf("%+v", last.Result)
		}
	})
	t.Run("its time", func(t *testing.T) {
		x, err := b.client.StartExec(t.Context(), wire.ExecRequest{Command: "echo begun; sleep 1000", TimeoutSeconds: seconds(0.3)})
		if err != nil {
			t.Fatal(err)
		}
		stdout, _, last := readAll(t, b.client, x.ID)
		if !last.Result.TimedOut || last.Result.ExitCode != 124 || stdout != "begun\n" {
			t.Errorf("%q, %+v", stdout, last.Result)
		}
	})
	t.Run("a signal", func(t *testing.T) {
		x := startBackground(t, b.client, `trap 'echo got it; exit 7' TERM; echo ready; while :; do sleep 0.1; done`)
		eventually(t, "it is ready", func() bool {
			r, err := b.client.ReadExec(t.Context(), wire.ReadExecRequest{ID: x.ID})
			return err == nil && string(r.Stdout.Data) == "ready\n"
		})
		if _, err := b.client.SignalExec(t.Context(), x.ID, "TERM"); err != nil {
			t.Fatal(err)
		}
		stdout, _, last := readAll(t, b.client, x.ID)
		if stdout != "ready\ngot it\n" || last.Result.ExitCode != 7 {
			t.Errorf("%q, %+v", stdout, last.Result)
		}
		_, err := b.client.SignalExec(t.Context(), x.ID, "TERM")
		if werr := (*wire.Error)(nil); !errors.As(err, &werr) || werr.Code != wire.CodeConflict {
			t.Errorf("a signal after the end: %v", err)
		}
	})
	t.Run("kill", func(t *testing.T) {
		x := startBackground(t, b.client, `trap '' TERM INT HUP; (trap '' TERM; setsid sleep 1000) & sleep 1000`)
		for range 2 {
			killed, err := b.client.KillExec(t.Context(), x.ID)
			if err != nil || killed.State != wire.ExecEnded || killed.Result.Signal != "SIGKILL" || !killed.Result.DeathProved {
				t.Errorf("%+v, %v", killed, err)
			}
		}
	})
	if u, err := wire.Call(t.Context(), b.client, wire.Usage, wire.UsageRequest{}); err != nil || len(u.Trees) != 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

// Standard input is passed as a whole; without any it is empty.
func TestBackgroundInput(t *testing.T) {
	t.Parallel()
	b := bare(t)
	for encoding, input := range map[string]string{"": "text", "base64": "AP8="} {
		x, err := b.client.StartExec(t.Context(), wire.ExecRequest{Argv: []string{"cat"}, Stdin: input, Encoding: encoding})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"": "text", "base64": "\x00\xff"}[encoding]
		if stdout, _, last := readAll(t, b.client, x.ID); stdout != want || last.Result.ExitCode != 0 {
			t.Errorf("%q, %+v", stdout, last.Result)
		}
	}
	if stdout, _, _ := readAll(t, b.client, startBackground(t, b.client, "cat; echo end").ID); stdout != "end\n" {
		t.Errorf("%q", stdout)
	}
}

// A stream is stored within its bound, and a reader is told how much is gone.
func TestBackgroundBounds(t *testing.T) {
	t.Parallel()
	b := bare(t)
	const mib = 1 << 20
	flood := func(script string) wire.ReadExecResult {
		t.Helper()
		x := startBackground(t, b.client, script)
		r := wire.ReadExecResult{}
		eventually(t, "it has ended", func() bool {
			var err error
			if r, err = b.client.ReadExec(t.Context(), wire.ReadExecRequest{ID: x.ID}); err != nil {
				t.Fatal(err)
			}
			return r.State == wire.ExecEnded
		})
		return r
	}
	first := flood("yes | head -c 9437184; echo end >&2")
	kept := 9*mib - first.Stdout.DroppedBytes
	if first.Stdout.Cursor != first.Stdout.DroppedBytes || kept < 4*mib || kept > 5*mib || !first.Result.StdoutTruncated || string(first.Stderr.Data) != "end\n" || !first.Stdout.More {
		t.Errorf("%d bytes are kept: %+v", kept, first.BackgroundExec)
	}
	for range 5 { // beyond what the sandbox stores for all
		flood("yes | head -c 4194304; yes | head -c 4194304 >&2")
	}
	r, err := b.client.ReadExec(t.Context(), wire.ReadExecRequest{ID: first.ID, StdoutCursor: 100})
	if err != nil || r.Stdout.DroppedBytes != 9*mib-100 || r.Stderr.DroppedBytes != 4 || !r.Complete() {
		t.Errorf("the oldest output: %+v, %v", r, err)
	}
	eventually(t, "the agent is small again", func() bool {
		u, err := wire.Call(t.Context(), b.client, wire.Usage, wire.UsageRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return u.Agent.MemoryBytes < 256*mib
	})
}

// The number of those that run, and of those that are remembered, is bounded.
func TestBackgroundNumber(t *testing.T) {
	t.Parallel()
	b := bare(t)
	var running []string
	for range 64 {
		running = append(running, startBackground(t, b.client, "exec sleep 1000").ID)
	}
	_, err := b.client.StartExec(t.Context(), wire.ExecRequest{Argv: []string{"true"}})
	if werr := (*wire.Error)(nil); !errors.As(err, &werr) || werr.Code != wire.CodeBusy {
		t.Errorf("one more: %v", err)
	}
	if _, err := b.client.KillExec(t.Context(), running[0]); err != nil {
		t.Fatal(err)
	}
	last := ""
	for range 256 {
		last = startBackground(t, b.client, "exec true").ID
		readAll(t, b.client, last)
	}
	list, err := b.client.ListExecs(t.Context())
	if err != nil || len(list) != 63+256 || list[0].ID != running[1] || list[len(list)-1].ID != last {
		t.Errorf("%d are listed: %v", len(list), err)
	}
	_, err = b.client.ReadExec(t.Context(), wire.ReadExecRequest{ID: running[0]})
	if werr := (*wire.Error)(nil); !errors.As(err, &werr) || werr.Code != wire.CodeNotFound {
		t.Errorf("the first is remembered: %v", err)
	}
	b.end()
	if left := carrying("sleep 1000"); len(left) > 0 && b.status == nil {
		t.Errorf("%v are left", left)
	}
}

// Output is redacted before it is stored, and so is the command.
func TestBackgroundRedaction(t *testing.T) {
	t.Parallel()
	b := bare(t)
	x, err := b.client.StartExec(t.Context(), wire.ExecRequest{Command: "printf hun; sleep 0.1; echo ter2; echo a@example.org >&2", RedactValues: []string{"hunter2", "sleep 0.1"},
		Redaction: wire.RedactRules{{Type: "email"}}})
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, last := readAll(t, b.client, x.ID)
	if stdout != "[REDACTED]\n" || stderr != "[REDACTED_EMAIL]\n" || last.Result.RedactionMatches["email"] != 1 {
		t.Errorf("%q, %q, %+v", stdout, stderr, last.Result)
	}
	if strings.Contains(last.Command, "sleep 0.1") {
		t.Errorf("the command is %q", last.Command)
	}
}

func TestBackgroundErrors(t *testing.T) {
	t.Parallel()
	b := bare(t)
	start := func(more string) string { return `{"action":"start_exec",` + more + `}` }
	read := func(more string) string { return `{"action":"read_exec","id":"e1"` + more + `}` }
	each(t, b, []call{
		{request: start(`"command":"true"`), want: `{"id":"e1","state":"running","result":null,"ended_at":null}`},
		{request: start(`"command":"true","stream":true`), err: "a command in the background cannot have stream"},
		{request: start(`"command":"true","tty":{"rows":1,"cols":1}`), err: "a command in the background cannot have tty"},
		{request: start(`"command":"true","pass":["stdout"]`), err: "a command in the background cannot have pass"},
		{request: start(`"command":"true","detach":true`), err: "a command in the background cannot have detach"},
		{request: start(`"command":"true","max_output_bytes":1`), err: "a command in the background cannot have max_output_bytes"},
		{request: start(`"command":"true","argv":["true"]`), err: "cannot run the command: both command and argv are given"},
		{request: start(`"command":"true","timeout_seconds":-1`), err: "cannot run the command: timeout_seconds must be from 0 to 2147483647"},
		{request: start(`"command":"true","encoding":"base64","stdin":"!"`), err: anyError},
		{request: start(`"argv":["cat"],"stdin":` + quoted(strings.Repeat("x", 1<<20+1))), err: "stdin of a command in the background must be at most 1048576 bytes"},
		{request: start(`"argv":["nonesuch"]`), err: "cannot run nonesuch: not found in the sandbox's PATH"},
		{request: start(`"argv":"true"`), err: anyError},
		{request: start(`"argv":["true"],"env":[]`), err: "exec env must be a JSON object"},
		{request: start(`"argv":["true"],"redaction":[{"type":"x"}]`), err: anyError},
		{request: read(`,"stdout_cursor":-1`), err: "stdout_cursor must not be negative"},
		{request: read(`,"stderr_cursor":-1`), err: "stderr_cursor must not be negative"},
		{request: read(`,"stdout_cursor":9223372036854775807`), want: `{"stdout":{"cursor":0,"next_cursor":0,"dropped_bytes":0,"more":false}}`},
		{request: read(`,"max_bytes":0`), err: "max_bytes must be from 1 to 1048576"},
		{request: read(`,"max_bytes":1048577`), err: "max_bytes must be from 1 to 1048576"},
		{request: read(`,"wait_ms":-1`), err: "wait_ms must be from 0 to 60000"},
		{request: read(`,"wait_ms":60001`), err: "wait_ms must be from 0 to 60000"},
		{request: `{"action":"read_exec"}`, err: "id is required"},
		{request: `{"action":"read_exec","id":" e1 "}`, want: `{"id":"e1"}`},
		{request: `{"action":"read_exec","id":7}`, err: anyError},
		{request: `{"action":"read_exec","id":"e99"}`, err: "no command in the background has the id e99"},
		{request: `{"action":"kill_exec","id":""}`, err: "id is required"},
		{request: `{"action":"kill_exec","id":"../e1"}`, err: "no command in the background has the id ../e1"},
		{request: `{"action":"signal_exec","id":"e99"}`, err: "no command in the background has the id e99"},
		{request: `{"action":"signal_exec","id":"e1","signal":"NONE"}`, err: `unknown signal "NONE"`},
		{request: `{"action":"list_execs"}`, want: `{"execs":[{"id":"e1"}]}`},
	})
	b.serves(t)
}

// The output of a service is read by position, too, and begins anew with each start.
func TestReadService(t *testing.T) {
	t.Parallel()
	b := bare(t)
	start := func(command string) {
		t.Helper()
		if _, err := wire.Call(t.Context(), b.client, wire.StartService, wire.StartServiceRequest{ServiceName: "s", Command: osstring.String(command)}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(q wire.ReadServiceRequest) wire.ReadServiceResult {
		t.Helper()
		q.ServiceName = "s"
		r, err := wire.Call(t.Context(), b.client, wire.ReadService, q)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	start("echo one; until [ -e go ]; do sleep 0.1; done; echo two >&2; until [ -e end ]; do sleep 0.1; done; yes | head -c 12582912")
	r := read(wire.ReadServiceRequest{WaitMS: wire.MaxReadWaitMS})
	if string(r.Stdout.Data) != "one\n" || r.Stdout.NextCursor != 4 || r.State != "running" {
		t.Errorf("%+v", r)
	}
	put(t, "", b.workspace, "go")
	r = read(wire.ReadServiceRequest{StdoutCursor: 4, WaitMS: wire.MaxReadWaitMS})
	if string(r.Stderr.Data) != "two\n" || len(r.Stdout.Data) > 0 {
		t.Errorf("%+v", r)
	}
	put(t, "", b.workspace, "end")
	eventually(t, "it has ended", func() bool { return read(wire.ReadServiceRequest{}).State == "exited" })
	r = read(wire.ReadServiceRequest{StdoutCursor: 4, MaxBytes: 100})
	const all = 4 + 12582912
	if kept := all - r.Stdout.Cursor; r.Stdout.DroppedBytes != r.Stdout.Cursor-4 || kept < 4<<20 || kept > 8<<20 || len(r.Stdout.Data) != 100 || !r.Stdout.More {
		t.Errorf("%d bytes are kept: %+v", kept, r.Service)
	}
	if r = read(wire.ReadServiceRequest{StdoutCursor: all - 2}); string(r.Stdout.Data) != "y\n" || r.Stdout.More {
		t.Errorf("the end: %+v", r)
	}
	start("echo again")
	eventually(t, "it began anew", func() bool { return string(read(wire.ReadServiceRequest{}).Stdout.Data) == "again\n" })
	each(t, b, []call{
		{request: `{"action":"read_service","service_name":"s","stdout_cursor":-1}`, err: "stdout_cursor must not be negative"},
		{request: `{"action":"read_service","service_name":"s","max_bytes":0}`, err: "max_bytes must be from 1 to 1048576"},
		{request: `{"action":"read_service","service_name":"s","wait_ms":60001}`, err: "wait_ms must be from 0 to 60000"},
		{request: `{"action":"read_service","service_name":"none"}`, err: "service 'none' does not exist"},
		{request: `{"action":"read_service"}`, err: "service_name is required"},
	})
}
