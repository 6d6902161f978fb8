//go:build linux

package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// A server that a user starts reads the project's file that this user trusts, once, before a
// model has said anything. Models cannot change it, trust it, or get more than it says.
func TestProjectFile(t *testing.T) {
	boxtest.RequireWalls(t)
	s := plain(t)
	s.profile = "full"
	file := filepath.Join(s.workspace, ".paddock.yaml")
	if err := os.WriteFile(file, []byte("hostname: pen\nenv: {COLOUR: blue}\nlimits: {processes: 500}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const looks = `echo "$(hostname) $COLOUR"`
	sees := func(c *client, want string) {
		t.Helper()
		for _, tool := range []string{"exec", "run"} {
			args := map[string]any{"command": looks}
			if tool == "run" {
				args = map[string]any{"argv": []string{"sh", "-c", looks}}
			}
			if out, _ := c.call(t, tool, args)["stdout"].(string); strings.TrimSpace(out) != want {
				t.Errorf("%s sees %q, want %q", tool, out, want)
			}
		}
	}
	c := startStdio(t, s)
	sees(c, "paddock")
	if log := c.log.String(); strings.Count(log, "paddock: .paddock.yaml is not used: you have not trusted it; to look at it and decide: paddock trust ") != 1 {
		t.Errorf("it says %q", log)
	}
	for name := range c.tools(t) {
		if name == "trust" || name == "init" {
			t.Errorf("models are offered %s", name)
		}
	}

	s.paddock(t, "trust", "--yes", s.workspace)
	sees(c, "paddock") // it was read at the start
	c = startStdio(t, s)
	sees(c, "pen blue")
	if log := c.log.String(); strings.Contains(log, ".paddock.yaml") {
		t.Errorf("it says %q", log)
	}
	c.refused(t, "run", map[string]any{"argv": []string{"true"}, "network": "host"})
	c.refused(t, "run", map[string]any{"argv": []string{"true"}, "processes": 501})
	c.refused(t, "file_write", map[string]any{"path": ".paddock.yaml", "content": "network: host\n"})

	h := startHTTP(t, s, "--no-auth")
	sees(h.connect(t, ""), "paddock")
	s.flags = []string{"--no-project-file"}
	sees(startStdio(t, s), "paddock")

	s.flags = []string{"--unprotect", ".paddock.yaml"}
	c = startStdio(t, s)
	c.call(t, "exec", map[string]any{"command": "printf 'network: host\n' >.paddock.yaml"})
	c = startStdio(t, s)
	sees(c, "paddock")
	if log := c.log.String(); !strings.Contains(log, "it has changed since you trusted it") {
		t.Errorf("it says %q", log)
	}

	// An invalid file that is trusted by an earlier version, or here for a wall that cannot keep
	// it, keeps the server from starting.
	if err := os.WriteFile(file, []byte("network: none\nlimits: {tmp: 1GiB}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.paddock(t, "trust", "--yes", s.workspace)
	cmd := s.program("--workspace", s.workspace, "--backend", "codex")
	cmd.Stdin = strings.NewReader("")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), ".paddock.yaml:2: cannot use limits.tmp") {
		t.Errorf("%v: %s", err, out)
	}
}
