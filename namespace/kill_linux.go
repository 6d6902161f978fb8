package namespace

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/internal/descent"
)

// patience is how long killed processes may take to end.
const patience = 20 * time.Second

// end kills the processes that are left below the helper, and reports how many
// there were and whether none is left. A control group kills all of them at once;
// without one they are stopped first, because stopped processes cannot fork.
func (h *helper) end(ended bool) answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	seen := map[string]bool{}
	if !ended || !h.isAlone(2*time.Millisecond) { // most commands leave nothing behind
		h.noteLiving(seen)
	}
	empty := true
	if h.group != nil {
		populated, err := h.group.Populated()
		empty = err == nil && !populated || h.group.Kill() == nil && h.group.WaitEmpty(ctx) == nil
	}
	gone := h.isAlone(0) || descent.End(ctx, h.dead, func() []descent.Process { return h.noteLiving(seen) })
	// Processes that the command leaves behind may become children of another process:
	// the init of a pid namespace that was entered without a fork. In that case only the
	// control group proves that none is left.
	adopted := h.join&unix.CLONE_NEWPID != 0 && h.order.Enter != nil && h.order.Enter.NoFork
	a := answer{Survivors: len(seen), Proved: gone && empty && (h.holds.Load() || !adopted)}
	left := 0
	if !gone {
		left = len(h.livingBelow())
	}
	a.Killed = max(0, a.Survivors-left)
	return a
}

// isAlone waits until no child is left, and reports whether that is so in time.
func (h *helper) isAlone(wait time.Duration) bool {
	select {
	case <-h.dead:
		return true
	case <-time.After(wait):
		return false
	}
}

// noteLiving adds the living processes to seen, except the children that only wait, and
// returns them.
func (h *helper) noteLiving(seen map[string]bool) []descent.Process {
	found := h.livingBelow()
	for _, p := range found {
		if !h.waitsForCommand(p) {
			seen[p.Who()] = true
		}
	}
	return found
}

// waitsForCommand reports whether a process is not part of the command, but waits for it:
// the first child or, if there are two forks, that one's only child.
func (h *helper) waitsForCommand(p descent.Process) bool {
	return h.forks > 0 && p.PID == h.child || h.forks > 1 && p.Parent == h.child
}

// livingBelow lists the living processes below the helper. It omits children that
// attend to others: these end after the last of them, and none can be adopted
// elsewhere until then.
func (h *helper) livingBelow() []descent.Process {
	all := descent.Below(os.Getpid())
	parents := map[int]bool{}
	for _, p := range all {
		parents[p.Parent] = true
	}
	return slices.DeleteFunc(all, func(p descent.Process) bool {
		return p.Ended() || h.waitsForCommand(p) && parents[p.PID]
	})
}

// commandPID returns the command's pid, or 0 if it has not started or has ended.
func (h *helper) commandPID() int {
	all := descent.Below(os.Getpid())
	pid := h.child
	for range h.forks {
		next := 0
		for _, p := range all {
			if p.Parent == pid && (next == 0 || p.PID < next) {
				next = p.PID
			}
		}
		pid = next
	}
	for _, p := range all {
		if p.PID == pid && p.State != 'Z' {
			return pid
		}
	}
	return 0
}

// groupPrefix is the prefix of the names of commands' control groups.
const groupPrefix = "paddock-namespace-"

// group is the control group of one command, inside of the caller's. It needs no
// controller: its purpose is to be killed as a whole.
type group struct {
	*cgroup.Group
	parent *cgroup.Group
}

// newGroup makes a group, or returns nil if it cannot. It also removes groups that
// killed processes left behind.
func newGroup() *group {
	m, err := cgroup.Find()
	if err != nil {
		return nil
	}
	own, err := cgroup.Own()
	if err != nil {
		return nil
	}
	dir, err := m.Dir(own)
	if err != nil {
		return nil
	}
	parent, err := cgroup.Open(dir)
	if err != nil {
		return nil
	}
	_, _ = parent.SweepEmpty(groupPrefix) // a later call tries again
	g, err := parent.Create(groupPrefix + rand.Text())
	if err != nil {
		_ = parent.Close()
		return nil
	}
	return &group{g, parent}
}

// kill kills the group if the helper cannot do it any more. It reports whether all
// processes have ended.
func (g *group) kill() bool {
	if g == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return g.Kill() == nil && g.WaitEmpty(ctx) == nil
}

// remove removes the group. If it is not empty, a later sweep does.
func (g *group) remove() {
	if g == nil {
		return
	}
	_ = g.Group.Close() // first: as long as it is open, no sweep removes it
	deadline := time.Now().Add(time.Second)
	for g.parent.Remove(g.Name()) != nil && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // the kernel counts ended processes a moment longer
	}
	_ = g.parent.Close()
}
