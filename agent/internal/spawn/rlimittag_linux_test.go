package spawn

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// tagged starts a process of the tree of a number.
func tagged(t *testing.T, b rlimitTag, number uint64) (pid int) {
	t.Helper()
	pid = sleeper(t)
	limits, ok := b.add(nil, number)
	if !ok {
		t.Fatalf("%+v cannot tag with %d", b, number)
	}
	for _, l := range limits {
		if err := unix.Prlimit(pid, l.Resource, &l.Limit, nil); err != nil {
			t.Fatal(err)
		}
	}
	return pid
}

// lower lowers both limits of a process.
func lower(t *testing.T, pid int, locks, time uint64) {
	t.Helper()
	for resource, by := range map[int]uint64{unix.RLIMIT_LOCKS: locks, unix.RLIMIT_RTTIME: time} {
		var l unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &l); err != nil {
			t.Fatal(err)
		}
		l.Cur, l.Max = l.Cur-by, l.Max-by
		if err := unix.Prlimit(pid, resource, &l, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A process says of which trees it may be, its own always among them.
func TestRlimitTag(t *testing.T) {
	b, proc := newRlimitTag(), openProc(t)
	for name, tt := range map[string]struct {
		number, locks, time uint64 // what is taken off
		first, last         uint64
	}{
		"untouched":       {7, 0, 0, 7, 7},
		"the first tree":  {1, 0, 0, 1, 1},
		"the last tree":   {maxTagged - 1, 0, 0, maxTagged - 1, maxTagged - 1},
		"for an older":    {7, 3, 0, 4, 7},
		"for a younger":   {7, 0, 3, 7, 10},
		"for all":         {7, 1 << 40, 1 << 40, 0, 7 + 1<<40},
		"for all of them": {7, 7, maxTagged, 0, 7 + maxTagged},
	} {
		pid := tagged(t, b, tt.number)
		lower(t, pid, tt.locks, tt.time)
		if first, last, ok := b.read(proc, pid); first != tt.first || last != tt.last || !ok {
			t.Errorf("%s: %d to %d, %v", name, first, last, ok)
		}
	}
	if first, last, ok := b.read(proc, sleeper(t)); ok {
		t.Errorf("a process without a tag: %d to %d", first, last)
	}
	if _, _, ok := b.read(proc, 1<<30); ok {
		t.Error("nobody has a tag")
	}
	if limits, ok := b.add(nil, maxTagged); ok || len(limits) > 0 {
		t.Errorf("a tag with a number that is too large: %+v", limits)
	}
	if limits, ok := (rlimitTag{}).add(nil, 1); ok || len(limits) > 0 {
		t.Errorf("a tag without limits: %+v", limits)
	}
}

// A command that is started twice is of the second tree, and what it shares
// with others stays as it is.
func TestRlimitTagAgain(t *testing.T) {
	b := newRlimitTag()
	own := []clone.Rlimit{{Resource: unix.RLIMIT_CPU, Limit: unix.Rlimit{Cur: 1, Max: 1}}}
	first, _ := b.add(own, 1)
	before := slices.Clone(first)
	second, _ := b.add(first, 2)
	if len(second) != 3 || second[0] != own[0] || !slices.Equal(first, before) || slices.Equal(first, second) {
		t.Errorf("%+v, then %+v", before, second)
	}
}

// A process is its tag's, whatever else it says; where the tag says
// little, it casts doubt on all that it may be of.
func TestAttributeByTag(t *testing.T) {
	f := &treeIndex{proc: openProc(t), reaper: &Reaper{procs: map[int]*Process{}}, tag: newRlimitTag(), strangers: true}
	var here unix.Stat_t
	if err := unix.Stat("/proc/self/ns/uts", &here); err != nil {
		t.Fatal(err)
	}
	own, forged := &processTree{pid: 10, born: 100, number: 3}, &processTree{pid: 20, born: 100, number: 2}
	last := &processTree{pid: 30, born: 100, number: 4}
	for name, tt := range map[string]struct {
		locks, time uint64 // what is taken off
		session     int
		ino         uint64 // of the forged tree
		owner       *processTree
		doubt       []*processTree
	}{
		"untouched":           {owner: own},
		"in its own session":  {session: 10, owner: own},
		"a number used again": {session: 20, owner: own},
		"another's namespace": {ino: here.Ino, owner: own, doubt: []*processTree{forged}},
		"lowered":             {locks: 1, doubt: []*processTree{own, forged}},
		"lowered to nothing":  {locks: 1 << 40, time: 1 << 40, doubt: []*processTree{own, forged, last}},
		"lowered, a session":  {locks: 1, session: 20, owner: forged},
		"all but the tag":     {locks: 1, ino: here.Ino, owner: forged, doubt: []*processTree{own, forged}},
	} {
		pid := tagged(t, f.tag, 3)
		lower(t, pid, tt.locks, tt.time)
		forged.ino, f.open = tt.ino, []*processTree{own, forged, last}
		owner, doubt := f.attribute(stat{pid: pid, session: tt.session, born: 200})
		if owner != tt.owner || !slices.Equal(doubt, tt.doubt) {
			t.Errorf("%s: %+v and %+v, want %+v and %+v", name, owner, doubt, tt.owner, tt.doubt)
		}
	}
}
