package agent

import (
	"errors"
	"fmt"
	"os"
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
	// killTimeout bounds the hunt for a tree's last process.
	killTimeout = 5 * time.Second
)

// trees finds every process of a command's tree by the tree's mark, in a proc
// of the outer pid namespace that nothing else can see.
type trees struct {
	proc     int // directory handle
	init     int
	family   *family      // where there are no walls: it finds the members
	unmarked bool         // there are no namespaces to know trees by
	ownPeak  atomic.Int64 // of the agent, in bytes, as last seen
}

// walled reports whether the commands have namespaces of their own, which the
// kernel ends with the agent.
func (t *trees) walled() bool { return t.family == nil }

// everything returns a mark that all descendants of an agent without walls have.
func (t *trees) everything() mark { return mark{fd: -1, lineage: t.family.everything()} }

// means says by what a tree's members are known. What the kernel keeps for the
// agent is the surest.
func (t *trees) means() string {
	if t.unmarked {
		return wire.KillDescendants
	}
	return wire.KillMark
}

// mark is the UTS namespace of one command's tree. The open handle keeps its
// number from being given to another. Without walls there is a lineage as
// well, and where the agent may not make namespaces nothing else.
type mark struct {
	fd      int // -1 where there is none
	ino     uint64
	lineage *lineage
	group   *treeGroup // nil where there are no control groups
}

func (m mark) close() {
	if m.group != nil {
		m.group.remove()
	}
	if m.lineage != nil {
		m.lineage.close()
	}
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
	}
}

// ownMark is the mark that the thread tid of this process carries.
func (t *trees) ownMark(tid int) (mark, error) {
	path := fmt.Sprintf("%d/task/%d/ns/uts", os.Getpid(), tid)
	fd, err := unix.Openat(t.proc, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return mark{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return mark{}, os.NewSyscallError("fstat", err)
	}
	return mark{fd: fd, ino: st.Ino}, nil
}

// member is a process of a tree, pinned by a pidfd.
type member struct {
	pid   int
	pidfd int
}

// members lists the living processes of a tree. unknown counts processes that
// did not let their mark be read, of which any might belong to it.
func (t *trees) members(m mark) (found []member, unknown int, err error) {
	if t.family != nil {
		return t.family.members(m.lineage)
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
			found = append(found, member{pid, pidfd})
			continue
		}
		unix.Close(pidfd)
	}
	return found, unknown, nil
}

// look is carries with patience: a process whose program nobody may read
// hides its mark while it exits. What has ended is in no tree.
func (t *trees) look(pid, pidfd int, m mark, deadline time.Time) (bool, error) {
	marked, err := t.carries(pid, m)
	if err == nil || awaitPidfd(pidfd, deadline) {
		return marked, nil
	}
	return t.carries(pid, m)
}

// carries reports whether a living thread of pid has the mark. The leader of
// a process may have exited while other threads go on, so a leader without
// namespaces says nothing about them.
func (t *trees) carries(pid int, m mark) (bool, error) {
	base := strconv.Itoa(pid)
	ino, err := t.namespace(base)
	if err == nil {
		return ino == m.ino, nil
	}
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
		return false, err
	}
	tids, _ := t.list(base + "/task") // none where it is gone meanwhile
	for _, tid := range tids {
		if ino, err := t.namespace(base + "/task/" + strconv.Itoa(tid)); err == nil && ino == m.ino {
			return true, nil
		}
	}
	return false, nil
}

func (t *trees) namespace(task string) (uint64, error) {
	return namespaceOf(t.proc, task)
}

func namespaceOf(proc int, task string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(proc, task+"/ns/uts", &st, 0); err != nil {
		return 0, err
	}
	return st.Ino, nil
}

func (t *trees) pids() ([]int, error) { return t.list(".") }

func (t *trees) list(dir string) ([]int, error) { return listNumbers(t.proc, dir) }

// listNumbers gives the numeric entries of a directory below proc.
func listNumbers(proc int, dir string) ([]int, error) {
	fd, err := unix.Openat(proc, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	numbers := make([]int, 0, len(names))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// kill ends every process of a tree and returns when none is left: how many
// there were, and whether their end is proved. It is not proved when a
// process could not be looked at, or outlived killTimeout.
func (t *trees) kill(m mark) (killed int, proved bool) {
	deadline := time.Now().Add(killTimeout)
	seen := map[int]bool{}
	for round := 0; time.Now().Before(deadline); round++ {
		found, unknown, err := t.members(m)
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
		if round > 0 && anyNew(seen, found) {
			sig = unix.SIGSTOP
		}
		if m.group != nil {
			_ = m.group.Kill() // whatever is born meanwhile is meant, too
		}
		for _, p := range found {
			seen[p.pid] = true
			_ = unix.PidfdSendSignal(p.pidfd, sig, nil, 0)
		}
		if sig == unix.SIGKILL {
			awaitEnd(found, deadline)
		}
		for _, p := range found {
			unix.Close(p.pidfd)
		}
	}
	return len(seen), false
}

// signal sends to every process of a tree that is found at one look.
func (t *trees) signal(m mark, sig unix.Signal) {
	found, _, _ := t.members(m)
	for _, p := range found {
		_ = unix.PidfdSendSignal(p.pidfd, sig, nil, 0)
		unix.Close(p.pidfd)
	}
}

// await waits until a tree is empty, or until the deadline, and reports
// whether it is proved to be.
func (t *trees) await(m mark, deadline time.Time) bool {
	for {
		found, unknown, err := t.members(m)
		for _, p := range found {
			awaitPidfd(p.pidfd, deadline)
			unix.Close(p.pidfd)
		}
		if err != nil || len(found) == 0 {
			return err == nil && unknown == 0
		}
		if !time.Now().Before(deadline) {
			return false
		}
	}
}

func anyNew(seen map[int]bool, found []member) bool {
	for _, p := range found {
		if !seen[p.pid] {
			return true
		}
	}
	return false
}

// awaitEnd waits until the killed processes have ended, briefly: more may
// have been made since they were found.
func awaitEnd(killed []member, deadline time.Time) {
	until := min(time.Until(deadline), 200*time.Millisecond)
	limit := time.Now().Add(until)
	for _, p := range killed {
		awaitPidfd(p.pidfd, limit)
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

// count says how many processes a tree has, and whether every process let
// itself be looked at.
func (t *trees) count(m mark) (n int, proved bool) {
	found, unknown, err := t.members(m)
	for _, p := range found {
		unix.Close(p.pidfd)
	}
	return len(found), err == nil && unknown == 0
}

// born returns when a process began, in clock ticks since boot, 0 where that
// cannot be read.
func (t *trees) born(pid int) uint64 {
	st, err := readStat(t.proc, pid)
	if err != nil {
		return 0
	}
	return st.born
}

// runs reports whether a process lives that has this pid, was born at this time
// and has this mark. Without a mark that cannot be told, and a stranger must not
// be taken for it.
func (t *trees) runs(pid int, born, mark uint64) bool {
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

// group lists the processes of a process group. Each is looked at after its
// pidfd is there, so that what is signalled is what was looked at.
func (t *trees) group(id int) (found []member) {
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
		found = append(found, member{pid, pidfd})
	}
	return found
}
