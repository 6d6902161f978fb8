package search

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/paddock-dev/paddock/internal/search/ignore"
)

const (
	// maxDepth bounds how deep a tree is followed: every level costs a descriptor.
	maxDepth = 512
	// maxNames is about how many names are held at a time, of all levels.
	maxNames = 64 << 10
	// minNames is how many names of one directory are held in any case.
	minNames = 64
)

// walker sends the files to search, in the order of their paths.
type walker struct {
	search              *Search
	ctx                 context.Context
	out                 chan<- item
	names               int // how many more may be held
	base                int // names of the path that is searched
	ignored, unreadable int64
}

// level are the rules of one directory. Those of its parents come after it.
type level struct {
	rules *ignore.Rules
	depth int
	above *level
}

// ignored reports whether a path is.
func (l *level) ignored(path []string, dir bool) bool {
	for ; l != nil; l = l.above {
		if ignored, decided := l.rules.Match(path[l.depth:], dir); decided {
			return ignored
		}
	}
	return false
}

// from goes down to where the search begins, and searches there even if rules ignore that
// path.
func (w *walker) from(dir Dir, at []string, file bool) error {
	w.base = len(at)
	return w.down(dir, at, 0, nil, file)
}

// down goes on from a directory of the path that is searched.
func (w *walker) down(dir Dir, at []string, depth int, rules *level, file bool) error {
	switch {
	case depth == len(at):
		return w.walk(dir, at, rules, w.search.globs.None(), w.resuming(at))
	case file && depth == len(at)-1:
		return w.file(dir, at)
	}
	rules = w.enter(dir, depth, rules)
	below, err := dir.Dir(at[depth])
	if err != nil {
		return err
	}
	defer below.Close()
	return w.down(below, at, depth+1, rules, file)
}

// resuming reports whether a directory leads to where the search goes on.
func (w *walker) resuming(at []string) bool {
	from := w.search.FromPath
	return len(from) > len(at) && slices.Equal(from[:len(at)], at)
}

// enter reads the rules of a directory. Where a repository begins, no rules
// from above apply.
func (w *walker) enter(dir Dir, depth int, above *level) *level {
	if w.search.NoIgnore {
		return nil
	}
	if dir.Has(".git") {
		above = nil
		if git, err := dir.Dir(".git"); err == nil {
			if info, err := git.Dir("info"); err == nil {
				above = with(info, "exclude", depth, above)
				_ = info.Close()
			}
			_ = git.Close()
		}
	}
	return with(dir, ".gitignore", depth, above)
}

// with adds the rules of a file, if it has any.
func with(dir Dir, name string, depth int, above *level) *level {
	f, err := dir.Open(name)
	if err != nil {
		return above
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, ignore.MaxFile))
	if rules := ignore.Parse(text); !rules.Empty() {
		return &level{rules, depth, above}
	}
	return above
}

// walk sends the entries of a directory. included means that a glob matches it or a directory
// above it, and resuming that the search continues in it.
func (w *walker) walk(dir Dir, at []string, rules *level, included, resuming bool) error {
	if len(at) > maxDepth {
		w.unreadable++
		return nil
	}
	rules = w.enter(dir, len(at), rules)
	from, met := "", ""
	if resuming {
		met = w.search.FromPath[len(at)]
		from = met
	}
	for {
		limit := max(minNames, w.names/2)
		entries, err := dir.List(from, limit)
		if err != nil {
			w.failed(err)
			return nil
		}
		w.names -= len(entries)
		for _, e := range entries {
			from = e.Name + "\x00" // the first name that may follow it
			if err := w.entry(dir, append(slices.Clip(at), e.Name), e, rules, included, resuming && e.Name == met); err != nil {
				return err
			}
		}
		w.names += len(entries)
		if len(entries) < limit {
			return nil
		}
	}
}

// failed counts a file or directory that cannot be read.
func (w *walker) failed(err error) {
	if !errors.Is(err, ErrGone) {
		w.unreadable++
	}
}

// entry sends a file, or the content of a directory, if it is to be searched.
func (w *walker) entry(dir Dir, path []string, e Entry, rules *level, included, resuming bool) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	isDir := e.Kind == Directory
	if e.Kind == Other || e.Name == ".git" || w.matches(w.search.exclude, path, isDir) {
		return nil
	}
	if rules.ignored(path, isDir) {
		w.ignored++
		return nil
	}
	included = included || w.matches(w.search.globs, path, isDir)
	if isDir {
		below, err := dir.Dir(e.Name)
		if err != nil {
			w.failed(err)
			return nil
		}
		defer below.Close()
		return w.walk(below, path, rules, included, resuming && len(w.search.FromPath) > len(path))
	}
	if !included || resuming && w.search.FromLine == 0 && len(w.search.FromPath) == len(path) {
		return nil
	}
	return w.file(dir, path)
}

// matches reports whether globs match a path, relative to where the search begins or to the
// root.
func (w *walker) matches(globs *ignore.Globs, path []string, dir bool) bool {
	return !globs.None() && (globs.Match(path[w.base:], dir) || w.base > 0 && globs.Match(path, dir))
}

// file sends one file.
func (w *walker) file(dir Dir, path []string) error {
	i := item{path: path}
	if w.search.matcher != nil {
		f, err := dir.Open(path[len(path)-1])
		if err != nil {
			w.failed(err)
			return nil
		}
		i.file = f
	}
	select {
	case w.out <- i:
		return nil
	case <-w.ctx.Done():
		i.close()
		return w.ctx.Err()
	}
}
