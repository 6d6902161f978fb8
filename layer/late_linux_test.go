package layer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// What somebody writes in a directory after it was looked at, and before it is removed, is not lost.
func TestCommitLateInside(t *testing.T) {
	noSync(t)
	src := map[string]string{"src/a": "a", "src/deep/doc": "old", "src/deep/er/b": "b", "far": "far", "linked": "x"}
	for name, does := range map[string]func(l *lab){
		"a deletion":    func(l *lab) { l.does(Deleted, "src", "") },
		"a file for it": func(l *lab) { l.does(Retyped, "src", "now a file") },
		"another one":   func(l *lab) { l.does(Retyped, "src/", "") },
		"a renamed one": func(l *lab) {
			put(l.t, l.upper+"/dst/", "")
			l.changed(Renamed, "dst", "src")
			l.does(Deleted, "src", "")
		},
		"a deletion deep": func(l *lab) { l.does(Deleted, "src/deep", "") },
	} {
		for what, meddle := range map[string]func(l *lab){
			"an edit":       func(l *lab) { put(l.t, l.source+"/src/deep/doc", "precious") },
			"a new file":    func(l *lab) { put(l.t, l.source+"/src/deep/new", "precious") },
			"one come here": func(l *lab) { l.must(os.Rename(l.source+"/far", l.source+"/src/deep/far")) },
			"permissions":   func(l *lab) { l.must(os.Chmod(l.source+"/src/deep/er/b", 0o600)) },
			"nothing":       func(*lab) {},
		} {
			for _, at := range []string{"write commit.staging", "sync staged"} {
				for _, on := range []OnConflict{Fail, Skip, Overwrite} {
					t.Run(strings.Join([]string{name, what, at, string(on)}, "/"), func(t *testing.T) {
						t.Parallel()
						l := newLab(t, src)
						l.must(os.Link(l.source+"/linked", l.source+"/src/deep/linked")) // its other name lands, too
						l.begin()
						does(l)
						l.does(Added, "beside", "x")
						l.does(Modified, "linked", "another one")
						l.lateInside(t, on, what == "nothing", at, meddle)
					})
				}
			}
		}
	}
}

// lateInside commits, while somebody meddles with what is removed.
func (l *lab) lateInside(t *testing.T, on OnConflict, lands bool, at string, meddle func(l *lab)) {
	var met map[string]string
	r, err := l.commit(CommitOptions{OnConflict: on, at: func(step string) {
		if met == nil && strings.HasPrefix(step, at) {
			meddle(l)
			met = show(t, l.source)
		}
	}})
	l.noTraces()
	got := show(t, l.source)
	if lands {
		if err != nil || len(r.Conflicts) > 0 || got["beside"] == "" || got["src/deep/doc"] != "" {
			t.Errorf("it has not landed: %v, %v, %q", err, r.Conflicts, got)
		}
		return
	}
	var changed *ChangedError
	if errors.As(err, &changed) && at != "sync staged" { // while it was read for its new place
		same(t, "after "+err.Error(), got, met)
		return
	}
	var conflict *ConflictError
	if on != Skip && !errors.As(err, &conflict) || on == Skip && (err != nil || got["beside"] == "" || len(r.Conflicts) == 0) {
		t.Errorf("the error is %v, the conflicts %v", err, r.Conflicts)
	}
	for p, is := range met {
		if delta.In(p, "src") && got[p] != is {
			t.Errorf("%s was %q, and is %q", p, is, got[p])
		}
	}
}

// What a program that has a file open writes when that is at its temporary name is not lost, and a
// recovery looks there, too.
func TestCommitLateOpen(t *testing.T) {
	noSync(t)
	for _, p := range []string{"gone/deep/er/b", "edit"} {
		l := tour(t)
		f, err := os.OpenFile(l.source+"/"+p, os.O_WRONLY|os.O_APPEND, 0)
		l.must(err)
		_, err = l.commit(CommitOptions{at: func(step string) {
			if step == "confirm" {
				_, err := f.WriteString(" more")
				l.must(err)
			}
		}})
		l.must(f.Close())
		var conflict *ConflictError
		if got := show(t, l.source); !errors.As(err, &conflict) || !strings.HasSuffix(got[p], " more") || got["tree"] != "" {
			t.Errorf("%s: %v, and %q", p, err, got)
		}
		l.noTraces()
	}
	wrote := false
	for n := 0; !wrote; n++ {
		l := tour(t)
		if !l.child(n, true, "") {
			t.Fatal("no commit was interrupted when it had taken a directory away")
		}
		for _, at := range l.temporaries() {
			if _, err := os.Lstat(at + "/deep/er/b"); err != nil {
				continue
			}
			if state, err := find(l.journal); err != nil || state != landing {
				continue
			}
			wrote = true
			put(t, at+"/deep/er/b", "precious")
			r, err := Recover(t.Context(), l.journal)
			if got := show(t, l.source); r != Undone || err != nil || got["gone/deep/er/b"] != regular+"precious" {
				t.Errorf("recovery: %s, %v, and %q", r, err, got)
			}
			l.noTraces()
		}
	}
}
