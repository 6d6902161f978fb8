//go:build linux

package obeyed

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/policy"
)

// A look that an earlier version stored, of a sandbox that is still running, is compared.
func TestFixtures(t *testing.T) {
	text, err := os.ReadFile("testdata/679cc6da/before")
	if err != nil {
		t.Fatal(err)
	}
	ws := t.TempDir()
	host(t, ws, gitInit+"echo x > .envrc; echo x > .git/hooks/post-merge; mkdir .vscode; echo y > '.vscode/odd\n\"name'; ln -s .envrc .mcp.json; mkdir -p sub; cd sub; "+gitInit+"echo a > Makefile")
	stored := string(text)
	for at, was := range map[string]string{"/.git": "10028511", "/sub/.git": "10028724"} { // a repository is known by its number
		var st unix.Stat_t
		if err := unix.Stat(ws+at, &st); err != nil {
			t.Fatal(err)
		}
		stored = strings.Replace(stored, strconv.Quote(was), strconv.Quote(strconv.FormatUint(st.Ino, 10)), 1)
	}
	decode := func() *Snapshot {
		quoted := strconv.Quote(ws)
		s, err := Decode([]byte(strings.ReplaceAll(stored, `"/tmp/fixture-ws`, quoted[:len(quoted)-1])))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := decode(); s.Workspace() != ws || len(s.items) != 12 || len(s.watch.Homes) != 1 || !s.watch.Relative || len(s.watch.Also) != 1 || s.watch.Also[0].Tool != "git" {
		t.Errorf("%+v", s.watch)
	}
	if c := decode().CompareWith(t.Context(), map[string]*Snapshot{}); len(c.List) > 0 {
		t.Errorf("where nothing has changed: %+v", c.List)
	}
	host(t, ws, "echo y > .git/hooks/post-merge; echo b > sub/Makefile; echo new > .vscode/tasks.json; echo y > tool")
	c := decode().CompareWith(t.Context(), map[string]*Snapshot{})
	if got := found(c, ws, policy.Unasked); got != ".git/hooks/post-merge .vscode/tasks.json tool" {
		t.Errorf("unasked: %s", got)
	}
	if got := found(c, ws, policy.WhenNamed); got != "sub/Makefile" {
		t.Errorf("when named: %s", got)
	}
}
