package layer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestConflicts(t *testing.T) {
	noSync(t)
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	long := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		kind   Kind
		path   string
		now    string
		meddle func(t *testing.T, source string) // what somebody does to the source meanwhile
		why    string                            // "": no conflict
		won    string                            // what is at the path after an overwrite
	}{
		{"nothing", Modified, "file", "new", func(*testing.T, string) {}, "", regular + "new"},
		{"reading", Modified, "file", "new", func(t *testing.T, s string) {
			_, err := os.ReadFile(s + "/file")
			must(t, err)
		}, "", regular + "new"},
		{"another file", Modified, "file", "new", func(t *testing.T, s string) { put(t, s+"/other", "x") }, "", regular + "new"},
		{"a write", Modified, "file", "new", func(t *testing.T, s string) { put(t, s+"/file", "mine") }, whyChanged, regular + "new"},
		{"a write with its time set back", Modified, "file", "new", func(t *testing.T, s string) {
			fi, err := os.Stat(s + "/file")
			must(t, err)
			put(t, s+"/file", "was")
			must(t, os.Chtimes(s+"/file", fi.ModTime(), fi.ModTime()))
		}, whyChanged, regular + "new"},
		{"replacement by an older file", Modified, "file", "new", func(t *testing.T, s string) {
			put(t, s+"/older", "mine")
			must(t, os.Chtimes(s+"/older", long, long))
			must(t, os.Rename(s+"/older", s+"/file"))
		}, whyChanged, regular + "new"},
		{"other permissions", Modified, "file", "new", func(t *testing.T, s string) { must(t, os.Chmod(s+"/file", 0o600)) }, whyChanged, regular + "new"},
		{"removal", Modified, "file", "new", func(t *testing.T, s string) { must(t, os.Remove(s+"/file")) }, whyGone, regular + "new"},
		{"a link in its place", Modified, "file", "new", func(t *testing.T, s string) {
			must(t, os.Remove(s+"/file"))
			must(t, os.Symlink("/etc/passwd", s+"/file"))
		}, whyChanged, regular + "new"},
		{"a directory in its place", Modified, "file", "new", func(t *testing.T, s string) {
			must(t, os.Remove(s+"/file"))
			put(t, s+"/file/in", "x")
		}, whyChanged, regular + "new"},
		{"its directory is a link", Modified, "dir/x", "new", func(t *testing.T, s string) {
			must(t, os.Rename(s+"/dir", s+"/moved"))
			must(t, os.Symlink("moved", s+"/dir"))
		}, whyParent, ""},
		{"a file where one is added", Added, "fresh", "new", func(t *testing.T, s string) { put(t, s+"/fresh", "mine") }, whyAppears, regular + "new"},
		{"a directory where a file is added", Added, "fresh", "new", func(t *testing.T, s string) { put(t, s+"/fresh/x", "mine") }, whyAppears, regular + "new"},
		{"a directory where one is added", Added, "fresh/", "", func(t *testing.T, s string) { put(t, s+"/fresh/x", "mine") }, "", directory},
		{"removal of what is removed", Deleted, "file", "", func(t *testing.T, s string) { must(t, os.Remove(s+"/file")) }, "", ""},
		{"a write to what is removed", Deleted, "file", "", func(t *testing.T, s string) { put(t, s+"/file", "mine") }, whyChanged, ""},
		{"a write in a removed tree", Deleted, "dir", "", func(t *testing.T, s string) { put(t, s+"/dir/x", "mine") }, "in it, dir/x: " + whyChanged, ""},
		{"a new file in a removed tree", Deleted, "dir", "", func(t *testing.T, s string) { put(t, s+"/dir/new", "mine") }, whyChanged, ""},
		{"a write to what changes its type", Retyped, "file/", "", func(t *testing.T, s string) { put(t, s+"/file", "mine") }, whyChanged, directory},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, on := range []OnConflict{Fail, Skip, Overwrite} {
				l := newLab(t, map[string]string{"file": "was", "dir/x": "1", "there": "x"})
				l.does(c.kind, c.path, c.now)
				l.does(Added, "beside", "x")
				c.meddle(t, l.source)
				before := show(t, l.source)
				r, err := l.commit(CommitOptions{OnConflict: on})
				l.noTraces()
				after := show(t, l.source)
				path := strings.TrimSuffix(c.path, "/")
				var conflict *ConflictError
				why := c.why
				switch {
				case why == "":
					if err != nil || len(r.Conflicts) > 0 || after["beside"] == "" {
						t.Errorf("%s: %v, %v", on, err, r.Conflicts)
					}
				case why == whyParent && on == Overwrite:
					if err == nil {
						t.Error("a commit through a link succeeds")
					}
					same(t, "after an error", after, before)
				case on == Fail:
					if !errors.As(err, &conflict) || r.why(path) != why {
						t.Errorf("the error is %v, of %v, want %q", err, r.Conflicts, why)
					}
					same(t, "after a conflict", after, before)
				case on == Skip:
					if err != nil || r.why(path) != why || after["beside"] == "" || after[path] != before[path] {
						t.Errorf("skip: %v, conflicts %v, and %q has become %q", err, r.Conflicts, before[path], after[path])
					}
				default:
					if err != nil || after["beside"] == "" || after[path] != c.won {
						t.Errorf("overwrite: %v, it is %q, want %q", err, after[path], c.won)
					}
				}
			}
		})
	}
}

// why returns why a path is in conflict.
func (r Result) why(path string) string {
	for _, c := range r.Conflicts {
		if c.Path == path {
			return c.Why
		}
	}
	return ""
}

// What was recorded after the layer began tells exactly what has changed.
func TestRecords(t *testing.T) {
	l := newLab(t, map[string]string{"file": "was"})
	l.does(Modified, "file", "new")
	known, err := l.layer.Records(t.Context(), l.changes)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(l.source, "file")
	if err := os.Link(at, l.source+"/second"); err != nil {
		t.Fatal(err)
	}
	dry := func(opt CommitOptions) (string, error) {
		opt.DryRun = true
		r, err := l.commit(opt)
		return r.why("file"), err
	}
	if why, err := dry(CommitOptions{}); why != whyChanged {
		t.Errorf("a new name of the file alone: %q, %v", why, err)
	}
	if why, err := dry(CommitOptions{Known: known}); why != "" || err != nil {
		t.Errorf("a new name of a recorded file is a conflict: %q, %v", why, err)
	}
	put(t, at, "saw")
	if why, _ := dry(CommitOptions{Known: known}); why != whyChanged {
		t.Errorf("another content of the same size is no conflict: %q", why)
	}
	late, err := l.layer.Records(t.Context(), l.changes)
	if err != nil {
		t.Fatal(err)
	}
	if why, _ := dry(CommitOptions{Known: late}); why != whyChanged {
		t.Errorf("what was recorded after it had changed is no conflict: %q", why)
	}
}

// Once the clock was set back, times prove nothing.
func TestClockSetBack(t *testing.T) {
	l := newLab(t, map[string]string{"file": "was"})
	l.does(Modified, "file", "new")
	back := func() (Began, error) {
		now, err := Now()
		now.Realtime = now.Realtime.Add(-time.Hour)
		return now, err
	}
	r, err := l.commit(CommitOptions{Clock: back})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || r.why("file") != whyDoubt {
		t.Errorf("the error is %v", err)
	}
	boot := func() (Began, error) { // the host was started anew
		now, err := Now()
		now.Boottime = time.Second
		return now, err
	}
	if _, err := l.commit(CommitOptions{Clock: boot, DryRun: true}); err != nil {
		t.Errorf("after a start of the host: %v", err)
	}
	known, err := l.layer.Records(t.Context(), l.changes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.commit(CommitOptions{Clock: back, Known: known}); !errors.As(err, &conflict) {
		t.Errorf("a record made in doubt settles it: %v", err)
	}
}

// On a host that is busy the clock was not set back.
func TestClockOfBusyHost(t *testing.T) {
	var stop atomic.Bool
	defer stop.Store(true)
	for range 8 * runtime.NumCPU() {
		go func() {
			runtime.LockOSThread()
			for !stop.Load() {
				continue
			}
		}()
	}
	last, err := Now()
	for until := time.Now().Add(2 * time.Second); err == nil && time.Now().Before(until); {
		var now Began
		if now, err = Now(); err == nil && !last.Precedes(now) {
			t.Fatalf("%v does not precede %v", last, now)
		}
		last = now
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A file that the source has lost is told from one that commands have made.
func TestConflictDropped(t *testing.T) {
	for _, copied := range []bool{true, false} {
		l := newLab(t, map[string]string{"file": "was"})
		l.does(Added, "file", "new") // as it is found when the source has lost it
		if copied {
			name, marks := "user.overlay.origin", UserMarks
			if os.Geteuid() == 0 {
				name, marks = "trusted.overlay.origin", TrustedMarks
			}
			l.layer.Marks = marks
			if err := unix.Setxattr(l.upper+"/file", name, nil, 0); errors.Is(err, unix.ENOTSUP) {
				t.Skip("the file system has no attributes of users here")
			} else if err != nil {
				t.Fatal(err)
			}
			l.changes = nil
			l.changed(Added, "file", "")
		}
		if err := os.Remove(l.source + "/file"); err != nil {
			t.Fatal(err)
		}
		r, err := l.commit(CommitOptions{})
		if got := r.why("file") == whyDropped; got != copied {
			t.Errorf("copied up: %v, error: %v", copied, err)
		}
	}
}

// Whatever becomes of the source while a commit lands, nothing of it is lost, nothing outside is
// written, and all or nothing lands.
func TestCommitRaces(t *testing.T) {
	noSync(t)
	outside := t.TempDir()
	put(t, outside+"/edit", "outside")
	for what, meddle := range map[string]func(l *lab) error{
		"a link": func(l *lab) error {
			_ = os.Rename(l.source+"/edit", l.source+"/edit.mine")
			return os.Symlink(outside+"/edit", l.source+"/edit")
		},
		"a directory": func(l *lab) error {
			_ = os.Rename(l.source+"/edit", l.source+"/edit.mine")
			return os.Mkdir(l.source+"/edit", 0o755)
		},
		"another file": func(l *lab) error {
			put(l.t, l.source+"/edit.new", "mine")
			return os.Rename(l.source+"/edit.new", l.source+"/edit")
		},
		"a file where one is added": func(l *lab) error { return os.WriteFile(l.source+"/tree", []byte("mine"), 0o600) },
		"a link for its directory": func(l *lab) error {
			_ = os.Rename(l.source+"/sub", l.source+"/sub.mine")
			return os.Symlink(outside, l.source+"/sub")
		},
		"nothing": func(l *lab) error {
			_ = os.Rename(l.source+"/edit", l.source+"/edit.mine")
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			for n, done := 0, false; !done && !t.Failed(); n++ {
				l := newLab(t, map[string]string{"edit": "old", "sub/edit": "old", "gone/x": "x"})
				l.does(Modified, "edit", "new")
				l.does(Modified, "sub/edit", "new")
				l.does(Added, "tree/", "")
				l.does(Added, "tree/x", "x")
				l.does(Deleted, "gone", "")
				left, late := n, false
				_, err := l.commit(CommitOptions{at: func(step string) {
					if left--; left == -1 {
						late = strings.HasPrefix(step, "clean") || step == "end" || step == "become landed" || step == "sync"
						_ = meddle(l)
					}
				}})
				done = left >= 0
				got := show(t, l.source)
				if show(t, outside)["edit"] != regular+"outside" || len(show(t, outside)) != 1 {
					t.Fatalf("step %d: something outside was written", n)
				}
				if err != nil && !late {
					if got["gone/x"] != regular+"x" || got["tree/x"] != "" {
						t.Errorf("step %d: %v, but part of it has landed: %q", n, err, got)
					}
				}
				var unfinished *UnfinishedError
				if err == nil && (got["gone"] != "" || got["tree/x"] == "" && got["tree"] != "-rw------- mine") {
					t.Errorf("step %d: no error, but something has not landed: %q", n, got)
				}
				if what == "another file" && err != nil && !errors.As(err, &unfinished) && got["edit"] != regular+"mine" {
					t.Errorf("step %d: somebody's file is lost: %q", n, got)
				}
			}
		})
	}
}

// A commit that is cancelled leaves nothing.
func TestCommitCancelled(t *testing.T) {
	l := tour(t)
	before := show(t, l.source)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := l.layer.Commit(ctx, l.changes, CommitOptions{Journal: l.journal, at: func(step string) {
		if step == "copy tree/sub/two" {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	same(t, "after it was cancelled", show(t, l.source), before)
	l.noTraces()
}

// A disk that is full at any size of what is left on it leaves the source as it was.
func TestCommitFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	full, landed := 0, 0
	for size := 64; size <= 640; size += 64 {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=640k"); err != nil {
			t.Skipf("no mount can be made here: %v", err)
		}
		l := &lab{t: t, source: filepath.Join(dir, "source"), upper: t.TempDir(), journal: filepath.Join(dir, "journal")}
		func() {
			defer func() {
				if l.layer != nil {
					_ = l.layer.Source.Close()
				}
				if err := unix.Unmount(dir, 0); err != nil {
					t.Error(err)
					_ = unix.Unmount(dir, unix.MNT_DETACH)
				}
			}()
			put(t, l.journal+"/", "")
			put(t, l.source+"/edit", "old")
			put(t, l.source+"/gone/x", "x")
			put(t, dir+"/ballast", strings.Repeat("x", (640-size)<<10))
			l.begin()
			l.does(Modified, "edit", strings.Repeat("new", 50<<10))
			l.does(Added, "tree/", "")
			for _, name := range []string{"a", "b", "c"} {
				l.does(Added, "tree/"+name, strings.Repeat(name, 50<<10))
			}
			l.does(Deleted, "gone", "")
			before := show(t, l.source)
			_, err := l.commit(CommitOptions{})
			l.noTraces()
			switch after := show(t, l.source); {
			case errors.Is(err, unix.ENOSPC):
				full++
				same(t, "on a full disk", after, before)
			case err != nil:
				t.Errorf("the error is %v", err)
			default:
				landed++
				if len(after) != 5 {
					t.Errorf("the source has %d files, want 5", len(after))
				}
			}
		}()
	}
	if full < 2 || landed < 1 {
		t.Errorf("the disk was full %d times, and %d commits landed", full, landed)
	}
}
