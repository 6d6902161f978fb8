package layer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/layer/delta"
)

// temporaries returns the temporary files in the source.
func (l *lab) temporaries() (found []string) {
	l.t.Helper()
	err := filepath.WalkDir(l.source, func(p string, d fs.DirEntry, err error) error {
		if d != nil && strings.Contains(d.Name(), ".paddock-") {
			found = append(found, p)
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return found
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// wide makes a layer with a new file, and a new tree, in each of several directories.
func wide(t *testing.T) *lab {
	l := newLab(t, map[string]string{"a/x": "a", "b/x": "b", "c/x": "c", "d/x": "d"})
	for _, dir := range []string{"a", "b", "c", "d"} {
		l.does(Modified, dir+"/x", "new of "+dir)
		l.does(Added, dir+"/file", "file of "+dir)
		l.does(Added, dir+"/tree/", "")
		l.does(Added, dir+"/tree/in/", "")
		l.does(Added, dir+"/tree/in/file", "deep in "+dir)
	}
	return l
}

// A commit that fails while files are staged, or lands, for whatever reason leaves none of them.
func TestAbortLeavesNothing(t *testing.T) {
	noSync(t)
	remount := func(l *lab) { l.must(os.RemoveAll(l.source + "/b")) }
	for name, c := range map[string]struct {
		at   string
		do   func(l *lab)
		gone []string // of the source afterwards
	}{
		"a file that changes":                  {"copy d/x", func(l *lab) { put(t, l.upper+"/d/x", "changed again") }, nil},
		"a file that goes":                     {"copy d/tree/in/file", func(l *lab) { l.must(os.Remove(l.upper + "/d/tree/in/file")) }, nil},
		"a directory that is removed":          {"copy d/x", remount, []string{"b", "b/x"}},
		"a directory that is removed, landing": {"land d/file", remount, []string{"b", "b/x"}},
		"the directory of the journal, gone":   {"sync staged", func(l *lab) { l.must(os.RemoveAll(l.journal)); l.must(os.Symlink("nowhere", l.journal)) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := wide(t)
			l.t = t
			want := show(t, l.source)
			for _, p := range c.gone {
				delete(want, p)
			}
			last := "land d/x"
			_, err := l.commit(CommitOptions{at: func(step string) {
				if step == c.at {
					c.do(l)
				}
				if step == last { // whatever happened, this one fails
					put(t, l.source+"/d/x", "mine, and longer")
					want["d/x"] = regular + "mine, and longer"
				}
			}})
			if err == nil {
				t.Fatal("the commit has landed")
			}
			same(t, "after "+err.Error(), show(t, l.source), want)
			if left := l.temporaries(); len(left) > 0 {
				t.Errorf("after %v: %q are left", err, left)
			}
		})
	}
}

// A directory that is moved while a commit is staged, lands or is killed takes nothing with it.
func TestAbortMoved(t *testing.T) {
	noSync(t)
	for _, at := range []string{"copy d/x", "sync staged", "land c/x"} {
		l := wide(t)
		_, err := l.commit(CommitOptions{at: func(step string) {
			if step == at {
				l.must(os.Rename(l.source+"/b", l.source+"/a/moved"))
				put(t, l.source+"/b/other", "another directory of its name")
				put(t, l.source+"/d/x", "mine, and longer")
			}
		}})
		if err == nil {
			t.Fatalf("moved at %q: the commit has landed", at)
		}
		want := map[string]string{
			"a": directory, "a/x": regular + "a", "a/moved": directory, "a/moved/x": regular + "b", "b": directory, "b/other": regular + "another directory of its name",
			"c": directory, "c/x": regular + "c", "d": directory, "d/x": regular + "mine, and longer",
		}
		same(t, fmt.Sprintf("moved at %q: %v", at, err), show(t, l.source), want)
		l.noTraces()
	}
	for n := 4; ; n += 3 {
		l := wide(t)
		if !l.child(n, true, "") {
			break
		}
		l.must(os.Rename(l.source+"/b", l.source+"/a/moved"))
		if _, err := Recover(t.Context(), l.journal); err != nil {
			t.Errorf("recovery after step %d: %v", n, err)
		}
		l.noTraces()
	}
}

// What one directory does not let go does not keep the files in others; when it does, the next
// recovery removes them.
func TestAbortGoesOn(t *testing.T) {
	noSync(t)
	for name, c := range map[string]struct {
		hold, free func(l *lab) bool
	}{
		"immutable": {func(l *lab) bool { return immutable(l.source+"/b", true) }, func(l *lab) bool { return immutable(l.source+"/b", false) }},
		"a mount point": {
			mountOnTemporary,
			func(l *lab) bool { return unix.Unmount(l.temporariesIn("b")[0], unix.MNT_DETACH) == nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := wide(t)
			l.t = t
			before := show(t, l.source)
			held := false
			_, err := l.commit(CommitOptions{at: func(step string) {
				if step == "copy d/x" {
					held = c.hold(l)
					put(t, l.upper+"/d/x", "changed again")
				}
			}})
			if !held {
				t.Skip("this user, or this file system, cannot do that here")
			}
			left := l.temporaries()
			var unfinished *UnfinishedError
			var changed *ChangedError
			if !errors.As(err, &unfinished) || !errors.As(err, &changed) {
				t.Errorf("the error is %v", err)
			}
			for _, p := range left {
				if !delta.In(p, l.source+"/b") {
					t.Errorf("%s is left", p)
				}
			}
			if len(left) == 0 {
				t.Error("nothing was held")
			}
			if !c.free(l) {
				t.Fatal("what was held cannot be freed")
			}
			if r, err := Recover(t.Context(), l.journal); r != Undone || err != nil {
				t.Errorf("recovery: %s, %v", r, err)
			}
			same(t, "after the recovery", show(t, l.source), before)
			l.noTraces()
		})
	}
}

func (l *lab) temporariesIn(dir string) (found []string) {
	for _, p := range l.temporaries() {
		if filepath.Dir(p) == l.source+"/"+dir {
			found = append(found, p)
		}
	}
	return found
}

// mountOnTemporary mounts something on a temporary directory.
func mountOnTemporary(l *lab) bool {
	for _, p := range l.temporariesIn("b") {
		if fi, err := os.Lstat(p); err == nil && fi.IsDir() {
			return unix.Mount("none", p, "tmpfs", 0, "") == nil
		}
	}
	return false
}

// immutable sets or clears the attribute of a directory that nothing in it changes.
func immutable(dir string, on bool) bool {
	const attribute = 0x10
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return false
	}
	if flags &^= attribute; on {
		flags |= attribute
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags) == nil
}

// A directory that its owner closes while a commit lands is opened for as long as that is taken back.
func TestAbortClosed(t *testing.T) {
	noSync(t)
	for _, at := range []string{"copy d/x", "land d/x"} {
		l := wide(t)
		before := show(t, l.source)
		_, err := l.commit(CommitOptions{at: func(step string) {
			if step == at {
				l.must(os.Chmod(l.source+"/b", 0o500))
				put(t, l.source+"/d/x", "mine, and longer")
			}
		}})
		if err == nil {
			t.Errorf("closed at %q: the commit has landed", at)
		}
		fi, serr := os.Stat(l.source + "/b")
		l.must(serr)
		if fi.Mode().Perm() != 0o500 {
			t.Errorf("closed at %q: the directory has the mode %v afterwards", at, fi.Mode())
		}
		l.must(os.Chmod(l.source+"/b", 0o755))
		before["d/x"] = regular + "mine, and longer"
		same(t, fmt.Sprintf("closed at %q: %v", at, err), show(t, l.source), before)
		l.noTraces()
	}
}

// A journal that cannot be written any more does not keep the source from being taken back.
func TestAbortJournal(t *testing.T) {
	noSync(t)
	for _, at := range []string{"write commit.landing", "land a/x", "land d/x"} {
		l := wide(t)
		before := show(t, l.source)
		away := l.journal + ".away"
		_, err := l.commit(CommitOptions{at: func(step string) {
			if step == at {
				l.must(os.Rename(l.journal, away))
			}
			if step == "land d/x" {
				put(t, l.source+"/d/x", "mine, and longer")
				before["d/x"] = regular + "mine, and longer"
			}
		}})
		if err == nil {
			t.Fatalf("at %q: the commit has landed", at)
		}
		same(t, fmt.Sprintf("at %q: %v", at, err), show(t, l.source), before)
		l.must(os.Rename(away, l.journal))
		if r, err := Recover(t.Context(), l.journal); r == Finished || err != nil {
			t.Errorf("at %q: recovery: %s, %v", at, r, err)
		}
		same(t, fmt.Sprintf("at %q, after the recovery", at), show(t, l.source), before)
		l.noTraces()
	}
}

// What others put at a temporary name is neither given away, nor dated, nor changed, nor removed.
func TestCommitSwapped(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	noSync(t)
	for _, c := range []struct{ name, content, other, at string }{
		{"link", "->target", "->elsewhere", "open link"},
		{"link", "->target", "file", "open link"},
		{"pipe", "|", "file", "open pipe"},
		{"tree/", "", "private/", "open tree"},
		{"tree/", "", "private/", "copy tree/in"},
		{"tree/", "", "->private", "open tree"},
	} {
		l := newLab(t, map[string]string{"private/file": "root's own"})
		l.must(os.Chmod(l.source+"/private", 0o711))
		l.must(os.Chown(l.source, 4711, 4712))
		l.must(os.Chown(l.upper, 4711, 4712))
		l.begin()
		l.does(Added, c.name, c.content)
		if c.name == "tree/" {
			l.does(Added, "tree/in", "in the tree")
		}
		var at string
		var before, after unix.Stat_t
		_, err := l.commit(CommitOptions{Accept: []string{strings.TrimSuffix(c.name, "/")}, at: func(step string) {
			if step != c.at {
				return
			}
			at = l.temporaries()[0]
			l.must(os.Rename(at, l.source+"/moved"))
			if c.other == "private/" {
				l.must(os.Rename(l.source+"/private", at))
			} else {
				put(t, at, c.other)
			}
			l.must(unix.Lstat(at, &before))
		}})
		if err == nil {
			t.Errorf("%s swapped for %s: it has landed", c.name, c.other)
			continue
		}
		var kept *KeptError
		if errors.As(err, &kept) { // it was found when the tree landed
			at = l.source + "/" + kept.Paths["tree"]
		}
		if c.other == "private/" {
			l.must(unix.Lstat(at, &after))
			if after.Uid != before.Uid || after.Mode != before.Mode || after.Mtim != before.Mtim {
				t.Errorf("the directory was %+v, and is %+v", before, after)
			}
			if body, err := os.ReadFile(at + "/file"); err != nil || string(body) != "root's own" {
				t.Errorf("its file has %q (%v)", body, err)
			}
			var foreign *ForeignError
			if r, err := Recover(t.Context(), l.journal); kept == nil && !errors.As(err, &foreign) {
				t.Errorf("recovery: %s, %v", r, err)
			}
			l.must(os.Rename(at, l.source+"/private"))
			if r, err := Recover(t.Context(), l.journal); err != nil {
				t.Errorf("recovery when it is moved away: %s, %v", r, err)
			}
		}
		l.noTraces()
	}
}

// A process that is killed while it stages does not have its recovery empty a directory of others.
func TestRecoverForeign(t *testing.T) {
	noSync(t)
	var l *lab
	for n := 0; l == nil || len(l.temporaries()) == 0; n++ {
		l = newLab(t, map[string]string{"private/file": "precious"})
		l.does(Added, "tree/", "")
		l.does(Added, "tree/in", "in the tree")
		if !l.child(n, true, "") {
			t.Fatal("it was not killed while it staged")
		}
	}
	at := l.temporaries()[0]
	if state, err := find(l.journal); state != staging {
		t.Fatalf("the state is %q (%v)", state, err)
	}
	l.must(os.RemoveAll(at))
	l.must(os.Rename(l.source+"/private", at))
	var foreign *ForeignError
	if r, err := Recover(t.Context(), l.journal); !errors.As(err, &foreign) {
		t.Errorf("recovery: %s, %v", r, err)
	}
	l.must(os.Rename(at, l.source+"/private"))
	if r, err := Recover(t.Context(), l.journal); r != Undone || err != nil {
		t.Errorf("recovery when it is moved away: %s, %v", r, err)
	}
	same(t, "after the recovery", show(t, l.source), map[string]string{"private": directory, "private/file": regular + "precious"})
	l.noTraces()
}

// An access control list is that of the file that is replaced.
func TestCommitOtherACL(t *testing.T) {
	l := newLab(t, map[string]string{"edit": "old"})
	l.does(Modified, "edit", "new, and longer")
	_, err := l.commit(CommitOptions{at: func(step string) {
		if step == "copy edit" {
			put(t, l.source+"/other", "of somebody else")
			l.must(os.Rename(l.source+"/other", l.source+"/edit"))
		}
		if step == "sync staged" {
			t.Error("it was staged with the list of another file")
		}
	}})
	var conflict *ConflictError
	if !errors.As(err, &conflict) {
		t.Errorf("the error is %v", err)
	}
	l.noTraces()
}

// A commit that skips conflicts begins again where it meets one late, and at last gives up.
func TestCommitSkipAgain(t *testing.T) {
	noSync(t)
	l := wide(t)
	landings := 0
	r := l.land(CommitOptions{OnConflict: Skip, at: func(step string) {
		if step == "sync staged" {
			landings++
			switch landings {
			case 1:
				put(t, l.source+"/b/file", "mine")
			case 2:
				put(t, l.source+"/c/x", "mine, and longer")
			case 3:
				put(t, l.source+"/d/tree", "mine")
			}
		}
	}})
	got := show(t, l.source)
	for p, want := range map[string]string{
		"a/x": "new of a", "a/file": "file of a", "a/tree/in/file": "deep in a", "b/x": "new of b", "b/file": "mine", "b/tree/in/file": "deep in b",
		"c/x": "mine, and longer", "c/file": "file of c", "d/x": "new of d", "d/tree": "mine",
	} {
		if got[p] != regular+want {
			t.Errorf("%s is %q, want %q", p, got[p], want)
		}
	}
	if landings != 4 || len(r.Conflicts) != 3 || r.why("b/file") == "" || r.why("c/x") == "" || r.why("d/tree") == "" {
		t.Errorf("after %d landings the conflicts are %v", landings, r.Conflicts)
	}
	for _, ch := range r.Landed {
		if r.why(ch.Path) != "" || delta.In(ch.Path, "d/tree") {
			t.Errorf("%s is said to have landed", ch.Path)
		}
	}

	l = newLab(t, nil)
	for n := range 20 {
		l.does(Added, fmt.Sprint("file", n), "new")
	}
	landings = 0
	_, err := l.commit(CommitOptions{OnConflict: Skip, at: func(step string) {
		if step == "sync staged" {
			put(t, l.source+fmt.Sprint("/file", landings), "mine")
			landings++
		}
	}})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || landings != maxLandings || len(show(t, l.source)) != maxLandings {
		t.Errorf("after %d landings: %v, and %q", landings, err, show(t, l.source))
	}
	l.noTraces()
}

// A journal of a version that left out a step that met a conflict is read.
func TestRecoverEarlierJournal(t *testing.T) {
	noSync(t)
	l := newLab(t, map[string]string{"edit": "old", "gone": "old", ".paddock-00-0": "new", ".paddock-00-2": "in the way"})
	inode := func(p string) uint64 {
		st, err := look(int(l.layer.Source.Fd()), p)
		l.must(err)
		return st.Ino
	}
	when, err := born(int(l.layer.Source.Fd()))
	l.must(err)
	type past map[string]any
	body, err := json.Marshal(past{"Source": l.source, "Ino": inode(""), "Born": when, "OnConflict": "skip", "Steps": []past{
		{"Path": []byte("edit"), "Temp": []byte(".paddock-00-0"), "Deed": "exchange", "Ino": inode(".paddock-00-0"), "Expect": l.entry(l.layer.Source, "edit").Identity, "Any": false, "Old": 0, "New": 0},
		{"Path": []byte("gone"), "Temp": []byte(".paddock-00-1"), "Deed": "remove", "Ino": 0, "Expect": l.entry(l.layer.Source, "gone").Identity, "Any": false, "Old": 0, "New": 0},
		{"Path": []byte("new"), "Temp": []byte(".paddock-00-2"), "Deed": "place", "Ino": inode(".paddock-00-2"), "Expect": Identity{}, "Any": false, "Old": 0, "New": 0},
	}})
	l.must(err)
	l.must(os.WriteFile(filepath.Join(l.journal, string(landing)), body, 0o600))
	put(t, l.source+"/new", "mine") // which it would have left out
	if r, err := Recover(t.Context(), l.journal); r != Undone || err != nil {
		t.Errorf("recovery: %s, %v", r, err)
	}
	same(t, "after the recovery", show(t, l.source), map[string]string{"edit": regular + "old", "gone": regular + "old", "new": regular + "mine"})
	l.noTraces()
}

// The error of what is kept names the first paths, in order, and where each one is.
func TestKeptErrorNames(t *testing.T) {
	kept := &KeptError{map[string]string{"a": "a.before-commit", "b/c": ""}}
	if got, want := kept.Error(), "a was changed while the commit was taken back: what was there before is in a.before-commit; the directory of b/c was removed or moved away while the commit was taken back, with what was there before"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	for n := range 100 {
		kept.Paths[fmt.Sprintf("z%02d", n)] = "x"
	}
	if got := kept.Error(); !strings.HasSuffix(got, "; and 97 more") {
		t.Errorf("it says %q", got)
	}
}
