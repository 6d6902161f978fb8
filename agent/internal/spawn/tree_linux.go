package spawn

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

const (
	// exitGrace is how long a look at all processes waits for those that hide
	// their marks, because most such are about to end.
	exitGrace = 20 * time.Millisecond
	// KillTimeout bounds the hunt for a tree's last process.
	KillTimeout = 5 * time.Second
)

// Trees finds every process of a command's tree by the tree's mark, in a proc
// of the outer pid namespace that nothing else can see.
type Trees struct {
	proc     int // directory handle
	init     int
	index    *treeIndex   // where there are no walls: it finds the members
	unmarked bool         // there are no namespaces to know trees by
	ownPeak  atomic.Int64 // of the agent, in bytes, as last seen
}

// Walled reports whether the commands have namespaces of their own, which the
// kernel ends with the agent.
func (t *Trees) Walled() bool { return t.index == nil }

// Everything returns a mark that all descendants of an agent without walls have.
func (t *Trees) Everything() Mark { return Mark{fd: -1, tree: &processTree{index: t.index, all: true}} }

// Means returns how a tree's members are recognized: wire.KillMark or, where the
// agent may not make namespaces, the weaker wire.KillDescendants.
func (t *Trees) Means() string {
	if t.unmarked {
		return wire.KillDescendants
	}
	return wire.KillMark
}

// Mark is the UTS namespace of one command's tree. The open handle keeps its
// number from being given to another. Without walls there is a processTree as
// well, and where the agent may not make namespaces nothing else.
type Mark struct {
	fd     int // -1 where there is none
	Number uint64
	tree   *processTree
	group  *treeGroup // nil where there are no control groups
}

// Close gives up the mark: its tree cannot be found any more.
func (m Mark) Close() {
	if m.group != nil {
		m.group.remove()
	}
	if m.tree != nil {
		m.tree.close()
	}
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
	}
}

// ownMark returns the mark that the thread tid of this process carries.
func (t *Trees) ownMark(tid int) (Mark, error) {
	path := fmt.Sprintf("%d/task/%d/ns/uts", os.Getpid(), tid)
	fd, err := unix.Openat(t.proc, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Mark{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return Mark{}, os.NewSyscallError("fstat", err)
	}
	return Mark{fd: fd, Number: st.Ino}, nil
}

// Member is a process of a tree, pinned by a pidfd.
type Member struct {
	PID   int
	PIDFD int
}

// Members lists the living processes of a tree. unknown counts processes that
// did not let their mark be read, of which any might belong to it.
func (t *Trees) Members(m Mark) (found []Member, unknown int, err error) {
	if t.index != nil {
		return t.index.members(m.tree)
	}
	pids, err := t.pids()
	if err != nil {
		return nil, 0, err
	}
	deadline := time.Now().Add(exitGrace)
	for _, pid := range pids {
		if pid == os.Getpid() || pid == t.init {
			continue
		}
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // gone meanwhile
		}
		// The pidfd was there before the look, so what is looked at is what
		// it pins, or it is dead already.
		switch marked, err := t.look(pid, pidfd, m, deadline); {
		case err != nil:
			unknown++
		case marked:
			found = append(found, Member{pid, pidfd})
			continue
		}
		unix.Close(pidfd)
	}
	return found, unknown, nil
}

// look is carries with patience: a process whose program nobody may read
// hides its mark while it exits. What has ended is in no tree.
func (t *Trees) look(pid, pidfd int, m Mark, deadline time.Time) (bool, error) {
	marked, err := t.carries(pid, m)
	if err == nil || awaitPidfd(pidfd, deadline) {
		return marked, nil
	}
	return t.carries(pid, m)
}

// carries reports whether a living thread of pid has the mark. The leader of
// a process may have exited while other threads go on, so a leader without
// namespaces says nothing about them.
func (t *Trees) carries(pid int, m Mark) (bool, error) {
	base := strconv.Itoa(pid)
	ino, err := t.namespace(base)
	if err == nil {
		return ino == m.Number, nil
	}
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
		return false, err
	}
	tids, _ := t.list(base + "/task") // none where it is gone meanwhile
	for _, tid := range tids {
		if ino, err := t.namespace(base + "/task/" + strconv.Itoa(tid)); err == nil && ino == m.Number {
			return true, nil
		}
	}
	return false, nil
}

func (t *Trees) namespace(task string) (uint64, error) {
	return namespaceOf(t.proc, task)
}

func (t *Trees) pids() ([]int, error) { return t.list(".") }

func (t *Trees) list(dir string) ([]int, error) { return listNumbers(t.proc, dir) }

// Kill ends every process of a tree and returns when none is left: how many
// there were, and whether their end is proved. It is not proved when a
// process could not be looked at, or outlived KillTimeout.
func (t *Trees) Kill(m Mark) (killed int, proved bool) {
	return KillFound(func() ([]Member, int, error) { return t.Members(m) }, func() {
		if m.group != nil {
			_ = m.group.Kill() // whatever is born meanwhile is meant, too
		}
	})
}

// KillFound is Kill for the processes that find returns, which it closes. Before
// each round it calls before.
func KillFound(find func() (found []Member, unknown int, err error), before func()) (killed int, proved bool) {
	deadline := time.Now().Add(KillTimeout)
	seen := map[int]bool{}
	for round := 0; time.Now().Before(deadline); round++ {
		found, unknown, err := find()
		if err != nil {
			return len(seen), false
		}
		if len(found) == 0 {
			return len(seen), unknown == 0
		}
		// A tree that still grows after a first round is stopped before it is
		// killed: the stopped make no others, and hold the places that a
		// limit on processes leaves, so each round finds fewer new ones.
		sig := unix.SIGKILL
		if round > 0 && slices.ContainsFunc(found, func(p Member) bool { return !seen[p.PID] }) {
			sig = unix.SIGSTOP
		}
		before()
		for _, p := range found {
			seen[p.PID] = true
			_ = unix.PidfdSendSignal(p.PIDFD, sig, nil, 0)
		}
		if sig == unix.SIGKILL {
			// Briefly: more may have been made since these were found.
			limit := time.Now().Add(min(time.Until(deadline), 200*time.Millisecond))
			for _, p := range found {
				awaitPidfd(p.PIDFD, limit)
			}
		}
		for _, p := range found {
			unix.Close(p.PIDFD)
		}
	}
	return len(seen), false
}

// Signal sends to every process of a tree that is found at one look.
func (t *Trees) Signal(m Mark, sig unix.Signal) {
	found, _, _ := t.Members(m)
	for _, p := range found {
		_ = unix.PidfdSendSignal(p.PIDFD, sig, nil, 0)
		unix.Close(p.PIDFD)
	}
}

// Await waits until a tree is empty, or until the deadline, and reports
// whether it is proved to be.
func (t *Trees) Await(m Mark, deadline time.Time) bool {
	for {
		found, unknown, err := t.Members(m)
		for _, p := range found {
			awaitPidfd(p.PIDFD, deadline)
			unix.Close(p.PIDFD)
		}
		if err != nil || len(found) == 0 {
			return err == nil && unknown == 0
		}
		if !time.Now().Before(deadline) {
			return false
		}
	}
}

// awaitPidfd waits for a process to end and reports whether it has.
func awaitPidfd(pidfd int, deadline time.Time) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		left := max(0, time.Until(deadline))
		n, err := unix.Poll(fds, int(left.Milliseconds()))
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// Count returns how many processes a tree has, and whether every process let
// itself be looked at.
func (t *Trees) Count(m Mark) (n int, proved bool) {
	found, unknown, err := t.Members(m)
	for _, p := range found {
		unix.Close(p.PIDFD)
	}
	return len(found), err == nil && unknown == 0
}

// Born returns when a process began, in clock ticks since boot, 0 where that
// cannot be read.
func (t *Trees) Born(pid int) uint64 {
	st, err := readStat(t.proc, pid)
	if err != nil {
		return 0
	}
	return st.born
}

// Runs reports whether a process lives that has this pid, was born at this time
// and has this mark. Without a mark that cannot be told, and a stranger must not
// be taken for it.
func (t *Trees) Runs(pid int, born, mark uint64) bool {
	if pid <= 1 || mark == 0 {
		return false
	}
	st, err := readStat(t.proc, pid)
	if err != nil || st.born != born || st.state == 'Z' {
		return false
	}
	ino, err := t.namespace(strconv.Itoa(pid))
	return err == nil && ino == mark
}

// LastPID returns the number of the process that was made last where the agent
// lives, "" where that cannot be read.
func (t *Trees) LastPID() string {
	text, err := readFileAt(t.proc, "sys/kernel/ns_last_pid", 32)
	if err != nil {
		return ""
	}
	return string(text)
}

// StopGroup ends the processes of a process group, gently first for grace, and
// returns how many it had to kill.
func (t *Trees) StopGroup(id int, grace time.Duration) (killed int) {
	group := t.group(id)
	for _, p := range group {
		_ = unix.PidfdSendSignal(p.PIDFD, unix.SIGTERM, nil, 0)
	}
	deadline := time.Now().Add(grace)
	for _, p := range group {
		if !awaitPidfd(p.PIDFD, deadline) {
			killed++
			_ = unix.PidfdSendSignal(p.PIDFD, unix.SIGKILL, nil, 0)
			awaitPidfd(p.PIDFD, time.Now().Add(KillTimeout))
		}
		unix.Close(p.PIDFD)
	}
	return killed
}

// group lists the processes of a process group. Each is looked at after its
// pidfd is there, so that what is signalled is what was looked at.
func (t *Trees) group(id int) (found []Member) {
	pids, _ := t.pids()
	for _, pid := range pids {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if st, err := readStat(t.proc, pid); err != nil || st.group != id {
			unix.Close(pidfd)
			continue
		}
		found = append(found, Member{pid, pidfd})
	}
	return found
}
