package ignore

import (
	"fmt"
	"strings"
)

// Bounds of globs that a caller gives.
const (
	maxGlob = 4 << 10 // bytes
	maxSets = 256     // that braces may stand for
)

// Globs are patterns for paths that a caller gives. As in a .gitignore, one without a slash
// matches names in any directory, one with a slash matches whole paths, and one with a slash at
// its end matches directories only; what matches a directory includes all that is in it. {a,b}
// stands for each of its texts, and ? for one character. The zero value matches nothing.
type Globs struct {
	list []rule
}

// GlobError is the error of a glob that cannot be used.
type GlobError struct {
	Index  int // of it in the list
	Reason string
}

// Error returns which glob is wrong, and why.
func (e *GlobError) Error() string { return fmt.Sprintf("glob %d: %s", e.Index+1, e.Reason) }

// ParseGlobs reads globs. An error is a *GlobError.
func ParseGlobs(globs []string) (*Globs, error) {
	g := &Globs{}
	for i, text := range globs {
		wrong := func(reason string) error { return &GlobError{Index: i, Reason: reason} }
		switch {
		case len(text) > maxGlob:
			return nil, wrong(fmt.Sprintf("it is longer than %d bytes", maxGlob))
		case strings.IndexByte(text, 0) >= 0:
			return nil, wrong("it has a NUL character")
		}
		left := maxSets - len(g.list)
		texts, err := expand(text, &left)
		if err != nil {
			return nil, wrong(err.Error())
		}
		for _, one := range texts {
			var r rule
			one, r.dirs = strings.CutSuffix(strings.TrimPrefix(one, "./"), "/")
			r.anywhere = !strings.Contains(one, "/")
			if one = strings.TrimPrefix(one, "/"); one == "" {
				return nil, wrong("it is empty")
			}
			if r.glob, err = compile(one, true); err != nil {
				return nil, wrong(err.Error())
			}
			g.list = append(g.list, r)
		}
	}
	return g, nil
}

var errSets = fmt.Errorf("its braces stand for more than %d globs", maxSets)

// expand returns the globs that braces stand for, at most *left of them.
func expand(text string, left *int) ([]string, error) {
	open, end, commas := braces(text)
	if len(commas) == 0 {
		if *left--; *left < 0 {
			return nil, errSets
		}
		return []string{text}, nil
	}
	var all []string
	from := open + 1
	for _, to := range append(commas, end) {
		some, err := expand(text[:open]+text[from:to]+text[end+1:], left)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		from = to + 1
	}
	return all, nil
}

// braces finds the first pair of braces with a comma, and its commas.
func braces(text string) (open, end int, commas []int) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[': // braces in a set are bytes of it
			if n := strings.IndexByte(text[i+1:], ']'); n >= 0 {
				i += n + 1
			}
		case '{':
			if depth++; depth == 1 {
				open, commas = i, nil
			}
		case ',':
			if depth == 1 {
				commas = append(commas, i)
			}
		case '}':
			if depth == 1 && len(commas) > 0 {
				return open, i, commas
			}
			depth = max(0, depth-1)
		}
	}
	return 0, 0, nil
}

// None reports whether there are no globs.
func (g *Globs) None() bool { return len(g.list) == 0 }

// Match reports whether one of the globs matches the path, which has at least one name. If a
// directory matches, the caller must include everything in it.
func (g *Globs) Match(path []string, dir bool) bool {
	base := path[len(path)-1:]
	for i := range g.list {
		if g.list[i].matches(path, base, dir) {
			return true
		}
	}
	return false
}
