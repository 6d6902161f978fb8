package script

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// At a terminal nothing is added before somebody has seen all of it and said yes.
func TestGitAcceptAsks(t *testing.T) {
	boxtest.RequireWalls(t)
	ws := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", ws).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := paddockCommand(t, "run", "-w", ws, "--", "git", "config", "remote.o.url", "https://example.com/o").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, tt := range []struct {
		answer, says string
		added        bool
	}{
		{"\r", "nothing was added; to add it: paddock git accept --yes -w ", false},
		{"n\r", "nothing was added", false},
		{"\x04", "nothing was added", false}, // the end of the input
		{"y\r", "added remote.o.url=https://example.com/o", true},
	} {
		s := startTerminal(t, "git", "accept", "-w", ws)
		s.expect(`remote\.o\.url=https://example\.com/o\r\nAdd this to git's configuration\? \[y/N\] $`)
		s.send(tt.answer)
		s.expect(strings.NewReplacer(".", `\.`).Replace(tt.says))
		s.exit(map[bool]int{false: 1}[tt.added])
		text, err := os.ReadFile(filepath.Join(ws, ".git", "config"))
		if err != nil || strings.Contains(string(text), "example.com") != tt.added {
			t.Errorf("%q: %s, %v", tt.answer, text, err)
		}
	}
}
