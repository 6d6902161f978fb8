package obeyed

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/dirfd"
)

// marks says which names of a repository a directory has.
type marks struct {
	git, head, objects, refs, commondir bool
	alike                               bool // it has a name that some file systems do not tell from one of these
}

// markNames are the names of the marks.
var markNames = []string{".git", "HEAD", "objects", "refs", "commondir"}

// of returns the mark of a name, or nil.
func (m *marks) of(name []byte) *bool {
	switch string(name) {
	case ".git":
		return &m.git
	case "HEAD":
		return &m.head
	case "objects":
		return &m.objects
	case "refs":
		return &m.refs
	case "commondir":
		return &m.commondir
	}
	return nil
}

// note records a name.
func (m *marks) note(name []byte) {
	if has := m.of(name); has != nil {
		*has = true
	} else {
		m.alike = m.alike || alike(name)
	}
}

// alike reports whether a file system that does not tell all names apart may take a name for one
// of a repository.
func alike(name []byte) bool {
	for _, b := range name {
		if b >= utf8.RuneSelf {
			return true // letters of other alphabets, and characters that are left out
		}
	}
	for _, other := range markNames {
		if len(name) == len(other) && strings.EqualFold(string(name), other) {
			return true
		}
	}
	return false
}

// lacks reports whether a name of a repository is not in a directory for certain, however its file
// system compares names.
func (m marks) lacks(name string) bool {
	has := m.of([]byte(name))
	return has != nil && !*has && !m.alike
}

// bare reports whether git treats a directory with these names as a repository's own.
func (m marks) bare() bool { return m.head && (m.objects && m.refs || m.commondir) }

// Names are the names in all directories below some roots. They are read once for a start:
// the search for nested repositories and the first look of a comparison both use them.
type Names struct {
	done chan struct{} // closed when the other fields are final
	look *look
	tops map[string]*node // by root
}

// ReadNames begins to read the names. When it returns, small trees are read completely.
// Directories that cannot be read, or are beyond a bound, are missing: users of the result
// must read them themselves.
func ReadNames(ctx context.Context, roots []string) *Names {
	n := &Names{done: make(chan struct{}), tops: map[string]*node{}}
	n.look = &look{began: time.Now(), namesOnly: true, unseen: map[string]string{}}
	var walks []*walk
	small := true
	for _, root := range outermost(roots) {
		if p, err := openRoot(root, unix.O_RDONLY); err == nil {
			w := newWalk(n.look, p, nil)
			w.work(ctx, crowd)
			walks, small, n.tops[root] = append(walks, w), small && w.done(), w.first
		}
	}
	rest := func() {
		defer close(n.done)
		for _, w := range walks {
			_ = w.all(ctx)
			_ = unix.Close(w.root)
		}
	}
	if small {
		rest()
	} else {
		go rest()
	}
	return n
}

// Find returns the names in a directory, and false if it was not read, or not all of it.
func (n *Names) Find(ctx context.Context, dir string) (DirNames, bool) {
	if n.await(ctx) {
		for root, top := range n.tops {
			if rel, in := hostpath.Within(dir, root); in {
				return top.find(rel)
			}
		}
	}
	return DirNames{}, false
}

// Below returns what finds the names in directories below a root, by their relative paths; or nil
// if what was read there is not the directory that is open.
func (n *Names) Below(ctx context.Context, root string, open int) func(rel string) (DirNames, bool) {
	if n == nil || !n.await(ctx) {
		return nil
	}
	var st unix.Stat_t
	top := n.tops[root]
	if top == nil || unix.Fstat(open, &st) != nil || top.dev != uint64(st.Dev) || top.ino != st.Ino { //nolint:unconvert // differs between platforms
		return nil
	}
	return top.find
}

// Sockets returns the paths of all sockets that the walk has met, in use or not, and the
// directories that it has passed by, where more may be. all is false if they may be anywhere.
func (n *Names) Sockets(ctx context.Context) (met, passed []string, all bool) {
	if n == nil || !n.await(ctx) {
		return nil, nil, false
	}
	return n.look.sockets, n.look.passed, !n.look.partial
}

// await waits until all names are read. It reports false if ctx ends first.
func (n *Names) await(ctx context.Context) bool {
	select {
	case <-n.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// find returns the names in a directory below another, as Names.Find does.
func (n *node) find(rel string) (d DirNames, ok bool) {
	for part := range strings.SplitSeq(rel, "/") {
		if part != "" && n != nil {
			n = n.kid(-1, part)
		}
	}
	if n == nil || !n.whole {
		return d, false
	}
	d = DirNames{marks: n.marks, Links: n.links, Hits: n.hits}
	for _, k := range n.kids {
		d.Dirs = append(d.Dirs, k.name)
	}
	slices.Sort(d.Dirs)
	return d, true
}

// begin returns a look that continues from the names, or nil if ctx ends before they are
// read.
func (n *Names) begin(ctx context.Context) *look {
	if !n.await(ctx) {
		return nil
	}
	l := &look{began: n.look.began, items: map[string]item{}, unseen: maps.Clone(n.look.unseen), depth: n.look.depth, why: n.look.why, sockets: slices.Clip(n.look.sockets)}
	l.entries.Store(n.look.entries.Load())
	l.dirs.Store(n.look.dirs.Load())
	return l
}

// openRoot opens a directory that commands can write, or one with a file that they can write.
func openRoot(root string, flags int) (place, error) {
	fd, err := dirfd.Open(unix.AT_FDCWD, root, flags|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return place{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return place{}, err
	}
	return place{fd: fd, root: root, dev: uint64(st.Dev), ino: st.Ino, trusted: dirfd.KeepsFileTimes(fd)}, nil //nolint:unconvert // differs between platforms
}

// meetAll looks at the entries of the inventory in a tree whose names are known, breadth
// first.
func (l *look) meetAll(ctx context.Context, top place, first *node) {
	w := newWalk(l, top, nil)
	for queue := []task{{what: first.what, now: first}}; len(queue) > 0; queue = queue[1:] {
		t := queue[0]
		t.what = t.now.what
		switch {
		case ctx.Err() != nil:
			w.cut(t.depth, "time ran out")
			return
		case t.now.ino == 0: // it could not be read
			continue
		case len(t.now.hits) > 0, t.now.bare, len(t.now.links) > 0:
			fd, err := dirfd.OpenBelow(top.fd, t.rel, unix.O_RDONLY|unix.O_DIRECTORY)
			if err != nil {
				l.missed(top.root, t.rel, err)
				continue
			}
			in := top
			in.fd, in.rel = fd, t.rel
			l.entriesIn(ctx, in, t)
			_ = unix.Close(fd)
		}
		queue = append(queue, w.kids(t, -1)...)
	}
}

// DirNames says which names of a repository a directory has, its directories and links, and
// those of all its names with which paths of the inventory can begin.
type DirNames struct {
	marks
	Dirs  []string
	Links []Symlink
	Hits  []string
}

// Symlink is a symbolic link in a directory, and where it leads by its text.
type Symlink struct{ Name, Text string }

// ListNames lists an open directory, with all of its names in Hits. One with more names than that is
// [ErrTooMany].
func ListNames(fd, most int) (n DirNames, err error) {
	err = dirfd.EachName(fd, func(b []byte, kind byte) bool {
		name := string(b)
		n.note(b)
		n.Hits = append(n.Hits, name)
		if kind == unix.DT_UNKNOWN {
			kind = dirfd.TypeOf(fd, name)
		}
		switch kind {
		case unix.DT_DIR:
			n.Dirs = append(n.Dirs, name)
		case unix.DT_LNK:
			n.Links = append(n.Links, Symlink{name, readLink(fd, name)})
		}
		return len(n.Hits) <= most
	})
	if len(n.Hits) > most {
		return n, ErrTooMany
	}
	slices.Sort(n.Dirs)
	return n, err
}
