package patch

import (
	"fmt"
	"strings"
)

const devNull = "/dev/null"

const absoluteHint = "name files from the workspace on"

// isAbsolute says whether a path that may be quoted is absolute, and not the
// name of no file.
func isAbsolute(name string) bool {
	bare := strings.TrimPrefix(name, `"`)
	return strings.HasPrefix(bare, "/") && bare != devNull && !strings.HasPrefix(bare, devNull+"\t")
}

// halves takes "X Y" apart where the two are unquoted and alike but for a
// prefix, or both are quoted; else both are empty, and other lines of the
// header name the files.
func halves(names string) (first, second string) {
	if strings.HasPrefix(names, `"`) {
		if first, second, ok := strings.Cut(names[1:], `" "`); ok && strings.HasSuffix(second, `"`) {
			return `"` + first + `"`, `"` + second
		}
		return "", ""
	}
	if n := len(names); n%2 == 1 && names[n/2] == ' ' {
		first, second := names[:n/2], names[n/2+1:]
		if first == second || afterFirst(first) == afterFirst(second) {
			return first, second
		}
	}
	return "", ""
}

// afterFirst is a path without its first name, "" where it has one alone.
func afterFirst(name string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(name, `"`), "/")
	return rest
}

// gitStrip is how many names the paths of git's header lose.
func gitStrip(asked *int, first, second string) int {
	switch {
	case asked != nil:
		return *asked
	case first != "" && first == second:
		return 0 // git diff --no-prefix
	}
	return 1 // whichever prefixes: a/x b/x, i/x w/x
}

// plainStrip is gitStrip for the two names of diff -u.
func plainStrip(asked *int, before, after string) int {
	if asked != nil {
		return *asked
	}
	before, _, _ = strings.Cut(before, "\t")
	after, _, _ = strings.Cut(after, "\t")
	one, other := strings.TrimPrefix(before, `"`), strings.TrimPrefix(after, `"`)
	switch {
	case before == devNull && strings.HasPrefix(other, "b/"), after == devNull && strings.HasPrefix(one, "a/"):
		return 1
	case one == other:
		return 0
	case afterFirst(before) != "" && afterFirst(before) == afterFirst(after):
		return 1
	}
	return 0
}

// stripName takes the first n names from a path, which may be quoted and be
// followed by a time. A slash is never written in another way in quotes.
func stripName(text string, n int) string {
	name, rest, _ := strings.Cut(text, "\t")
	if rest != "" {
		rest = "\t" + rest
	}
	quote := ""
	if strings.HasPrefix(name, `"`) {
		quote, name = `"`, name[1:]
	}
	if name == devNull {
		return text
	}
	for ; n > 0; n-- {
		_, after, ok := strings.Cut(name, "/")
		if !ok {
			break
		}
		name = strings.TrimLeft(after, "/")
	}
	return quote + name + rest
}

// addPrefix puts a prefix before a path that may be quoted.
func addPrefix(name, prefix string) string {
	switch {
	case strings.HasPrefix(name, `"`):
		return `"` + prefix + name[1:]
	case name == devNull || strings.HasPrefix(name, devNull+"\t"):
		return name
	}
	return prefix + name
}

// cleanPath is a path of a patch with each of its names, and why it is refused.
func cleanPath(name string) (path, reason string) {
	switch {
	case name == "":
		return "", "it has no name"
	case name[0] == '/':
		return "", "its path is absolute"
	case len(name) > 4096:
		return "", "its path is too long"
	case strings.ContainsAny(name, "\x00\n\r"):
		return "", "its path has a control character"
	}
	var names []string
	for _, n := range strings.Split(name, "/") {
		switch {
		case n == "" || n == ".":
		case n == "..":
			return "", "its path leads up with .."
		case strings.EqualFold(n, ".git"):
			return "", "its path is within .git"
		default:
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "", fmt.Sprintf("%q names no file", name)
	}
	return strings.Join(names, "/"), ""
}
