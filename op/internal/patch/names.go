package patch

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// maxHeader bounds a line that names files, in bytes: two paths, quoted. The
// time to take one apart grows with the square of its length.
const maxHeader = 4 << 10

const devNull = "/dev/null"

const pathHint = "name files from the workspace on"

// path reads a path, which git quotes if it has unusual characters.
func (p *parser) path(text string) (string, error) {
	if len(text) > maxHeader {
		return "", p.fail("it is too long for a header", "")
	}
	path, _, ok := unquote(text)
	if !ok {
		return "", p.fail("the quotes of a path are invalid", "")
	}
	if isAbsolute(path) {
		return "", p.fail("a path is absolute", pathHint)
	}
	return path, nil
}

// unquote returns the path that text begins with, and the rest of the text. Without quotes, the
// whole text is the path.
func unquote(text string) (path, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		return text, "", true
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", false
	}
	path, err = strconv.Unquote(quoted)
	return path, text[len(quoted):], err == nil
}

// gitNames splits "X Y" if both are quoted, or if they differ only in a prefix. Else both results
// are empty, and other lines of the header name the files.
func gitNames(text string) (first, second string) {
	if strings.HasPrefix(text, `"`) {
		first, rest, ok := unquote(text)
		if rest, spaced := strings.CutPrefix(rest, " "); ok && spaced && strings.HasPrefix(rest, `"`) {
			if second, _, ok := unquote(rest); ok {
				return first, second
			}
		}
		return "", ""
	}
	for i := range len(text) {
		if text[i] != ' ' {
			continue
		}
		first, second := text[:i], text[i+1:]
		if first == second || afterFirst(first) != "" && afterFirst(first) == afterFirst(second) {
			return first, second
		}
	}
	return "", ""
}

// afterFirst returns a path without its first name, "" if it has only one.
func afterFirst(path string) string {
	_, rest, _ := strings.Cut(path, "/")
	return rest
}

// isAbsolute reports whether a path is absolute and not /dev/null, which stands for no file.
func isAbsolute(path string) bool { return strings.HasPrefix(path, "/") && path != devNull }

// strip removes the first n names from a path.
func strip(path string, n int) string {
	for ; n > 0 && path != devNull; n-- {
		_, after, ok := strings.Cut(path, "/")
		if !ok {
			break
		}
		path = strings.TrimLeft(after, "/")
	}
	return path
}

// nameByGit sets the paths from git's header. If they are invalid, it returns the reason.
func (c *change) nameByGit(h header, asked *int) (reason string) {
	n := 1 // any prefixes: a/x b/x, i/x w/x
	switch {
	case asked != nil:
		n = *asked
	case h.first != "" && h.first == h.second, h.from != "" && h.from == h.before:
		n = 0 // git diff --no-prefix
	}
	both := strip(h.first, n)
	if both != strip(h.second, n) {
		both = ""
	}
	before, after := strip(h.before, n), strip(h.after, n)
	c.old = cmp.Or(strip(h.from, n-1), strings.TrimPrefix(before, devNull), both)
	c.name = cmp.Or(strip(h.to, n-1), strings.TrimPrefix(after, devNull), both)
	wantBefore, wantAfter := c.old, c.name
	switch {
	case c.create:
		c.old, wantBefore = c.name, devNull
	case c.remove:
		c.name, wantAfter = c.old, devNull
	}
	switch {
	case c.old == "" || c.name == "":
		return "the header does not name the file"
	case before != "" && before != wantBefore || after != "" && after != wantAfter:
		return "lines of the header name different files"
	}
	return ""
}

// nameByDiff sets the path by the two names of diff -u.
func (c *change) nameByDiff(h header, asked *int) {
	n := 0
	switch {
	case asked != nil:
		n = *asked
	case h.before == devNull && strings.HasPrefix(h.after, "b/"), h.after == devNull && strings.HasPrefix(h.before, "a/"):
		n = 1
	case h.before != h.after && afterFirst(h.before) != "" && afterFirst(h.before) == afterFirst(h.after):
		n = 1
	}
	before, after := strip(h.before, n), strip(h.after, n)
	switch {
	case before == devNull || h.fresh:
		c.create, c.name = true, after
	case after == devNull || h.gone:
		c.remove, c.name = true, before
	case strings.HasPrefix(after, before):
		c.name = before // the other may be x~ or x.orig
	default:
		c.name = after
	}
	c.old = c.name
}

// cleanPath returns a path of a patch without empty names and dots, or why it is refused.
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
