package layer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/layer/delta"
)

// file is a change of one file that is no directory, or of an empty directory, for formats
// that know no other changes.
type file struct {
	path     string // "": it is gone
	oldPath  string // "": it is new
	old, new *Entry // of what is not there &Entry{}
	moved    bool   // the new content is the source's, at oldPath
	copied   bool   // oldPath stays
	content  string // where the source has the content of a new file, if it was moved
}

// absent is the entry of what is not there.
var absent = &Entry{}

// name returns the path that the file is sorted and named by.
func (f *file) name() string {
	if f.path == "" {
		return f.oldPath
	}
	return f.path
}

// files returns the files of changes, sorted by path, of two with one path the old one first.
// What was deleted or renamed as a directory is read in the source.
func (l *Layer) files(ctx context.Context, changes []Change, most limits) ([]file, error) {
	x := l.expand(ctx, changes, most)
	for i := range changes {
		if err := x.change(&changes[i]); err != nil {
			return nil, err
		}
	}
	if x.renamed {
		x.pair()
	}
	slices.SortStableFunc(x.files, func(a, b file) int {
		if n := strings.Compare(a.name(), b.name()); n != 0 {
			return n
		}
		return min(len(a.path), 1) - min(len(b.path), 1)
	})
	return x.files, nil
}

// expansion makes files of changes.
type expansion struct {
	*Layer
	ctx     context.Context
	most    limits
	entries int64
	bytes   int64
	renamed bool // there are renamed directories, and kinds has all paths
	kinds   map[string]Kind
	parents map[string]bool // directories in which something is new
	files   []file
}

func (l *Layer) expand(ctx context.Context, changes []Change, most limits) *expansion {
	x := &expansion{Layer: l, ctx: ctx, most: most, kinds: make(map[string]Kind), parents: make(map[string]bool)}
	for _, c := range changes {
		if c.Kind != Deleted {
			parent, _ := delta.Split(c.Path)
			x.parents[parent] = true
		}
		if c.Kind == Renamed {
			x.renamed = true
		}
	}
	if x.renamed {
		for _, c := range changes {
			x.kinds[c.Path] = c.Kind // of two with one path the last
		}
	}
	return x
}

func (x *expansion) change(c *Change) error {
	from := c.OldPath()
	switch c.Kind {
	case Renamed:
		return x.renamedDir(c, func(path, at string, e Entry, empty bool) error {
			if !e.Mode.IsDir() || empty && !x.parents[path] {
				x.files = append(x.files, file{path: path, oldPath: at, old: &e, new: &e, moved: true, copied: true})
			}
			return nil
		})
	case Modified:
		x.files = append(x.files, file{path: c.Path, oldPath: from, old: &c.Old, new: &c.New, copied: from != c.Path})
		return nil
	}
	if c.Kind != Added && c.From == "" { // else it never was at this path: it is not in what was renamed
		err := x.walk(from, c.Old, 0, func(at string, e Entry, empty bool) error {
			if !e.Mode.IsDir() || empty {
				x.files = append(x.files, file{oldPath: at, old: &e, new: absent})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if c.Kind != Deleted && (!c.New.Mode.IsDir() || !x.parents[c.Path]) {
		x.files = append(x.files, file{path: c.Path, old: absent, new: &c.New})
	}
	return nil
}

// renamedDir calls do for what a renamed directory still has of the source, with where it is
// there, but not for the directory itself if it has anything.
func (x *expansion) renamedDir(c *Change, do func(path, at string, e Entry, empty bool) error) error {
	return x.walk(c.From, c.Old, 0, func(at string, e Entry, empty bool) error {
		path := c.Path + at[len(c.From):]
		if at == c.From && !empty {
			return nil
		}
		if kind, ok := x.kinds[path]; at != c.From && ok {
			if e.Mode.IsDir() && kind == Modified {
				return nil
			}
			return fs.SkipDir
		}
		return do(path, at, e, empty)
	})
}

// walk calls do for what the source has at a path and below it, with whether it is an empty
// directory, until do returns an error. After fs.SkipDir it goes on beside the path.
func (x *expansion) walk(path string, e Entry, depth int, do func(path string, e Entry, empty bool) error) error {
	if x.bytes += int64(len(path)); x.bytes > x.most.bytes {
		return &LimitError{"bytes of paths", x.most.bytes, path}
	}
	if depth > x.most.depth {
		return &LimitError{"levels of directories", int64(x.most.depth), path}
	}
	var names []string
	if e.Mode.IsDir() {
		var err error
		if names, err = x.names(path); err != nil {
			return err
		}
	}
	switch err := do(path, e, e.Mode.IsDir() && len(names) == 0); {
	case errors.Is(err, fs.SkipDir):
		return nil
	case err != nil:
		return err
	}
	for _, name := range names {
		at := delta.Join(path, name)
		e, ok, err := x.source().entry(at)
		if err == nil && ok {
			err = x.walk(at, e, depth+1, do)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// names returns the names in a directory of the source, sorted.
func (x *expansion) names(path string) (all []string, err error) {
	f, err := x.source().openDir(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		if err := x.ctx.Err(); err != nil {
			return nil, err
		}
		names, err := f.Readdirnames(1024)
		all = append(all, names...)
		if x.entries += int64(len(names)); x.entries > x.most.entries {
			return nil, &LimitError{"entries", x.most.entries, path}
		}
		if errors.Is(err, io.EOF) {
			slices.Sort(all)
			return all, nil
		}
		if err != nil {
			return nil, x.source().fail("list", path, err)
		}
	}
}

// pair makes copies renames, where what was copied is deleted.
func (x *expansion) pair() {
	deleted := make(map[string]int)
	for i, f := range x.files {
		if f.path == "" {
			deleted[f.oldPath] = i
		}
	}
	drop := make([]bool, len(x.files))
	for i := range x.files {
		f := &x.files[i]
		if at, ok := deleted[f.oldPath]; ok && f.copied && gitMode(*f.old) != 0 {
			f.copied, drop[at] = false, true
			delete(deleted, f.oldPath)
		}
	}
	kept := x.files[:0]
	for i, f := range x.files {
		if !drop[i] {
			kept = append(kept, f)
		}
	}
	x.files = kept
}
