package hostpath

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// mounted is a line of mountinfo: what can be seen at one place.
type mounted struct {
	device, root string // of the file system, and where in it
	at           string // the mount point
	kind         string // of file system
	readOnly     bool
}

// mountedAll reads what is mounted on this host, by mount point. Of several at
// one point the last is seen.
func mountedAll() map[string]mounted {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil // no Linux
	}
	all := map[string]mounted{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // as proc_pid_mountinfo(5) numbers them, from 1
		if len(f) < 6 {
			continue
		}
		at := Unescape(f[4])
		m := mounted{device: f[2], root: Unescape(f[3]), at: at, readOnly: slices.Contains(strings.Split(f[5], ","), "ro")}
		if i := slices.Index(f, "-"); i >= 0 && i+1 < len(f) {
			m.kind = f[i+1]
		}
		all[at] = m
	}
	return all
}

// MountedBelow returns the host's mount points strictly below a directory, parents
// first.
func MountedBelow(dir string) []string {
	var found []string
	for at := range mountedAll() {
		if rel, ok := Within(at, dir); ok && rel != "" {
			found = append(found, at)
		}
	}
	slices.Sort(found)
	return found
}

// Unescape undoes the octal escapes of /proc/PID/mountinfo.
func Unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// NothingBelow refuses a writable mount below which the host has mounted
// something, for a wall that can neither cover it nor make it read-only. What
// the spec names as writable itself is meant. What is read-only cannot be
// written to, and a mount of the directory that is there anyhow, as a sandbox
// around this one makes it, shows nothing else.
func NothingBelow(mounts []Mount, wall string) error {
	all := mountedAll()
	for _, m := range mounts {
		if !m.Writable || !m.Dir {
			continue
		}
		base := mountOf(all, m.Source)
		for _, at := range MountedBelow(m.Source) {
			below := all[at]
			rel, _ := Within(at, base.at)
			if below.readOnly || below.device == base.device && below.root == path.Join(base.root, rel) {
				continue
			}
			if !slices.ContainsFunc(mounts, func(o Mount) bool { return o.Writable && o.Source == at }) {
				return Refuse(m.named(), m.Source, at+" is a mount of the host below it, which "+wall+" cannot make read-only",
					"name another directory, or, with backend linux, mount it by name, as writable: `mounts.rw` "+policy.ShellWord(at))
			}
		}
	}
	return nil
}

// kernelKinds are file systems through which the kernel itself is spoken to.
var kernelKinds = []string{"binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "mqueue",
	"proc", "pstore", "securityfs", "selinuxfs", "sysfs", "tracefs"}

// cover reports whether it is a device over a file, as a sandbox around this one
// covers files with /dev/null.
func (m mounted) cover() bool {
	info, err := os.Lstat(m.at)
	return m.kind == "devtmpfs" && err == nil && !info.IsDir()
}

// noKernelBelow refuses mounts below which the host, with all these mounts, has
// mounted such a file system, as a directory for chroot(8) has it: it would come along.
func noKernelBelow(mounts []Mount, all map[string]mounted) error {
	for _, m := range mounts {
		var found []string
		for at, below := range all {
			if m.Dir && Under(at, m.Source) && slices.Contains(kernelKinds, below.kind) && !below.cover() {
				found = append(found, at+" ("+below.kind+")")
			}
		}
		if slices.Sort(found); len(found) > 0 {
			return Refuse(m.named(), m.Source, "it shows the kernel's own file systems: "+strings.Join(found, ", "), "unmount them, or name a directory without them")
		}
	}
	return nil
}

// mountOf finds the mount that a path of the host lies in.
func mountOf(all map[string]mounted, file string) mounted {
	for at := file; ; at = path.Dir(at) {
		if m, ok := all[at]; ok || at == "/" {
			return m
		}
	}
}
