package cgroup

import (
	"slices"
	"strings"
)

// parseMounts gives the cgroup2 mounts of a mountinfo file (proc_pid_mountinfo(5)):
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
		m.ReadOnly = hasOption(fields[5], "ro") || hasOption(fields[dash+3], "ro")
		mounts = append(mounts, m)
	}
	return mounts
}

func hasOption(list, option string) bool {
	return slices.Contains(strings.Split(list, ","), option)
}

// parseOwn finds the version 2 line of a cgroup file (cgroups(7)): "0::PATH".
// The kernel allows no newline in a group's name, and escapes nothing here.
func parseOwn(text string) (string, bool) {
	for line := range strings.Lines(text) {
		if own, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok && strings.HasPrefix(own, "/") {
			return strings.TrimSuffix(own, " (deleted)"), true
		}
	}
	return "", false
}

// unescape undoes the kernel's octal escapes of white space and backslashes.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if c, ok := octal(text[i:]); ok {
			plain = append(plain, c)
			i += 3
		} else {
			plain = append(plain, text[i])
		}
	}
	return string(plain)
}

// octal is the byte that an escape at the beginning of the text stands for.
func octal(text string) (byte, bool) {
	if len(text) < 4 || text[0] != '\\' || text[1] > '3' {
		return 0, false
	}
	c := byte(0)
	for _, digit := range []byte(text[1:4]) {
		if digit < '0' || digit > '7' {
			return 0, false
		}
		c = c<<3 | (digit - '0')
	}
	return c, true
}
