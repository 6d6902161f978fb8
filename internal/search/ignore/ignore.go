// Package ignore reads the rules of .gitignore files, and globs that are
// written in the same way.
//
// [Parse] reads one file. [Rules.Match] applies it to one path, relative to the directory that
// the file is in. A program that walks a tree applies the files of all directories, from the
// path's own up to the root; the first that decides counts. It does not enter a directory that
// is ignored: nothing in it can be included again.
//
// Rules follow git's documentation (gitignore(5)); as in git, characters are bytes.
// Nothing is read from disk here, and hostile rules cost no more than their length times that of
// the path.
package ignore

import "strings"

// Bounds of a file's text. The rest is ignored.
const (
	// MaxFile is how much of a file of rules counts, in bytes.
	MaxFile = 1 << 20
	// maxRules is how many rules of a file count.
	maxRules = 16 << 10
	// maxRule is how long a rule may be, in bytes: no path is longer.
	maxRule = 4 << 10
)

// Rules are the rules of one file. The zero value has none.
type Rules struct {
	list []rule
}

// rule is one line.
type rule struct {
	keep     bool // it includes again what others ignore
	dirs     bool // it matches directories only
	anywhere bool // it matches names, in any directory
	exact    string
	suffix   string // of a glob that is * and a text
	glob     *Glob  // nil if exact or suffix is set
}

// Parse reads a file of rules. It ignores lines that are not valid, as git does.
func Parse(text []byte) *Rules {
	r := &Rules{}
	rest := strings.TrimPrefix(string(text[:min(len(text), MaxFile)]), "\ufeff")
	for rest != "" && len(r.list) < maxRules {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		if one, ok := parseRule(strings.TrimSuffix(line, "\r")); ok {
			r.list = append(r.list, one)
		}
	}
	return r
}

// parseRule reads one line.
func parseRule(line string) (r rule, ok bool) {
	if strings.HasPrefix(line, "#") || len(line) > maxRule {
		return r, false
	}
	line, _, _ = strings.Cut(line, "\x00")
	line = trimSpaces(line)
	line, r.keep = strings.CutPrefix(line, "!")
	line, r.dirs = strings.CutSuffix(line, "/")
	r.anywhere = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	if r.anywhere {
		switch {
		case !strings.ContainsAny(line, special):
			r.exact = line
			return r, true
		case line[0] == '*' && len(line) > 1 && !strings.ContainsAny(line[1:], special):
			r.suffix = line[1:]
			return r, true
		}
	}
	var err error
	r.glob, err = compile(line, false)
	return r, err == nil
}

// special are the characters that do not stand for themselves.
const special = `*?[\`

// trimSpaces drops the spaces at a line's end that no backslash keeps.
func trimSpaces(line string) string {
	end := -1 // where the spaces at the end begin
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			if end < 0 {
				end = i
			}
			continue
		case '\\':
			i++
		}
		end = -1
	}
	if end >= 0 {
		return line[:end]
	}
	return line
}

// Match applies the rules to a path below the directory of their file. The path has at least
// one name, and the last rule that matches decides.
func (r *Rules) Match(path []string, dir bool) (ignored, decided bool) {
	base := path[len(path)-1:]
	for i := len(r.list) - 1; i >= 0; i-- {
		if one := &r.list[i]; one.matches(path, base, dir) {
			return !one.keep, true
		}
	}
	return false, false
}

func (r *rule) matches(path, base []string, dir bool) bool {
	switch {
	case r.dirs && !dir:
		return false
	case r.exact != "":
		return r.exact == base[0]
	case r.suffix != "":
		return strings.HasSuffix(base[0], r.suffix)
	case r.anywhere:
		return r.glob.Match(base)
	}
	return r.glob.Match(path)
}

// Empty reports whether there are no rules.
func (r *Rules) Empty() bool { return len(r.list) == 0 }
