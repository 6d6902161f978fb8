package policy

import (
	"path"
	"strings"
	"unicode/utf8"
)

// The directories that a sandbox has of its own, besides the read-only system
// directories.
const (
	WorkspacePath = "/workspace"  // the workspace; commands start there
	HomePath      = "/home/agent" // HOME, private and empty
	TmpPath       = "/tmp"        // private and empty
)

// SearchPath is PATH inside, and where a spec's commands are looked for. All of
// it is read-only.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// The kernel's bounds of a path and of one name in it, in bytes, without the
// terminating NUL.
const (
	maxPath = 4095
	maxName = 255
)

// kernelDirs are the trees through which the kernel itself is spoken to.
func kernelDirs() []string { return []string{"/proc", "/sys", "/dev"} }

// systemDirs are the trees that are the host's, read-only, or made for the sandbox.
func systemDirs() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"}
}

// ownDirs are the mounts that a sandbox could not work without.
func ownDirs() []string { return []string{WorkspacePath, HomePath, TmpPath} }

// hostPath makes a path on the host absolute and clean. As in a shell, ".."
// goes back by name: it does not follow links.
func (r *resolver) hostPath(field, written string) (source string, ok bool) {
	reason, hint := checkPath(written)
	if reason == "" {
		source, reason, hint = r.absolute(written)
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

func (r *resolver) absolute(p string) (abs, reason, hint string) {
	switch {
	case path.IsAbs(p):
		return p, "", ""
	case isHomeRelative(p):
		return r.inHome(p)
	case p[0] == '~':
		return "", "only the caller's own ~ is known",
			"write the path in full, or " + quoteShort("./"+p) + " for a file of that name"
	case !path.IsAbs(r.base.Dir):
		return "", "it is relative, and the directory it starts from is not known", ""
	}
	return path.Join(r.base.Dir, p), "", ""
}

func isHomeRelative(p string) bool { return p == "~" || strings.HasPrefix(p, "~/") }

// inHome puts the caller's home in the place of "~" and leaves the rest as written.
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

// checkPath refuses what no path may hold: the kernel's bounds, and what
// would not survive a line of a table or a string of JSON.
func checkPath(p string) (reason, hint string) {
	switch {
	case p == "":
		return "it is empty", ""
	case strings.ContainsRune(p, 0):
		return "it contains a NUL byte", ""
	case strings.ContainsAny(p, "\n\r"):
		return "it contains a line break", ""
	case !utf8.ValidString(p):
		return "it is not valid UTF-8", ""
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
