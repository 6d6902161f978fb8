package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// At a terminal a commit shows what has changed since the diff, by number what nobody would see of
// it, and asks.
func TestCommitAsks(t *testing.T) {
	boxtest.RequireWalls(t)
	ws := t.TempDir()
	outputOf(t, paddockCommand(t, "create", "review", "--workspace-mode", "overlay", "-w", ws, "--cache", "none"))
	t.Cleanup(func() { outputOf(t, paddockCommand(t, "rm", "--force", "review")) })
	outputOf(t, paddockCommand(t, "exec", "review", "--", "sh", "-c", "echo one > made"))
	s := startTerminal(t, "diff", "review")
	s.expect(`\+one`)
	s.exit(0)
	outputOf(t, paddockCommand(t, "exec", "review", "--", "sh", "-c", `printf 'two \342\200\256\033]0;x\007\n' > made; echo x > come`))
	outputOf(t, paddockCommand(t, "stop", "review"))
	for _, tt := range []struct {
		answer, says string
		status       int
	}{
		{"n\r", `nothing was committed: made has changed since it was shown, come has appeared since the changes were shown`, 125},
		{"\x04", `nothing was committed: made has changed`, 125},
		{"y\r", `2 changes landed`, 0},
	} {
		s := startTerminal(t, "commit", "review")
		s.expect(`(?s)changed since diff showed it: made\r\nnew since then: come\r\n.*\+x\r\n.*\+two <U\+202E>\^\[\]0;x\^G\r\nLand 2 changes that diff did not show like this\? \[y/N\] $`)
		if _, err := os.Lstat(filepath.Join(ws, "made")); err == nil {
			t.Fatal("it has landed before the answer")
		}
		s.send(tt.answer)
		s.expect(tt.says)
		s.exit(tt.status)
		if strings.ContainsAny(s.text(), "\u202e\a") || strings.Contains(s.text(), "\x1b]") {
			t.Errorf("a terminal gets %q", s.text())
		}
	}
	if text, err := os.ReadFile(filepath.Join(ws, "made")); err != nil || !strings.HasPrefix(string(text), "two") {
		t.Errorf("%q, %v", text, err)
	}
}

// What is too long for a question is not agreed to.
func TestCommitAsksTooMuch(t *testing.T) {
	boxtest.RequireWalls(t)
	ws := t.TempDir()
	outputOf(t, paddockCommand(t, "create", "reviewmuch", "--workspace-mode", "overlay", "-w", ws, "--cache", "none"))
	t.Cleanup(func() { outputOf(t, paddockCommand(t, "rm", "--force", "reviewmuch")) })
	outputOf(t, paddockCommand(t, "exec", "reviewmuch", "--", "sh", "-c", "echo one > made"))
	outputOf(t, paddockCommand(t, "diff", "reviewmuch"))
	outputOf(t, paddockCommand(t, "exec", "reviewmuch", "--", "sh", "-c", "yes | head -c 2000000 > made"))
	outputOf(t, paddockCommand(t, "stop", "reviewmuch"))
	s := startTerminal(t, "commit", "reviewmuch")
	s.expect(`hint: look again: paddock diff reviewmuch`)
	s.exit(125)
}

// A person at a terminal sees nothing in a patch that is not there to be seen.
func TestDiffShowsInvisible(t *testing.T) {
	boxtest.RequireWalls(t)
	ws := t.TempDir()
	outputOf(t, paddockCommand(t, "try", "-q", "-w", ws, "--", "sh", "-c", `printf 'a \342\200\256\342\201\246 b\357\270\217\n' > made; touch "$(printf 'Make\342\200\213file')"; mkdir .vscode; touch "$(printf '.vscode/tasks\341\205\237.json')"`))
	id := layerOf(t, ws)
	s := startTerminal(t, "diff", id)
	s.expect(`\+a <U\+202E><U\+2066> b<U\+FE0F>\r\n`)
	s.exit(0)
	s = startTerminal(t, "commit", "--dry-run", id)
	s.exit(1)
	s.expect(`held back: "\.vscode/tasks\\u115f\.json"`)
	if strings.ContainsAny(s.text(), "\u115f\u200b") {
		t.Errorf("a terminal gets %q", s.text())
	}
	outputOf(t, paddockCommand(t, "commit", "--accept", `".vscode/tasks\u115f.json"`, id))
}

// Among files that commands made, one that they changed is not hidden.
func TestChangesBeforeDecoys(t *testing.T) {
	s := newChangesSite(t, "mkdir z; echo all: > z/Makefile")
	const decoys = "i=0; while [ $i -lt 46 ]; do mkdir a$i; echo x: > a$i/Makefile; i=$((i+1)); done; echo evil: >> z/Makefile"
	if l := s.run(t, decoys); len(l.Programs) != 47 || l.Programs[0] != "z/Makefile" {
		t.Errorf("%q", l.Programs)
	}
	s.host(t, "rm -r a*; echo all: > z/Makefile")
	if _, said := s.paddock(t, "run", "--", "sh", "-c", decoys); !strings.Contains(said, "made or changed z/Makefile, a0/Makefile") || !strings.Contains(said, " and 27 more") {
		t.Errorf("it says %q", said)
	}
	s.host(t, "rm -r a*; echo all: > z/Makefile")
	if _, said := s.paddock(t, "try", "--", "sh", "-c", decoys); !strings.Contains(said, "look at: z/Makefile") {
		t.Errorf("it says %q", said)
	}
}
