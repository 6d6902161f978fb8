package namespace

import (
	"context"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/descent"
)

// patience is how long processes have to die in.
const patience = 20 * time.Second

// end kills what is left below the helper, and says whether nothing is.
// The control group, where there is one, takes all of it at once; without one
// they are stopped first, as what stands still makes no others.
func (h *helper) end(ended bool) answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	seen := map[string]bool{}
	if !ended || !h.isAlone(2*time.Millisecond) { // most leave nothing behind
		h.note(seen)
	}
	empty := h.group == nil || h.emptyGroup(ctx)
	gone := h.isAlone(0) || descent.End(ctx, h.dead, func() []descent.Process { return h.note(seen) })
	a := answer{Survivors: len(seen), Proved: gone && empty && (h.holds.Load() || !h.adopts())}
	left := 0
	if !gone {
		left = len(h.living())
	}
	a.Killed = max(0, a.Survivors-left)
	return a
}

// isAlone says whether there is no child any more, and waits for that a while.
func (h *helper) isAlone(wait time.Duration) bool {
	select {
	case <-h.dead:
		return true
	case <-time.After(wait):
		return false
	}
}

// emptyGroup kills what is in the control group, and says whether nothing is.
func (h *helper) emptyGroup(ctx context.Context) bool {
	if populated, err := h.group.Populated(); err == nil && !populated {
		return true
	}
	return h.group.Kill() == nil && h.group.WaitEmpty(ctx) == nil
}

// adopts says whether what the command leaves behind may become the child of a
// stranger: of the init of a pid namespace that was entered without a fork.
func (h *helper) adopts() bool {
	return h.join&unix.CLONE_NEWPID != 0 && h.order.Enter != nil && h.order.Enter.NoFork
}

// note notes who lives, but for the children that only wait.
func (h *helper) note(seen map[string]bool) []descent.Process {
	found := h.living()
	for _, p := range found {
		if !h.attends(p) {
			seen[p.Who()] = true
		}
	}
	return found
}

// attends says whether a process is no part of the command, but stands before
// it: the first child or, where there are two forks, that one's only child.
func (h *helper) attends(p descent.Process) bool {
	return h.forks > 0 && p.PID == h.child || h.forks > 1 && p.Parent == h.child
}

// living lists what lives below the helper. Children that attend to others are
// not in it: they end with the last of these, of which none goes astray until then.
func (h *helper) living() []descent.Process {
	all := descent.Below(os.Getpid())
	parents := map[int]bool{}
	for _, p := range all {
		parents[p.Parent] = true
	}
	return slices.DeleteFunc(all, func(p descent.Process) bool {
		return p.Ended() || h.attends(p) && parents[p.PID]
	})
}

// commandPID is the command's, 0 where it is not there yet or any more.
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
