package obeyed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

func TestLinkedWorktree(t *testing.T) {
	// root gives a repository with a linked worktree, without git.
	root := func(t *testing.T) (main, wt string) {
		dir := hostpath.Real(t.TempDir())
		main, wt = filepath.Join(dir, "main", ".git"), filepath.Join(dir, "wt")
		for at, text := range map[string]string{
			main + "/worktrees/wt/gitdir": wt + "/.git\n", main + "/worktrees/wt/commondir": "../..\n",
			wt + "/.git": "gitdir: " + main + "/worktrees/wt\n",
		} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		return main, wt
	}
	write := func(t *testing.T, at, text string) {
		if err := errors.Join(os.Remove(at), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		change  func(t *testing.T, main, wt string)
		written string // below which commands could write: "main", "wt" or both
		kept    string // but for this in it
		shown   bool
		says    string // "" where it is found
	}{
		"as git makes it":          {},
		"written by its own":       {written: "wt", kept: ".git"},
		"written by one without":   {written: "wt", says: "commands of a sandbox could have written that"},
		"shown":                    {shown: true, says: "nothing"},
		"written by the other":     {written: "main"},
		"written by both":          {written: "main wt", kept: ".git"},
		"no way back":              {change: func(t *testing.T, main, _ string) { write(t, main+"/worktrees/wt/gitdir", "/elsewhere/.git\n") }, says: "does not lead back"},
		"a FIFO as the way back":   {change: func(t *testing.T, main, _ string) { fifoAt(t, main+"/worktrees/wt/gitdir") }, says: "does not lead back"},
		"another one's repository": {change: func(t *testing.T, main, _ string) { write(t, main+"/worktrees/wt/commondir", "../../../other\n") }, says: "not visible inside"},
		"no worktree":              {change: func(t *testing.T, main, wt string) { write(t, wt+"/.git", "gitdir: "+main+"\n") }, says: "not visible inside"},
		"nothing there":            {change: func(t *testing.T, _, wt string) { write(t, wt+"/.git", "gitdir: /nonexistent\n") }, says: "nothing"},
		"another form":             {change: func(t *testing.T, _, wt string) { write(t, wt+"/.git", "x\n") }, says: "nothing"},
		"a FIFO":                   {change: func(t *testing.T, _, wt string) { fifoAt(t, wt+"/.git") }, says: "nothing"},
		"a link": {change: func(t *testing.T, main, wt string) {
			link := filepath.Dir(wt) + "/link"
			if err := os.Symlink(filepath.Dir(main), link); err != nil {
				t.Fatal(err)
			}
			write(t, wt+"/.git", "gitdir: "+link+"/.git/worktrees/wt\n")
		}, written: ".", says: "is a symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			main, wt := root(t)
			if tt.change != nil {
				tt.change(t, main, wt)
			}
			var entries strings.Builder
			for _, dir := range strings.Fields(tt.written) {
				way, err := hostpath.Follow(filepath.Join(filepath.Dir(wt), dir))
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&entries, "%d %d %d %q", way.Dev, way.Ino, way.Born, way.Path)
				if tt.kept != "" {
					fmt.Fprintf(&entries, " %q", tt.kept)
				}
				entries.WriteByte('\n')
			}
			var shown []string
			if tt.shown {
				shown = append(shown, filepath.Dir(main))
			}
			tree, err := LinkedWorktree(t.Context(), seenWith(t, entries.String()), wt, shown)
			switch e := (*policy.FieldError)(nil); {
			case tt.says == "" && (err != nil || tree == nil || tree.Common != main || tree.Target != main),
				tt.says == "nothing" && (err != nil || tree != nil):
				t.Errorf("%+v, %v", tree, err)
			case tt.says != "" && tt.says != "nothing" && (!errors.As(err, &e) || !strings.Contains(e.Reason, tt.says) || !strings.Contains(e.Hint, "`workspace.unprotected` .git")):
				t.Errorf("%+v, %v", tree, err)
			}
		})
	}
	t.Run("another user's", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can give files away")
		}
		main, wt := root(t)
		if err := os.Chown(main, 65532, 65532); err != nil {
			t.Fatal(err)
		}
		if tree, err := LinkedWorktree(t.Context(), seenWith(t, ""), wt, nil); err == nil || !strings.Contains(err.Error(), "belongs to uid 65532") {
			t.Errorf("%+v, %v", tree, err)
		}
	})
}

// seenWith begins a start whose list of what commands could write has these lines.
func seenWith(t *testing.T, entries string) *hostpath.Seen {
	t.Helper()
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, "written"), []byte("paddock-written 1\n"+entries), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := hostpath.ReadWritten(state)
	if err != nil {
		t.Fatal(err)
	}
	return hostpath.NewSeen(list)
}

func fifoAt(t *testing.T, at string) {
	t.Helper()
	if err := errors.Join(os.Remove(at), unix.Mkfifo(at, 0o600)); err != nil {
		t.Fatal(err)
	}
}
