package cgroup

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// guard knows what must not be harmed.
type guard struct {
	groups map[string]string // directories, and whose they are
	pids   map[int]string    // processes, and what they are
}

// newGuard looks at this process and its ancestors: the shell or the server
// that asks is one of them.
func newGuard(m Mount) guard {
	g := guard{groups: map[string]string{m.Path: "the root of the hierarchy"}, pids: map[int]string{}}
	for pid := os.Getpid(); pid > 0 && g.pids[pid] == ""; pid = parentOf(pid) {
		what := "an ancestor of Paddock"
		switch pid {
		case os.Getpid():
			what = "Paddock itself"
		case 1:
			what = "the init process"
		}
		g.pids[pid] = what
		g.addGroup(m, pid, what)
	}
	if g.pids[1] == "" {
		g.pids[1] = "the init process"
		g.addGroup(m, 1, g.pids[1])
	}
	return g
}

// addGroup guards the group that a process lives in, and those above. What
// cannot be seen through the mount cannot be reached through it.
func (g *guard) addGroup(m Mount, pid int, what string) {
	group, err := Of(pid)
	if err != nil {
		return
	}
	dir, err := m.Dir(group)
	if err != nil {
		return
	}
	for why := "the group of " + what; len(dir) > len(m.Path); dir = dir[:strings.LastIndexByte(dir, '/')] {
		if g.groups[dir] == "" {
			g.groups[dir] = why
		}
		why = "above the group of " + what
	}
}

// change refuses to write to a guarded group.
func (g *guard) change(dir string) error {
	if what := g.groups[dir]; what != "" {
		return &GuardError{fmt.Sprintf("Refusing to write to %s: it is %s.", dir, what)}
	}
	return nil
}

// remove refuses to remove one.
func (g *guard) remove(mount, dir string) error {
	if dir == mount {
		return &GuardError{"Refusing to remove the cgroup mount root."}
	}
	if what := g.groups[dir]; what != "" {
		return &GuardError{fmt.Sprintf("Refusing to remove %s: it is %s.", dir, what)}
	}
	return nil
}

// move refuses to move a guarded process, by whichever of its threads. These
// live as long as this one does, so their numbers are never another's.
func (g *guard) move(pid int) error {
	if pid < 1 { // 0 would be whoever writes
		return &PathError{Reason: "pid must be a positive integer."}
	}
	what := g.pids[leaderOf(pid)]
	if what == "" && sameProgram(pid) {
		what = "Paddock's own"
	}
	if what != "" {
		return &GuardError{fmt.Sprintf("Refusing to move process %d: it is %s.", pid, what)}
	}
	return nil
}

// sameProgram says whether a process runs the program of this one.
func sameProgram(pid int) bool {
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	other, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/exe")
	return err == nil && os.SameFile(own, other)
}

func parentOf(pid int) int { return statusOf(pid, "PPid:") }

// leaderOf is the process of a thread; the number itself where there is none.
func leaderOf(tid int) int {
	if pid := statusOf(tid, "Tgid:"); pid > 0 {
		return pid
	}
	return tid
}

// statusOf reads a number of /proc/PID/status, 0 where there is none.
func statusOf(pid int, key string) int {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), key); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			return n
		}
	}
	return 0
}
