package spawn

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

const (
	// exitGrace is how long a search waits for processes whose marks cannot be
	// read, because most of them are about to end.
	exitGrace = 20 * time.Millisecond
	// KillTimeout bounds how long a tree's last process is searched for and killed.
	KillTimeout = 5 * time.Second
)

// Trees finds every process of a command's tree by the tree's mark, in a proc
// of the outer pid namespace that nothing else can see.
type Trees struct {
	proc     int // directory handle
	init     int
	index    *treeIndex   // finds the members without walls, nil inside walls
	unmarked bool         // the agent may not make namespaces, so trees have no marks
	ownPeak  atomic.Int64 // the agent's peak memory in bytes, as last read
}

// Walled reports whether the commands have namespaces of their own, which the
// kernel ends with the agent.
func (t *Trees) Walled() bool { return t.index == nil }

// Everything returns a mark of all descendants of an agent without walls.
func (t *Trees) Everything() Mark { return Mark{fd: -1, tree: &processTree{index: t.index, all: true}} }

// Means returns how a tree's members are recognized: wire.KillMark or, if the
// agent may not make namespaces, the weaker wire.KillDescendants.
func (t *Trees) Means() string {
	if t.unmarked {
		return wire.KillDescendants
	}
	return wire.KillMark
}

// Mark is the UTS namespace of one command's tree. The open handle keeps the kernel
// from using its number again. Without walls there is also a processTree, which is
// all that identifies the tree if the agent may not make namespaces.
type Mark struct {
	fd     int // -1 without a namespace
	Number uint64
	leader int // a pidfd of the tree's first process, which leads a process group; 0 without one
	tree   *processTree
	group  *treeGroup // nil without control groups
}

// Close releases the mark: its tree cannot be found any more.
func (m Mark) Close() {
	if g := m.group; g != nil {
		_ = g.all.work.Remove(g.Name()) // fails, until the sandbox ends, if a process was left alive in it
		_ = g.Close()
	}
	if m.tree != nil {
		m.tree.close()
	}
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
	}
	if m.leader > 0 {
		_ = unix.Close(m.leader)
	}
}

// freeze stops all of the first process's group at once: while a tree that grows is searched for,
// its processes leave no processor to the search. Linux before 6.9 has no such call.
func (m Mark) freeze() {
	if m.leader > 0 {
		_ = unix.PidfdSendSignal(m.leader, unix.SIGSTOP, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	}
}

// Member is a process of a tree, pinned by a pidfd.
type Member struct {
	PID   int
	PIDFD int
}

// Members lists the living processes of a tree. unknown counts processes whose
// mark could not be read, each of which might belong to it.
func (t *Trees) Members(m Mark) (found []Member, unknown int, err error) {
	if t.index != nil {
		return t.index.members(m.tree)
	}
	pids, err := listNumbers(t.proc, ".")
	if err != nil {
		return nil, 0, err
	}
	deadline := time.Now().Add(exitGrace)
	for _, pid := range pids {
		if pid == os.Getpid() || pid == t.init {
			continue
		}
		pidfd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			unknown++ // a next search has room, once some of these have ended
			continue
		}
		if err != nil {
			continue // it has ended meanwhile
		}
		// The pidfd was opened first, so the mark is that of the process which it
		// pins, or that process is dead already.
		marked, err := t.carries(pid, m)
		if err != nil {
			if awaitPidfd(pidfd, deadline) {
				err = nil // it has ended, and is in no tree
			} else {
				marked, err = t.carries(pid, m)
			}
		}
		switch {
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

// carries reports whether a living thread of pid has the mark. The leader of
// a process may have exited while other threads continue, so a leader without
// namespaces proves nothing about them. A process whose program is unreadable hides
// its mark while it exits.
func (t *Trees) carries(pid int, m Mark) (bool, error) {
	base := strconv.Itoa(pid)
	ino, err := namespaceOf(t.proc, base)
	if err == nil {
		return ino == m.Number, nil
	}
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
		return false, err
	}
	tids, _ := listNumbers(t.proc, base+"/task") // none if it has ended meanwhile
	for _, tid := range tids {
		if ino, err := namespaceOf(t.proc, base+"/task/"+strconv.Itoa(tid)); err == nil && ino == m.Number {
			return true, nil
		}
	}
	return false, nil
}

// Kill kills every process of a tree and returns when none is left: how many
// there were, and whether their death is proved. It is not proved if a
// process could not be inspected, or outlived KillTimeout.
func (t *Trees) Kill(m Mark) (killed int, proved bool) {
	m.freeze()
	return KillFound(func() ([]Member, int, error) { return t.Members(m) }, func() {
		if m.group != nil {
			_ = m.group.Kill() // this also kills processes that start meanwhile
		}
	})
}

// KillFound kills, as Kill does, the processes that find returns, and closes their
// pidfds. It calls before in each round, before it sends a signal.
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
		// killed: stopped processes start no others, and still count towards a
		// limit on processes, so each round finds fewer new ones.
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

// Signal sends a signal to every process of a tree that one search finds.
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

// Count returns how many processes a tree has, and whether every process could be
// inspected.
func (t *Trees) Count(m Mark) (n int, proved bool) {
	found, unknown, err := t.Members(m)
	for _, p := range found {
		unix.Close(p.PIDFD)
	}
	return len(found), err == nil && unknown == 0
}

// Born returns when a process began, in clock ticks since boot, 0 if that
// cannot be read.
func (t *Trees) Born(pid int) uint64 {
	st, err := readStat(t.proc, pid)
	if err != nil {
		return 0
	}
	return st.born
}

// Runs reports whether a process lives that has this pid, was born at this time
// and has this mark. Without a mark it returns false: another process could have the
// same pid and time.
func (t *Trees) Runs(pid int, born, mark uint64) bool {
	if pid <= 1 || mark == 0 {
		return false
	}
	st, err := readStat(t.proc, pid)
	if err != nil || st.born != born || st.state == 'Z' {
		return false
	}
	ino, err := namespaceOf(t.proc, strconv.Itoa(pid))
	return err == nil && ino == mark
}

// LastPID returns the number of the youngest process in the agent's pid namespace,
// "" if that cannot be read.
func (t *Trees) LastPID() string {
	text, err := readFileAt(t.proc, "sys/kernel/ns_last_pid", 32)
	if err != nil {
		return ""
	}
	return string(text)
}

// StopGroup ends the processes of a process group by SIGTERM, after grace by
// SIGKILL, and returns how many it had to kill.
func (t *Trees) StopGroup(id int, grace time.Duration) (killed int) {
	var group []Member
	pids, _ := listNumbers(t.proc, ".")
	for _, pid := range pids {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// Read after the pidfd was opened, so that the signal goes to the process that
		// was inspected.
		if st, err := readStat(t.proc, pid); err != nil || st.group != id {
			unix.Close(pidfd)
			continue
		}
		group = append(group, Member{pid, pidfd})
	}
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
