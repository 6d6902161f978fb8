// Package toolchain finds the toolchains that version managers keep below the caller's home,
// such as nvm's Node and rustup's Rust, and says which of their directories a sandbox needs.
//
// [Find] looks only at what a PATH names, to which [WithGo] adds what go.mod asks for. It changes
// nothing, and judges each directory as package hostpath does for PATH. What is shown of a tool is a row of the table in table.go: an
// allow-list, without registries, caches and configuration, and with the files covered in which
// tools keep credentials. A directory that no row knows is not shown.
package toolchain

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
)

// Toolchain is one that was found. All paths are absolute and free of links.
type Toolchain struct {
	Name string
	// Shown are the directories and files that become visible, read-only, at the same
	// path. None is in another.
	Shown []string
	// Links are links of the caller's to what is shown, or on the way there, by their
	// paths, and where each leads or its text. Programs may know a path by them.
	Links map[string]string
	// Hidden are the files and directories in Shown that may have credentials.
	Hidden []string
	// Env are variables for commands.
	Env map[string]string
	// Search has, for each entry of PATH that is the toolchain's, the directory inside
	// that is searched in its place.
	Search map[string]string
}

// Bounds: what is beyond them is left out.
const (
	maxEntries = 256 // entries of PATH below HOME
	maxShown   = 64  // directories and files of one toolchain
)

// Find returns the toolchains that the PATH of a request names below its home, and the
// entries of toolchains that cannot be shown, with the reasons. lookup returns a variable of
// the caller's environment, or "". The request must be one whose mounts [hostpath.Mounts]
// accepts. If no entry is [Named], Find looks at nothing.
func Find(req backend.Request, lookup func(name string) string) (found []*Toolchain, left map[string]string) {
	f := finder{req: req, home: path.Clean(req.Home), lookup: lookup, left: map[string]string{}, judged: map[string]verdict{}}
	looked := map[string]bool{}
	for entry := range strings.SplitSeq(req.Path, ":") {
		if !own(entry, req.Home) || looked[entry] {
			continue
		}
		if looked[entry] = true; len(looked) > maxEntries {
			f.left[entry] = fmt.Sprintf("it is not among the first %d directories of PATH below your home, and no more are looked at", maxEntries)
			continue
		}
		if f.real == "" {
			if f.real = hostpath.Real(f.home); f.real == "" || f.real == "/" {
				return nil, nil
			}
		}
		f.look(entry)
	}
	for _, t := range f.found {
		t.Shown = outermost(t.Shown)
		maps.DeleteFunc(t.Links, func(at, _ string) bool {
			return slices.ContainsFunc(t.Shown, func(s string) bool { return hostpath.Under(at, s) })
		})
		t.Hidden = slices.Compact(slices.Sorted(slices.Values(t.Hidden)))
	}
	return f.found, f.left
}

// finder looks for the toolchains of one request.
type finder struct {
	req        backend.Request
	home, real string // as it is named, and free of links
	lookup     func(string) string
	found      []*Toolchain
	left       map[string]string
	judged     map[string]verdict
}

// verdict is where a part of a toolchain lies, or why it must not be used.
type verdict struct {
	real string
	err  error
}

// shells is the name of the directories in which fnm makes a link for each shell. They are
// outside of HOME where XDG_RUNTIME_DIR is.
const shells = "/fnm_multishells/"

// Named reports whether a PATH has an entry that may be a toolchain's: one that lies below the
// home, or is a link of fnm's. It looks at no file.
func Named(search, home string) bool {
	for entry := range strings.SplitSeq(search, ":") {
		if own(entry, home) {
			return true
		}
	}
	return false
}

// own reports whether an entry of PATH may be a toolchain's.
func own(entry, home string) bool {
	home = path.Clean(home)
	if !path.IsAbs(entry) || !path.IsAbs(home) || home == "/" {
		return false
	}
	rel, below := hostpath.Within(path.Clean(entry), home)
	return below && rel != "" || strings.Contains(entry, shells)
}

// look adds the toolchains of one entry.
func (f *finder) look(entry string) {
	at := path.Clean(entry)
	if name := switchName(at); name != "" {
		f.lookGo(entry, at, name)
		return
	}
	if f.match(entry, at) {
		return
	}
	if to := hostpath.Real(at); to != "" && to != at { // a link to a tool's directory
		f.match(entry, to)
	}
}

// match adds the toolchains whose directory of programs this is, and reports whether it is
// the directory of any.
func (f *finder) match(entry, at string) (known bool) {
	var errs []error
	for i := range table {
		row := &table[i]
		t, err := f.try(row, entry, at)
		if t == nil && err == nil {
			continue
		}
		known = true
		if err != nil {
			errs = append(errs, fmt.Errorf("the toolchain %s: %w", row.name, err))
			continue
		}
		f.add(t)
	}
	if err := errors.Join(errs...); err != nil && !slices.ContainsFunc(f.found, func(t *Toolchain) bool { return t.Search[entry] != "" }) {
		f.left[entry] = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return known
}

// add adds a toolchain, or joins it with what was found of the same tool. Variables of
// earlier entries of PATH stay.
func (f *finder) add(t *Toolchain) {
	for _, o := range f.found {
		if o.Name != t.Name {
			continue
		}
		o.Shown, o.Hidden = append(o.Shown, t.Shown...), append(o.Hidden, t.Hidden...)
		maps.Copy(o.Links, t.Links)
		maps.Copy(o.Search, t.Search)
		for name, value := range t.Env {
			if _, set := o.Env[name]; !set {
				o.Env[name] = value
			}
		}
		return
	}
	f.found = append(f.found, t)
}

// try returns the toolchain of a row that an entry of PATH belongs to, nil if it belongs to
// another, and an error if the toolchain cannot be shown.
func (f *finder) try(row *tool, entry, at string) (*Toolchain, error) {
	base, stars, ok := f.recognize(row, at)
	if !ok {
		return nil, nil
	}
	t := &Toolchain{Name: row.name, Links: map[string]string{}, Env: map[string]string{}, Search: map[string]string{}}
	for i, p := range row.places {
		if i > 0 {
			base = f.place(p)
		}
		if base == "" && p.spare {
			continue
		}
		if err := f.show(t, p, base, stars); err != nil {
			return nil, err
		}
	}
	dir, err := f.judge(path.Clean(entry)) // with the links in it
	if err != nil {
		return nil, err
	}
	if len(row.programs) > 0 {
		if found, err := f.programs(t, row, dir); !found || err != nil {
			return nil, err
		}
	} else if !slices.ContainsFunc(t.Shown, func(s string) bool { return hostpath.Under(dir, s) }) {
		return nil, fmt.Errorf("%s leads to %s, which is not its directory", at, dir)
	}
	t.Search[entry] = dir
	if len(t.Shown) > maxShown {
		return nil, fmt.Errorf("it has more than %d directories and files", maxShown)
	}
	return t, nil
}

// recognize reports whether a directory is one of the row's entries. It returns the directory
// of the row's first place, and the names that stars stand for.
func (f *finder) recognize(row *tool, at string) (base string, stars []string, ok bool) {
	bases := f.places(row.places[0])
	if row.anywhere {
		bases = []string{path.Dir(path.Dir(at))}
	}
	for _, base := range bases {
		rel, below := hostpath.Within(at, base)
		if !below {
			continue
		}
		for _, pattern := range row.entries {
			names, ok := matches(pattern, rel)
			if !ok {
				continue
			}
			if row.anywhere {
				base, names = path.Dir(at), nil
			}
			if row.anywhere && (base == f.home || base == f.real) || len(row.programs) == 0 && f.common(at) {
				continue
			}
			if has(base, row.needs) && (len(row.programs) == 0 || row.offers(at)) {
				return base, names, true
			}
		}
	}
	return "", nil, false
}

// has reports whether a directory has all these files.
func has(dir string, files []string) bool {
	return !slices.ContainsFunc(files, func(name string) bool {
		_, err := os.Stat(path.Join(dir, name))
		return err != nil
	})
}

// matches reports whether a path matches a pattern name by name, and returns the names for
// the stars in it.
func matches(pattern, rel string) (stars []string, ok bool) {
	want, names := strings.Split(pattern, "/"), strings.Split(rel, "/")
	if len(want) != len(names) {
		return nil, false
	}
	for i, w := range want {
		if ok, _ := path.Match(w, names[i]); !ok { // the patterns are well-formed
			return nil, false
		}
		if w == "*" {
			stars = append(stars, names[i])
		}
	}
	return stars, true
}

// places returns where the directory of a place can be: as the caller's variables say, or
// usually, with links in the home's path and without.
func (f *finder) places(p place) (dirs []string) {
	for _, name := range p.vars {
		name, rest, _ := strings.Cut(name, "/")
		value := f.lookup(name)
		dir := path.Join(value, rest)
		if path.IsAbs(value) && (hostpath.Under(dir, f.home) || hostpath.Under(dir, f.real)) && hostpath.Real(dir) != f.real {
			dirs = append(dirs, dir)
		}
	}
	for _, rel := range p.usual {
		dirs = append(dirs, path.Join(f.home, rel), path.Join(f.real, rel))
	}
	return slices.DeleteFunc(slices.Compact(dirs), func(dir string) bool { return p.only != "" && !hasOnly(dir, p.only) })
}

// hasOnly reports whether all names in a directory that do not begin with a point match a
// pattern. A directory that does not exist has none.
func hasOnly(dir, pattern string) bool {
	names, err := namesIn(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, io.EOF) {
		return false
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		ok, _ := path.Match(pattern, name)
		return !ok && name[0] != '.'
	})
}

// place returns the first directory of a place that exists, or "".
func (f *finder) place(p place) string {
	for _, dir := range f.places(p) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}

// show adds what a place shows.
func (f *finder) show(t *Toolchain, p place, base string, stars []string) error {
	named := base
	if base != "" {
		base = hostpath.Real(base)
	}
	if base == "" {
		return errors.New("its directory does not exist")
	}
	if base != named {
		f.onTheWay(t, named)
	}
	for _, pattern := range p.shows {
		pattern, spare := strings.CutSuffix(pattern, "?")
		files, err := glob(base, fill(pattern, stars), false)
		if err != nil {
			return err
		}
		if len(files) == 0 && !spare {
			return fmt.Errorf("%s does not exist", path.Join(base, fill(pattern, stars)))
		}
		for _, file := range files {
			at, err := f.judge(file)
			if p.versions && (err != nil || !versionsOnly(at)) {
				continue
			}
			if at != file {
				f.onTheWay(t, file)
			}
			if err != nil && spare && errors.Is(err, errOdd) {
				continue
			}
			if err == nil && (f.common(at) || !f.same(base, file, at)) {
				err = fmt.Errorf("it leads to %s, which is not its own", at)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			t.Shown = append(t.Shown, at)
		}
	}
	for _, pattern := range p.hides {
		files, err := glob(base, fill(pattern, stars), true)
		if err != nil {
			return err
		}
		for _, file := range files {
			if at := hostpath.Real(file); at != "" && secret(at) {
				t.Hidden = append(t.Hidden, at)
			}
		}
	}
	for name, value := range p.set {
		value = fill(strings.Replace(value, "$0", base, 1), stars)
		if path.IsAbs(value) && value != "/" {
			value = hostpath.Real(value)
		}
		t.Env[name] = value
	}
	return nil
}

// common reports whether a path is a directory of all kinds of programs, ~/bin or ~/.local/bin,
// or one above it.
func (f *finder) common(at string) bool {
	return slices.ContainsFunc([]string{"bin", ".local/bin"}, func(rel string) bool {
		return hostpath.Under(path.Join(f.home, rel), at) || hostpath.Under(path.Join(f.real, rel), at)
	})
}

// same reports whether what a name in a place leads to may be the tool's: it lies in the place,
// or has the same name, with a point before it or not. In the home itself only that and only
// files are.
func (f *finder) same(base, name, to string) bool {
	if info, err := os.Stat(to); base == f.real && (err != nil || info.IsDir()) {
		return false
	}
	return name == to || base != f.real && hostpath.Under(to, base) ||
		strings.TrimPrefix(path.Base(name), ".") == path.Base(to) || path.Base(name) == path.Base(to)
}

// fill replaces $1 and so on by the names of stars.
func fill(pattern string, stars []string) string {
	for i, name := range stars {
		pattern = strings.ReplaceAll(pattern, "$"+strconv.Itoa(i+1), name)
	}
	return pattern
}

// errOdd is the error of what is neither a directory nor a regular file.
var errOdd = errors.New("it is neither a file nor a directory")

// judge returns where a directory or a file of a toolchain lies, or why it must not be used.
func (f *finder) judge(name string) (string, error) {
	v, known := f.judged[name]
	if known {
		return v.real, v.err
	}
	switch info, err := os.Stat(name); {
	case err != nil:
		v.err = errors.New(hostpath.Reason(err))
	case info.IsDir():
		v.real, v.err = hostpath.ToolDir(f.req, f.real, name)
	case !info.Mode().IsRegular():
		v.err = errOdd
	default:
		v.real, v.err = hostpath.ToolFile(f.req, f.real, name)
	}
	f.judged[name] = v
	return v.real, v.err
}

// offers reports whether a directory has a name that may be one of the row's.
func (row *tool) offers(dir string) bool {
	names, err := namesIn(dir) // one that cannot be read offers nothing; programs reports errMany
	return errors.Is(err, errMany) || slices.ContainsFunc(names, func(name string) bool { return slices.Contains(row.programs, name) || row.isLink(name) })
}

// isLink reports whether a name is one of the row's links.
func (row *tool) isLink(name string) bool {
	return slices.ContainsFunc(row.links, func(p string) bool { ok, _ := path.Match(p, name); return ok })
}

// onTheWay adds the links on the way to a part of a toolchain: the home, or links in it.
func (f *finder) onTheWay(t *Toolchain, name string) {
	way, err := hostpath.Follow(name)
	if err != nil {
		return // judge reports it
	}
	for _, l := range way.Links {
		if rel, ok := hostpath.Within(l.Path, f.real); l.Path == f.home || ok && rel != "" {
			t.Links[l.Path] = l.Text
		}
	}
}

// programs adds single programs of a directory, and links there that lead to what is shown.
// It reports whether there are any.
func (f *finder) programs(t *Toolchain, row *tool, dir string) (found bool, err error) {
	names, err := namesIn(dir) // recognize has read it
	if errors.Is(err, errMany) {
		return false, fmt.Errorf("%s: %w", dir, err)
	}
	for _, name := range names {
		at := path.Join(dir, name)
		program := slices.Contains(row.programs, name)
		if !program && !row.isLink(name) {
			continue
		}
		to := hostpath.Real(at)
		within := slices.ContainsFunc(t.Shown, func(s string) bool { return hostpath.Under(to, s) })
		switch {
		case to == "" || !within && !program:
			continue
		case !within:
			to, err = f.judge(at)
			if info, odd := os.Stat(at); err == nil && (odd != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || path.Base(to) != name) {
				err = fmt.Errorf("it leads to %s, which is not the program", to)
			}
			if err != nil {
				return false, fmt.Errorf("%s: %w", at, err)
			}
			t.Shown = append(t.Shown, to)
		}
		if found = true; to != at {
			t.Links[at] = to
		}
	}
	return found, nil
}
