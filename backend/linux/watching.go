//go:build linux

package linux

import (
	"strconv"
	"strings"
)

// watch is a limit of a user namespace on what watches files. What processes in
// the namespace have counts for the user who made it, too, and without a limit of
// its own a sandbox could leave that user's other programs none.
type watch struct {
	limit string // its name in /proc/sys/user
	host  string // the host's, for each user, in /proc/sys
	most  int    // enough for editors' servers and tools that build on change
}

var watching = []watch{
	{"max_inotify_instances", "fs/inotify/max_user_instances", 64},
	{"max_inotify_watches", "fs/inotify/max_user_watches", 1 << 16},
}

// bound is at most half of what the host lets one user have.
func (w watch) bound() int {
	text, err := readProc("/proc/sys/" + w.host)
	if err != nil {
		return w.most
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return w.most
	}
	return min(w.most, n/2)
}
