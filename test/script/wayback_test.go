package script

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// TestWayBack: one sandbox over a directory for everything keeps --allow-from from what lies there. The
// commands that its message names, and those that they name, as they stand, bring it back. The control is
// --allow-from before.
func TestWayBack(t *testing.T) {
	boxtest.RequireWalls(t)
	forget := regexp.MustCompile(`paddock written forget (?:--yes )?[^\s)]+`)
	for _, tt := range []struct{ name, tools, state, reason string }{
		{"a tool lies there", "tmp/bin", "state", "/tmp/bin/npm must not be executed: "},
		{"the state lies there", "bin", "tmp/state", "cannot ask npm in the state directory "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := testkit.Private(t)
			tmp, tools := filepath.Join(base, "tmp"), filepath.Join(base, tt.tools)
			writeFiles(t, base, map[string]string{"work/package.json": "{}", "home/.keep": "", "tmp/.keep": "", tt.tools + "/npm": "#!/bin/sh\necho '{\"registry\":\"https://a.example/\"}'\n"})
			if err := os.Chmod(filepath.Join(tools, "npm"), 0o755); err != nil {
				t.Fatal(err)
			}
			// sh runs a command as somebody types it.
			sh := func(dir, line string) (out string, status int) {
				cmd := exec.Command("/bin/sh", "-c", line)
				cmd.Dir = dir
				cmd.Env = append(paddockCommand(t).Env, "HOME="+filepath.Join(base, "home"), "PADDOCK_STATE_DIR="+filepath.Join(base, tt.state),
					"PADDOCK_CACHE_DIR="+filepath.Join(base, "caches"), "PATH="+binDir+":"+tools) // and no other npm
				text, _ := cmd.CombinedOutput() // the status says it
				return string(text), cmd.ProcessState.ExitCode()
			}
			const ask = "paddock run --allow-from npm -- /bin/true"
			work := filepath.Join(base, "work")
			if out, status := sh(work, ask); status != 0 {
				t.Fatalf("before: %d: %s", status, out)
			}
			if out, status := sh(tmp, "paddock run --cache none --workspace "+tmp+" -- /bin/pwd"); status != 0 {
				t.Fatalf("%d: %s", status, out)
			}
			refused, status := sh(work, ask)
			if status != 125 || !strings.Contains(refused, tt.reason) {
				t.Fatalf("%d: %s", status, refused)
			}
			first := forget.FindString(refused)
			shown, status := sh(work, first)
			if first != "paddock written forget "+tmp || status != 1 {
				t.Fatalf("%q of %s: %d: %s", first, refused, status, shown)
			}
			if out, status := sh(work, ask); status != 125 {
				t.Errorf("it is trusted although nobody agreed: %d: %s", status, out)
			}
			second := forget.FindString(shown)
			if out, status := sh(work, second); second != "paddock written forget --yes "+tmp || status != 0 {
				t.Fatalf("%q of %s: %d: %s", second, shown, status, out)
			}
			if out, status := sh(work, ask); status != 0 {
				t.Errorf("after: %d: %s", status, out)
			}
		})
	}
}
