package obeyed

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/layer/delta"
	"github.com/paddock-dev/paddock/policy"
)

// thing is a file or link that programs of the host obey.
type thing struct {
	path   string
	under  string // the link through which alone it counts here, or ""
	by     *policy.Obeyed
	mode   fs.FileMode
	alike  bool     // its name is the entry's where file systems do not tell them apart
	walked []string // links on its way, from the directory that was visited
	from   *visited
}

type thingKey struct {
	path, under string
	by          *policy.Obeyed
}

// visit is a directory, and how it counts.
type visit struct {
	dir    string // without links
	under  string // the link that changes lead elsewhere, through which it is reached, or ""
	by     *policy.Obeyed
	top    bool // it is by's own directory
	filled bool // tools fill it, or a directory above it, by the names that lead to it
	git    bool // it is, or is in, a repository's own directory
	dotGit bool // it is so by the name ".git" of a directory
}

// visited is a visit and how it came about.
type visited struct {
	visit
	inner  bool     // it is below a directory ".git"
	walked []string // links that led there
	from   *visited
}

// covers reports whether an entry is, or contains, the path of these names, however a file system compares
// them.
func covers(o *policy.Obeyed, names []string) bool {
	parts := strings.Split(o.Path, "/")
	if len(names) < len(parts) || len(names) > len(parts) && !o.Dir {
		return false
	}
	return slices.EqualFunc(parts, names[:len(parts)], func(a, b string) bool { return foldName(a) == foldName(b) })
}

// onPath is where the entries are that shells find by PATH.
const onPath policy.Under = "PATH"

// searched stands for the programs in a directory in which shells search.
var searched = &policy.Obeyed{Under: onPath, Dir: true, Class: policy.Unasked, Tool: "shells", Why: "shells find programs in its directory"}

// observe finds what the host would obey.
func (s *state) observe(ctx context.Context) error {
	root := &visited{}
	s.push(root)
	for _, o := range s.namedBy {
		s.entry(root, o, "")
	}
	for _, l := range s.extra {
		rel, in := hostpath.Within(l.to, s.opt.Source)
		switch {
		case in && rel == "":
			s.push(&visited{visit: visit{by: l.by, top: true}})
		case in:
			s.walk(root, strings.Split(rel, "/"), "", 0, "", &thing{by: l.by, from: root})
		}
	}
	for _, dir := range s.opt.Search {
		w := s.follow("/", dir)
		if !w.inside {
			s.searchLinks(dir, w.to)
			continue
		}
		if w.there && w.mode.IsDir() {
			s.push(&visited{visit: visit{dir: w.to, under: s.through(w, dir), by: searched, top: true}, walked: w.over})
		}
	}
	for n := 0; n < len(s.queue); n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.spent() {
			break
		}
		v := s.queue[n]
		if err := s.examine(ctx, v); err != nil {
			return err
		}
	}
	s.queue, s.tops = nil, map[string]gitTop{}
	return nil
}

// through returns a name if changes may lead it elsewhere, and "" otherwise.
func (s *state) through(w way, name string) string {
	if s.stirs(w.over) {
		return name
	}
	return ""
}

// maxSearchLinks is how many links of one directory in which shells search are followed.
const maxSearchLinks = 1 << 12

// searchLinks finds the programs of the source to which links lead in a directory outside of it in
// which shells search.
func (s *state) searchLinks(dir, at string) {
	if s.searchable[at] == nil {
		s.searchable[at] = linksIn(at)
	}
	for _, name := range s.searchable[at] {
		w := s.follow("/", filepath.Join(at, name))
		if w.inside && w.there && !w.mode.IsDir() {
			s.put(&thing{path: w.to, under: s.through(w, filepath.Join(dir, name)), by: searched, mode: w.mode, walked: w.over})
		}
	}
}

// packaged are directories that package managers fill, with hundreds of links to other packages.
var packaged = map[string]bool{"/usr/bin": true, "/usr/sbin": true, "/bin": true, "/sbin": true}

// linksIn returns the names of the links in a directory of the host in which shells search, none of one
// that a package manager fills.
func linksIn(dir string) []string {
	links := []string{}
	if packaged[dir] {
		return links
	}
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if e.Type()&fs.ModeSymlink != 0 && len(links) < maxSearchLinks {
			links = append(links, e.Name())
		}
	}
	return links
}

func (s *state) push(v *visited) {
	if !s.met[v.visit] {
		s.met[v.visit] = true
		s.queue = append(s.queue, v)
		if v.by != nil && v.by.Class == policy.Unasked && v.by != searched {
			s.unasked[v.dir] = true
		}
	}
}

func (s *state) put(t *thing) {
	key := thingKey{t.path, t.under, t.by}
	if s.things[key] != nil {
		return
	}
	s.things[key] = t
	switch {
	case t.by == searched:
	case t.by.Class == policy.Unasked:
		s.unasked[t.path] = true
	default:
		s.named[t.path] = true
	}
}

// examine looks at one directory, as it counts.
func (s *state) examine(ctx context.Context, v *visited) error {
	if v.by != nil {
		return s.part(v)
	}
	_, inGit := s.gitAbove(delta.Join(v.dir, "x"))
	n, err := s.list(v.dir, v.git || inGit)
	if err != nil {
		return err
	}
	if s.isGitDir(v, n.marks) {
		s.git[v.dir], v.git = true, true // what is below is reached through it
		for _, o := range inventory().git.all {
			s.entry(v, o, "")
		}
		if n.commondir {
			s.shared(v)
		}
	}
	s.project(v, n)
	if s.homes[v.dir] {
		for _, o := range inventory().home {
			s.entry(v, o, "")
		}
	}
	for _, name := range n.Dirs {
		if _, own := delta.Split(v.dir); v.git && heldDirs[name] && (n.bare() || foldName(own) == ".git") {
			continue
		}
		s.push(&visited{visit: visit{dir: delta.Join(v.dir, name), under: v.under, filled: v.filled || Fills(name), git: v.git, dotGit: v.dotGit || foldName(name) == ".git"}, inner: v.dotGit, from: v})
	}
	for _, l := range n.Links {
		if ctx.Err() != nil || s.spent() {
			break
		}
		s.link(v, l)
	}
	return ctx.Err()
}

// shared finds the entries of the repository that a worktree's commondir names, which need not have the
// names of one.
func (s *state) shared(v *visited) {
	text, ok := s.source.Read(delta.Join(v.dir, "commondir"))
	if !ok {
		return // the file is new, and so a finding itself
	}
	from, to := "", strings.TrimRight(string(text), "\r\n")
	if filepath.IsAbs(to) {
		from = "/"
	} else {
		to = delta.Join(v.dir, to)
	}
	w := s.follow(from, to)
	if !w.inside {
		return
	}
	repository := &visited{visit: visit{dir: w.to, under: v.under, git: true}, walked: w.over, from: v}
	for _, o := range inventory().git.all {
		s.entry(repository, o, "")
	}
}

// isGitDir reports whether git takes a directory for a repository's own.
func (s *state) isGitDir(v *visited, m marks) bool {
	_, name := delta.Split(v.dir)
	if foldName(name) == ".git" || v.dotGit && !v.inner {
		return true
	}
	if top, in := s.gitAbove(v.dir); in { // git makes a HEAD in refs/remotes/NAME, and in logs
		if first, _, _ := strings.Cut(strings.TrimPrefix(v.dir[len(top):], "/"), "/"); writtenDirs[first] {
			return m.bare()
		}
	}
	if !m.alike {
		return m.bare() || v.git && m.head
	}
	has := func(name string) bool { return s.has(delta.Join(v.dir, name)) }
	return v.git && has("HEAD") || hasRepository(has)
}

// gitAbove returns the repository's own directory that a path is in.
func (s *state) gitAbove(p string) (dir string, in bool) {
	at, _ := delta.Split(p)
	t, known := s.tops[at]
	if !known {
		_, name := delta.Split(at)
		if t.in = s.git[at] || at != "" && foldName(name) == ".git"; t.in {
			t.dir = at
		} else if at != "" {
			t.dir, t.in = s.gitAbove(at)
		}
		if s.tops != nil {
			s.tops[at] = t
		}
	}
	return t.dir, t.in
}

// gitTop is the repository's own directory that what is in a directory is in, if it is in one.
type gitTop struct {
	dir string
	in  bool
}

// project finds the entries of projects in a directory.
func (s *state) project(v *visited, n DirNames) {
	project := n.git || n.alike && s.has(delta.Join(v.dir, ".git"))
	if project && v.dir != "" {
		if full, err := s.list(v.dir, true); err == nil {
			n = full
		}
	}
	fresh := map[string]bool{}
	for _, name := range s.in[v.dir] {
		fresh[name] = true
	}
	for _, name := range n.Hits {
		list := inventory().project.named(name)
		if fresh[name] || s.opt.Folding {
			list = inventory().project.alike(name)
		}
		for _, o := range list {
			switch {
			case v.dir != "" && !o.Nested && !project:
			case (v.filled || v.dotGit) && !o.Everywhere && (!project || o.Class != policy.Unasked):
			case v.inner && o.With != nil: // they are the repository's
			default:
				s.entry(v, o, name)
			}
		}
	}
}

// entry finds the path of an entry of the inventory in a directory, or one that begins with first, if it
// is given.
func (s *state) entry(v *visited, o *policy.Obeyed, first string) {
	s.walk(v, strings.Split(o.Path, "/"), v.dir, 0, first, &thing{under: v.under, by: o, from: v})
}

// walk goes on with an entry, from the directory of one of its names. t has what was walked so far.
func (s *state) walk(v *visited, parts []string, dir string, i int, name string, t *thing) {
	o, part, last := t.by, parts[i], i == len(parts)-1
	name = cmp.Or(name, part)
	own := *t
	t = &own
	if name != part && (!last || !o.Ending || filepath.Ext(name) != part) {
		alike := foldName(name) == foldName(part) || last && o.Ending && foldName(filepath.Ext(name)) == foldName(part)
		if t.alike = true; !alike || o.Class != policy.Unasked && !s.opt.Folding {
			return
		}
	}
	p := delta.Join(dir, name)
	is, there := s.at(p)
	if !there || o.With != nil && slices.ContainsFunc(o.With, func(other string) bool { return !s.has(delta.Join(dir, other)) }) {
		return
	}
	t.path, t.mode = p, is.Mode
	if is.Mode&fs.ModeSymlink != 0 {
		link := *t
		link.walked = slices.Clone(t.walked)
		s.put(&link)
		w := s.resolve(p)
		if t.under == "" && s.stirs(w.over) {
			t.under = p
		}
		if t.walked = append(slices.Clip(t.walked), p); !w.there {
			return
		}
		if t.path, t.mode = w.to, w.mode; !w.inside { // what lies there is out of reach
			s.put(t)
			return
		}
	}
	switch isDir := t.mode.IsDir(); {
	case !last && isDir:
		s.further(v, parts, i+1, t)
	case !last, isDir && o.Repositories:
	case isDir && o.Dir:
		s.push(&visited{visit: visit{dir: t.path, under: t.under, by: o, top: true}, walked: t.walked, from: v})
	case isDir == o.Dir, o.Path == ".git":
		s.put(t)
	}
}

// further goes on with an entry in the directory that t leads to.
func (s *state) further(v *visited, parts []string, i int, t *thing) {
	ending := t.by.Ending && i == len(parts)-1
	if !ending {
		s.walk(v, parts, t.path, i, "", t)
	}
	names := s.in[t.path]
	if s.opt.Folding || ending {
		if n, err := s.list(t.path, true); err == nil {
			names = n.Hits
		}
	}
	for _, name := range names {
		if name != parts[i] {
			s.walk(v, parts, t.path, i, name, t)
		}
	}
}

// part finds what is in a directory that is an entry, or a part of one.
func (s *state) part(v *visited) error {
	n, err := s.list(v.dir, true)
	if err != nil {
		return err
	}
	for _, name := range n.Hits {
		if v.top && slices.Contains(v.by.Except, name) {
			continue
		}
		p := delta.Join(v.dir, name)
		e, there := s.at(p)
		t := &thing{path: p, under: v.under, by: v.by, mode: e.Mode, from: v}
		switch {
		case !there:
			continue
		case e.Mode&fs.ModeSymlink != 0:
			link := *t
			s.put(&link)
			w := s.resolve(p)
			if t.under == "" && s.stirs(w.over) {
				t.under = p
			}
			if !w.there {
				continue
			}
			if t.path, t.mode, t.walked = w.to, w.mode, []string{p}; !w.inside {
				s.put(t)
				continue
			}
		case v.by == searched && e.Mode&0o111 == 0 && e.Mode.IsRegular():
			if e, err := s.modeOf(p); err != nil || e.Mode&0o111 == 0 {
				continue
			}
		}
		switch {
		case !t.mode.IsDir():
			s.put(t)
		case v.by != searched:
			s.push(&visited{visit: visit{dir: t.path, under: t.under, by: v.by}, walked: t.walked, from: v})
		}
	}
	return nil
}

// modeOf returns an entry with its permissions, which names alone do not tell.
func (s *state) modeOf(p string) (delta.Entry, error) {
	side, from := s.contentOf(p)
	return side.Look(from)
}

// link finds where a link in a directory leads, if to a directory.
func (s *state) link(v *visited, l Symlink) {
	p := delta.Join(v.dir, l.Name)
	w := s.resolve(p)
	under := v.under
	if s.stirs(w.over) {
		if under == "" {
			under = p
		}
		w.over = nil
		s.links[p] = w
	}
	if !w.inside || !w.there || !w.mode.IsDir() || v.under != "" && v.filled {
		return
	}
	filled, dotGit := v.filled || Fills(l.Name), foldName(l.Name) == ".git"
	if !v.git && !dotGit && (filled || isPlain(w.to)) {
		if _, git := s.gitAbove(delta.Join(w.to, "x")); !git {
			return // what counts there counts as much without the link
		}
	}
	s.push(&visited{visit: visit{dir: w.to, under: under, filled: filled, git: v.git || dotGit, dotGit: v.dotGit || dotGit}, inner: v.dotGit, walked: []string{p}, from: v})
}

// isPlain reports whether all that counts in a directory counts by its own path.
func isPlain(dir string) bool {
	return !slices.ContainsFunc(strings.Split(dir, "/"), func(name string) bool { return Fills(name) || foldName(name) == ".git" })
}

// causes returns the changes on which it depends that the host obeys a thing.
func (s *state) causes(t *thing) []int { return s.causesIn(s, t) }

// causesIn is causes for the changes of another state.
func (s *state) causesIn(in *state, t *thing) []int {
	found, added := map[int]bool{}, map[string]bool{}
	add := func(p string) {
		for ; p != "" && !added[p]; p, _ = delta.Split(p) {
			added[p] = true
			if i, own := in.byPath[p]; own {
				found[i] = true
			}
		}
	}
	over := func(links []string) {
		for _, p := range links {
			for _, q := range append(s.resolve(p).over, in.resolve(p).over...) {
				add(q)
			}
		}
	}
	add(t.path)
	dir, _ := delta.Split(t.path)
	for _, name := range t.by.With {
		add(delta.Join(dir, name))
	}
	over(t.walked)
	for v := t.from; v != nil; v = v.from {
		add(v.dir)
		over(v.walked)
	}
	list := make([]int, 0, len(found))
	for i := range found {
		list = append(list, i)
	}
	slices.Sort(list)
	return list
}

// isProgram reports whether the host has a program of a name.
func (j *Judge) isProgram(name string) bool {
	is, known := j.programs[name]
	if !known {
		is = slices.ContainsFunc(j.opt.Search, func(dir string) bool {
			fi, err := os.Stat(filepath.Join(dir, name))
			return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
		})
		j.programs[name] = is
	}
	return is
}
