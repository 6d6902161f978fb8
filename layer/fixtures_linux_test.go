package layer

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fixture is a version whose journals are kept, each with the source as its commit had left it when
// it was killed.
const fixture = "testdata/679cc6da"

// Journals that an earlier version wrote are finished or taken back.
func TestRecoverFixtures(t *testing.T) {
	noSync(t)
	for _, c := range []struct {
		state state
		want  Recovered
	}{{staging, Undone}, {landing, Finished}, {undoing, Undone}, {landed, Finished}} {
		t.Run(string(c.state), func(t *testing.T) {
			l := tour(t)
			want := toured
			if c.want == Undone {
				want = maps.Clone(show(t, l.source))
				want["gone/a"], want["gone/deep/er/b"] = regular+"1", regular+"2" // as they were there
			}
			if c.state == undoing { // since somebody made this
				want["tree"] = regular + "mine"
			}
			if err := os.RemoveAll(l.source); err != nil {
				t.Fatal(err)
			}
			l.restore(filepath.Join(fixture, string(c.state)), string(c.state))
			if r, err := Recover(t.Context(), l.journal); r != c.want || err != nil {
				t.Errorf("recovery: %s, %v", r, err)
			}
			same(t, "after the recovery", show(t, l.source), want)
			l.noTraces()
		})
	}
}

// restore makes the source of a fixture, and its journal with the numbers that the files have here.
func (l *lab) restore(name, state string) {
	l.t.Helper()
	must := func(err error) {
		l.t.Helper()
		if err != nil {
			l.t.Fatal(err)
		}
	}
	var files []struct {
		Path    []byte
		Mode    uint32
		Content string
		Mtime   int64
		Ino     uint64
	}
	text, err := os.ReadFile(name + ".source")
	must(err)
	must(json.Unmarshal(text, &files))
	now := map[string]unix.Stat_t{} // by the number that a file had
	for _, f := range files {
		at := filepath.Join(l.source, string(f.Path))
		switch f.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			must(os.Mkdir(at, 0o755))
		case unix.S_IFLNK:
			must(os.Symlink(f.Content, at))
		default:
			must(os.WriteFile(at, []byte(f.Content), 0o644))
		}
	}
	for i := len(files) - 1; i >= 0; i-- { // a directory after what is in it
		f := files[i]
		at := filepath.Join(l.source, string(f.Path))
		if f.Mode&unix.S_IFMT != unix.S_IFLNK {
			must(unix.Chmod(at, f.Mode&0o7777))
		}
		when := unix.NsecToTimespec(f.Mtime)
		must(unix.UtimesNanoAt(unix.AT_FDCWD, at, []unix.Timespec{when, when}, unix.AT_SYMLINK_NOFOLLOW))
		var st unix.Stat_t
		must(unix.Lstat(at, &st))
		now[strconv.FormatUint(f.Ino, 10)] = st
	}
	text, err = os.ReadFile(name)
	must(err)
	var journal map[string]any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	must(numbers.Decode(&journal))
	top := openDir(l.t, l.source)
	when, err := born(int(top.Fd()))
	must(err)
	st, err := look(int(top.Fd()), "")
	must(err)
	journal["Source"], journal["Ino"], journal["Born"] = l.source, st.Ino, when
	for _, s := range journal["Steps"].([]any) {
		step := s.(map[string]any)
		expect := step["Expect"].(map[string]any)
		for _, of := range []map[string]any{step, expect} {
			st, there := now[of["Ino"].(json.Number).String()]
			if !there {
				continue
			}
			of["Ino"] = st.Ino
			if of["Size"] != nil {
				of["Size"] = st.Size // of a directory, file systems count it each in their way
			}
		}
	}
	text, err = json.Marshal(journal)
	must(err)
	must(os.WriteFile(filepath.Join(l.journal, state), text, 0o600))
}

// Without the instants of starts, which earlier versions did not record, all counts from the
// beginning.
func TestNoStarts(t *testing.T) {
	l := newLab(t, map[string]string{"file": "was"})
	l.does(Modified, "file", "new")
	put(t, l.source+"/file", "mine")
	r, err := l.commit(CommitOptions{OnConflict: Skip, DryRun: true})
	if err != nil || r.why("file") != whyChanged {
		t.Errorf("%v, %v", r.Conflicts, err)
	}
	time.Sleep(3 * tick)
	if l.layer.Started, err = Now(); err != nil {
		t.Fatal(err)
	}
	if r, err := l.commit(CommitOptions{OnConflict: Skip, DryRun: true}); err != nil || r.why("file") != "" {
		t.Errorf("%v, %v", r.Conflicts, err)
	}
}
