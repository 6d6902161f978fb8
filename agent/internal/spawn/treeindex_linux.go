package spawn

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// orphanGrace is how long an agent without walls waits for orphans that
// cannot be attributed to a tree, while they may belong to the one in question.
const orphanGrace = 100 * time.Millisecond

// treeIndex finds the trees of commands for an agent without walls. The search relies on
// the agent being their subreaper: a process whose parent ends becomes the child of an
// ancestor, never of an unrelated process, so the rest of a tree is always below a child
// of the agent. The agent has three kinds of children: commands, known by their PIDs;
// orphans of one tree, each with everything below it; and orphans that it cannot
// attribute to a tree.
//
// A tree is dead once the agent has no child that belongs, or may belong, to it. This is
// proof, because no child can disappear unnoticed: only the reaper frees one, and its
// lock is held meanwhile.
//
// It proves nothing about two kinds of processes: those with the privilege to be adopted
// elsewhere, by entering another pid namespace (setns), or to raise the limits that tag
// them; and those that ask another program on the machine to start something. Only walls
// stop these.
type treeIndex struct {
	reaper    *Reaper
	proc      int
	spawner   int  // the thread that clones, and so has the commands as children
	strangers bool // the agent may have children that it did not start
	tag       rlimitTag
	open      []*processTree // by age; the reaper's lock guards it
}

// processTree holds what identifies a command's tree.
type processTree struct {
	index  *treeIndex
	all    bool   // every descendant of the agent
	pid    int    // of the command, and so of its session
	ino    uint64 // of its UTS namespace, 0 if it shares the agent's
	number uint64 // of its tag, 0 without one
	born   uint64 // in clock ticks since boot, not after the command's birth
	proved bool   // the last search found no process of it
	ended  bool   // the client has its result; processes of it may live on
}

// newTreeIndex returns the index of a process that has started nothing yet. If the
// process has children all the same, the agent only reaps them.
func newTreeIndex(r *Reaper, proc, spawner int) (*treeIndex, error) {
	x := &treeIndex{reaper: r, proc: proc, spawner: spawner, strangers: os.Getpid() == 1, tag: newRlimitTag()}
	pids, err := x.ownChildren()
	for _, pid := range pids {
		x.strangers = true
		r.procs[pid] = &Process{PID: pid, Done: make(chan struct{})}
	}
	return x, err
}

// newTree returns the tree of a command that is about to be cloned, and the command's
// limits with the tree's tag.
func (x *treeIndex) newTree(ino, number uint64, limits []clone.Rlimit) (*processTree, []clone.Rlimit) {
	t := &processTree{index: x, ino: ino, born: ticksSinceBoot()}
	limits, tagged := x.tag.add(limits, number)
	if tagged {
		t.number = number
	}
	return t, limits
}

// close removes a tree from the index. If processes of it may still be running, the tree
// stays in the index, so that they are not attributed to another.
func (t *processTree) close() {
	x := t.index
	x.reaper.mu.Lock()
	defer x.reaper.mu.Unlock()
	t.ended = true
	x.forget(func(o *processTree) bool { return o == t && t.proved })
}

// forget drops ended trees. The reaper's lock is held.
func (x *treeIndex) forget(gone func(*processTree) bool) {
	kept := x.open[:0]
	for _, t := range x.open {
		if !t.ended || !gone(t) {
			kept = append(kept, t)
		}
	}
	clear(x.open[len(kept):])
	x.open = kept
}

// members lists the living processes of a tree, and counts those that might belong to
// it. An empty list and a count of 0 are proof that the tree is dead; a list that is
// not empty may miss processes that were born meanwhile.
func (x *treeIndex) members(t *processTree) (found []Member, unknown int, err error) {
	deadline := time.Now().Add(orphanGrace)
	for {
		found, unknown, err = x.children(t)
		if err != nil || len(found) > 0 || unknown == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(time.Millisecond) // most that cannot be attributed are about to end, or have just begun
	}
	for i := 0; i < len(found); i++ { // it grows
		parent := found[i]
		for _, pid := range x.childrenOf(parent.PID) {
			pidfd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue // it has ended meanwhile; the next round finds its orphans
			}
			// Numbers are used again. A process that lives after the look had its
			// number during the look as well.
			s, err := readStat(x.proc, pid)
			if err != nil || s.ppid != parent.PID || !lives(pidfd) || !lives(parent.PIDFD) {
				unix.Close(pidfd)
				continue
			}
			found = append(found, Member{pid, pidfd})
		}
	}
	return found, unknown, err
}

// children returns the agent's own children that belong to a tree.
func (x *treeIndex) children(t *processTree) (found []Member, unknown int, err error) {
	x.reaper.mu.Lock()
	defer x.reaper.mu.Unlock()
	t.proved = false
	orphans, childless, err := x.orphans(t)
	if err != nil {
		return nil, 0, err
	}
	if x.leads(t) {
		orphans = append(orphans, stat{pid: t.pid, session: t.pid})
	}
	known := map[*processTree]bool{}
	for _, o := range orphans {
		owner, doubt := x.attribute(o)
		for _, c := range append(doubt, owner) {
			known[c] = true
		}
		switch {
		case t.all, owner == t:
			pidfd, err := unix.PidfdOpen(o.pid, 0)
			if err != nil {
				unknown++ // it still exists: the reaper is locked
				continue
			}
			found = append(found, Member{o.pid, pidfd})
		case slices.Contains(doubt, t):
			unknown++
		}
	}
	x.forget(func(o *processTree) bool { return childless || !known[o] })
	t.proved = len(found) == 0 && unknown == 0
	return found, unknown, nil
}

// orphans returns the agent's children that are not commands; for the tree of all
// processes it returns commands too. childless means that the agent has no child at all.
// Dead children are reaped first, and no PID is used again meanwhile, so every process in
// the list is alive, or is the leader of living threads.
func (x *treeIndex) orphans(t *processTree) (found []stat, childless bool, err error) {
	for range 3 {
		if x.reaper.reapAll() {
			return nil, true, nil
		}
		pids, err := x.ownChildren()
		if err != nil {
			return nil, false, err
		}
		found = found[:0]
		dead := false
		for _, pid := range pids {
			if p := x.reaper.procs[pid]; p != nil && (!t.all || p.Mark.tree == nil) {
				continue
			}
			s, err := readStat(x.proc, pid)
			if err != nil {
				return nil, false, err
			}
			dead = dead || s.state == 'Z'
			found = append(found, s)
		}
		if !dead {
			break
		}
	}
	return found, false, nil
}

// ownChildren lists the agent's children. Orphans are children of its first thread.
// Commands, and processes that they make with CLONE_PARENT, are children of the
// spawner's thread. Other threads have no children.
func (x *treeIndex) ownChildren() ([]int, error) {
	own := strconv.Itoa(os.Getpid()) + "/task/"
	pids, err := readChildren(x.proc, own+strconv.Itoa(os.Getpid()))
	if errors.Is(err, unix.ENOENT) {
		return x.childrenByScan(os.Getpid())
	}
	if err != nil || x.spawner == os.Getpid() {
		return pids, err
	}
	more, err := readChildren(x.proc, own+strconv.Itoa(x.spawner))
	return append(pids, more...), err
}

// childrenOf lists the children of all threads of a process.
func (x *treeIndex) childrenOf(pid int) (found []int) {
	tids, _ := listNumbers(x.proc, strconv.Itoa(pid)+"/task")
	for _, tid := range tids {
		pids, err := readChildren(x.proc, strconv.Itoa(pid)+"/task/"+strconv.Itoa(tid))
		if errors.Is(err, unix.ENOENT) {
			if found, err = x.childrenByScan(pid); err == nil {
				return found
			}
		}
		found = append(found, pids...)
	}
	return found
}

// childrenByScan finds children on a kernel without lists of them.
func (x *treeIndex) childrenByScan(parent int) (found []int, err error) {
	pids, err := listNumbers(x.proc, ".")
	for _, pid := range pids {
		if s, err := readStat(x.proc, pid); err == nil && s.ppid == parent {
			found = append(found, pid)
		}
	}
	return found, err
}

func lives(pidfd int) bool { return unix.PidfdSendSignal(pidfd, 0, nil, 0) != unix.ESRCH }

// attribute returns the tree that an orphan belongs to, and with which it is killed. It
// also returns other trees that the orphan may belong to: while it is alive, none of these
// is proved to be dead. Properties that a process can set itself prove nothing.
func (x *treeIndex) attribute(o stat) (owner *processTree, doubt []*processTree) {
	if t := ofSession(x.open, o); t != nil && x.leads(t) {
		return t, nil // the number is still in use, so no other tree has it
	}
	may, sure := x.candidates(o)
	owner = ofSession(may, o)
	if owner == nil && len(may) == 1 && (sure || !x.strangers) {
		owner = may[0] // no other tree could have made it
	}
	named := x.named(o.pid)
	switch {
	case owner == nil && x.tag.locks == 0 && named != nil:
		return named, nil // nothing is more certain
	case owner == nil:
		return named, may
	case named != nil && named != owner:
		doubt = append(doubt, named) // one of the two is forged
	}
	return owner, doubt
}

// candidates returns the trees that an orphan may belong to, by its birth and its
// tag; sure reports that the tag was read.
func (x *treeIndex) candidates(o stat) (may []*processTree, sure bool) {
	first, last, sure := x.tag.read(x.proc, o.pid)
	var older []*processTree
	for _, t := range x.open {
		if t.born > o.born {
			continue
		}
		older = append(older, t)
		if t.number == 0 || first <= t.number && t.number <= last {
			may = append(may, t)
		}
	}
	if !sure || len(may) == 0 { // no tag, or a tag of no tree
		return older, false
	}
	return may, true
}

// ofSession finds the tree whose command has made the orphan's session or
// group, the youngest first: numbers of the dead are used again.
func ofSession(may []*processTree, o stat) *processTree {
	for i := len(may) - 1; i >= 0; i-- {
		if t := may[i]; t.pid == o.session || t.pid == o.group {
			return t
		}
	}
	return nil
}

// leads reports whether the command of a tree is still running.
func (x *treeIndex) leads(t *processTree) bool {
	p := x.reaper.procs[t.pid]
	return p != nil && p.Mark.tree == t
}

// named returns the tree whose UTS namespace a process is in. A process needs
// privilege to leave it, or to enter another's.
func (x *treeIndex) named(pid int) *processTree {
	ino, err := namespaceOf(x.proc, strconv.Itoa(pid))
	if err != nil {
		return nil
	}
	for i := len(x.open) - 1; i >= 0; i-- {
		if t := x.open[i]; t.ino != 0 && t.ino == ino {
			return t
		}
	}
	return nil
}
