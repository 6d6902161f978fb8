package policy

import (
	"path"
	"slices"
	"strings"
)

// mounts returns the mounts with their defaults, outer targets first.
func (r *resolver) mounts(mounts []Mount) []Mount {
	if len(mounts) > maxMounts {
		r.refuse("mounts", "", "there are more than 256", "")
		return nil
	}
	mounts = slices.Clone(mounts)
	first := make(map[string]string, len(mounts)) // target: what is mounted there
	for i := range mounts {
		field := index("mounts", i)
		r.mount(field, &mounts[i])
		target := mounts[i].Target
		if other, taken := first[target]; taken && target != "" {
			r.refuse(field+".target", target, "another mount has it, of "+quoteShort(other), "")
			continue
		}
		first[target] = mounts[i].Source
	}
	slices.SortStableFunc(mounts, func(a, b Mount) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	return mounts
}

// mount fills in the defaults of a mount and makes its source absolute.
func (r *resolver) mount(field string, m *Mount) {
	source, ok := r.hostPath(field+".source", m.Source)
	if top := within(source, kernelDirs); ok && top != "" {
		r.refuse(field+".source", m.Source, top+" belongs to the kernel", "a sandbox has a "+top+" of its own")
		source, ok = "", false
	}
	if source == "/" && m.Mode == "rw" {
		r.refuse(field+".source", m.Source, "the whole host cannot be mounted read-write",
			"mount the directories that are needed, or use mode ro")
		source, ok = "", false
	}
	if m.Target == "" && ok {
		m.Target = source
	}
	if m.Target != "" {
		m.Target = r.mountTarget(field+".target", m.Target)
	}
	m.Source = source
	choose(r, field+".mode", &m.Mode, "ro", "rw")
}

// mountTarget returns the absolute path, or "" if it is refused.
func (r *resolver) mountTarget(field, written string) string {
	reason, hint := checkPath(written)
	target := written
	if reason == "" && isHomeRelative(written) {
		target, reason, hint = r.inHome(written)
	}
	if reason == "" {
		reason, hint = checkTarget(target)
	}
	if reason != "" {
		r.refuse(field, written, reason, hint)
		return ""
	}
	return target
}

// checkTarget returns what keeps an absolute path inside from being a mount point.
func checkTarget(target string) (reason, hint string) {
	if !path.IsAbs(target) {
		return "it is not an absolute path", ""
	}
	if slices.Contains(strings.Split(target, "/"), "..") {
		return `it contains ".."`, ""
	}
	if clean := path.Clean(target); clean != target {
		return "it is not a clean path", "write " + quoteShort(clean)
	}
	if target == "/" {
		return "a mount cannot cover the whole sandbox", "name a target below /"
	}
	if top := within(target, kernelDirs); top != "" {
		return "the sandbox has a " + top + " of its own", "choose a target outside " + top
	}
	if top := within(target, systemDirs); top != "" {
		return top + " is read-only inside", "choose a target elsewhere, below /mnt say"
	}
	for _, own := range ownDirs {
		if within(own, []string{target}) != "" {
			return "it would cover the sandbox's own " + own, "choose a target below it or elsewhere"
		}
	}
	return "", ""
}

// The directories that a sandbox has of its own, besides the read-only system
// directories.
const (
	WorkspacePath = "/workspace"  // the workspace; commands start there
	HomePath      = "/home/agent" // HOME, private and empty
	TmpPath       = "/tmp"        // private and empty
)

// SearchPath is PATH inside, where a spec's commands are looked up. All of it is
// read-only.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// The kernel's bounds of a path and of one name in it, in bytes, without the
// terminating NUL.
const (
	maxPath = 4095
	maxName = 255
)

var (
	// kernelDirs are the trees of the kernel's own file systems.
	kernelDirs = []string{"/proc", "/sys", "/dev"}
	// systemDirs are the host's trees, read-only, or made for the sandbox.
	systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"}
	// ownDirs are the mounts that a sandbox could not work without.
	ownDirs = []string{WorkspacePath, HomePath, TmpPath}
)

// hostPath makes a path on the host absolute and clean. ".." removes a name, and
// does not follow links, as in a shell.
func (r *resolver) hostPath(field, written string) (source string, ok bool) {
	reason, hint := checkPath(written)
	switch {
	case reason != "":
	case path.IsAbs(written):
		source = written
	case isHomeRelative(written):
		source, reason, hint = r.inHome(written)
	case written[0] == '~':
		reason, hint = "only the caller's own ~ is known", "write the path in full, or "+quoteShort("./"+written)+" for a file of that name"
	case !path.IsAbs(r.base.Dir):
		reason = "it is relative, and the directory it starts from is not known"
	default:
		source = path.Join(r.base.Dir, written)
	}
	if reason == "" {
		source = path.Clean(source)
		reason, hint = checkPath(source)
	}
	if reason != "" {
		r.refuse(field, written, reason, hint)
		return "", false
	}
	return source, true
}

func isHomeRelative(p string) bool { return p == "~" || strings.HasPrefix(p, "~/") }

// inHome replaces "~" by the caller's home and leaves the rest as written.
func (r *resolver) inHome(p string) (abs, reason, hint string) {
	if !path.IsAbs(r.base.Home) {
		return "", "the home directory is not known", "write the path in full"
	}
	home := path.Clean(r.base.Home)
	if home == "/" {
		home = ""
	}
	if abs = home + p[1:]; abs == "" {
		abs = "/"
	}
	return abs, "", ""
}

// checkPath returns why a text cannot be a path: it exceeds the kernel's bounds, or
// would not fit into a line of a table.
func checkPath(p string) (reason, hint string) {
	switch {
	case p == "":
		return "it is empty", ""
	case strings.ContainsRune(p, 0):
		return "it contains a NUL byte", ""
	case strings.ContainsAny(p, "\n\r"):
		return "it contains a line break", ""
	case len(p) > maxPath:
		return "it is longer than 4095 bytes", ""
	}
	for name := range strings.SplitSeq(p, "/") {
		if len(name) > maxName {
			return "a name in it is longer than 255 bytes", ""
		}
	}
	return "", ""
}

// within returns which of dirs contains p or is p, or "". All are clean.
func within(p string, dirs []string) string {
	for _, d := range dirs {
		if p == d || d == "/" || strings.HasPrefix(p, d) && p[len(d)] == '/' {
			return d
		}
	}
	return ""
}
