package script

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// Whatever lies in the place of a file of the state, a start ends: it works on, or
// names the file.
func TestStartsOverAnyState(t *testing.T) {
	boxtest.RequireWalls(t)
	const box = "pd-plantedaaaaaa"
	kinds := map[string]func(at, outside string) error{
		"a FIFO":                func(at, _ string) error { return unix.Mkfifo(at, 0o600) },
		"a link to a FIFO":      func(at, outside string) error { return os.Symlink(filepath.Join(outside, "fifo"), at) },
		"a link to a file":      func(at, outside string) error { return os.Symlink(filepath.Join(outside, "file"), at) },
		"a link to a directory": func(at, outside string) error { return os.Symlink(filepath.Join(outside, "dir"), at) },
		"a directory":           func(at, _ string) error { return os.MkdirAll(filepath.Join(at, "below"), 0o700) },
		"a large file": func(at, _ string) error {
			return errors.Join(os.WriteFile(at, nil, 0o600), os.Truncate(at, 10<<30))
		},
	}
	for _, file := range []string{
		"written", "written.new", "written.lock", "privileges.json", "privileges.json.lock", "audit", "audit/lock", "audit/audit-00000001.jsonl", "audit/begun",
		"audit/begun/1-1-1-1-x", "ids", "ids/200000", "ids/2000000000", "unreported", "unreported/" + box, "unreported/" + box + ".new", "sandboxes", "sandboxes/" + box,
		"sandboxes/" + box + "/lock", "sandboxes/" + box + "/state.json", "sandboxes/" + box + "/state.json.new", "sandboxes/" + box + "/spec.json", "sandboxes/" + box + "/tried",
		"sandboxes/" + box + "/agent.sock", "codex",
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			for kind, put := range kinds {
				s, outside := newChangesSite(t, "true"), t.TempDir()
				s.run(t, "true")
				at := filepath.Join(s.state, file)
				err := errors.Join(os.MkdirAll(filepath.Join(outside, "dir", box), 0o700), os.WriteFile(filepath.Join(outside, "file"), []byte("kept"), 0o600), unix.Mkfifo(filepath.Join(outside, "fifo"), 0o600),
					os.RemoveAll(at), os.MkdirAll(filepath.Dir(at), 0o700), put(at, outside))
				old := time.Now().Add(-time.Hour)
				if err := errors.Join(err, os.Chtimes(filepath.Dir(at), old, old)); err != nil {
					t.Fatal(err)
				}
				for _, args := range [][]string{{"run", "--", "true"}, {"doctor", "--backend", "linux"}} {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					cmd := exec.CommandContext(ctx, filepath.Join(binDir, "paddock"), args...)
					cmd.Dir, cmd.Env = s.ws, append(os.Environ(), "PADDOCK_STATE_DIR="+s.state)
					var text bytes.Buffer
					cmd.Stdout, cmd.Stderr = &text, &text
					err := cmd.Run()
					if ctx.Err() != nil || err != nil && !strings.Contains(text.String(), filepath.Base(file)) {
						t.Errorf("%s, %q: %v: %s", kind, args, err, &text)
					}
					cancel()
				}
				if text, err := os.ReadFile(filepath.Join(outside, "file")); err != nil || string(text) != "kept" {
					t.Errorf("%s: what it leads to is %q, %v", kind, text, err)
				}
				if _, err := os.Stat(filepath.Join(outside, "dir", box)); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			}
		})
	}
}
