package spawn

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// sleeper starts a process with a name that is meant to confuse.
func sleeper(t *testing.T) int {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	name := t.TempDir() + "/a) Z 1 (b\n"
	if err := os.Symlink(sleep, name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

func openProc(t *testing.T) int {
	t.Helper()
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(proc) })
	return proc
}

func TestReadStat(t *testing.T) {
	proc, before := openProc(t), ticksSinceBoot()
	pid := sleeper(t)
	s, err := readStat(proc, pid)
	group, gerr := unix.Getpgid(pid)
	session, serr := unix.Getsid(pid)
	if err != nil || gerr != nil || serr != nil || s.ppid != os.Getpid() || s.group != group || s.session != session || s.state == 'Z' ||
		s.born < before || s.born > ticksSinceBoot() {
		t.Errorf("got %+v, %v", s, err)
	}
	if own, err := readStat(proc, os.Getpid()); err != nil || pages(own.resident) < 1<<20 {
		t.Errorf("of this process: %+v, %v", own, err)
	}
	if _, err := readStat(proc, 1<<30); err == nil {
		t.Error("nobody has a stat file")
	}
}

// A kernel without lists of children is searched, with the same result.
func TestChildrenByScan(t *testing.T) {
	f := &treeIndex{proc: openProc(t)}
	pid := sleeper(t)
	scanned, err := f.childrenByScan(os.Getpid())
	if err != nil || !slices.Contains(scanned, pid) {
		t.Errorf("the search found %v, %v, not %d", scanned, err, pid)
	}
	listed := f.childrenOf(os.Getpid())
	slices.Sort(scanned)
	slices.Sort(listed)
	if !slices.Equal(scanned, listed) {
		t.Errorf("the search found %v, the lists %v", scanned, listed)
	}
}

// An orphan is whose its session, its tag or the absence of others says.
func TestAttribute(t *testing.T) {
	f := &treeIndex{proc: openProc(t), reaper: &Reaper{procs: map[int]*Process{}}}
	pid := sleeper(t)
	old, young, dead := &processTree{pid: 10, born: 100}, &processTree{pid: 20, born: 200}, &processTree{pid: 20, born: 50, ended: true}
	f.open = []*processTree{dead, old, young}
	tests := map[string]struct {
		open  []*processTree
		o     stat
		owner *processTree
		doubt int
	}{
		"a session":            {f.open, stat{pid: pid, session: 10, group: 7, born: 300}, old, 0},
		"a group":              {f.open, stat{pid: pid, session: 7, group: 10, born: 300}, old, 0},
		"a number used twice":  {f.open, stat{pid: pid, session: 20, group: 20, born: 300}, young, 0},
		"of one too young":     {f.open, stat{pid: pid, session: 20, group: 20, born: 150}, dead, 0},
		"nothing, three trees": {f.open, stat{pid: pid, born: 300}, nil, 3},
		"born before two":      {f.open, stat{pid: pid, born: 60}, dead, 0},
		"born before all":      {f.open, stat{pid: pid, born: 10}, nil, 0},
		"the only tree":        {f.open[1:2], stat{pid: pid, born: 300}, old, 0},
	}
	for name, tt := range tests {
		f.open = tt.open
		if owner, doubt := f.attribute(tt.o); owner != tt.owner || len(doubt) != tt.doubt {
			t.Errorf("%s: got %+v and %d more, want %+v and %d", name, owner, len(doubt), tt.owner, tt.doubt)
		}
	}
	f.open, f.strangers = []*processTree{old}, true
	if owner, doubt := f.attribute(stat{pid: pid, born: 300}); owner != nil || len(doubt) != 1 {
		t.Errorf("among strangers: got %+v, %v", owner, doubt)
	}
}
