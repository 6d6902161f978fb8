//go:build linux

package mcp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// project is a project whose server an installation has set up.
type project struct {
	setup
	home string
}

func newProject(t *testing.T) project {
	t.Helper()
	p := project{plain(t), t.TempDir()}
	p.text = true
	return p
}

// paddock runs another command of the program in the project, which must succeed.
func (p project) paddock(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), args...)
	cmd.Dir, cmd.Env = p.workspace, append(p.env(), "HOME="+p.home, "CODEX_HOME=", "CLAUDE_CONFIG_DIR=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("paddock %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// start starts the server as a client does.
func (p project) start(t *testing.T) *client {
	t.Helper()
	cmd := p.program("--project", p.workspace)
	cmd.Dir = p.workspace
	c := &client{log: &notes{}}
	cmd.Stderr = c.log
	session, err := newClient(clientOptions).Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		t.Fatalf("cannot connect: %v\n%s", err, c.log)
	}
	c.session, c.pid = session, cmd.Process.Pid
	return c
}

func (c *client) end(t *testing.T) {
	t.Helper()
	if err := c.session.Close(); err != nil {
		t.Errorf("the server did not end as it should: %v\n%s", err, c.log)
	}
}

// held checks that a call is refused because of a path, with what clears that.
func (c *client) held(t *testing.T, path string) {
	t.Helper()
	said := c.refused(t, "exec", map[string]any{"command": "echo it works"})
	for _, want := range []string{"your user has looked at", path, "hint: remove it, or keep it with paddock mcp install --client NAME; then start the client again"} {
		if !strings.Contains(said, want) {
			t.Errorf("the model is told %q, without %q", said, want)
		}
	}
}

// TestHeld: once commands have made what clients obey when they start, nothing more is
// done, by the next server neither, until the user has looked.
func TestHeld(t *testing.T) {
	boxtest.RequireWalls(t)
	for name, tt := range map[string]struct {
		tool string
		args map[string]any
		path string
		late bool   // it is not seen before the server ends
		dir  string // what the project has before
	}{
		"a command":         {tool: "exec", args: map[string]any{"command": "echo '{}' >.mcp.json"}, path: ".mcp.json"},
		"a tool for files":  {tool: "file_write", args: map[string]any{"path": ".cursor/mcp.json", "content": "{}"}, path: ".cursor"},
		"a directory":       {tool: "exec", args: map[string]any{"command": "mkdir .codex"}, path: ".codex"},
		"a link":            {tool: "exec", args: map[string]any{"command": "ln -s /nowhere .gemini"}, path: ".gemini"},
		"a directory below": {tool: "exec", args: map[string]any{"command": "mkdir -p sub/.claude"}, path: "sub/.claude", late: true},
		"in what was there": {tool: "exec", args: map[string]any{"command": "echo x >sub/.codex/config.toml"}, path: "sub/.codex/config.toml", late: true, dir: "sub/.codex"},
		"in the background": {tool: "exec", args: map[string]any{"command": "echo '{}' >.mcp.json; sleep 600", "background": true}, path: ".mcp.json"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			if err := os.MkdirAll(filepath.Join(p.workspace, tt.dir), 0o755); err != nil {
				t.Fatal(err)
			}
			c := p.start(t)
			if got := c.try(t, tt.tool, tt.args); got.IsError {
				t.Fatal(textOf(got))
			}
			made := filepath.Join(p.workspace, tt.path)
			testkit.Eventually(t, "it is made", func() bool { _, err := os.Lstat(made); return err == nil })
			if !tt.late {
				c.held(t, tt.path)
				c.held(t, tt.path)
				if said := c.refused(t, "file_read", map[string]any{"path": "x"}); !strings.Contains(said, tt.path) {
					t.Errorf("another tool says %s", said)
				}
			}
			c.end(t)
			c = p.start(t)
			c.held(t, tt.path)
			_ = c.session.Close() // its status says that it could not start
			if err := os.Rename(made, made+"-away"); err != nil {
				t.Fatal(err)
			}
			c = p.start(t)
			if got := c.try(t, "exec", map[string]any{"command": "echo it works"}); got.IsError {
				t.Errorf("it is gone: %s", textOf(got))
			}
			c.end(t)
		})
	}
}

// TestHeldIsKept: who installs again keeps what commands have made, which commands
// cannot change any more.
func TestHeldIsKept(t *testing.T) {
	boxtest.RequireWalls(t)
	p := newProject(t)
	said := p.paddock(t, "mcp", "install", "--client", "claude-code", "--command", filepath.Join(binDir, "paddock"))
	for _, want := range []string{"DELETE any file", "such as .mcp.json", "until you have looked at it", "made .claude, empty"} {
		if !strings.Contains(said, want) {
			t.Errorf("it says %q, without %q", said, want)
		}
	}
	c := p.start(t)
	if got := textOf(c.try(t, "exec", map[string]any{"command": "echo '{}' >.claude/settings.json"})); !strings.Contains(got, "Read-only file system") {
		t.Errorf("the settings: %s", got)
	}
	if got := c.try(t, "exec", map[string]any{"command": "echo '{}' >.mcp.json"}); got.IsError {
		t.Error(textOf(got))
	}
	c.held(t, ".mcp.json")
	c.end(t)
	if said := p.paddock(t, "mcp", "install", "--client", "claude-code", "--command", filepath.Join(binDir, "paddock")); !strings.Contains(said, "kept .mcp.json, which commands have made") || strings.Contains(said, "made .claude") {
		t.Errorf("it says %s", said)
	}
	c = p.start(t)
	if got := textOf(c.try(t, "exec", map[string]any{"command": "echo x >.mcp.json"})); !strings.Contains(got, "Read-only file system") {
		t.Errorf("what is kept: %s", got)
	}
	if got := c.try(t, "exec", map[string]any{"command": "true"}); got.IsError {
		t.Error(textOf(got))
	}
	c.end(t)
	p.paddock(t, "mcp", "uninstall", "--client", "claude-code")
	if _, err := os.Lstat(filepath.Join(p.workspace, ".claude")); err == nil {
		t.Error("the empty directory is left")
	}
}

// TestNotHeld: what was there before, what the client writes into what was there, and a
// server that no installation has set up.
func TestNotHeld(t *testing.T) {
	boxtest.RequireWalls(t)
	p := newProject(t)
	made := filepath.Join(p.workspace, ".claude")
	c := p.start(t)
	if err := os.Mkdir(made, 0o755); err != nil { // before the first call
		t.Fatal(err)
	}
	for _, name := range []string{"settings.json", "settings.local.json"} {
		if got := c.try(t, "exec", map[string]any{"command": "true"}); got.IsError {
			t.Error(textOf(got))
		}
		if err := os.WriteFile(filepath.Join(made, name), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c.end(t)
	c = p.start(t)
	if got := c.try(t, "exec", map[string]any{"command": "true"}); got.IsError {
		t.Error(textOf(got))
	}
	c.end(t)
	other := startStdio(t, p.setup)
	for range 2 {
		if got := other.try(t, "exec", map[string]any{"command": "echo '{}' >.mcp.json"}); got.IsError {
			t.Error(textOf(got))
		}
	}
}

// TestHeldAfterAKill: a server that was killed says nothing; the next one does, once a
// sandbox has compared.
func TestHeldAfterAKill(t *testing.T) {
	boxtest.RequireWalls(t)
	p := newProject(t)
	c := p.start(t)
	if got := c.try(t, "exec", map[string]any{"command": "mkdir -p sub/.claude"}); got.IsError {
		t.Fatal(textOf(got))
	}
	killed, err := os.FindProcess(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.session.Close() // it was killed
	testkit.Eventually(t, "the server is held", func() bool {
		next := p.start(t)
		defer func() { _ = next.session.Close() }() // its status may say that it could not start
		_ = next.try(t, "exec", map[string]any{"command": "true"})
		return strings.Contains(textOf(next.try(t, "exec", map[string]any{"command": "true"})), "sub/.claude")
	})
}

// TestHeldWhole: where commands have made more than a record names, or what it cannot
// name, all of the project is to be looked at.
func TestHeldWhole(t *testing.T) {
	boxtest.RequireWalls(t)
	for name, command := range map[string]string{
		"many":           "for i in $(seq 1100); do mkdir a$i; echo '{}' >a$i/.mcp.json; done",
		"hidden by many": "for i in $(seq 1100); do mkdir a$i; echo x >a$i/.envrc; done; mkdir zz; echo '{}' >zz/.mcp.json",
		"long names":     "d=$(printf %0200d 0); for i in $(seq 40); do mkdir -p $d/$d$i; echo '{}' >$d/$d$i/.mcp.json; done",
		"not UTF-8":      `d=$(printf '\377'); mkdir "$d"; echo '{}' >"$d/.mcp.json"`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			c := p.start(t)
			if got := c.try(t, "exec", map[string]any{"command": command}); got.IsError {
				t.Fatal(textOf(got))
			}
			c.end(t)
			for range 2 {
				c = p.start(t)
				if said := c.refused(t, "exec", map[string]any{"command": "true"}); !strings.Contains(said, "your user has looked at all of it") || !strings.Contains(said, "paddock mcp install --client NAME") {
					t.Errorf("the model is told %s", said)
				}
				_ = c.session.Close() // its status says that it could not start
			}
		})
	}
}

// TestHeldRecord: a record that cannot be read is no reason to go on.
func TestHeldRecord(t *testing.T) {
	p := newProject(t)
	record := filepath.Join(p.state, "planted.json")
	if err := os.WriteFile(record, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := p.start(t)
	if said := c.refused(t, "exec", map[string]any{"command": "true"}); !strings.Contains(said, record) || !strings.Contains(said, "hint: look at the file, and remove it") {
		t.Errorf("the model is told %s", said)
	}
	_ = c.session.Close() // its status says that it could not start
}
