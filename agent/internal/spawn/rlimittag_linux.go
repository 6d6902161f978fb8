package spawn

import (
	"bytes"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// rlimitTag marks the processes of each tree where no walls stand: with two
// resource limits that nothing heeds (file locks, which Linux has not limited
// since 2.4, and the time of real-time programs, which stays at thousands of
// years). Every process inherits them, whatever else it sheds, and a hard limit
// can be lowered by anybody and raised by nobody without privilege. One of the
// two grows with the number of the tree and the other shrinks. So a process
// with both of them as they were is of exactly one tree; one that has lowered
// them may be of others as well, and never ceases to be of its own.
//
// It holds the hard limits that the agent itself has, 0 where it cannot use
// them.
type rlimitTag struct{ locks, time uint64 }

const (
	// maxTagged is how many trees can be told apart.
	maxTagged = 1 << 32
	// topTag is the highest limit that is used. It stays clear of what means
	// "unlimited", which a process may have that was never tagged.
	topTag = 1 << 62
)

// newRlimitTag finds out what the agent has, and whether it may change it.
func newRlimitTag() rlimitTag {
	b := rlimitTag{topLimit(unix.RLIMIT_LOCKS), topLimit(unix.RLIMIT_RTTIME)}
	if min(b.locks, b.time) < 2*maxTagged {
		return rlimitTag{}
	}
	return b
}

// topLimit returns the highest value that a tag may use of a limit, 0 where the
// agent cannot set that.
func topLimit(resource int) uint64 {
	var had unix.Rlimit
	if unix.Prlimit(0, resource, nil, &had) != nil {
		return 0
	}
	lower := unix.Rlimit{Cur: min(had.Cur, topTag), Max: had.Max} // which can be taken back
	if unix.Prlimit(0, resource, &lower, nil) != nil || unix.Prlimit(0, resource, &had, nil) != nil {
		return 0
	}
	return min(had.Max, topTag)
}

// put tags a command, and reports whether it could.
func (b rlimitTag) put(c *clone.Command, number uint64) bool {
	if b.locks == 0 || number >= maxTagged {
		return false
	}
	limits := slices.DeleteFunc(slices.Clone(c.Rlimits), func(l clone.Rlimit) bool {
		return l.Resource == unix.RLIMIT_LOCKS || l.Resource == unix.RLIMIT_RTTIME // of an earlier start
	})
	locks, time := b.locks-maxTagged+number, b.time-number
	c.Rlimits = append(limits,
		clone.Rlimit{Resource: unix.RLIMIT_LOCKS, Limit: unix.Rlimit{Cur: locks, Max: locks}},
		clone.Rlimit{Resource: unix.RLIMIT_RTTIME, Limit: unix.Rlimit{Cur: time, Max: time}})
	return true
}

// read returns the numbers of the trees that a process may be of, the last
// included; ok is false where its limits say nothing.
func (b rlimitTag) read(proc, pid int) (first, last uint64, ok bool) {
	text, err := readFileAt(proc, strconv.Itoa(pid)+"/limits", 16<<10)
	if err != nil || b.locks == 0 {
		return 0, 0, false
	}
	locks, time := hardLimit(text, "Max file locks"), hardLimit(text, "Max realtime timeout")
	if locks >= b.locks || time >= b.time { // raised, or never set
		return 0, 0, false
	}
	if base := b.locks - maxTagged; locks > base {
		first = locks - base
	}
	last = b.time - time
	return first, last, first <= last
}

// hardLimit finds a limit in what proc tells of a process's.
func hardLimit(text []byte, name string) uint64 {
	_, rest, _ := bytes.Cut(text, []byte("\n"+name+" "))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	fields := bytes.Fields(line) // soft, hard, unit
	if len(fields) < 2 {
		return unix.RLIM_INFINITY
	}
	n, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return unix.RLIM_INFINITY
	}
	return n
}
