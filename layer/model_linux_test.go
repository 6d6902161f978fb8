package layer

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/layer/delta"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/policy"
)

// model says what the host obeys in a source, by brute force: it visits each directory by each
// name that leads there, and resolves each entry of the inventory as the host's programs do. It
// shares nothing with what screens commits but the inventory, and the names of directories that
// tools fill.
type model struct {
	source string // an absolute path without links
	host   hostView
	trace  bool // remember the paths by which each fact was found
	links  map[string]string

	facts  map[string]*fact
	queue  []visitOf
	known  map[placeOf]map[string]bool // visited, and over which paths
	gitted map[string]bool             // repositories' own directories whose entries were collected
}

// hostView is what the host has besides the source.
type hostView struct {
	homes  []string // relative to the source
	named  []string
	search []string // absolute
}

// fact is one thing that the host obeys.
type fact struct {
	value string
	loose bool            // some programs may obey it, others do not
	over  map[string]bool // paths of the source that it depends on
	kind  factKind
}

type factKind byte

const (
	unaskedFact factKind = iota
	namedFact            // obeyed when a person names it: it may go
	outFact              // a link that leads out of the source: it may go
	searchFact           // a program that shells find: it may go
	throughFact          // a link that git writes through: it may go
)

// placeOf is a directory, as what it is entered.
type placeOf struct {
	real   string // relative to the source, without links
	filled bool   // a name on the way is that of a directory that tools fill
}

type visitOf struct {
	placeOf
	over map[string]bool
}

// partlyExecuted are files of which a commit compares a part alone.
var partlyExecuted = []string{"package.json", ".gitattributes", ".python-version", ".python-versions", "tsconfig.json", "jsconfig.json", "analysis_options.yaml"}

// gitContent are the names in a repository's own directory that land by rule: they are its history.
var gitContent = []string{"objects", "refs", "index", "HEAD", "logs", "packed-refs", "reftable", "shallow", "ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "MERGE_MSG", "AUTO_MERGE"}

var modelEntries = func() map[policy.Under]map[string][]policy.Obeyed {
	by := map[policy.Under]map[string][]policy.Obeyed{policy.Project: {}, policy.GitDir: {}, policy.Home: {}}
	for _, o := range policy.Inventory() {
		if o.Ending || o.Source || slices.Contains(partlyExecuted, o.Path) {
			continue
		}
		first, _, _ := strings.Cut(o.Path, "/")
		by[o.Under][first] = append(by[o.Under][first], o)
	}
	return by
}()

// fillsDir reports whether tools fill directories of a name.
func fillsDir(name string) bool { return obeyed.Fills(name) }

// obeyedIn returns what the host obeys in a source, whose contents are text.
func obeyedIn(source string, text map[string]string, host hostView, trace bool) map[string]*fact {
	m := &model{source: source, host: host, trace: trace, links: map[string]string{}, facts: map[string]*fact{}, known: map[placeOf]map[string]bool{}, gitted: map[string]bool{}}
	for p, is := range text {
		if to, link := strings.CutPrefix(is, "->"); link {
			m.links[p] = to
		}
	}
	m.enter(placeOf{}, nil)
	for len(m.queue) > 0 {
		v := m.queue[0]
		m.queue = m.queue[1:]
		m.visit(v)
	}
	for _, home := range host.homes {
		over := map[string]bool{}
		if dir, fi := m.resolve("", home, over); fi != nil && fi.IsDir() && m.inside(dir) {
			for _, list := range modelEntries[policy.Home] {
				for _, o := range list {
					m.collect("home "+home+"/", dir, o, over)
				}
			}
		}
	}
	for _, p := range host.named {
		m.files("named "+p, "", p, nil, nil, unaskedFact, false)
	}
	for _, p := range host.search {
		m.programs(p)
	}
	m.linksOut()
	return m.facts
}

func (m *model) abs(rel string) string { return filepath.Join(m.source, rel) }

// inside reports whether what resolve returned is in the source.
func (m *model) inside(p string) bool { return !strings.HasPrefix(p, "/") }

// rel returns an absolute path without links relative to the source, if it is in it.
func (m *model) rel(abs string) string {
	if abs == m.source {
		return ""
	}
	if in, ok := strings.CutPrefix(abs, m.source+"/"); ok {
		return in
	}
	return abs
}

// resolve follows a path from a directory as the kernel does, and returns where it ends: a path in
// the source, or an absolute one outside; and what is there: nil, if that is nothing. A path that
// leads nowhere is "/?".
func (m *model) resolve(dir, p string, over map[string]bool) (string, fs.FileInfo) {
	at := m.abs(dir)
	if strings.HasPrefix(p, "/") {
		at = "/"
	}
	rest := strings.Split(p, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		if in := m.rel(next); over != nil && m.inside(in) {
			over[in] = true
		}
		fi, err := os.Lstat(next)
		last := !slices.ContainsFunc(rest, func(n string) bool { return n != "" && n != "." })
		switch {
		case err != nil && last:
			return m.rel(next), nil
		case err != nil:
			return "/?", nil
		case fi.Mode()&fs.ModeSymlink != 0:
			if links++; links > 40 {
				return "/?", nil
			}
			to, err := os.Readlink(next)
			if err != nil {
				return "/?", nil
			}
			if strings.HasPrefix(to, "/") {
				at = "/"
			}
			rest = append(strings.Split(to, "/"), rest...)
			continue
		case !fi.IsDir() && !last:
			return "/?", nil
		case last:
			return m.rel(next), fi
		}
		at = next
	}
	fi, err := os.Lstat(at)
	if err != nil {
		return "/?", nil
	}
	return m.rel(at), fi
}

// enter has a directory visited, unless it was entered like this already.
func (m *model) enter(p placeOf, over map[string]bool) {
	old, there := m.known[p]
	if there && !m.trace {
		return
	}
	more := !there
	if m.trace {
		if old == nil {
			old = map[string]bool{}
		}
		for o := range over {
			more = more || !old[o]
			old[o] = true
		}
	}
	m.known[p] = old
	if more {
		m.queue = append(m.queue, visitOf{p, maps.Clone(old)})
	}
}

func (m *model) found(key string, f fact, over ...map[string]bool) {
	old := m.facts[key]
	if old == nil {
		old = &f
		if m.trace {
			old.over = map[string]bool{}
		}
		m.facts[key] = old
	}
	old.loose = old.loose && f.loose
	if old.kind != unaskedFact {
		old.kind = f.kind
	}
	if m.trace {
		for _, o := range over {
			maps.Copy(old.over, o)
		}
	}
}

func (m *model) traced(over map[string]bool) map[string]bool {
	if !m.trace {
		return nil
	}
	c := maps.Clone(over)
	if c == nil {
		c = map[string]bool{}
	}
	return c
}

// visit collects what is obeyed in a directory, and enters those in it.
func (m *model) visit(v visitOf) {
	list, err := os.ReadDir(m.abs(v.real))
	if err != nil {
		return
	}
	has := map[string]bool{} // by any name
	for _, e := range list {
		has[e.Name()] = true
	}
	leads := func(name string) bool {
		fi, err := os.Stat(filepath.Join(m.abs(v.real), name))
		return err == nil && (!fi.IsDir() || name != "HEAD" && name != "commondir") // git reads these
	}
	root, project := v.real == "", has[".git"]
	bare := path.Base(v.real) == ".git"
	for _, e := range list {
		name := e.Name()
		for _, o := range modelEntries[policy.Project][name] {
			if (root || o.Nested || project) && (!v.filled || o.Everywhere || project && o.Class == policy.Unasked) {
				if o.With == nil {
					over := m.traced(v.over)
					if over != nil && project {
						over[delta.Join(v.real, ".git")] = true
					}
					m.collect(v.real+"/", v.real, o, over)
					continue
				}
				if slices.ContainsFunc(o.With, func(n string) bool { return !has[n] }) {
					continue
				}
				loose := slices.ContainsFunc(append([]string{name}, o.With...), func(n string) bool { return !leads(n) })
				over := m.traced(v.over)
				for _, n := range append([]string{name}, o.With...) {
					m.resolve(v.real, n, over)
				}
				m.found(v.real+"/ is a repository by "+name, fact{value: "", loose: loose}, over)
				m.gitDir(v.real, over, loose)
				bare = bare || !loose
			}
		}
	}
	for _, e := range list {
		name := e.Name()
		if bare && slices.Contains(gitContent, name) {
			continue
		}
		over := m.traced(v.over)
		switch {
		case e.IsDir():
			dir := delta.Join(v.real, name)
			if over != nil {
				over[dir] = true
			}
			if over != nil && slices.Contains(gitContent, name) { // it would be a repository's with these
				for _, n := range []string{"HEAD", "objects", "refs", "commondir"} {
					over[delta.Join(v.real, n)] = true
				}
			}
			m.enter(placeOf{dir, v.filled || fillsDir(name)}, over)
		case e.Type()&fs.ModeSymlink != 0:
			if dir, fi := m.resolve(v.real, name, over); fi != nil && fi.IsDir() && m.inside(dir) {
				m.enter(placeOf{dir, v.filled || fillsDir(name)}, over)
			}
		}
	}
}

// collect collects what an entry of the inventory is about in a directory.
func (m *model) collect(key, dir string, o policy.Obeyed, over map[string]bool) {
	key += o.Path
	over = m.traced(over)
	kind := unaskedFact
	if o.Class != policy.Unasked {
		kind = namedFact
	}
	if o.Dir {
		if o.Repositories {
			m.repositories(dir, o.Path, over, 0)
			return
		}
		m.files(key, dir, o.Path, func(n string) bool {
			return slices.Contains(o.Except, n) || o.Under == policy.GitDir && strings.HasSuffix(n, ".sample")
		}, over, kind, true)
		return
	}
	at, fi := m.resolve(dir, o.Path, over)
	switch {
	case fi == nil:
	case o.Path == ".git" && fi.IsDir():
		m.found(key, fact{value: "a directory"}, over)
		if m.inside(at) {
			m.gitDir(at, over, false)
		}
	case fi.Mode().IsRegular():
		m.found(key, fact{value: m.content(at, fi, kind), kind: kind}, over)
	case !fi.IsDir() && kind == unaskedFact:
		m.found(key, fact{value: "special", kind: kind}, over)
	}
}

// content returns what programs see of a file.
func (m *model) content(at string, fi fs.FileInfo, kind factKind) string {
	if m.inside(at) {
		at = m.abs(at)
	}
	text, err := os.ReadFile(at)
	if err != nil {
		return err.Error()
	}
	if fi.Mode()&0o111 != 0 && kind != namedFact {
		return "executable " + string(text)
	}
	return string(text)
}

// files collects all files at and below a path.
func (m *model) files(key, dir, p string, except func(string) bool, over map[string]bool, kind factKind, dirOnly bool) {
	over = m.traced(over)
	at, fi := m.resolve(dir, p, over)
	if fi == nil || dirOnly && !fi.IsDir() {
		return
	}
	var below func(key, at string, fi fs.FileInfo, over map[string]bool, above []string)
	below = func(key, at string, fi fs.FileInfo, over map[string]bool, above []string) {
		if fi.Mode().IsRegular() {
			m.found(key, fact{value: m.content(at, fi, kind), kind: kind}, over)
		}
		if !fi.IsDir() || !m.inside(at) || slices.Contains(above, at) || len(above) > 6 || delta.In(dir, at) {
			return // a link back to a directory above shows the project itself
		}
		list, _ := os.ReadDir(m.abs(at))
		for _, e := range list {
			if len(above) == 0 && except != nil && except(e.Name()) || e.Name() == ".git" { // a repository is judged as one
				continue
			}
			over := m.traced(over)
			if next, fi := m.resolve(at, e.Name(), over); fi != nil {
				below(key+"/"+e.Name(), next, fi, over, append(slices.Clip(above), at))
			}
		}
	}
	below(key, at, fi, over, nil)
}

// repositories collects what git obeys in repositories' own directories below a path.
func (m *model) repositories(dir, p string, over map[string]bool, depth int) {
	at, fi := m.resolve(dir, p, over)
	if fi == nil || !fi.IsDir() || !m.inside(at) || depth > 6 {
		return
	}
	list, _ := os.ReadDir(m.abs(at))
	for _, e := range list {
		if e.Name() == "HEAD" {
			m.gitDir(at, over, false)
		}
		if !slices.Contains(gitContent, e.Name()) {
			m.repositories(at, e.Name(), m.traced(over), depth+1)
		}
	}
}

// gitDir collects what git obeys in a repository's own directory.
func (m *model) gitDir(dir string, over map[string]bool, loose bool) {
	if m.gitted[dir] && !m.trace {
		return
	}
	first := !m.gitted[dir]
	m.gitted[dir] = !loose || m.gitted[dir]
	sub := &model{source: m.source, trace: m.trace, links: m.links, facts: map[string]*fact{}, gitted: m.gitted}
	for _, list := range modelEntries[policy.GitDir] {
		for _, o := range list {
			if o.Repositories && !first {
				continue
			}
			sub.collect(dir+"/(git) ", dir, o, over)
		}
	}
	for key, f := range sub.facts {
		f.loose = f.loose || loose
		m.found(key, *f, f.over)
	}
	for p, to := range m.links {
		if delta.In(p, dir) && (path.Base(p) != "HEAD" || !strings.HasPrefix(to, "refs/")) {
			m.found("git writes through "+p, fact{value: to, loose: loose, kind: throughFact}, over, map[string]bool{p: true})
		}
	}
}

// programs collects the programs that shells find in a directory.
func (m *model) programs(search string) {
	over := m.traced(nil)
	dir, fi := m.resolve("", search, over)
	if fi == nil || !fi.IsDir() || !m.inside(dir) {
		return
	}
	list, _ := os.ReadDir(m.abs(dir))
	for _, e := range list {
		over := m.traced(over)
		if at, fi := m.resolve(dir, e.Name(), over); fi != nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			m.found("PATH "+search+"/"+e.Name(), fact{value: m.content(at, fi, unaskedFact), kind: searchFact}, over)
		}
	}
}

// linksOut collects the links that lead out of the source.
func (m *model) linksOut() {
	for p := range m.links {
		over := m.traced(nil)
		if over != nil {
			over[p] = true
		}
		to, _ := m.resolve(path.Dir(p), path.Base(p), over)
		loose := to == "/?" // it leads nowhere now, and may lead out when a directory is made
		if loose {
			if to = m.links[p]; !strings.HasPrefix(to, "/") {
				to = m.abs(path.Dir(p)) + "/" + to
			}
			to = m.rel(filepath.Clean(to))
		}
		if !m.inside(to) {
			m.found("out "+p, fact{value: to, kind: outFact, loose: loose}, over)
		}
	}
}

// differs says what the host obeys after a commit and did not before, or not so. Only what depends
// on accepted paths may differ, and on new directories that these need.
func differs(before, after map[string]*fact, changes []Change, accepted []string) (found []string) {
	made := map[string]bool{}
	for i := range changes {
		made[changes[i].Path] = changes[i].Kind == Added && changes[i].New.Mode.IsDir()
	}
	excused := func(fs ...*fact) bool {
		for _, f := range fs {
			if f == nil {
				continue
			}
			for over := range f.over {
				if slices.ContainsFunc(accepted, func(a string) bool { return delta.In(over, a) || made[over] && delta.In(a, over) }) {
					return true
				}
			}
		}
		return false
	}
	property := func(f *fact) string {
		switch f.kind {
		case namedFact:
			return "N"
		case outFact:
			return "C"
		}
		return "A"
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		now, was := after[key], before[key]
		switch {
		case now.loose || excused(now, was):
		case was == nil:
			found = append(found, fmt.Sprintf("%s: new: %s = %q", property(now), key, now.value))
		case was.value != now.value:
			found = append(found, fmt.Sprintf("%s: different: %s = %q, was %q", property(now), key, now.value, was.value))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if was := before[key]; after[key] == nil && !was.loose && was.kind == unaskedFact && !excused(was) {
			found = append(found, fmt.Sprintf("A: gone: %s = %q", key, was.value))
		}
	}
	return found
}

// contents returns the content of each file of a tree, by path. Those of links begin with "->", and
// those of directories are "/".
func contents(top string) map[string]string {
	found, _ := contentsAndModes(top)
	return found
}

func contentsAndModes(top string) (found map[string]string, modes map[string]fs.FileMode) {
	found, modes = map[string]string{}, map[string]fs.FileMode{}
	_ = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == top {
			return nil //nolint:nilerr // what is gone has no content
		}
		rel := p[len(top)+1:]
		switch {
		case d.IsDir():
			found[rel] = "/"
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			found[rel] = "->" + to
		case d.Type().IsRegular():
			text, _ := os.ReadFile(p)
			found[rel] = "=" + string(text)
		default:
			found[rel] = "?"
		}
		if fi, err := d.Info(); err == nil {
			modes[rel] = fi.Mode()
		}
		return nil
	})
	return found, modes
}

// lost says which contents of files a commit has taken out of the source although changes that
// were left out hold them. What is accepted may go.
func lost(before, after map[string]string, changes, landed []Change, upper string, accepted []string) (found []string) {
	still := map[string]bool{}
	for _, text := range after {
		still[text] = true
	}
	left := map[string]string{} // content -> where a change has it that was left out
	byPath := map[string]bool{}
	for i := range changes {
		byPath[changes[i].Path] = true
	}
	for i := range changes {
		ch := &changes[i]
		if slices.ContainsFunc(landed, func(l Change) bool { return l.Path == ch.Path && l.Kind == ch.Kind }) {
			continue
		}
		switch {
		case ch.Kind == Renamed:
			for p, text := range before {
				if rest, in := strings.CutPrefix(p, ch.From+"/"); in && !byPath[ch.Path+"/"+rest] {
					left[text] = ch.Path + "/" + rest
				}
			}
		case ch.Kind != Deleted && ch.New.Mode.IsRegular():
			text, _ := os.ReadFile(filepath.Join(upper, ch.Path))
			left["="+string(text)] = ch.Path
		}
	}
	seen := map[string]bool{}
	for _, p := range slices.Sorted(maps.Keys(before)) {
		text := before[p]
		if !strings.HasPrefix(text, "=") || text == "=" || still[text] || left[text] == "" || seen[text] ||
			slices.ContainsFunc(accepted, func(a string) bool { return delta.In(p, a) }) {
			continue
		}
		seen[text] = true
		how := "removed"
		if strings.HasPrefix(after[p], "=") {
			how = "overwritten"
		}
		found = append(found, fmt.Sprintf("B: %s: the content %q of %s, which %s has, is left out", how, text[1:], p, left[text]))
	}
	return found
}

// unexplained says which paths of the source are not as before although no change landed there.
func unexplained(before, after map[string]string, landed []Change) (found []string) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		was, there := before[p]
		now, is := after[p]
		if there == is && was == now {
			continue
		}
		if strings.Contains(p, ".paddock-") {
			found = append(found, "E: a temporary file is left: "+p)
		} else if !slices.ContainsFunc(landed, func(ch Change) bool { return delta.In(p, ch.Path) }) {
			found = append(found, fmt.Sprintf("E: nothing landed at %s, which was %q and is %q", p, was, now))
		}
	}
	return found
}

// first returns the first lines of a text.
func first(n int, lines []string) string {
	var b bytes.Buffer
	for i, l := range lines {
		if i == n {
			fmt.Fprintf(&b, "and %d more\n", len(lines)-n)
			break
		}
		b.WriteString(l + "\n")
	}
	return b.String()
}
