package obeyed

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// treeOf makes a workspace with files of each kind that is compared, and gives it
// with the names in it, as the search for repositories reads them.
func treeOf(t *testing.T) (ws string, known *Names) {
	t.Helper()
	ws = t.TempDir()
	for _, dir := range []string{".git/objects", ".git/refs", ".git/hooks", ".git/modules/lib/refs", ".git/modules/lib/objects", "a/b/.git/objects", "a/b/.git/refs",
		"bare.git/objects", "bare.git/refs", "node_modules/x", "plain/.vscode", "outside/in"} {
		if err := os.MkdirAll(filepath.Join(ws, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{".git/HEAD", ".git/config", ".git/hooks/pre-commit", ".git/modules/lib/HEAD", ".git/modules/lib/config", "a/b/.git/HEAD",
		"a/b/.git/config", "a/b/Makefile", "bare.git/HEAD", "bare.git/config", "node_modules/x/package.json", "plain/.vscode/tasks.json", "plain/.envrc", "Makefile", "outside/.envrc"} {
		if err := os.WriteFile(filepath.Join(ws, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../plain/.envrc", ws+"/a/.envrc"); err != nil {
		t.Fatal(err)
	}
	return ws, ReadNames(t.Context(), []string{ws})
}

// What the search for repositories has read serves the first look, which then finds
// what a look of its own finds.
func TestTakeByNames(t *testing.T) {
	ws, known := treeOf(t)
	watch := Watch{Workspace: ws, Roots: []string{ws}}
	by, own := Begin(t.Context(), watch, known)(), Take(t.Context(), watch)
	if !slices.Equal(slices.Sorted(maps.Keys(by.items)), slices.Sorted(maps.Keys(own.items))) || len(own.items) < 10 {
		t.Fatalf("by names %d paths, else %d", len(by.items), len(own.items))
	}
	for at, i := range own.items {
		if o := by.items[at]; o.kind != i.kind || o.sum != i.sum || o.id != i.id || o.perm != i.perm || o.top != i.top || o.by != i.by {
			t.Errorf("%s: %+v, want %+v", at, o, i)
		}
	}
	if by.trees[ws] != known.tops[ws] {
		t.Error("the names were read once more")
	}
	if found := by.Compare(t.Context()); len(found.List)+len(found.Unseen) > 0 {
		t.Errorf("nothing was changed, and found was %+v", found)
	}
}

// What becomes of the tree after its names were read is not followed where it is a
// link, and is reported where it is new.
func TestTakeByNamesChanged(t *testing.T) {
	ws, known := treeOf(t)
	at := func(rel string) string { return filepath.Join(ws, rel) }
	err := errors.Join(os.Rename(at("plain"), at("moved")), os.Symlink("outside", at("plain")), os.Remove(at("Makefile")), os.Mkdir(at("new"), 0o755),
		os.WriteFile(at("new/.envrc"), nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	before := Begin(t.Context(), Watch{Workspace: ws, Roots: []string{ws}}, known)()
	if _, there := before.items[at("plain/.envrc")]; there {
		t.Error("a link was followed")
	}
	var made []string
	for _, c := range before.Compare(t.Context()).List {
		made = append(made, c.Path)
	}
	for _, want := range []string{at("new/.envrc"), at("moved/.envrc")} {
		if !slices.Contains(made, want) {
			t.Errorf("%s is not reported: %q", want, made)
		}
	}
}

// A directory that has taken the root's place is looked at anew.
func TestTakeByNamesOfAnother(t *testing.T) {
	ws, known := treeOf(t)
	if err := errors.Join(os.Rename(ws, ws+".moved"), os.Mkdir(ws, 0o755), os.WriteFile(ws+"/.envrc", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	s := Begin(t.Context(), Watch{Workspace: ws, Roots: []string{ws}}, known)()
	if i := s.items[ws+"/.envrc"]; len(s.items) != 1 || i.by == nil || i.by.Class != policy.Unasked {
		t.Errorf("%+v", s.items)
	}
}

// What was not read completely is not found, nor what is below another directory.
func TestNames(t *testing.T) {
	ws, known := treeOf(t)
	open := func(dir string) int {
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return int(f.Fd())
	}
	if known.Below(t.Context(), ws, open(t.TempDir())) != nil || known.Below(t.Context(), ws+"/a", open(ws+"/a")) != nil || (*Names)(nil).Below(t.Context(), ws, open(ws)) != nil {
		t.Error("the names of another directory are found")
	}
	find := known.Below(t.Context(), ws, open(ws))
	if d, ok := find("a"); !ok || !slices.Equal(d.Dirs, []string{"b"}) || len(d.Links) != 1 || d.Links[0].Name != ".envrc" || !d.lacks(".git") || d.lacks("b") || d.lacks("x") {
		t.Errorf("a has %+v, %v", d, ok)
	}
	if d, ok := find("a/b"); !ok || d.lacks(".git") || !d.lacks("HEAD") {
		t.Errorf("a/b has %+v, %v", d, ok)
	}
	if _, ok := find("bare.git/objects/x"); ok {
		t.Error("a directory that does not exist is found")
	}
	if _, ok := find(".git/objects"); ok {
		t.Error("a directory that was not read is found")
	}
	known.tops[ws].kid(-1, "a").whole = false
	if _, ok := find("a"); ok {
		t.Error("a directory is found that was read in part")
	}
	for _, name := range []string{".GIT", "Head", "REFS", ".g\u200cit", "ref\u017f"} {
		var m marks
		if m.note([]byte(name)); m.lacks("HEAD") {
			t.Errorf("beside %q there is no HEAD", name)
		}
	}
}

// Sockets below what is read may be anywhere there: those directories are named.
func TestNamesPassed(t *testing.T) {
	ws := t.TempDir()
	deep := ws + strings.Repeat("/d", maxDepth+3)
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	_, passed, all := ReadNames(t.Context(), []string{ws}).Sockets(t.Context())
	if want := []string{ws + strings.Repeat("/d", maxDepth+1)}; !slices.Equal(passed, want) || !all {
		t.Errorf("passed %q, %v, want %q", passed, all, want)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, all := ReadNames(ended, []string{ws}).Sockets(t.Context()); all {
		t.Error("all of it is said to be read, and nothing was")
	}
}
