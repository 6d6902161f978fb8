package cgroup

import (
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is where a cgroup2 hierarchy, or a part of it, can be seen.
type Mount struct {
	// Path is the mount point.
	Path string
	// Root is the group that is seen there, as this process's cgroup namespace
	// names it: "/" is the namespace's own root, "/.." the group above that.
	Root string
	// ReadOnly says that nothing can be changed through it.
	ReadOnly bool
}

// Find looks for the cgroup2 mount in which this process's own group can be
// seen: at /sys/fs/cgroup, beside version 1 hierarchies, or anywhere else.
// One that can be changed goes before one that cannot, then one that shows
// more. It fails with ErrNotMounted.
func Find() (Mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Mount{}, &Error{Op: "find", Object: "cgroup2", Err: err, Hint: "mount /proc"}
	}
	own, err := Own()
	if err != nil {
		return Mount{}, err
	}
	for _, m := range sortMounts(parseMounts(string(text)), own) {
		// Another mount may hide it.
		var fs unix.Statfs_t
		if unix.Statfs(m.Path, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
			return m, nil
		}
	}
	return Mount{}, &Error{Op: "find", Object: "cgroup2", Err: ErrNotMounted, Hint: "mount -t cgroup2 none /sys/fs/cgroup"}
}

// sortMounts gives the mounts that show a group, the best first. Of equals the
// later one is above the earlier.
func sortMounts(mounts []Mount, own string) []Mount {
	var found []Mount
	for _, m := range slices.Backward(mounts) {
		if _, ok := m.below(own); ok {
			found = append(found, m)
		}
	}
	slices.SortStableFunc(found, func(a, b Mount) int {
		if a.ReadOnly != b.ReadOnly {
			if a.ReadOnly {
				return 1
			}
			return -1
		}
		return depth(a.Root) - depth(b.Root)
	})
	return found
}

// depth says how far below the namespace's root a group is; above, it is negative.
func depth(group string) int {
	n := 0
	for name := range strings.SplitSeq(group, "/") {
		switch name {
		case "":
		case "..":
			n--
		default:
			n++
		}
	}
	return n
}

// Own is this process's group, as its cgroup namespace names it: "/..", and so
// on, where it is not inside of the namespace's root.
func Own() (string, error) { return groupOf("self") }

// Of is the group of another process, named in the same way.
func Of(pid int) (string, error) { return groupOf(strconv.Itoa(pid)) }

func groupOf(process string) (string, error) {
	text, err := os.ReadFile("/proc/" + process + "/cgroup")
	if err != nil {
		return "", &Error{Op: "find", Object: "the group of process " + process, Err: err, Hint: "mount /proc"}
	}
	group, ok := parseOwn(string(text))
	if !ok {
		return "", &Error{Op: "find", Object: "the group of process " + process, Err: ErrNotMounted, Hint: "use a kernel with cgroup v2"}
	}
	return group, nil
}

// Dir is where a group's directory is.
func (m Mount) Dir(group string) (string, error) {
	rel, ok := m.below(group)
	if !ok {
		return "", &Error{Op: "find", Object: group, Err: errors.New("it lies outside of what " + m.Path + " shows")}
	}
	return path.Join(m.Path, rel), nil
}

// below gives a group's path below the mount's root. What ".." leads up from has a
// name that cannot be known here.
func (m Mount) below(group string) (rel string, ok bool) {
	if group == m.Root {
		return "", true
	}
	rel, ok = strings.CutPrefix(group, strings.TrimSuffix(m.Root, "/")+"/")
	return rel, ok && !slices.Contains(strings.Split(rel, "/"), "..")
}
