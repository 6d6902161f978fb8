package layer

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lab is a source with a layer over it. Its upper directory is written by hand.
type lab struct {
	t                      *testing.T
	source, upper, journal string
	layer                  *Layer
	changes                []Change
}

// newLab makes a source with files, whose paths end with "/" for directories, before the layer
// begins.
func newLab(t *testing.T, files map[string]string) *lab {
	t.Helper()
	top := t.TempDir()
	l := &lab{t: t, source: filepath.Join(top, "source"), upper: filepath.Join(top, "upper"), journal: filepath.Join(top, "journal")}
	for _, dir := range []string{l.source, l.upper, l.journal} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for p, content := range files {
		put(t, l.source+"/"+p, content)
	}
	l.begin()
	return l
}

// begin lets the layer begin now.
func (l *lab) begin() {
	l.t.Helper()
	time.Sleep(3 * tick) // what was made before is older
	began, err := Now()
	if err != nil {
		l.t.Fatal(err)
	}
	source, upper := openDir(l.t, l.source), openDir(l.t, l.upper)
	l.layer = &Layer{Source: source, Upper: upper, Marks: UserMarks, Began: began}
}

func openDir(t *testing.T, dir string) *os.File {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), dir)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// put writes a file. Its content may begin with "->", for a link, or be "|", for a pipe.
func put(t *testing.T, p, content string) {
	t.Helper()
	var err error
	switch target, link := strings.CutPrefix(content, "->"); {
	case strings.HasSuffix(p, "/"):
		err = os.MkdirAll(p, 0o755)
	default:
		if err = os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			break
		}
		switch {
		case link:
			err = os.Symlink(target, p)
		case content == "|":
			err = unix.Mkfifo(p, 0o644)
		default:
			err = os.WriteFile(p, []byte(content), 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// does records a change, of which the upper directory gets the content.
func (l *lab) does(kind Kind, p, content string) {
	l.t.Helper()
	if kind != Deleted {
		put(l.t, l.upper+"/"+p, content)
	}
	l.changed(kind, strings.TrimSuffix(p, "/"), "")
}

// changed records a change as it is in the upper directory.
func (l *lab) changed(kind Kind, p, from string) {
	l.t.Helper()
	ch := Change{Path: p, Kind: kind, From: from}
	if kind != Added {
		ch.Old = l.entry(l.layer.Source, ch.OldPath())
	}
	if kind != Deleted {
		ch.New = l.entry(l.layer.Upper, p)
	}
	l.changes = append(l.changes, ch)
	slices.SortStableFunc(l.changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
}

func (l *lab) entry(side *os.File, p string) Entry {
	l.t.Helper()
	e, ok, err := tree{root: side}.entry(p)
	if err != nil || !ok {
		l.t.Fatalf("there is no %s: %v", p, err)
	}
	return e
}

func (l *lab) commit(opt CommitOptions) (Result, error) {
	l.t.Helper()
	opt.Journal = l.journal
	return l.layer.Commit(l.t.Context(), l.changes, opt)
}

// land commits, and fails the test if that fails.
func (l *lab) land(opt CommitOptions) Result {
	l.t.Helper()
	r, err := l.commit(opt)
	if err != nil {
		l.t.Fatal(err)
	}
	l.noTraces()
	return r
}

// noTraces fails the test if a journal or a temporary file is left.
func (l *lab) noTraces() {
	l.t.Helper()
	for p := range maps.Keys(show(l.t, l.journal)) {
		l.t.Errorf("the journal is left: %s", p)
	}
	for p := range show(l.t, l.source) {
		if strings.Contains(p, ".paddock-") {
			l.t.Errorf("a temporary file is left: %s", p)
		}
	}
}

// show describes everything below a directory, by path.
func show(t *testing.T, top string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == top {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		text := fi.Mode().String()
		switch {
		case fi.Mode().IsRegular() && fi.Size() < 1<<20:
			body, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += " " + string(body)
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			text += " " + to
		}
		rel, err := filepath.Rel(top, p)
		found[rel] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// tour makes a layer with changes of each kind.
func tour(t *testing.T) *lab {
	l := newLab(t, map[string]string{
		"edit": "old", "keep": "kept", "gone/a": "gone 1", "gone/deep/er/b": "gone 2", "file": "a file", "dir/x": "x", "link": "->edit", "mode/in": "in", "gone file": "3",
	})
	l.does(Modified, "edit", "new, and longer")
	l.does(Added, "a new\nname\xff", "bytes")
	l.does(Added, "tree/", "")
	l.does(Added, "tree/one", "1")
	l.does(Added, "tree/sub/", "")
	l.does(Added, "tree/sub/two", "2")
	l.does(Added, "tree/sub/link", "->two")
	l.does(Deleted, "gone", "")
	l.does(Deleted, "gone file", "")
	l.does(Retyped, "file/", "")
	l.does(Added, "file/inside", "now a directory")
	l.does(Retyped, "dir", "now a file")
	l.does(Modified, "link", "->keep")
	if err := os.Mkdir(filepath.Join(l.upper, "mode"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.changed(Modified, "mode", "")
	return l
}

const regular, directory, link = "-rw-r--r-- ", "drwxr-xr-x", "Lrwxrwxrwx "

var toured = map[string]string{
	"edit": regular + "new, and longer", "keep": regular + "kept", "a new\nname\xff": regular + "bytes",
	"tree": directory, "tree/one": regular + "1", "tree/sub": directory, "tree/sub/two": regular + "2", "tree/sub/link": link + "two",
	"file": directory, "file/inside": regular + "now a directory", "dir": regular + "now a file", "link": link + "keep", "mode": "drwx------", "mode/in": regular + "in",
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for _, p := range slices.Sorted(maps.Keys(got)) {
		if got[p] != want[p] {
			t.Errorf("%s: %q is %q, want %q", what, p, got[p], want[p])
		}
	}
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if _, there := got[p]; !there {
			t.Errorf("%s: there is no %q", what, p)
		}
	}
}

func TestCommit(t *testing.T) {
	l := tour(t)
	when := time.Date(2020, 2, 3, 4, 5, 6, 7000, time.UTC)
	for _, p := range []string{"edit", "tree/sub/two", "tree/sub", "tree"} {
		if err := os.Chtimes(filepath.Join(l.upper, p), when, when); err != nil {
			t.Fatal(err)
		}
	}
	for i := range l.changes { // as it is found when the sandbox has stopped
		if ch := &l.changes[i]; ch.Kind != Deleted {
			ch.New = l.entry(l.layer.Upper, ch.Path)
		}
	}
	before := show(t, l.source)
	r := l.land(CommitOptions{DryRun: true})
	same(t, "after a dry run", show(t, l.source), before)
	if len(r.Landed) != len(l.changes) {
		t.Errorf("a dry run lands %d changes, want %d", len(r.Landed), len(l.changes))
	}
	var files, all int
	r = l.land(CommitOptions{Progress: func(p Progress) { files, all = p.Files, p.AllFiles }})
	same(t, "after the commit", show(t, l.source), toured)
	if len(r.Landed) != len(l.changes) || len(r.Held)+len(r.Conflicts) > 0 {
		t.Errorf("landed %d of %d changes, held %v, conflicts %v", len(r.Landed), len(l.changes), r.Held, r.Conflicts)
	}
	if files == 0 || files != all {
		t.Errorf("progress ends at %d of %d files", files, all)
	}
	for _, p := range []string{"edit", "tree/sub/two", "tree/sub", "tree"} {
		if fi, err := os.Stat(filepath.Join(l.source, p)); err != nil || !fi.ModTime().Equal(when) {
			t.Errorf("the time of %s is %v (%v), want %v", p, fi.ModTime(), err, when)
		}
	}
}

// Part of a layer lands with the directories that it needs, and the rest can follow.
func TestCommitParts(t *testing.T) {
	l := tour(t)
	r := l.land(CommitOptions{Paths: []string{"tree/sub/two", "edit"}})
	got := show(t, l.source)
	for p, want := range map[string]string{"edit": toured["edit"], "tree": directory, "tree/sub": directory, "tree/sub/two": regular + "2", "tree/one": "", "dir": directory} {
		if got[p] != want {
			t.Errorf("%s is %q, want %q", p, got[p], want)
		}
	}
	known := r.Records
	rest := slices.DeleteFunc(slices.Clone(l.changes), func(ch Change) bool {
		return slices.Contains([]string{"edit", "tree", "tree/sub", "tree/sub/two"}, ch.Path)
	})
	l.changes = rest
	l.land(CommitOptions{Known: known})
	same(t, "after the rest", show(t, l.source), toured)
	unlock, err := lock(l.journal)
	if err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	if _, err := Recover(t.Context(), l.journal); !errors.As(err, &busy) {
		t.Errorf("recovery while a commit is at work: %v", err)
	}
	unlock()
	var missing *PathError
	if _, err := l.commit(CommitOptions{Paths: []string{"no/such"}}); !errors.As(err, &missing) {
		t.Errorf("committing what has not changed: %v", err)
	}
}

// What an overlay of root's calls a renamed directory lands whole, also where directories have
// changed places.
func TestCommitRenamed(t *testing.T) {
	l := newLab(t, map[string]string{"a/one": "1", "a/sub/two": "2", "a/gone": "3", "b/in": "of b"})
	for _, dir := range []string{"a", "b", "b/sub"} {
		if err := os.MkdirAll(filepath.Join(l.upper, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l.changed(Deleted, "a", "")
	l.changed(Renamed, "a", "b")
	l.changed(Deleted, "b", "")
	l.changed(Renamed, "b", "a")
	put(t, l.upper+"/b/sub/two", "changed")
	put(t, l.upper+"/b/sub/new", "4")
	l.changed(Modified, "b/sub/two", "a/sub/two")
	l.changed(Added, "b/sub/new", "")
	l.changes = append(l.changes, Change{Path: "b/gone", Kind: Deleted, From: "a/gone", Old: l.entry(l.layer.Source, "a/gone")})
	slices.SortStableFunc(l.changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	l.land(CommitOptions{})
	same(t, "after the commit", show(t, l.source), map[string]string{
		"a": directory, "a/in": regular + "of b",
		"b": directory, "b/one": regular + "1", "b/sub": directory, "b/sub/two": regular + "changed", "b/sub/new": regular + "4",
	})
}

// Nothing lands but what a file of the host's user has.
func TestCommitDrops(t *testing.T) {
	l := newLab(t, map[string]string{"there": "x"})
	l.does(Added, "set", "id")
	at := filepath.Join(l.upper, "set")
	if err := os.Chmod(at, 0o755|fs.ModeSetuid|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"user.overlay.opaque": "y", "user.made": "inside"} {
		if err := unix.Setxattr(at, name, []byte(value), 0); errors.Is(err, unix.ENOTSUP) {
			t.Skip("the file system has no attributes of users here")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		if err := unix.Setxattr(at, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
			t.Fatal(err)
		}
	}
	l.changes = nil
	l.changed(Added, "set", "")
	if r := l.land(CommitOptions{}); len(r.Landed) != 0 || len(r.Held) != 1 {
		t.Fatalf("landed %v, held %v", r.Landed, r.Held)
	}
	l.land(CommitOptions{Accept: []string{"set"}})
	fi, err := os.Stat(filepath.Join(l.source, "set"))
	if err != nil || fi.Mode() != 0o755 {
		t.Errorf("it has the mode %v (%v), want 0755", fi.Mode(), err)
	}
	list := make([]byte, 4096)
	n, err := unix.Listxattr(filepath.Join(l.source, "set"), list)
	if got := strings.Trim(string(list[:max(n, 0)]), "\x00"); err != nil || got != "" {
		t.Errorf("it has the attributes %q (%v), want none", got, err)
	}
}

// What lands has the permissions that the host's user gives, whatever commands gave it.
func TestCommitModes(t *testing.T) {
	const sticky = fs.ModeSticky
	for _, c := range []struct {
		name             string
		umask            int
		was, made, lands fs.FileMode // was 0: it is new
	}{
		{"new file", 0o022, 0, 0o666, 0o644},
		{"new program", 0o022, 0, 0o777, 0o755},
		{"new, and the user's alone", 0o077, 0, 0o755, 0o700},
		{"new, closed by commands", 0o022, 0, 0o600, 0o600},
		{"new directory/", 0o027, 0, fs.ModeDir | 0o777, fs.ModeDir | 0o750},
		{"new, like tmp/", 0o022, 0, fs.ModeDir | sticky | 0o777, fs.ModeDir | sticky | 0o755},
		{"opened", 0o022, 0o600, 0o666, 0o600},
		{"a group's, made anew", 0o022, 0o664, 0o644, 0o664},
		{"closed", 0o022, 0o664, 0o600, 0o620},
		{"read-only", 0o022, 0o644, 0o444, 0o444},
		{"a program now", 0o027, 0o644, 0o777, 0o754},
		{"no program now", 0o022, 0o755, 0o644, 0o644},
		{"opened directory/", 0o022, fs.ModeDir | 0o700, fs.ModeDir | 0o777, fs.ModeDir | 0o711},
		{"a common directory/", 0o022, fs.ModeDir | sticky | 0o777, fs.ModeDir | 0o755, fs.ModeDir | sticky | 0o777},
	} {
		t.Run(strings.TrimSuffix(c.name, "/"), func(t *testing.T) {
			l := newLab(t, nil)
			kind, p := Added, strings.TrimSuffix(c.name, "/")
			mode := func(side string, mode fs.FileMode) {
				put(t, side+"/"+c.name, "of "+side)
				if err := os.Chmod(side+"/"+p, mode&^fs.ModeDir); err != nil {
					t.Fatal(err)
				}
			}
			if c.was != 0 {
				kind = Modified
				mode(l.source, c.was)
				l.begin()
			}
			mode(l.upper, c.made)
			l.changed(kind, p, "")
			old := unix.Umask(c.umask)
			r, err := l.commit(CommitOptions{})
			unix.Umask(old)
			if err != nil {
				t.Fatal(err)
			}
			if fi, err := os.Stat(l.source + "/" + p); err != nil || fi.Mode() != c.lands {
				t.Errorf("it has the mode %v (%v), want %v", fi.Mode(), err, c.lands)
			}
			if err := l.layer.Settle(r.Landed, t.TempDir()); err != nil {
				t.Fatal(err)
			}
			if rest, err := l.layer.Changes(t.Context()); err != nil || len(rest) > 0 {
				t.Errorf("the layer still differs from its source: %v (%v)", rest, err)
			}
		})
	}
}

// Attributes of users are the source's, and not those of commands.
func TestCommitAttributes(t *testing.T) {
	l := newLab(t, map[string]string{"edit": "old", "dir/in": "old"})
	set := func(p, name, value string) {
		t.Helper()
		if err := unix.Setxattr(p, name, []byte(value), 0); errors.Is(err, unix.ENOTSUP) {
			t.Skip("the file system has no attributes of users here")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"edit", "dir"} {
		set(l.source+"/"+p, "user.own", "source's")
	}
	l.begin()
	l.does(Modified, "edit", "new, and longer")
	set(l.upper+"/edit", "user.own", "a command's")
	set(l.upper+"/edit", "user.more", "a command's")
	put(t, l.upper+"/moved/", "")
	set(l.upper+"/moved", "user.own", "a command's")
	l.changes = nil
	l.changed(Modified, "edit", "")
	l.changed(Deleted, "dir", "")
	l.changed(Renamed, "moved", "dir")
	l.land(CommitOptions{})
	for _, p := range []string{"edit", "moved"} {
		list, value := make([]byte, 4096), make([]byte, 4096)
		n, err := unix.Listxattr(l.source+"/"+p, list)
		if got := strings.Trim(string(list[:max(n, 0)]), "\x00"); err != nil || got != "user.own" {
			t.Errorf("%s has the attributes %q (%v), want user.own alone", p, got, err)
		}
		n, err = unix.Getxattr(l.source+"/"+p, "user.own", value)
		if got := string(value[:max(n, 0)]); err != nil || got != "source's" {
			t.Errorf("%s has the attribute %q (%v), want the source's", p, got, err)
		}
	}
}

// What lands belongs to the owner of the directory, or of what it replaces.
func TestCommitOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	l := newLab(t, map[string]string{"mine/edit": "old"})
	for _, p := range []string{"mine", "mine/edit"} {
		if err := os.Chown(filepath.Join(l.source, p), 4711, 4712); err != nil {
			t.Fatal(err)
		}
	}
	l.begin()
	l.does(Modified, "mine/edit", "new")
	l.does(Added, "mine/tree/", "")
	l.does(Added, "mine/tree/link", "->x")
	l.land(CommitOptions{})
	for _, p := range []string{"mine/edit", "mine/tree", "mine/tree/link"} {
		fi, err := os.Lstat(filepath.Join(l.source, p))
		if err != nil {
			t.Fatal(err)
		}
		if st := fi.Sys().(*syscall.Stat_t); st.Uid != 4711 || st.Gid != 4712 {
			t.Errorf("%s belongs to %d:%d", p, st.Uid, st.Gid)
		}
	}
}

// A file of a tebibyte with little in it lands with its holes, and a tree of thousands of levels
// lands and is removed.
func TestCommitLarge(t *testing.T) {
	l := newLab(t, nil)
	l.does(Added, "sparse", "begin")
	f, err := os.OpenFile(filepath.Join(l.upper, "sparse"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 40
	if _, err = f.WriteAt([]byte("end"), size-3); err != nil {
		t.Skipf("the file system has no files of that size here: %v", err)
	}
	_ = f.Close()
	const levels = 600
	deep := strings.Repeat("/dir", levels)[1:]
	if err := os.MkdirAll(filepath.Join(l.upper, deep), 0o755); err != nil {
		t.Fatal(err)
	}
	l.changes = nil
	l.changed(Added, "sparse", "")
	for n := range levels {
		l.changed(Added, deep[:4*n+3], "")
	}
	l.land(CommitOptions{})
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(l.source, "sparse"), &st); err != nil || st.Size != size || st.Blocks > 1024 {
		t.Errorf("it has %d bytes in %d blocks (%v)", st.Size, st.Blocks, err)
	}
	l.begin()
	l.changes = nil
	l.changed(Deleted, "dir", "")
	l.land(CommitOptions{})
	if _, err := os.Lstat(filepath.Join(l.source, "dir")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the deep tree is not removed: %v", err)
	}
}
