package layer

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/layer/delta"
)

// limits bound what a walk reads and keeps.
type limits struct {
	entries int64 // names that are looked at
	depth   int   // levels of directories
	bytes   int64 // of paths that are kept
}

var usualLimits = limits{entries: 2_000_000, depth: 4096, bytes: 512 << 20}

// Changes returns what the upper directory changes, sorted by the bytes of the paths, so that
// a directory comes before what is in it. It grows with the directories of the upper
// directory, not with the source. A path that only lies in the upper directory, with the
// source's mode and content, is no change. Owners, times and extended attributes are not
// compared, and the root itself is not looked at.
//
// The sandbox must be stopped. Besides errors of the file systems it returns a [CorruptError],
// [LimitError], [ChangedError] or [LostError]; with the last, the changes as if these directories were new.
func (l *Layer) Changes(ctx context.Context) ([]Change, error) { return l.changes(ctx, usualLimits) }

func (l *Layer) changes(ctx context.Context, most limits) ([]Change, error) {
	if l.Marks != TrustedMarks && l.Marks != UserMarks {
		return nil, errors.New("unknown marks " + string(l.Marks) + "; want trusted or userxattr")
	}
	const workers = 8
	w := &walk{Layer: l, most: most, todo: []dir{{base: base{merged: true}}}}
	w.wake = sync.NewCond(&w.mu)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { w.end(ctx.Err()) })
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { w.work(ctx) })
	}
	all.Wait()
	stop()
	if w.err != nil {
		return nil, w.err
	}
	// Of the two of one path, what was deleted there comes first.
	var order []*Change
	for _, list := range w.changes {
		for i := range list {
			order = append(order, &list[i])
		}
	}
	slices.SortStableFunc(order, func(a, b *Change) int { return strings.Compare(a.Path, b.Path) })
	found := make([]Change, len(order))
	for i, c := range order {
		found[i] = *c
	}
	if len(w.lost) > 0 {
		slices.SortFunc(w.lost, func(a, b Rename) int { return strings.Compare(a.Path, b.Path) })
		return found, &LostError{w.lost}
	}
	return found, nil
}

// walk is one walk over the upper directory, by several workers.
type walk struct {
	*Layer
	most           limits
	entries, bytes atomic.Int64

	mu      sync.Mutex
	wake    *sync.Cond
	todo    []dir
	busy    int
	err     error
	changes [][]Change // of each directory
	lost    []Rename
}

// dir is a directory of the upper one that is still to be read.
type dir struct {
	path   string
	levels int
	entry  Entry
	base   base // of its parent
}

// base is what a directory is compared with.
type base struct {
	path   string // in the source
	none   bool   // the source has no such directory
	merged bool   // commands saw both: a name that only the source has is there
}

// end ends the walk, with the first error.
func (w *walk) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.wake.Broadcast()
}

// work reads directories until none is left. The last ones found come first, so that few wait.
func (w *walk) work(ctx context.Context) {
	for {
		w.mu.Lock()
		for w.err == nil && len(w.todo) == 0 && w.busy > 0 {
			w.wake.Wait()
		}
		if w.err != nil || len(w.todo) == 0 {
			w.wake.Broadcast()
			w.mu.Unlock()
			return
		}
		d := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		w.busy++
		w.mu.Unlock()

		v := visit{walk: w, ctx: ctx, dir: d}
		err := v.read()

		w.mu.Lock()
		w.busy--
		if len(v.changes) > 0 {
			w.changes = append(w.changes, v.changes)
		}
		w.lost = append(w.lost, v.lost...)
		if w.err == nil {
			w.err = err
		}
		w.wake.Broadcast()
		w.mu.Unlock()
	}
}

// count counts names that were looked at, and the bytes of a path that is kept.
func (w *walk) count(entries int, path string) error {
	if w.entries.Add(int64(entries)) > w.most.entries {
		return &LimitError{"entries", w.most.entries, path}
	}
	return nil
}

func (w *walk) keep(path string) error {
	if w.bytes.Add(int64(len(path))) > w.most.bytes {
		return &LimitError{"bytes of paths", w.most.bytes, path}
	}
	return nil
}

// visit is the reading of one directory.
type visit struct {
	*walk
	ctx     context.Context
	dir     dir
	base    base
	upper   *os.File
	source  int // with base.none: -1
	changes []Change
	lost    []Rename
}

func (v *visit) read() (err error) {
	if v.upper, err = v.Layer.upper().openDir(v.dir.path); err != nil {
		return err
	}
	defer v.upper.Close()
	marks, err := v.marks(int(v.upper.Fd()), v.dir.path)
	if err != nil {
		return err
	}
	v.source = -1
	defer func() { v.closeSource() }()
	if v.dir.path == "" {
		v.base = v.dir.base
		_, _, err = v.openSource("")
	} else {
		err = v.compareDir(marks)
	}
	if err != nil {
		return err
	}
	var seen map[string]struct{} // nil: what else the source has is not asked for
	if !v.base.none && !v.base.merged {
		seen = make(map[string]struct{})
	}
	err = v.eachName(v.Layer.upper(), v.upper, v.dir.path, func(name string) error {
		if seen != nil {
			seen[name] = struct{}{}
		}
		return v.compare(name)
	})
	if err != nil || seen == nil {
		return err
	}
	return v.hidden(seen)
}

// openSource opens a directory of the source, and returns what is there, if anything is.
func (v *visit) openSource(path string) (e Entry, exists bool, err error) {
	fd, err := v.Layer.source().open(path, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		v.source = fd
		return v.Layer.source().entryIn(fd, ".", path)
	}
	if !gone(err) {
		return Entry{}, false, v.Layer.source().fail("open", path, err)
	}
	if e, exists, err = v.Layer.source().entry(path); err == nil && (e.Mode.IsDir() || path == "") {
		err = &ChangedError{path, true} // it was none before
	}
	return e, exists, err
}

func (v *visit) closeSource() {
	if v.source >= 0 {
		_ = unix.Close(v.source)
		v.source = -1
	}
}

// compareDir records what has become of the directory itself, and finds what its names are
// compared with.
func (v *visit) compareDir(m dirMarks) error {
	parent := v.dir.base
	_, name := delta.Split(v.dir.path)
	from := delta.Join(parent.path, name)
	var old Entry
	var exists bool
	var err error
	if !parent.none {
		if old, exists, err = v.openSource(from); err != nil {
			return err
		}
	}
	merged := parent.merged && !m.opaque
	if m.redirect != "" && !m.opaque {
		source, err := v.redirected(m)
		if err != nil {
			return err
		}
		if source != from {
			v.closeSource()
			if exists {
				if err := v.add(Change{Path: v.dir.path, Kind: Deleted, From: from, Old: old}); err != nil {
					return err
				}
			}
			return v.renamed(source, m.origin)
		}
		merged = true // it was moved back
	}
	v.base = base{path: from, none: !old.Mode.IsDir(), merged: merged && old.Mode.IsDir()}
	change := Change{Path: v.dir.path, From: from, Old: old, New: v.dir.entry}
	switch {
	case !exists:
		change.Kind, change.From = Added, ""
	case !old.Mode.IsDir():
		change.Kind = Retyped
	case old.Mode != v.dir.entry.Mode:
		change.Kind = Modified
	default:
		return nil
	}
	return v.add(change)
}

// redirected returns where the source has a directory, by its mark.
func (v *visit) redirected(m dirMarks) (string, error) {
	if from, fromRoot := strings.CutPrefix(m.redirect, "/"); fromRoot {
		return from, nil
	}
	if !v.dir.base.merged {
		return "", &CorruptError{v.dir.path, "a directory is marked as renamed in its parent, which has nothing of the source"}
	}
	return delta.Join(v.dir.base.path, m.redirect), nil
}

// renamed records a directory that the source has at another path.
func (v *visit) renamed(from string, origin []byte) error {
	old, _, err := v.openSource(from)
	if err != nil {
		return err
	}
	found := v.source >= 0 && isOrigin(v.source, origin)
	if !found {
		v.base = base{none: true}
		v.lost = append(v.lost, Rename{From: from, Path: v.dir.path})
		return cmp.Or(v.keep(from), v.add(Change{Path: v.dir.path, Kind: Added, New: v.dir.entry}))
	}
	v.base = base{path: from, merged: true}
	return v.add(Change{Path: v.dir.path, Kind: Renamed, From: from, Old: old, New: v.dir.entry})
}

// compare records what has become of a name of the upper directory. Directories are left to
// a visit of their own.
func (v *visit) compare(name string) error {
	path := delta.Join(v.dir.path, name)
	var st unix.Stat_t
	err := unix.Fstatat(int(v.upper.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return &ChangedError{path, false}
	}
	if err != nil {
		return v.Layer.upper().fail("read", path, err)
	}
	e, err := entryAt(int(v.upper.Fd()), name, &st)
	if err != nil {
		return v.Layer.upper().fail("read", path, err)
	}
	if e.Mode.IsDir() {
		return v.later(path, e)
	}
	if e.Mode.IsRegular() && st.Blocks < (st.Size+511)/512 {
		if err := v.checkData(path, e); err != nil {
			return err
		}
	}
	return v.compareEntry(name, path, e, &st)
}

// later leaves a directory to another visit.
func (v *visit) later(path string, e Entry) error {
	d := dir{path: path, levels: v.dir.levels + 1, entry: e, base: v.base}
	if d.levels > v.most.depth {
		return &LimitError{"levels of directories", int64(v.most.depth), path}
	}
	if err := v.keep(path); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.todo = append(v.todo, d)
	v.wake.Signal()
	return nil
}

// compareEntry compares what is no directory with the source's entry of its name.
func (v *visit) compareEntry(name, path string, e Entry, st *unix.Stat_t) error {
	for range 3 {
		var old Entry
		var oldRdev uint64
		if !v.base.none {
			var was unix.Stat_t
			switch err := unix.Fstatat(v.source, name, &was, unix.AT_SYMLINK_NOFOLLOW); {
			case errors.Is(err, unix.ENOENT):
			case err != nil:
				return v.Layer.source().fail("read", delta.Join(v.base.path, name), err)
			case !isWhiteout(&was):
				oldRdev = was.Rdev
				if old, err = entryAt(v.source, name, &was); err != nil {
					return v.Layer.source().fail("read", delta.Join(v.base.path, name), err)
				}
			}
		}
		change := Change{Path: path, From: delta.Join(v.base.path, name), Old: old, New: e}
		same := true
		switch {
		case isWhiteout(st):
			if old == (Entry{}) {
				return nil
			}
			change.Kind, change.New = Deleted, Entry{}
			return v.add(change)
		case old == (Entry{}):
			change.Kind, change.From = Added, ""
			return v.add(change)
		case old.Mode.Type() != e.Mode.Type():
			change.Kind = Retyped
			return v.add(change)
		case old.Mode != e.Mode, old.Link != e.Link, oldRdev != st.Rdev, e.Mode.IsRegular() && old.Size != e.Size:
			same = false
		case e.Mode.IsRegular():
			var err error
			same, err = sameContent(v.ctx, side{v.Layer.source(), change.From, old}, side{v.Layer.upper(), path, e})
			var moved *ChangedError
			if errors.As(err, &moved) && moved.Source {
				continue // look again
			}
			if err != nil {
				return err
			}
		}
		if same {
			return nil
		}
		change.Kind = Modified
		return v.add(change)
	}
	return &ChangedError{delta.Join(v.base.path, name), true}
}

// hidden records the names of the source's directory that commands did not see any more.
func (v *visit) hidden(seen map[string]struct{}) error {
	f, err := v.Layer.source().openDir(v.base.path)
	if err != nil {
		return err
	}
	defer f.Close()
	return v.eachName(v.Layer.source(), f, v.base.path, func(name string) error {
		if _, ok := seen[name]; ok {
			return nil
		}
		from := delta.Join(v.base.path, name)
		old, ok, err := v.Layer.source().entryIn(v.source, name, from)
		if err != nil || !ok {
			return err
		}
		return v.add(Change{Path: delta.Join(v.dir.path, name), Kind: Deleted, From: from, Old: old})
	})
}

// add records a change.
func (v *visit) add(c Change) error {
	if c.From == c.Path {
		c.From = ""
	}
	v.changes = append(v.changes, c)
	if c.From != "" {
		if err := v.keep(c.From); err != nil {
			return err
		}
	}
	return v.keep(c.Path)
}

// eachName calls do for the names in an open directory of a tree.
func (v *visit) eachName(t tree, f *os.File, path string, do func(name string) error) error {
	for {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		names, err := f.Readdirnames(256)
		if err := v.count(len(names), path); err != nil {
			return err
		}
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return t.fail("list", path, err)
		}
	}
}
