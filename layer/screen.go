//go:build linux

package layer

import (
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock/backend/hostpath/snapshot"
	"github.com/paddock-dev/paddock/policy"
)

// Level says what becomes of a change that screening has found something about.
type Level int

// Levels, the least first.
const (
	Mark  Level = iota + 1 // it lands, and deserves a look
	Hold                   // it is held back until its path is accepted
	Never                  // it never lands
)

// Finding is what screening has found about a change.
type Finding struct {
	Path      string // of the change
	At        string // the path that it is about, if that is another one
	Level     Level
	Tool, Why string
}

// ScreenOptions is what screening must know of the host.
type ScreenOptions struct {
	// Homes are the homes of users in the source, relative to it; "." is the source itself.
	Homes []string
	// Named are paths that git's configuration, hooks and links in the source name, as they
	// are protected where commands work in the source itself.
	Named []Named
	// Search are the directories in which the host's shells look for programs.
	Search []string
	// Names returns the names in a directory of the source that were read for this call already,
	// and false if they were not; nil: none were.
	Names func(dir string) (snapshot.DirNames, bool)
	// AllLinks has the links found that lead to what changed from anywhere in the source, which
	// takes a look at all of it, and not only those in the directories above what changed.
	AllLinks bool
}

// Named is a path, relative to the source, that a tool of the host runs or obeys.
type Named struct{ Path, Tool, Why string }

// entry is an entry of the inventory, with the names of its path.
type entry struct {
	*policy.Obeyed
	parts []string
}

// entries are the entries of the inventory, by the first names of their paths, folded, and those
// that need siblings.
type entries struct {
	project, git, home map[string][]entry
	siblings           []entry
}

var inventory = sync.OnceValue(func() entries {
	all := entries{project: map[string][]entry{}, git: map[string][]entry{}, home: map[string][]entry{}}
	list := policy.Inventory()
	for i := range list {
		e := entry{&list[i], strings.Split(list[i].Path, "/")}
		to := map[policy.Under]map[string][]entry{policy.Project: all.project, policy.GitDir: all.git, policy.Home: all.home}[e.Under]
		first := foldName(e.parts[0])
		if e.Ending && len(e.parts) == 1 {
			first = "*" + first
		}
		to[first] = append(to[first], e)
		if e.With != nil {
			all.siblings = append(all.siblings, e)
		}
	}
	return all
})

// matched is an entry that a path belongs to.
type matched struct {
	*policy.Obeyed
	top   bool // it is the entry's own path
	alike bool // its name is the entry's where file systems do not tell them apart
}

// landsIn are the names in a repository's own directory that land: its history, and what its
// branches are.
var landsIn = []string{"objects", "refs", "index", "HEAD", "logs", "packed-refs", "reftable", "shallow", "ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "MERGE_MSG", "AUTO_MERGE"}

// otherGit stands for what else is in a repository's own directory.
var otherGit = &policy.Obeyed{Under: policy.GitDir, Class: policy.Unasked, Tool: "git", Why: "of a repository's own directory only objects, refs, the index, HEAD and logs land"}

// shape is what is, or was, at a path.
type shape struct{ dir, link, gone bool }

// where is what a directory is in.
type where struct {
	git    string // the repository's own directory that it is, or is in, and
	inGit  bool   // that it is in one
	filled bool   // tools fill it, or a directory above it
	by     *matched
}

// where returns what a directory is in.
func (s *screen) where(dir string) *where {
	w := s.places[dir]
	if w != nil {
		return w
	}
	w = &where{}
	s.places[dir] = w
	name := ""
	if dir != "" {
		var parent string
		parent, name = splitPath(dir)
		*w = *s.where(parent)
	}
	w.filled = w.filled || snapshot.Fills(name)
	switch {
	case w.inGit:
	case s.isGitDir(dir):
		w.git, w.inGit = dir, true
	case dir != "":
		if m, ok := s.obeyed(dir, shape{dir: true}); ok && m.Dir {
			w.by = &m
		} else {
			w.by = nil
		}
	}
	return w
}

// mostParts is how many names the paths of the inventory have at most.
var mostParts = sync.OnceValue(func() (most int) {
	for _, o := range policy.Inventory() {
		most = max(most, strings.Count(o.Path, "/")+1)
	}
	return most
})

// obeyed returns the entry of the inventory that a path belongs to.
func (s *screen) obeyed(p string, is shape) (matched, bool) {
	parent, name := splitPath(p)
	w := s.where(parent)
	if w.inGit {
		return s.inGitDir(w.git, strings.Split(strings.TrimPrefix(p[len(w.git):], "/"), "/"), is)
	}
	if w.by != nil && (!w.by.top || !slices.Contains(w.by.Except, name)) {
		m := *w.by
		m.top = false
		return m, true
	}
	dir := parent
	for n := 0; n < mostParts(); n++ {
		at, names := s.where(dir), strings.Split(strings.TrimPrefix(p[len(dir):], "/"), "/")
		root, project := dir == "", s.isProject(dir)
		if m, ok := s.match(inventory().project, dir, names, is, func(o *policy.Obeyed) bool {
			return (root || o.Nested || project) && (!at.filled || o.Everywhere || project && o.Class == policy.Unasked)
		}); ok {
			return m, true
		}
		if slices.ContainsFunc(s.opt.Homes, func(h string) bool { return h == dir || h == "." && dir == "" }) {
			if m, ok := s.match(inventory().home, dir, names, is, nil); ok {
				return m, true
			}
		}
		if dir == "" {
			break
		}
		dir, _ = splitPath(dir)
	}
	if o := s.leads(p); o != nil {
		return matched{Obeyed: o}, true
	}
	if !is.gone {
		if o := s.completes(parent, name); o != nil {
			return matched{Obeyed: o}, true
		}
	}
	return matched{}, false
}

// completes returns the entry that means something only now that its sibling of this name is there,
// or nil.
func (s *screen) completes(dir, name string) *policy.Obeyed {
	for _, e := range inventory().siblings {
		is := func(o string) bool { return o == name || s.folding && foldName(o) == foldName(name) }
		if slices.ContainsFunc(e.With, is) && !slices.ContainsFunc(append(slices.Clip(e.With), e.Path), func(o string) bool { return !is(o) && !s.has(joinPath(dir, o)) }) {
			return e.Obeyed
		}
	}
	return nil
}

// inGitDir returns what obeys a path in a repository's own directory. What lands of it belongs to
// nothing.
func (s *screen) inGitDir(dir string, names []string, is shape) (matched, bool) {
	if m, ok := s.match(inventory().git, dir, names, is, nil); ok {
		return m, true
	}
	needed := len(names) == 1 && is.gone && slices.Contains([]string{"objects", "refs", "HEAD"}, names[0])
	if slices.Contains(landsIn, names[0]) && !is.link && !needed {
		return matched{}, false
	}
	return matched{Obeyed: otherGit}, true
}

// match returns the first entry that fits a path below a directory, preferring those that are
// obeyed unasked.
func (s *screen) match(by map[string][]entry, dir string, names []string, is shape, applies func(*policy.Obeyed) bool) (found matched, ok bool) {
	list := by[foldName(names[0])]
	if more := by["*"+foldName(path.Ext(names[0]))]; more != nil {
		list = slices.Concat(list, more)
	}
	if s.folding {
		for first, more := range by {
			if first != foldName(names[0]) && s.same(dir, names[0], more[0].parts[0]) {
				list = slices.Concat(list, more)
			}
		}
	}
	for _, e := range list {
		if applies != nil && !applies(e.Obeyed) {
			continue
		}
		m, fits := e.fits(s, dir, names, is)
		if fits && (!ok || found.Class != policy.Unasked && m.Class == policy.Unasked) {
			found, ok = m, true
		}
	}
	return found, ok
}

// fits reports whether an entry is about a path.
func (e entry) fits(s *screen, dir string, names []string, is shape) (matched, bool) {
	m := matched{Obeyed: e.Obeyed}
	n := 0
	for ; n < min(len(e.parts), len(names)); n++ {
		name := names[n]
		if e.Ending && n == len(e.parts)-1 {
			name = path.Ext(name)
		}
		if e.parts[n] == name {
			continue
		}
		at := strings.Join(append([]string{dir}, names[:n]...), "/")
		alike := foldName(e.parts[n]) == foldName(name) && (e.Class == policy.Unasked || s.folding)
		if !alike && !s.same(strings.TrimPrefix(at, "/"), names[n], e.parts[n]) {
			return m, false
		}
		m.alike = true
	}
	m.top = n == len(names)
	switch {
	case n < len(e.parts):
		return m, m.top && is.link // a directory above it comes to be a link
	case e.With != nil && !is.gone && slices.ContainsFunc(e.With, func(o string) bool { return !s.has(joinPath(dir, o)) }):
		return m, false
	case m.top:
		return m, is.link || is.dir == e.Dir || e.Path == ".git"
	}
	return m, false // what is below is found by its directory
}

// shadows are the names that make prefers to others, and those others.
var shadows = map[string][]string{"GNUmakefile": {"makefile", "Makefile"}, "makefile": {"Makefile"}}

// shadowed returns the file that a new one takes the place of, or "".
func (s *screen) shadowed(p string) string {
	dir, name := splitPath(p)
	for _, other := range shadows[name] {
		if s.has(joinPath(dir, other)) {
			return other
		}
	}
	return ""
}

// executed returns the part of a file that is executed, or that selects what is.
func executed(name string, text []byte) string {
	switch name {
	case "package.json":
		return string(snapshot.Executed(text))
	case ".gitattributes":
		var lines []string
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "[attr]") || strings.Contains(line, "filter") || strings.Contains(line, "diff=") || strings.Contains(line, "merge=") {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "\n")
	case ".python-version", ".python-versions":
		if !strings.ContainsAny(string(text), `/\`) { // versions alone
			return ""
		}
	case "tsconfig.json", "jsconfig.json", "analysis_options.yaml":
		if !slices.ContainsFunc([]string{"plugins", "extends", "include:", `\`}, func(word string) bool { return strings.Contains(string(text), word) }) {
			return ""
		}
	}
	return string(text)
}
