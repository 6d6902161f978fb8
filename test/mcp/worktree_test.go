//go:build linux

package mcp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// TestLinkedWorktree: a server in a linked worktree has its git work, and a model can
// mount the repository nowhere else.
func TestLinkedWorktree(t *testing.T) {
	boxtest.RequireWalls(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not there to work with")
	}
	s := plain(t)
	s.profile = "full"
	repo := filepath.Join(t.TempDir(), "main")
	host := exec.Command("sh", "-ec", `git init -q "$0"; cd "$0"; git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m first; git worktree add -q "$1"`, repo, s.workspace)
	if out, err := host.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := s.command()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, answers := &notes{}, &notes{}
	cmd.Stdout, cmd.Stderr = answers, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	requests := []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"model","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		toolCall(2, "exec", `{"command":"git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m inside; touch done"}`),
		toolCall(3, "run", fmt.Sprintf(`{"argv":["true"],"rw":[%q]}`, filepath.Join(repo, ".git")+":/repo")),
	}
	if _, err := fmt.Fprintln(in, strings.Join(requests, "\n")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a commit is made", func() bool {
		_, err := os.Stat(filepath.Join(s.workspace, "done"))
		return err == nil && strings.Contains(answers.String(), `"id":3`)
	})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	awaitEnd(t, cmd, log)
	if said := answers.String(); !strings.Contains(said, "the ceiling") {
		t.Errorf("the mount is not refused: %s", said)
	}
	out, err := exec.Command("git", "-C", s.workspace, "log", "--format=%s").Output()
	if err != nil || string(out) != "inside\nfirst\n" {
		t.Errorf("%s, %v", out, err)
	}
}
