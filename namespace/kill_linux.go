package namespace

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long processes have to die in.
const patience = 20 * time.Second

// process is one below the helper.
type process struct {
	pid, parent int
	state       byte
	born        string // in clock ticks: with the number, who it is
}

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
	gone := h.isAlone(0) || h.killAll(ctx, seen)
	a := answer{Killed: len(seen), Proved: gone && empty && (h.holds.Load() || !h.adopts())}
	if !ended && a.Killed > 0 {
		a.Killed-- // the command itself
	}
	if !gone {
		a.Left = len(h.living())
	}
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

// killAll kills until the kernel says that there is no child any more.
func (h *helper) killAll(ctx context.Context, seen map[string]bool) bool {
	pause, stopped := time.Millisecond, map[string]bool{}
	for {
		for moving := true; moving && ctx.Err() == nil; {
			moving = false
			for _, p := range h.note(seen) {
				if !stopped[p.who()] {
					stopped[p.who()], moving = true, true
					p.signal(unix.SIGSTOP)
				}
			}
		}
		for _, p := range h.living() {
			p.signal(unix.SIGKILL)
		}
		select {
		case <-h.dead:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(pause): // the dead are on their way
			pause = min(2*pause, patience/100)
		}
	}
}

// note notes who lives, but for the children that only wait.
func (h *helper) note(seen map[string]bool) []process {
	found := h.living()
	for _, p := range found {
		if !h.attends(p) {
			seen[p.who()] = true
		}
	}
	return found
}

// attends says whether a process is no part of the command, but stands before
// it: the first child or, where there are two forks, that one's only child.
func (h *helper) attends(p process) bool {
	return h.forks > 0 && p.pid == h.child || h.forks > 1 && p.parent == h.child
}

// living lists what lives below the helper. Children that attend to others are
// not in it: they end with the last of these, of which none goes astray until then.
func (h *helper) living() []process {
	all := descendants(os.Getpid())
	parents := map[int]bool{}
	for _, p := range all {
		parents[p.parent] = true
	}
	return slices.DeleteFunc(all, func(p process) bool {
		return p.state == 'Z' || p.state == 'X' || h.attends(p) && parents[p.pid]
	})
}

// commandPID is the command's, 0 where it is not there yet or any more.
func (h *helper) commandPID() int {
	all := descendants(os.Getpid())
	pid := h.child
	for range h.forks {
		next := 0
		for _, p := range all {
			if p.parent == pid && (next == 0 || p.pid < next) {
				next = p.pid
			}
		}
		pid = next
	}
	for _, p := range all {
		if p.pid == pid && p.state != 'Z' {
			return pid
		}
	}
	return 0
}

// who tells it from every other.
func (p process) who() string { return strconv.Itoa(p.pid) + " " + p.born }

// signal sends one, unless the number is somebody else's by now.
func (p process) signal(s unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, ok := readProcess(strconv.Itoa(p.pid)); ok && now.born == p.born {
		_ = unix.PidfdSendSignal(fd, s, nil, 0)
	}
}

// descendants lists all processes below one.
func descendants(pid int) []process {
	children := map[int][]process{}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		if p, ok := readProcess(name); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	found := children[pid]
	for i := 0; i < len(found); i++ { // it grows
		found = append(found, children[found[i].pid]...)
	}
	return found
}

// readProcess reads /proc/PID/stat. The name in it, in brackets, may hold anything.
func readProcess(name string) (process, bool) {
	text, err := os.ReadFile("/proc/" + name + "/stat")
	if err != nil {
		return process{}, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return process{}, false
	}
	pid, err1 := strconv.Atoi(name)
	parent, err2 := strconv.Atoi(string(fields[1]))
	return process{pid: pid, parent: parent, state: fields[0][0], born: string(fields[19])}, err1 == nil && err2 == nil
}
