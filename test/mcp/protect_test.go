//go:build linux

package mcp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// hostGit runs git on the host, in a repository.
func hostGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "safe.directory=*"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestProtectedWorkspaces: a model that names what the host obeys, or what holds
// it, as a workspace of its own gains nothing by it, whoever it speaks through.
func TestProtectedWorkspaces(t *testing.T) {
	boxtest.RequireWalls(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not there to be misled")
	}
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			s := plain(t)
			s.profile = "full"
			hostGit(t, s.workspace, "init", "-q", ".")
			if err := os.MkdirAll(s.workspace+"/.git/hooks", 0o755); err != nil { // a git without templates makes none
				t.Fatal(err)
			}
			var c *client
			if transport == "stdio" {
				c = startStdio(t, s)
			} else {
				token := s.token(t, "agent:ann", s.workspace)
				c = startHTTP(t, s).connect(t, token)
			}
			ran := filepath.Join(publicDir(t), "ran")
			evil := "printf '#!/bin/sh\\ntouch " + ran + "\\n' > pre-commit; chmod 755 pre-commit; cp pre-commit hooks/; git config -f config core.fsmonitor ./pre-commit; printf '[core]\\nfsmonitor = touch " + ran + ";\\n' >> config"
			for _, at := range []string{".git/hooks", ".git"} {
				in := map[string]any{"session_id": "s", "workspace": filepath.Join(s.workspace, at)}
				if at == ".git/hooks" {
					if said := c.refused(t, "session_open", in); !strings.Contains(said, "protected") || !strings.Contains(said, ".git/hooks") {
						t.Errorf("%s: %s", at, said)
					}
					for tool, args := range map[string]map[string]any{
						"run":            {"argv": []string{"sh", "-c", evil}, "workspace": in["workspace"]},
						"sandbox_create": {"name": "b", "workspace": in["workspace"]},
					} {
						c.refused(t, tool, args)
					}
					// What would open it is the operator's to allow.
					in["unprotect"] = []string{".git/hooks"}
					if said := c.refused(t, "session_open", in); !strings.Contains(said, "ceiling") {
						t.Errorf("%s opened by the model: %s", at, said)
					}
					continue
				}
				c.call(t, "session_open", in)
				c.call(t, "session_run", map[string]any{"session_id": "s", "command": evil + "; true"})
				c.call(t, "session_close", map[string]any{"session_id": "s"})
				c.call(t, "run", map[string]any{"argv": []string{"sh", "-c", evil + "; true"}, "workspace": in["workspace"]})
				c.call(t, "sandbox_create", map[string]any{"name": "b", "workspace": in["workspace"]})
				c.call(t, "exec", map[string]any{"sandbox": "b", "command": evil + "; true"})
				c.call(t, "sandbox_delete", map[string]any{"sandbox": "b"})
			}
			hostGit(t, s.workspace, "status")
			hostGit(t, s.workspace, "commit", "-q", "--allow-empty", "-m", "x")
			if _, err := os.Stat(ran); err == nil {
				t.Fatal("the host has run what the model has written")
			}
			// The control: the same, where the operator has opened it.
			s.paddock(t, "run", "--workspace", s.workspace+"/.git", "--unprotect", "*", "--", "sh", "-c", evil+"; true")
			hostGit(t, s.workspace, "commit", "-q", "--allow-empty", "-m", "x")
			if _, err := os.Stat(ran); err != nil {
				t.Error("the control did not run: ", err)
			}
		})
	}
}
