package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
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
	// The mount shows only the group: ".." does not lead out of it.
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

func TestSweepEmpty(t *testing.T) {
	g := fresh(t)
	create := func(in *Group, name string) *Group {
		t.Helper()
		child, err := in.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		return child
	}
	// What a killed owner leaves behind: no process has it open.
	stale := create(g, "s-stale")
	inner := create(stale, "inner")
	create(inner, "exec").Close()
	inner.Close()
	stale.Close()
	create(g, "other").Close()
	held := create(g, "s-held")
	defer held.Close()
	// One whose owner has ended, but a process lives deep inside.
	alive := create(g, "s-alive")
	deep := create(alive, "deep")
	create(alive, "empty").Close()
	p := play(t, deep, "wait")
	p.hear(t)
	alive.Close()
	half := create(g, "s-half")
	heldInside := create(half, "held")
	half.Close()

	sweep := func(prefix string, removed, left []string) {
		t.Helper()
		got, err := g.SweepEmpty(prefix)
		slices.Sort(got)
		now := g.Children()
		slices.Sort(now)
		if err != nil || !slices.Equal(got, removed) || !slices.Equal(now, left) {
			t.Errorf("removed %v, left %v, %v", got, now, err)
		}
	}
	sweep("s-", []string{"s-stale"}, []string{"other", "s-alive", "s-half", "s-held"})
	if a, err := g.Child("s-alive"); err != nil || len(a.Children()) != 2 {
		t.Errorf("a living group lost something: %v, %v", a.Children(), err)
	} else {
		a.Close()
	}
	heldInside.Close()
	p.in.Close()
	if err := deep.WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	deep.Close()
	sweep("s-", []string{"s-alive", "s-half"}, []string{"other", "s-held"})
	sweep("x", nil, []string{"other", "s-held"})
	sweep("", []string{"other"}, []string{"s-held"})
}

// Several processes make groups, with groups in them, while two others sweep
// as fast as they can: no group vanishes under the hands of its maker.
func TestSweepWhileOthersMake(t *testing.T) {
	own, err := ownDir()
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	g := fresh(t)
	dir := own + "/" + g.Name()
	var makers []*player
	for range 2 {
		p := play(t, parent(t), "make "+dir)
		if said := p.hear(t); said != "begun" {
			t.Fatal(said)
		}
		makers = append(makers, p)
	}
	swept := 0
	for range 2000 {
		removed, err := g.SweepEmpty("made-")
		if err != nil {
			t.Fatal(err)
		}
		swept += len(removed)
	}
	for _, p := range makers {
		p.in.Close()
		said := p.hear(t)
		if n, err := strconv.Atoi(said); err != nil || n == 0 {
			t.Errorf("a maker says %q", said)
		}
		t.Logf("%s groups made", said)
	}
	t.Logf("%d swept meanwhile", swept)
	if _, err := g.SweepEmpty(""); err != nil || len(g.Children()) != 0 {
		t.Errorf("left %v, %v", g.Children(), err)
	}
}
