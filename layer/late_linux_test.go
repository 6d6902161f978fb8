package layer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/layer/delta"
)

// What comes to be in conflict when everything is staged is left out, if that is asked for.
func TestCommitLateSkip(t *testing.T) {
	l := tour(t)
	r := l.land(CommitOptions{OnConflict: Skip, at: func(step string) {
		if step == "sync staged" {
			put(t, l.source+"/tree", "mine")
		}
	}})
	want := map[string]string{}
	for p, text := range toured {
		if !delta.In(p, "tree") {
			want[p] = text
		}
	}
	want["tree"] = regular + "mine"
	same(t, "after the commit", show(t, l.source), want)
	if r.why("tree") == "" {
		t.Errorf("the conflicts are %v", r.Conflicts)
	}
	for _, ch := range r.Landed {
		if delta.In(ch.Path, "tree") {
			t.Errorf("%s has landed", ch.Path)
		}
	}
}

// Where somebody changes what has landed before it is taken back, both contents are kept.
func TestCommitKept(t *testing.T) {
	l := tour(t)
	_, err := l.commit(CommitOptions{at: func(step string) {
		switch step {
		case "sync staged":
			put(t, l.source+"/tree", "mine")
		case "land tree": // the others have landed
			put(t, l.source+"/mine", "my edit")
			if err := os.Rename(l.source+"/mine", l.source+"/edit"); err != nil {
				t.Error(err)
			}
		}
	}})
	var kept *KeptError
	var conflict *ConflictError
	if !errors.As(err, &kept) || !errors.As(err, &conflict) || len(kept.Paths) != 1 {
		t.Fatalf("the error is %v", err)
	}
	got := show(t, l.source)
	if left := l.temporaries(); len(left) > 0 || kept.Paths["edit"] != "edit.before-commit" {
		t.Errorf("what was there before is in %q, and %q are left", kept.Paths["edit"], left)
	}
	if got["edit"] != regular+"my edit" || got[kept.Paths["edit"]] != regular+"old" || got["gone/deep/er/b"] != regular+"gone 2" {
		t.Errorf("the source is %q", got)
	}
	if left := show(t, l.journal); len(left) > 0 {
		t.Errorf("the journal is left: %q", left)
	}
}

// A journal of another commit is neither overwritten nor followed into another directory.
func TestUnfinished(t *testing.T) {
	l := tour(t)
	before := show(t, l.source)
	if !l.child(20, true, "") {
		t.Fatal("the commit was not interrupted")
	}
	var unfinished *UnfinishedError
	if _, err := l.commit(CommitOptions{}); !errors.As(err, &unfinished) {
		t.Errorf("a commit over an unfinished one: %v", err)
	}
	moved := filepath.Join(filepath.Dir(l.source), "moved")
	if err := os.Rename(l.source, moved); err != nil {
		t.Fatal(err)
	}
	if r, err := Recover(t.Context(), l.journal); err == nil {
		t.Errorf("recovery without the source: %s", r)
	}
	put(t, l.source+"/edit", "another one of its name")
	if r, err := Recover(t.Context(), l.journal); err == nil {
		t.Errorf("recovery in another directory: %s", r)
	}
	if got := show(t, l.source); len(got) != 1 {
		t.Errorf("another directory was changed: %q", got)
	}
	if err := os.RemoveAll(l.source); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(moved, l.source); err != nil {
		t.Fatal(err)
	}
	r, err := Recover(t.Context(), l.journal)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[Recovered]map[string]string{Undone: before, Finished: toured}[r]; want != nil {
		same(t, string(r), show(t, l.source), want)
	}
	l.noTraces()
	if err := os.WriteFile(filepath.Join(l.journal, string(landing)), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Recover(t.Context(), l.journal); err == nil {
		t.Errorf("recovery by a damaged journal: %s", r)
	}
}

// A directory that nobody may enter any more gets its permissions after what is in it has landed.
func TestCommitCloses(t *testing.T) {
	l := newLab(t, map[string]string{"a/x": "old", "a/gone": "x", "b": "x"})
	l.does(Modified, "a/x", "new")
	l.does(Deleted, "a/gone", "")
	if err := os.Chmod(l.upper+"/a", 0o755); err != nil {
		t.Fatal(err)
	}
	l.changed(Modified, "a", "")
	for i := range l.changes {
		if ch := &l.changes[i]; ch.Path == "a" {
			ch.New.Mode = ch.New.Mode.Type()
		}
	}
	if _, err := l.commit(CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(l.source + "/a")
	if err != nil || fi.Mode().Perm() != 0 {
		t.Errorf("the directory has the mode %v (%v)", fi.Mode(), err)
	}
	if err := os.Chmod(l.source+"/a", 0o755); err != nil {
		t.Fatal(err)
	}
	same(t, "after the commit", show(t, l.source), map[string]string{"a": directory, "a/x": regular + "new", "b": regular + "x"})
}

// Trees that their owner cannot enter land and are removed.
func TestCommitClosed(t *testing.T) {
	l := newLab(t, map[string]string{"gone/in/x": "x"})
	l.does(Deleted, "gone", "")
	l.does(Added, "new/", "")
	l.does(Added, "new/in/", "")
	l.does(Added, "new/in/x", "x")
	for i := range l.changes {
		if ch := &l.changes[i]; ch.New.Mode.IsDir() { // as it was found in a namespace that may enter
			ch.New.Mode = ch.New.Mode.Type()
		}
	}
	if _, err := l.commit(CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(l.source+"/new", &st); err != nil || st.Mode&0o7777 != 0 {
		t.Errorf("the new directory has the mode %o (%v)", st.Mode, err)
	}
	if err := removeTree(int(openDir(t, l.source).Fd()), "new", nil); err != nil {
		t.Error(err)
	}
	if got := show(t, l.source); len(got) > 0 {
		t.Errorf("the source is %q", got)
	}
}
