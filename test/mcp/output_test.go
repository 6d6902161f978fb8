//go:build linux

package mcp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// TestMuchOutput prints 100 MiB: the answer has its head and tail, the rest can
// be read as far as it is kept, and the server stays small.
func TestMuchOutput(t *testing.T) {
	boxtest.RequireWalls(t)
	requireTime(t)
	c := startStdio(t, plain(t))
	c.call(t, "exec", map[string]any{"command": "true"})
	before := status(t, c.pid, "VmRSS")
	const bytes = 100 << 20
	got := c.call(t, "exec", map[string]any{"command": fmt.Sprintf("echo the first line; yes 0123456789abcde | head -c %d; echo the last line", bytes), "timeout": "5m"})
	out := fmt.Sprint(got["stdout"])
	if !strings.HasPrefix(out, "the first line\n") || !strings.HasSuffix(out, "the last line\n") {
		t.Errorf("the answer has neither head nor tail: %q … %q", clip(out[:min(100, len(out))]), clip(out[max(0, len(out)-100):]))
	}
	if n, _ := got["stdout_bytes"].(float64); n < bytes {
		t.Errorf("%v bytes were counted", got["stdout_bytes"])
	}
	read := c.call(t, "output_read", map[string]any{"output": got["exec"], "tail": 3})
	if text := fmt.Sprint(read["text"]); !strings.HasSuffix(text, "0123456789abcde\nthe last line\n") {
		t.Errorf("the last lines are %q", text)
	}
	read = c.call(t, "output_read", map[string]any{"output": got["exec"], "limit": 64})
	if text := fmt.Sprint(read["text"]); !strings.HasPrefix(text, "the first line\n0123456789abcde\n") {
		t.Errorf("the first lines are %q", text)
	}
	if grown := status(t, c.pid, "VmHWM") - before; grown > 64<<10 {
		t.Errorf("the server has grown by %d KiB", grown)
	}
}
