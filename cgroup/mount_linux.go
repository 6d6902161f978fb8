package cgroup

import (
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Mount is where a cgroup2 hierarchy, or a part of it, can be seen.
type Mount struct {
	// Path is the mount point.
	Path string
	// Root is the group that is seen there, as this process's cgroup namespace
	// names it: "/" is the namespace's own root.
	Root string
	// ReadOnly says that nothing can be changed through it.
	ReadOnly bool
}

// Find looks for the cgroup2 mount in which this process's own group can be
// seen: at /sys/fs/cgroup, beside version 1 hierarchies, or anywhere else.
// One that can be changed goes before one that cannot. It fails with
// ErrNotMounted.
func Find() (Mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Mount{}, &Error{Op: "find", Object: "cgroup2", Err: err, Hint: "mount /proc"}
	}
	own, err := Own()
	if err != nil {
		return Mount{}, err
	}
	var found []Mount
	for _, m := range parseMounts(string(text)) {
		if _, ok := m.below(own); ok {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return Mount{}, &Error{Op: "find", Object: "cgroup2", Err: ErrNotMounted, Hint: "mount -t cgroup2 none /sys/fs/cgroup"}
	}
	slices.SortStableFunc(found, func(a, b Mount) int { return rank(a) - rank(b) })
	return found[0], nil
}

// rank prefers what can be changed, then what shows more.
func rank(m Mount) int {
	n := len(m.Root)
	if m.ReadOnly {
		n += 1 << 20
	}
	return n
}

// parseMounts gives the cgroup2 mounts of a mountinfo file
// (proc_pid_mountinfo(5)).
func parseMounts(text string) []Mount {
	var mounts []Mount
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		fields, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 6 || len(tail) < 3 || tail[0] != "cgroup2" {
			continue
		}
		options := strings.Split(fields[5]+","+tail[2], ",")
		mounts = append(mounts, Mount{Root: unescape(fields[3]), Path: unescape(fields[4]), ReadOnly: slices.Contains(options, "ro")})
	}
	return mounts
}

// unescape undoes the octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Own is this process's group, as its cgroup namespace names it.
func Own() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", &Error{Op: "find", Object: "the process's own group", Err: err, Hint: "mount /proc"}
	}
	own, ok := parseOwn(string(text))
	if !ok {
		return "", &Error{Op: "find", Object: "the process's own group", Err: ErrNotMounted, Hint: "use a kernel with cgroup v2"}
	}
	return own, nil
}

// parseOwn finds the version 2 line of a cgroup file (cgroups(7)): "0::PATH".
func parseOwn(text string) (string, bool) {
	for line := range strings.Lines(text) {
		if own, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			own = strings.TrimSuffix(own, " (deleted)")
			return own, strings.HasPrefix(own, "/")
		}
	}
	return "", false
}

// Dir is where a group's directory is.
func (m Mount) Dir(group string) (string, error) {
	rel, ok := m.below(group)
	if !ok {
		return "", &Error{Op: "find", Object: group, Err: errors.New("it lies outside of what " + m.Path + " shows")}
	}
	return path.Join(m.Path, rel), nil
}

// below gives a group's path below the mount's root. A group outside of the
// cgroup namespace's root begins with "/..".
func (m Mount) below(group string) (rel string, ok bool) {
	switch {
	case m.Root == "/":
		return group, group != "/.." && !strings.HasPrefix(group, "/../")
	case group == m.Root:
		return "", true
	}
	return strings.CutPrefix(group, m.Root+"/")
}
