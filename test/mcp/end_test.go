//go:build linux

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// long are calls that last until they are cancelled; MARK in them becomes the
// argument of a process of theirs. Calls before them make what they need.
var long = []struct {
	tool   string
	before [][2]string
	args   string
}{
	{tool: "exec", args: `{"command":"setsid sleep MARK & sleep MARK"}`},
	{tool: "run", args: `{"argv":["sh","-c","setsid sleep MARK & sleep MARK"]}`},
	{tool: "execute", args: `{"command":["tail -F MARK"]}`},
	{
		tool: "session_run", before: [][2]string{{"session_open", `{"session_id":"s"}`}},
		args: `{"session_id":"s","command":"sleep MARK"}`,
	},
	{tool: "service_start", args: `{"name":"slow","command":"sleep MARK","ready_file":"never","timeout":"10m"}`},
	{tool: "shell_open", args: `{"shell_id":"sh","command":"sleep MARK","wait_for":"never","timeout":"10m"}`},
	{
		tool: "output_read", before: [][2]string{{"exec", `{"command":"sleep 1000","background":true}`}},
		args: `{"output":"${exec.exec}","wait":"10m"}`,
	},
	{tool: "linux_unshare_exec", args: `{"command":["sleep","MARK"],"unshare_flags":["--uts"],"timeout":300}`},
}

// keeps are tools whose processes stay though nobody waits for them any more.
var keeps = map[string]bool{"shell_open": true}

// TestCancel cancels every long tool, which has to answer at once and leave no
// process.
func TestCancel(t *testing.T) {
	boxtest.RequireWalls(t)
	requireTime(t)
	c := startStdio(t, everything(t))
	offered := c.tools(t)
	for _, l := range long {
		if offered[l.tool] == nil {
			continue // who may not cannot
		}
		t.Run(l.tool, func(t *testing.T) {
			mark := newMark()
			last := map[string]map[string]any{}
			for _, b := range l.before {
				last[b[0]] = c.call(t, b[0], json.RawMessage(b[1]))
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			args := fill(t, strings.ReplaceAll(l.args, "MARK", mark), last)
			done := make(chan error, 1)
			go func() {
				_, err := c.session.CallTool(ctx, &sdk.CallToolParams{Name: l.tool, Arguments: json.RawMessage(args)})
				done <- err
			}()
			if strings.Contains(l.args, "MARK") {
				testkit.Eventually(t, "it is started", func() bool { return len(marked(mark)) > 0 })
			} else {
				time.Sleep(50 * time.Millisecond) // nothing tells that it waits
			}
			cancel()
			select {
			case err := <-done:
				if err == nil {
					t.Error("it was done")
				}
			case <-time.After(patience):
				t.Fatal("it is not cancelled")
			}
			if !keeps[l.tool] {
				testkit.Eventually(t, "its processes are gone", func() bool { return len(marked(mark)) == 0 })
			}
			c.call(t, "exec", map[string]any{"command": "true"}) // the server goes on
		})
	}
}

// TestCancelBeside cancels one of two calls; the other goes on to its end.
func TestCancelBeside(t *testing.T) {
	boxtest.RequireWalls(t)
	c := startStdio(t, plain(t))
	c.call(t, "exec", map[string]any{"command": "mkfifo wait"})
	gone, stays := newMark(), newMark()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = c.session.CallTool(ctx, &sdk.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "sleep " + gone}}) // cancelled below
	}()
	beside := make(chan string, 1)
	go func() {
		beside <- fmt.Sprint(c.call(t, "exec", map[string]any{"command": "read x <wait; echo $x; : " + stays})["stdout"])
	}()
	testkit.Eventually(t, "both are started", func() bool { return len(marked(gone)) > 0 && len(marked(stays)) > 0 })
	cancel()
	testkit.Eventually(t, "the cancelled one is gone", func() bool { return len(marked(gone)) == 0 })
	c.call(t, "exec", map[string]any{"command": "echo done >wait"})
	if got := <-beside; got != "done\n" {
		t.Errorf("the other call answered %q", got)
	}
}

// TestClientGone kills the client's end in the middle of work: whatever it had
// started is gone, and so is the server.
func TestClientGone(t *testing.T) {
	boxtest.RequireWalls(t)
	s := everything(t)
	cmd := s.command()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := &notes{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	mark := newMark()
	requests := []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"gone","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		toolCall(2, "exec", `{"command":"setsid sleep `+mark+` & sleep `+mark+`"}`),
		toolCall(3, "exec", `{"command":"sleep `+mark+`","background":true}`),
		toolCall(4, "service_start", `{"name":"slow","command":"sleep `+mark+`"}`),
		toolCall(5, "shell_open", `{"shell_id":"sh","command":"sleep `+mark+`"}`),
		toolCall(6, "run", `{"argv":["sleep","`+mark+`"]}`),
	}
	if _, err := fmt.Fprintln(in, strings.Join(requests, "\n")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all is started", func() bool { return len(marked(mark)) >= 6 })
	_, _ = in.Close(), out.Close() // as the kernel does for who is killed
	awaitEnd(t, cmd, log)
	if left := marked(mark); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// awaitEnd waits for a server to end by itself, and well.
func awaitEnd(t *testing.T, cmd *exec.Cmd, log *notes) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the server ended with %v: %s", err, log)
		}
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		t.Errorf("the server does not end: %s", log)
	}
}

func toolCall(id int, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args)
}

// TestSessionGone ends one client's session over HTTP in the middle of a call;
// another's goes on.
func TestSessionGone(t *testing.T) {
	boxtest.RequireWalls(t)
	h := startHTTP(t, plain(t), "--no-auth")
	gone, stays := h.connect(t, ""), h.connect(t, "")
	mark := newMark()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = gone.session.CallTool(ctx, &sdk.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "sleep " + mark}}) // it is cut off
	}()
	testkit.Eventually(t, "it is started", func() bool { return len(marked(mark)) > 0 })
	cancel()
	if err := gone.session.Close(); err != nil {
		t.Logf("the session's end: %v", err)
	}
	testkit.Eventually(t, "its process is gone", func() bool { return len(marked(mark)) == 0 })
	if got := stays.call(t, "exec", map[string]any{"command": "echo here"}); got["stdout"] != "here\n" {
		t.Errorf("the other session: %v", got)
	}
}
