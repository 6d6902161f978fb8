package layer

import (
	"fmt"
	"strings"
)

// Quote returns a path as git writes it with its usual settings (core.quotePath): in quotation
// marks and with escapes if it has control characters, quotation marks, backslashes or bytes
// above 0x7f, else unchanged. Nothing in it steers a terminal or begins another line.
func Quote(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return path
	}
	const letters = "abtnvfr" // from 7 on
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(path) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case 7 <= c && c < 7+byte(len(letters)):
			b.WriteByte('\\')
			b.WriteByte(letters[c-7])
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// gitDir returns the part of a path up to a name that git takes for its own directory: no
// patch may have such a path. These are .git in any case, and what file systems of Windows
// take for it.
func gitDir(path string) (dir string, ok bool) {
	for at := 0; at < len(path); {
		end := strings.IndexByte(path[at:], '/')
		if end < 0 {
			end = len(path)
		} else {
			end += at
		}
		if isGitName(path[at:end]) {
			return path[:end], true
		}
		at = end + 1
	}
	return "", false
}

func isGitName(name string) bool {
	for part := range strings.SplitSeq(name, `\`) {
		part, _, _ = strings.Cut(strings.ToLower(part), ":")
		switch strings.TrimRight(part, " .") {
		case ".git", "git~1":
			return true
		}
	}
	return false
}

// isModulesName reports whether git takes the last name of a path for .gitmodules, which must
// not be a link.
func isModulesName(path string) bool {
	name := strings.ToLower(path[strings.LastIndexAny(path, `/\`)+1:])
	return strings.HasPrefix(name, ".gitmodules") || strings.HasPrefix(name, "gitmod~") || strings.HasPrefix(name, "gi7eba~")
}
