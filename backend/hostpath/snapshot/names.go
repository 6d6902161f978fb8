package snapshot

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/internal/dirfd"
)

// marks are the names in a directory that tell of a repository.
type marks struct{ Git, Head, Objects, Refs, Commondir bool }

func (m *marks) Note(name []byte) {
	switch string(name) {
	case ".git":
		m.Git = true
	case "HEAD":
		m.Head = true
	case "objects":
		m.Objects = true
	case "refs":
		m.Refs = true
	case "commondir":
		m.Commondir = true
	}
}

// bare reports whether git takes a directory of these names for a repository's own.
func (m marks) bare() bool { return m.Head && (m.Objects && m.Refs || m.Commondir) }

// Names are those of all directories below some roots, read once for a start: the
// search for nested repositories and the first look of a comparison go by them.
type Names struct {
	done chan struct{} // closed when all below is final
	look *look
	tops map[string]*node // by root
}

// ReadNames begins to read them, and has read all of small trees when it returns.
// What cannot be read, or lies beyond a bound, is missing, and is read anew by whom
// it matters to.
func ReadNames(ctx context.Context, roots []string) *Names {
	n := &Names{done: make(chan struct{}), tops: map[string]*node{}}
	n.look = &look{matcher: Inventory(), began: time.Now(), namesOnly: true, unseen: map[string]string{}}
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

// Find returns the names in a directory, and false where it was not read.
func (n *Names) Find(ctx context.Context, dir string) (DirNames, bool) {
	select {
	case <-n.done:
	case <-ctx.Done():
		return DirNames{}, false
	}
	for root, at := range n.tops {
		rel, in := hostpath.Within(dir, root)
		if !in {
			continue
		}
		for part := range strings.SplitSeq(rel, "/") {
			if part != "" && at != nil {
				at = at.kid(-1, part)
			}
		}
		if at != nil && at.ino != 0 {
			return at.dirNames(), true
		}
	}
	return DirNames{}, false
}

// begin returns the look that goes on from the names.
func (n *Names) begin(ctx context.Context) *look {
	select {
	case <-n.done:
	case <-ctx.Done():
		return nil
	}
	l := &look{matcher: n.look.matcher, began: n.look.began, items: map[string]item{}, unseen: maps.Clone(n.look.unseen), depth: n.look.depth, why: n.look.why}
	l.entries.Store(n.look.entries.Load())
	l.dirs.Store(n.look.dirs.Load())
	return l
}

// openRoot opens a directory that commands can write, or one that holds such a file.
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

// meetAll looks at what a tree whose names are known holds of the inventory, breadth
// first.
func (l *look) meetAll(ctx context.Context, top place, first *node) {
	w := newWalk(l, top, nil)
	for queue := []task{{what: first.what, now: first}}; len(queue) > 0; queue = queue[1:] {
		t := queue[0]
		t.what = t.now.what
		switch {
		case ctx.Err() != nil:
			w.cut(t.depth, "there was no time for more")
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
			l.meet(ctx, in, t)
			_ = unix.Close(fd)
		}
		queue = append(queue, w.kids(t, -1)...)
	}
}

// DirNames are the names in a directory that tell of a repository, and the
// directories in it, but for ".git".
type DirNames struct {
	marks
	Dirs []string
}

// dirNames returns those of a directory whose names were read.
func (n *node) dirNames() DirNames {
	d := DirNames{marks: n.marks}
	for _, k := range n.kids {
		if k.name != ".git" {
			d.Dirs = append(d.Dirs, k.name)
		}
	}
	slices.Sort(d.Dirs)
	return d
}
