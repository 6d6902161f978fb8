//go:build linux

package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// startWithSpec starts a server with all tools, under a spec of the operator's.
func startWithSpec(t *testing.T, spec string) *client {
	t.Helper()
	s := plain(t)
	s.profile = "full"
	file := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	s.flags = []string{"--spec", file}
	return startStdio(t, s)
}

// TestOperatorsRedaction: the rules of the operator's spec hold for what models run,
// who may repeat them, and may put none in their place.
func TestOperatorsRedaction(t *testing.T) {
	boxtest.RequireWalls(t)
	c := startWithSpec(t, `redaction: [{type: email}, {name: ticket, pattern: "JIRA-[0-9]+", strategy: hash}]`)
	const prints = "echo ann@example.org JIRA-12"
	const want = "[REDACTED_EMAIL] <ticket_hash:07a0256c>"
	for tool, args := range map[string]map[string]any{
		"exec":    {"command": prints},
		"run":     {"argv": []string{"sh", "-c", prints}},
		"execute": {"command": prints},
	} {
		for _, again := range []bool{false, true} {
			if again && tool != "run" {
				continue
			}
			if again {
				args["redact"] = []string{"email"}
			}
			if out, _ := c.call(t, tool, args)["stdout"].(string); strings.TrimSpace(out) != want {
				t.Errorf("%s %v: %q", tool, args, out)
			}
		}
	}
	for name, more := range map[string][]string{"": nil, "same": {"email"}, "more": {"ip"}} {
		args := map[string]any{"session_id": "s" + name}
		if more != nil {
			args["redact"] = more
		}
		c.call(t, "session_open", args)
		if out, _ := c.call(t, "session_run", map[string]any{"session_id": "s" + name, "command": prints})["output"].(string); out != want {
			t.Errorf("session %q: %q", name, out)
		}
	}
	c.call(t, "sandbox_create", map[string]any{"name": "second"})
	for tool, args := range map[string]map[string]any{
		"run":            {"argv": []string{"true"}, "redact": []string{"email=mask"}},
		"sandbox_create": {"name": "third", "redact": []string{"email=hash"}},
	} {
		if said := c.refused(t, tool, args); !strings.Contains(said, "another rule of this name") {
			t.Errorf("%s: %s", tool, said)
		}
	}
}

// TestOperatorsTimeout: nothing that a model runs for itself outlives the operator's
// limit, whatever time it asks for; the answer says so. What it asks for sleeps far
// longer than the test may take.
func TestOperatorsTimeout(t *testing.T) {
	boxtest.RequireWalls(t)
	c := startWithSpec(t, "limits: {timeout: 1s}")
	const operators = "1s, limits.timeout, which the operator has set"
	mark := newMark()
	long := "sleep 1000; : " + mark
	c.call(t, "session_open", map[string]any{"session_id": "s", "command_timeout": "20m"})
	c.call(t, "session_open", map[string]any{"session_id": "own", "command_timeout": "20m", "network": "none"})
	for _, tt := range []struct {
		tool string
		args map[string]any
	}{
		{"exec", map[string]any{"command": long}},
		{"exec", map[string]any{"command": long, "timeout": "20m"}},
		{"exec", map[string]any{"command": long, "timeout": "20m", "yield_after": "10m"}},
		{"run", map[string]any{"argv": []string{"sh", "-c", long}}},
		{"execute", map[string]any{"command": "tail -f /dev/null"}},
		{"execute", map[string]any{"command": "tail -f /dev/null", "timeout": 200}},
		{"session_run", map[string]any{"session_id": "s", "command": long}},
		{"session_run", map[string]any{"session_id": "s", "command": long, "timeout": "20m"}},
		{"session_run", map[string]any{"session_id": "own", "command": long, "timeout": "20m"}},
	} {
		r := c.try(t, tt.tool, tt.args)
		out := schemaMap(t, r.StructuredContent)
		limit, _ := out["time_limit"].(string)
		if out["timed_out"] != true || !strings.HasPrefix(limit, operators) || !strings.Contains(textOf(r), operators) || strings.Contains(fmt.Sprint(textOf(r), out), "more time") {
			t.Errorf("%s %v: %v, %q", tt.tool, tt.args, out, textOf(r))
		}
	}
	// In the background, and on a terminal.
	begun := c.call(t, "exec", map[string]any{"command": long, "background": true, "timeout": "20m"})
	testkit.Eventually(t, "the command in the background is over its time", func() bool {
		return strings.Contains(textOf(c.try(t, "output_read", map[string]any{"output": begun["exec"], "wait": "1s"})), "timed out")
	})
	c.call(t, "shell_open", map[string]any{"shell_id": "main", "command": long})
	testkit.Eventually(t, "the shell has stopped", func() bool {
		out := c.call(t, "shell_read", map[string]any{"shell_id": "main"})
		ended, _ := out["ended_by"].(string)
		return out["state"] == "stopped" && strings.HasPrefix(ended, operators)
	})
	c.call(t, "shell_close", map[string]any{"shell_id": "main"})
	testkit.Eventually(t, "nothing is left", func() bool { return len(marked(mark)) == 0 })
	// The control: what is shorter is left alone, and so are services, which are
	// made to stay.
	if out := c.call(t, "exec", map[string]any{"command": "sleep 0.1; exit 3", "timeout": "20m"}); out["exit_code"] != 3.0 || out["time_limit"] != nil {
		t.Errorf("%v", out)
	}
	c.call(t, "service_start", map[string]any{"name": "web", "command": "exec sleep 1000"})
	if out := c.call(t, "exec", map[string]any{"command": "sleep 1000"}); out["timed_out"] != true {
		t.Errorf("%v", out)
	}
	if out := c.call(t, "service_status", map[string]any{"name": "web"}); out["state"] != "running" {
		t.Errorf("a service was ended: %v", out)
	}
}

// TestOwnTimeout: without a limit of the operator's a call's own time holds, and is told.
func TestOwnTimeout(t *testing.T) {
	boxtest.RequireWalls(t)
	c := startWithSpec(t, "hostname: box")
	c.call(t, "session_open", map[string]any{"session_id": "s"})
	for tool, args := range map[string]map[string]any{
		"exec":        {"command": "sleep 1000", "timeout": "1s"},
		"run":         {"argv": []string{"sleep", "1000"}, "timeout": "1s"},
		"session_run": {"session_id": "s", "command": "sleep 1000", "timeout": "1s"},
	} {
		if out := schemaMap(t, c.try(t, tool, args).StructuredContent); out["timed_out"] != true || out["time_limit"] != "1s, timeout of this call" {
			t.Errorf("%s: %v", tool, out)
		}
	}
}
