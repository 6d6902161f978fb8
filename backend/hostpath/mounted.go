package hostpath

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// mounted is a line of mountinfo: the visible mount at one mount point.
type mounted struct {
	device, root string // the file system's device, and the directory in it that is mounted
	at           string // the mount point
	kind         string // the type of the file system
	readOnly     bool
}

// mountedAll reads the mounts of this host, by mount point. Of several mounts at one
// point only the last is visible.
func mountedAll() map[string]mounted {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil // not Linux
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

// NothingBelow refuses a writable mount below which the host has mounted something, for
// a wall that can neither cover it nor make it read-only. It allows mounts that the spec
// itself names as writable, and read-only ones. It also allows a mount that shows the same
// directory as the path would without it, as a sandbox around this one makes them.
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

// kernelKinds are file systems through which programs talk to the kernel itself.
var kernelKinds = []string{"binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "mqueue",
	"proc", "pstore", "securityfs", "selinuxfs", "sysfs", "tracefs"}

// noKernelBelow refuses a mount below which the host has mounted such a file system, as in
// a directory for chroot(8), because it would come along. all are the host's mounts.
func noKernelBelow(mounts []Mount, all map[string]mounted) error {
	// A sandbox around this one covers files with /dev/null.
	cover := func(m mounted) bool {
		info, err := os.Lstat(m.at)
		return m.kind == "devtmpfs" && err == nil && !info.IsDir()
	}
	for _, m := range mounts {
		var found []string
		for at, below := range all {
			if m.Dir && Under(at, m.Source) && slices.Contains(kernelKinds, below.kind) && !cover(below) {
				found = append(found, at+" ("+below.kind+")")
			}
		}
		if slices.Sort(found); len(found) > 0 {
			return Refuse(m.named(), m.Source, "it shows the kernel's own file systems: "+strings.Join(found, ", "), "unmount them, or name a directory without them")
		}
	}
	return nil
}

// mountOf returns the mount of the host that contains a path.
func mountOf(all map[string]mounted, file string) mounted {
	for at := file; ; at = path.Dir(at) {
		if m, ok := all[at]; ok || at == "/" {
			return m
		}
	}
}

// place is where a file system has a directory or a file, whatever paths of this host show it.
type place struct{ device, path string }

func placeOf(all map[string]mounted, at string) place {
	base := mountOf(all, at)
	rel, _ := Within(at, base.at)
	return place{base.device, path.Join(base.root, rel)}
}

// within is [Within] for places. The zero place is nowhere.
func (p place) within(dir place) (rel string, ok bool) {
	if p.device != dir.device || p == (place{}) {
		return "", false
	}
	return Within(p.path, dir.path)
}

// others are other paths of this host that lead to the same place without any link,
// because a directory is mounted a second time.
type others struct {
	itself []string // lead to the path itself
	parts  []string // lead to something below it
}

// otherPaths finds the other paths of a way among the host's mounts.
func otherPaths(all map[string]mounted, way *Way) others {
	last := Dir{way.Path, way.Identity, way.Mode, way.UID} // the last directory of the way that exists
	if !way.Exists {
		last = way.Dirs[len(way.Dirs)-1]
	}
	rest, _ := Within(way.Path, last.Path)
	here := placeOf(all, last.Path)
	var o others
	for _, m := range all {
		root := place{m.device, m.root}
		if rel, ok := here.within(root); ok {
			at := path.Join(m.at, rel)
			if at == last.Path || mountOf(all, at).at != m.at {
				continue
			}
			var st dirfd.Stat
			if err := st.Of(unix.AT_FDCWD, at); err == nil && st.Same(last.Identity) || errors.Is(err, unix.EACCES) { // it may lead there
				o.itself = append(o.itself, path.Join(at, rest))
			}
		} else if _, ok := root.within(here); ok && way.Exists && !Under(m.at, way.Path) {
			o.parts = append(o.parts, m.at)
		}
	}
	slices.Sort(o.itself)
	slices.Sort(o.parts)
	return o
}

// Under reports whether file is dir or lies below it. Both are absolute and clean.
func Under(file, dir string) bool {
	_, ok := Within(file, dir)
	return ok
}

// UnderAny reports whether a path is one of these, or lies below one.
func UnderAny(at string, in map[string]bool) bool {
	for ; at != "/"; at = filepath.Dir(at) {
		if in[at] {
			return true
		}
	}
	return false
}

// other returns another path by which one of Paddock's own files is in a mount, or contains the
// mount, although the file's own path does not show this. It returns "" if there is none.
func (c Cover) other(way *Way, o others, m Mount) string {
	if !Under(c.Path, m.Source) {
		if way.Exists && way.Same(m.ID) {
			return m.Source
		}
		if i := slices.IndexFunc(way.Dirs, func(d Dir) bool { return d.Same(m.ID) }); i >= 0 {
			return path.Join(m.Source, strings.TrimPrefix(c.Path, way.Dirs[i].Path))
		}
	}
	for _, at := range o.itself {
		if Under(at, m.Source) || c.Hidden && Under(m.Source, at) {
			return at
		}
	}
	if !c.Hidden || !way.Exists || Under(m.Source, c.Path) {
		return ""
	}
	for _, at := range o.parts {
		if Under(at, m.Source) || Under(m.Source, at) {
			return at
		}
	}
	if slices.ContainsFunc(m.dirs, func(d Dir) bool { return d.Same(way.Identity) }) {
		return m.Source
	}
	return ""
}

// bare refuses the source of an overlay below which the host has mounted something: an overlay
// shows no mounts, but what they cover. all are the host's mounts.
func (m *Mount) bare(all map[string]mounted) error {
	var found []string
	for at := range all {
		if at != m.Source && Under(at, m.Source) {
			found = append(found, at)
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	const shown = 8
	more := ""
	if n := len(found) - shown; n > 0 {
		more = " and " + strconv.Itoa(n) + " more"
	}
	return Refuse(m.named(), m.Source, "the host has mounted something below it, and an overlay would lay bare what is under that: "+strings.Join(found[:min(shown, len(found))], ", ")+more,
		"use `workspace.mode` copy or bind, or unmount it")
}
