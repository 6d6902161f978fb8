//go:build linux

package mcp

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// TestTwoPrincipals lets two work at once, with the same names for what they make.
func TestTwoPrincipals(t *testing.T) {
	boxtest.RequireWalls(t)
	s := plain(t)
	s.profile = "full"
	dirs := []string{publicDir(t), publicDir(t)}
	tokens := []string{s.token(t, "agent:ann", dirs[0]), s.token(t, "agent:ben", dirs[1])}
	h := startHTTP(t, s)
	var both []*client
	for i, token := range tokens {
		c := h.connect(t, token)
		both = append(both, c)
		c.call(t, "exec", map[string]any{"command": fmt.Sprintf("echo of-%d >mine; echo of-%d", i, i)})
		c.call(t, "sandbox_create", map[string]any{"name": "box"})
		c.call(t, "shell_open", map[string]any{"shell_id": "main", "sandbox": "box"})
	}
	var wg sync.WaitGroup
	for i, c := range both {
		wg.Go(func() {
			for range 20 {
				got := c.call(t, "exec", map[string]any{"command": "cat mine"})
				if want := fmt.Sprintf("of-%d\n", i); got["stdout"] != want {
					t.Errorf("principal %d reads %q", i, got["stdout"])
				}
			}
		})
	}
	wg.Wait()
	ann, ben := both[0], both[1]
	printed := ann.call(t, "exec", map[string]any{"command": "echo private"})
	for tool, args := range map[string]map[string]any{
		"output_read":    {"output": printed["exec"]},
		"exec_kill":      {"exec": printed["exec"]},
		"sandbox_status": {"sandbox": "ann-only"},
		"exec":           {"sandbox": "ann-only", "command": "true"},
	} {
		if tool == "sandbox_status" {
			ann.call(t, "sandbox_create", map[string]any{"name": "ann-only"})
		}
		if said := ben.refused(t, tool, args); strings.Contains(said, "private\n") || !strings.Contains(said, "cannot") {
			t.Errorf("%s of another's: %s", tool, said)
		}
		if tool == "sandbox_status" {
			ann.call(t, "sandbox_delete", map[string]any{"sandbox": "ann-only"})
		}
	}
	ann.call(t, "sandbox_delete", map[string]any{"sandbox": "box"})
	if got := ben.call(t, "shell_read", map[string]any{"shell_id": "main", "sandbox": "box", "cursor": 0}); got["shell_id"] != "main" {
		t.Errorf("the other's shell: %v", got)
	}
	for _, path := range dirs {
		if strings.Contains(fmt.Sprint(ben.call(t, "sandbox_list", nil)), dirs[0]) {
			t.Errorf("ben is told of %s", path)
		}
	}
	if r, err := http.Post(h.url, "application/json", strings.NewReader("{}")); err != nil || r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %v, %v", r, err)
	} else {
		_ = r.Body.Close()
	}
}

// TestManyCalls makes 1,000 calls from 16 sessions at once.
func TestManyCalls(t *testing.T) {
	boxtest.RequireWalls(t)
	requireTime(t)
	const sessions, calls = 16, 1000
	s := plain(t)
	h := startHTTP(t, s, "--no-auth")
	numbers := make(chan int, calls)
	for i := range calls {
		numbers <- i
	}
	close(numbers)
	var wg sync.WaitGroup
	for range sessions {
		c := h.connect(t, "")
		wg.Go(func() {
			for i := range numbers {
				want := fmt.Sprintf("call %d\n", i)
				if got := c.call(t, "exec", map[string]any{"command": fmt.Sprintf("echo call %d", i)}); got["stdout"] != want {
					t.Errorf("call %d: %v", i, got)
				}
			}
		})
	}
	wg.Wait()
	if kib := status(t, h.pid, "VmRSS"); kib > 200<<10 {
		t.Errorf("the server has %d KiB of memory after %d calls", kib, calls)
	}
}
