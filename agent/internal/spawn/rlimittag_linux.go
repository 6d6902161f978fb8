package spawn

import (
	"bytes"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// rlimitTag marks the processes of each tree, for an agent without walls. It uses two
// resource limits that have no effect: file locks, which Linux has not limited
// since 2.4, and the time of real-time programs, which stays at thousands of
// years. Every process inherits them, whatever else it sheds, and without privilege a
// hard limit can only be lowered. One of the two grows with the number of the tree and
// the other shrinks. So a process with both limits unchanged belongs to exactly one
// tree. One that has lowered them may belong to other trees as well, but never stops
// belonging to its own.
//
// It holds the agent's own hard limits, or 0 if it cannot use them.
type rlimitTag struct{ locks, time uint64 }

const (
	// maxTagged is how many trees can be distinguished.
	maxTagged = 1 << 32
	// topTag is the highest limit that is used. It is below the value for
	// "unlimited", which a process may have that was never tagged.
	topTag = 1 << 62
)

// newRlimitTag reads the agent's limits, and checks whether it may change them.
func newRlimitTag() rlimitTag {
	t := rlimitTag{topLimit(unix.RLIMIT_LOCKS), topLimit(unix.RLIMIT_RTTIME)}
	if min(t.locks, t.time) < 2*maxTagged {
		return rlimitTag{}
	}
	return t
}

// topLimit returns the highest value of a limit that a tag may use, 0 if the agent
// cannot set the limit.
func topLimit(resource int) uint64 {
	var had unix.Rlimit
	if unix.Prlimit(0, resource, nil, &had) != nil {
		return 0
	}
	lower := unix.Rlimit{Cur: min(had.Cur, topTag), Max: had.Max} // a soft limit, so it can be undone
	if unix.Prlimit(0, resource, &lower, nil) != nil || unix.Prlimit(0, resource, &had, nil) != nil {
		return 0
	}
	return min(had.Max, topTag)
}

// add returns a command's limits with the tag of a tree, and whether it could add it.
func (t rlimitTag) add(limits []clone.Rlimit, number uint64) (tagged []clone.Rlimit, ok bool) {
	if t.locks == 0 || number >= maxTagged {
		return limits, false
	}
	tagged = slices.DeleteFunc(slices.Clone(limits), func(l clone.Rlimit) bool {
		return l.Resource == unix.RLIMIT_LOCKS || l.Resource == unix.RLIMIT_RTTIME // of an earlier start
	})
	locks, time := t.locks-maxTagged+number, t.time-number
	return append(tagged,
		clone.Rlimit{Resource: unix.RLIMIT_LOCKS, Limit: unix.Rlimit{Cur: locks, Max: locks}},
		clone.Rlimit{Resource: unix.RLIMIT_RTTIME, Limit: unix.Rlimit{Cur: time, Max: time}}), true
}

// read returns the numbers of the first and the last tree that a process may belong to.
// ok is false if its limits do not show this.
func (t rlimitTag) read(proc, pid int) (first, last uint64, ok bool) {
	text, err := readFileAt(proc, strconv.Itoa(pid)+"/limits", 16<<10)
	if err != nil || t.locks == 0 {
		return 0, 0, false
	}
	locks, time := hardLimit(text, "Max file locks"), hardLimit(text, "Max realtime timeout")
	if locks >= t.locks || time >= t.time { // raised, or never set
		return 0, 0, false
	}
	if base := t.locks - maxTagged; locks > base {
		first = locks - base
	}
	last = t.time - time
	return first, last, first <= last
}

// hardLimit finds a limit in the text of /proc/PID/limits.
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
