package hostpath

import (
	"os"
	"slices"
	"strings"
)

// MountedBelow gives the host's mount points strictly below a directory, parents
// first.
func MountedBelow(dir string) []string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil // no Linux
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // proc_pid_mountinfo(5): 5 is the mount point
		if len(f) < 5 {
			continue
		}
		if rel, ok := Within(Unescape(f[4]), dir); ok && rel != "" {
			found = append(found, Unescape(f[4]))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Unescape undoes the octal escapes of /proc/PID/mountinfo.
func Unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// NothingBelow refuses a writable mount below which the host has mounted
// something, for a wall that can neither cover it nor make it read-only. What
// the spec names as writable itself is meant.
func NothingBelow(mounts []Mount, wall string) error {
	for _, m := range mounts {
		if !m.Writable || !m.Dir {
			continue
		}
		for _, at := range MountedBelow(m.Source) {
			if !slices.ContainsFunc(mounts, func(o Mount) bool { return o.Writable && o.Source == at }) {
				return Refuse(m.named(), m.Source, at+" is a mount of the host below it, which "+wall+" cannot make read-only",
					"name another directory, or mount it by name, as writable: --rw "+at)
			}
		}
	}
	return nil
}
