package codex

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// started starts a sandbox of the real CLI that ends with the test.
func started(t *testing.T, req backend.Request) (backend.Sandbox, *wire.Client) {
	t.Helper()
	s, err := New().Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Stop(context.Background(), 0) })
	return s, &wire.Client{Dial: s.Dial}
}

func sh(t *testing.T, c *wire.Client, command string) wire.ExecResult {
	t.Helper()
	limit := 20.0
	res, err := c.Exec(t.Context(), wire.ExecRequest{Argv: []string{"/bin/sh", "-c", command}, TimeoutSeconds: &limit})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestStart(t *testing.T) {
	req := request(t, needCLI(t))
	ws := req.Spec.Workspace.Source
	s, c := started(t, req)
	for _, tt := range []struct {
		name, command string
		stdout        string
		fails         bool
	}{
		{"where it works", "pwd", ws + "\n", false},
		{"the workspace", "echo text > file && cat file", "text\n", false},
		{"temporary files", `f=$(mktemp) && echo text > "$f" && cat "$f"`, "text\n", false},
		{"home", `echo text > "$HOME/f" && cat "$HOME/f"`, "text\n", false},
		{"outside", "echo text > " + filepath.Dir(ws) + "/beside", "", true},
		{"/tmp", "echo text > /tmp/" + filepath.Base(ws), "", true},
		{"the kernel's settings", "true >> /proc/sys/kernel/core_pattern", "", true},
		{"the kernel's requests", "true >> /proc/sysrq-trigger", "", true},
		{"standard output by its name", "echo text > /dev/stdout", "text\n", false},
		{"files between directories", "mkdir -p d/e && echo text > d/f && mv d/f d/e/f && cat d/e/f", "text\n", false},
		{"a set-id file", "touch p && chmod 4755 p", "", true},
		{"the CLI's settings are not told", "env | grep -c CODEX", "0\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if res := sh(t, c, tt.command); res.Stdout != tt.stdout || (res.ExitCode != 0) != tt.fails {
				t.Errorf("%+v", res)
			}
		})
	}
	i := s.Isolation()
	if !i.Verified || i.Level != "wrapper" || i.Backend != policy.BackendCodex || !i.NoNewPrivs || !slices.Contains(i.Namespaces, "net") {
		t.Errorf("%+v", i)
	}
	sh(t, c, "sleep 600 >/dev/null 2>&1 & setsid sleep 600 >/dev/null 2>&1 &")
	death, err := s.Stop(t.Context(), time.Second)
	if err != nil || !death.Proved {
		t.Errorf("%+v, %v", death, err)
	}
	if left, _ := filepath.Glob(req.StateDir + "/codex/sandbox-*"); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	list, _ := os.ReadDir(ws)
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("it left %s in the workspace", e.Name())
		}
	}
}

// A workspace that is only to be read is, and HOME can still be written.
func TestStartReadOnly(t *testing.T) {
	req := request(t, needCLI(t), access("ro"))
	_, c := started(t, req)
	if res := sh(t, c, `echo x > "$HOME/f" && pwd && echo x > f`); res.ExitCode == 0 || res.Stdout != req.Spec.Workspace.Source+"\n" {
		t.Errorf("%+v", res)
	}
}

// A command whose time is up is gone with all that it started.
func TestTimeout(t *testing.T) {
	_, c := started(t, request(t, needCLI(t)))
	limit := 0.5
	res, err := c.Exec(t.Context(), wire.ExecRequest{Argv: []string{"/bin/sh", "-c", "setsid sleep 600 & sleep 600"}, TimeoutSeconds: &limit})
	if err != nil || !res.TimedOut || !res.DeathProved {
		t.Fatalf("%+v, %v", res, err)
	}
	if res := sh(t, c, `for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' < $f; echo; done | grep -c '^sleep'`); res.Stdout != "0\n" {
		t.Errorf("%+v", res)
	}
}

// Two sandboxes over one workspace do not take each other's walls away.
func TestTwice(t *testing.T) {
	req := request(t, needCLI(t))
	first, _ := started(t, req)
	_, second := started(t, req)
	if _, err := first.Stop(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if res := sh(t, second, "mkdir -p .git/hooks"); res.ExitCode == 0 {
		t.Error("the first one's end has opened .git for the second")
	}
}

// What a killed start has left goes with a later one, and what a sandbox uses
// does not.
func TestSweepHomes(t *testing.T) {
	root := t.TempDir()
	old, used := filepath.Join(root, homesDir, "sandbox-1"), filepath.Join(root, homesDir, "sandbox-2")
	record := filepath.Join(root, "sandboxes", "pd-xaaaaaaaaaaaa")
	for _, dir := range []string{old, used, record} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(record, "state.json"), []byte(`{"cleanup":[["rm","-rf","--","`+used+`"]]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := stateHome(root)
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{old: false, used: true, h.base: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
