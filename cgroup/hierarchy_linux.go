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

// Mount is a mount point of the cgroup2 hierarchy, or of a part of it.
type Mount struct {
	// Path is the mount point.
	Path string
	// Root is the group that is mounted there, as this process's cgroup namespace
	// names it: "/" is the namespace's own root, "/.." the group above that.
	Root string
	// ReadOnly says that nothing can be changed through it.
	ReadOnly bool
}

// Find looks for the cgroup2 mount that shows this process's own group: at
// /sys/fs/cgroup, beside version 1 hierarchies, or anywhere else. It prefers a
// mount that is writable, then one that shows more. It fails with ErrNotMounted.
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

// sortMounts returns the mounts that show a group, the best first. Of equal
// mounts the later one comes first, because it covers the earlier one.
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

// depth returns how far a group is below the namespace's root. It is negative
// for a group above it.
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

// Own returns this process's group, as its cgroup namespace names it. The name
// begins with "/.." if the group is outside of the namespace's root.
func Own() (string, error) { return groupOf("self") }

// Of returns the group of another process, named in the same way.
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

// Dir returns the directory of a group.
func (m Mount) Dir(group string) (string, error) {
	rel, ok := m.below(group)
	if !ok {
		return "", &Error{Op: "find", Object: group, Err: errors.New("the mount at " + m.Path + " does not show it")}
	}
	return path.Join(m.Path, rel), nil
}

// below returns a group's path relative to the mount's root. It fails for a path
// with "..": the names of the groups above the namespace's root are unknown.
func (m Mount) below(group string) (rel string, ok bool) {
	if group == m.Root {
		return "", true
	}
	rel, ok = strings.CutPrefix(group, strings.TrimSuffix(m.Root, "/")+"/")
	return rel, ok && !slices.Contains(strings.Split(rel, "/"), "..")
}

// parseMounts returns the cgroup2 mounts of a mountinfo file (proc_pid_mountinfo(5)):
//
//	41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 none rw,nsdelegate
func parseMounts(text string) []Mount {
	var mounts []Mount
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		dash := slices.Index(fields, "-") // after any number of optional fields
		if dash < 6 || len(fields) < dash+4 || fields[dash+1] != "cgroup2" {
			continue
		}
		m := Mount{Path: unescape(fields[4]), Root: unescape(fields[3])}
		if !strings.HasPrefix(m.Path, "/") || !strings.HasPrefix(m.Root, "/") {
			continue
		}
		// The options of the mount, and of the file system.
		options := strings.Split(fields[5]+","+fields[dash+3], ",")
		m.ReadOnly = slices.Contains(options, "ro")
		mounts = append(mounts, m)
	}
	return mounts
}

// parseOwn returns the group in the version 2 line of a cgroup file (cgroups(7)):
// "0::PATH". The kernel allows no newline in a group's name, and escapes nothing
// here.
func parseOwn(text string) (string, bool) {
	for line := range strings.Lines(text) {
		if own, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok && strings.HasPrefix(own, "/") {
			return strings.TrimSuffix(own, " (deleted)"), true
		}
	}
	return "", false
}

// unescape replaces the kernel's octal escapes of white space and backslashes.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\\' && len(text) >= i+4 {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				c = byte(n)
				i += 3
			}
		}
		plain = append(plain, c)
	}
	return string(plain)
}
