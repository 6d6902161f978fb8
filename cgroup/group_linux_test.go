package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFindAndOwn(t *testing.T) {
	dir, err := ownDir()
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	g, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	pids, err := g.Procs()
	if err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("this process is not in %s: %v, %v", dir, pids, err)
	}
}

func TestOpenRefusesOtherDirectories(t *testing.T) {
	for dir, want := range map[string]error{"/proc": nil, "/nonexistent": fs.ErrNotExist, "/proc/self/exe": unix.ENOTDIR} {
		g, err := Open(dir)
		var e *Error
		if err == nil || want != nil && !errors.Is(err, want) || !errors.As(err, &e) || e.Object != dir {
			t.Errorf("%s: %v, %v", dir, g, err)
		}
	}
}

func TestNames(t *testing.T) {
	g := fresh(t)
	for _, name := range []string{"", ".", "..", "a/b", "/a", "../a", "a\nb", "a\x00b", "cgroup.procs", "cgroup.x", strings.Repeat("x", 256)} {
		_, err1 := g.Create(name)
		_, err2 := g.Child(name)
		for _, err := range []error{err1, err2, g.Remove(name)} {
			if e := (*Error)(nil); !errors.As(err, &e) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	for _, name := range []string{"a", "a b", "ä", "-", "..a", strings.Repeat("x", 255)} {
		child, err := g.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if child.Name() != name {
			t.Errorf("%q is called %q", name, child.Name())
		}
		if err := errors.Join(child.Close(), g.Remove(name)); err != nil {
			t.Error(err)
		}
	}
}

func TestCreateAndRemove(t *testing.T) {
	g := fresh(t)
	child, err := g.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	if _, err := g.Create("a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made again: %v", err)
	}
	for _, name := range []string{"b", "c"} {
		inner, err := child.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = inner.Close() })
	}
	if got := child.Children(); len(got) != 2 || !slices.Contains(got, "b") || !slices.Contains(got, "c") {
		t.Errorf("children %v", got)
	}
	c, err := child.Child("c")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := play(t, c, "wait")
	p.hear(t)
	if err := g.Remove("a"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("removed with a process in it: %v", err)
	}
	p.in.Close()
	if err := c.WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Remove("a"); err != nil {
		t.Error(err)
	}
	if err := g.Remove("a"); err != nil {
		t.Errorf("removed again: %v", err)
	}
	if _, err := g.Child("a"); !Gone(err) {
		t.Errorf("opened what is gone: %v", err)
	}
	for what, err := range map[string]error{"stats": second(c.Stats()), "procs": second(c.Procs()), "kill": c.Kill(), "populated": second(c.Populated())} {
		if !Gone(err) {
			t.Errorf("%s of a group that is gone: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestProcsAndAdd(t *testing.T) {
	g := fresh(t)
	other, err := g.Create("other")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	p := play(t, g, "wait")
	p.hear(t)
	if pids, err := g.Procs(); err != nil || !slices.Equal(pids, []int{p.Process.Pid}) {
		t.Errorf("born in the group: %v, %v", pids, err)
	}
	if err := other.Add(p.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if pids, err := other.Procs(); err != nil || !slices.Equal(pids, []int{p.Process.Pid}) {
		t.Errorf("moved: %v, %v", pids, err)
	}
	if pids, err := g.Procs(); err != nil || len(pids) != 0 {
		t.Errorf("left behind: %v, %v", pids, err)
	}
	if populated, err := g.Populated(); err != nil || !populated {
		t.Errorf("populated: %v, %v", populated, err)
	}
	if err := other.Add(1 << 30); !errors.Is(err, unix.ESRCH) {
		t.Errorf("a process that is none was added: %v", err)
	}
}

// An agent has no path to its group: it gets a mount that is attached nowhere.
func TestDetachedMount(t *testing.T) {
	dir, err := ownDir()
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	g := fresh(t)
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir+"/"+g.Name(), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if errors.Is(err, unix.EPERM) {
		t.Skipf("no mount can be made here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	inside := FromFD(fd)
	defer inside.Close()
	child, err := inside.Create("inner")
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	p := play(t, child, "wait")
	p.hear(t)
	if err := errors.Join(child.Freeze(t.Context()), child.Thaw(t.Context()), child.Kill(), child.WaitEmpty(t.Context()), inside.Remove("inner")); err != nil {
		t.Error(err)
	}
	if s, err := inside.Stats(); err != nil || s.CPU == nil {
		t.Errorf("%+v, %v", s, err)
	}
	if got := inside.Children(); len(got) != 0 {
		t.Errorf("children %v", got)
	}
	// The mount ends where the group does: there is no way up.
	var here, up unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &here), unix.Fstatat(fd, "..", &up, 0)); err != nil || here.Ino != up.Ino {
		t.Errorf("%v, %d above %d", err, up.Ino, here.Ino)
	}
}

func TestVacate(t *testing.T) {
	g := fresh(t)
	want := map[int]bool{}
	for range 3 {
		p := play(t, g, "wait")
		p.hear(t)
		want[p.Process.Pid] = true
	}
	for range 2 { // also when there is nothing to do
		child, err := g.Vacate("host")
		if err != nil {
			t.Fatal(err)
		}
		pids, err := child.Procs()
		if err != nil || len(pids) != len(want) {
			t.Errorf("%v, %v", pids, err)
		}
		child.Close()
	}
	if pids, err := g.Procs(); err != nil || len(pids) != 0 {
		t.Errorf("left behind: %v, %v", pids, err)
	}
}
