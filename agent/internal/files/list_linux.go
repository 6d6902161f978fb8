package files

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of one listing.
const (
	maxEntries = 50_000
	// maxListing bounds the entries as JSON, in bytes, so that a line holds them.
	maxListing = 12 << 20
	// entryOverhead is about how much JSON an entry has besides its two texts.
	entryOverhead = 96
)

// List lists a directory, in order, until the answer is full.
func (w *Workspace) List(q *wire.ListRequest) (*wire.ListResult, error) {
	if q.Limit < 0 {
		return nil, core.BadField("limit", "limit must not be negative")
	}
	after, err := base64.StdEncoding.DecodeString(q.Cursor)
	if err != nil {
		return nil, core.BadField("cursor", "cursor is not one of an answer")
	}
	p, err := w.Find(q.Path)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	st, err := p.Lstat()
	if err != nil {
		return nil, err
	}
	r := &wire.ListResult{Path: wire.OSString(p.Path.Text), ArtifactType: TypeOf(st), Entries: []wire.Entry{}}
	switch r.ArtifactType {
	case wire.TypeOther:
		return nil, Unsupported(p.Path)
	case wire.TypeDirectory:
	default:
		e, err := describe(p.dir, p.name, wire.OSString(p.Path.Text), st)
		if err != nil {
			return nil, core.FileError("list", p.Path, err)
		}
		r.Entries = append(r.Entries, e)
		return r, nil
	}
	l := &lister{result: r, root: p.Path.Names, recursive: q.Recursive, limit: maxEntries, room: maxListing}
	if q.Limit > 0 {
		l.limit = int(min(q.Limit, maxEntries))
	}
	if q.Cursor != "" {
		l.after = strings.Split(string(after), "/")
	}
	dir, err := p.dir.Walk(asNames(p.name))
	if err != nil {
		return nil, core.FileError("open", p.Path, err)
	}
	if err := l.list(dir, nil, len(l.after) > 0); err != nil && !errors.Is(err, errListed) {
		return nil, core.FileError("list", p.Path, err)
	}
	return r, nil
}

// asNames returns a path of one name, or of none if it is empty.
func asNames(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// lister makes a listing in the order of paths, parents before children.
type lister struct {
	result    *wire.ListResult
	root      []string // the path of the directory
	recursive bool
	limit     int      // of entries
	room      int      // for their text, in bytes
	after     []string // the last entry of the listing before
	last      []string // the entry that was listed last
}

var (
	errListed  = errors.New("the listing is full")
	errTooDeep = fmt.Errorf("it is deeper than %d levels", maxDepth)
)

// tooDeep returns the error for a tree that is too deep.
func tooDeep(at []string) error {
	return fmt.Errorf("%s in it is deeper than %d levels: delete it, or ask for what is beside it", at[0], maxDepth)
}

// list lists a directory, and closes it. resuming says that the listing before ended
// below it.
func (l *lister) list(dir beneath.Dir, above []string, resuming bool) error {
	defer dir.Close()
	if len(above) > maxDepth {
		return tooDeep(above)
	}
	from, met := "", ""
	if resuming {
		met = l.after[len(above)]
		from = met
	}
	for atOnce := l.limit + 1; ; {
		names, err := sortedNames(dir, from, atOnce)
		if err != nil {
			return err
		}
		for _, name := range names {
			at := append(slices.Clip(above), name)
			again := name == met
			if err := l.add(dir, at, again, again && len(at) < len(l.after)); err != nil {
				return err
			}
			from = name + "\x00" // the first name that can follow it
		}
		// Some names of a full batch may have vanished or been listed before, so
		// there may be room for more.
		if len(names) < atOnce {
			return nil
		}
	}
}

// add lists one entry, unless the listing before had it, and the entries below.
func (l *lister) add(dir beneath.Dir, at []string, met, resuming bool) error {
	name := at[len(at)-1]
	st, err := dir.Lstat(name)
	if errors.Is(err, unix.ENOENT) {
		return nil // it has vanished
	}
	if err != nil {
		return err
	}
	if !met {
		e, err := describe(dir, name, wire.OSString(core.PathText(slices.Concat(l.root, at))), st)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			return nil // it is not a link any more
		}
		if err != nil {
			return err
		}
		if err := l.append(e, at); err != nil {
			return err
		}
	}
	if !l.recursive || TypeOf(st) != wire.TypeDirectory {
		return nil
	}
	below, err := dir.Walk([]string{name})
	if err != nil {
		var link *beneath.LinkError
		if errors.Is(err, unix.ENOENT) || errors.As(err, &link) {
			return nil // it was a directory
		}
		return err
	}
	return l.list(below, at, resuming)
}

// append appends an entry if there is room, else it returns errListed.
func (l *lister) append(e wire.Entry, at []string) error {
	size := entryOverhead + text.JSONSize(string(e.Path))
	if e.LinkTarget != nil {
		size += text.JSONSize(string(*e.LinkTarget))
	}
	if len(l.result.Entries) == l.limit || l.room < size {
		l.result.Truncated = true
		l.result.NextCursor = base64.StdEncoding.EncodeToString([]byte(strings.Join(l.last, "/")))
		return errListed
	}
	l.room -= size
	l.result.Entries = append(l.result.Entries, e)
	l.last = slices.Clone(at)
	return nil
}

// sortedNames returns the first limit names of a directory from a name on, in
// the order of their bytes. It keeps at most a few times as many in memory.
func sortedNames(dir beneath.Dir, from string, limit int) ([]string, error) {
	f, err := dir.List()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	cut := func() {
		slices.Sort(names)
		names = names[:min(len(names), limit)]
	}
	for {
		some, err := f.Readdirnames(core.NamesAtOnce)
		for _, name := range some {
			if name >= from {
				names = append(names, name)
			}
		}
		if len(names) > 2*limit+core.NamesAtOnce {
			cut()
		}
		if errors.Is(err, io.EOF) {
			cut()
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// describe describes one file, without following a link.
func describe(dir beneath.Dir, name string, path wire.OSString, st unix.Stat_t) (wire.Entry, error) {
	e := wire.Entry{Path: path, ArtifactType: TypeOf(st), SizeBytes: st.Size}
	switch e.ArtifactType {
	case wire.TypeDirectory:
		e.SizeBytes = 0
	case wire.TypeSymlink:
		target, err := dir.Readlink(name)
		if err != nil {
			return e, err
		}
		link := wire.OSString(target)
		e.LinkTarget = &link
	}
	return e, nil
}

// Stat describes one file, without following a link.
func (w *Workspace) Stat(q *wire.StatRequest) (*wire.StatResult, error) {
	p, err := w.Find(q.Path)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	st, err := p.Lstat()
	if err != nil {
		return nil, err
	}
	e, err := describe(p.dir, p.name, wire.OSString(p.Path.Text), st)
	if err != nil {
		return nil, core.FileError("look at", p.Path, err)
	}
	return &wire.StatResult{Entry: e, Mode: st.Mode & permissions, UID: st.Uid, GID: st.Gid,
		Links: uint64(st.Nlink), ModifiedAt: timestamp(st.Mtim)}, nil //nolint:unconvert // the type differs between architectures
}
