package obeyed

import (
	"context"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// Bounds of one look, so that what commands have made cannot fill memory or take forever. A
// look that reaches a bound reports it.
const (
	maxEntries = 1 << 20  // names
	maxDirs    = 1 << 18  // directories
	maxPaths   = 64 << 20 // bytes of the paths of directories that wait
	maxDepth   = 128      // directories below a root
	maxRel     = 4000     // bytes of a path below a root, less than PATH_MAX
	lookTime   = 10 * time.Second
	workers    = 2
	crowd      = 32 // how many directories must wait for a second worker to be worth it

	// margin is how much older than a look the last change of a directory or file
	// must be, so that equal times prove that it has not changed since. It is longer
	// than a tick of the kernel's clock, and of any file system's.
	margin = 2 * time.Second
)

// kind is the role of a directory of the tree for git.
type kind uint8

const (
	plain   kind = iota
	gitDir       // a repository's own directory
	modules      // may hold repositories' own directories, at any depth: .git/modules, .git/worktrees, what tools make in .git
	written      // below a repository's own directory, and git writes in it: .git/logs
)

// node is a directory as it was when its names were read.
type node struct {
	name       string
	dev, ino   uint64
	ctim, mtim unix.Timespec
	stable     bool // equal times prove that it was not changed
	what       kind
	bare       bool // by its names, it is a repository's own directory
	whole      bool // all of its names were read
	marks
	kids   []*node
	byName map[string]*node // the kids, made when it is needed
	hits   []string         // names with which paths of the inventory begin
	socks  []string         // names of sockets
	links  []Symlink
}

// task is a directory to look at.
type task struct {
	rel   string // below the root
	depth int
	what  kind
	cache bool  // only entries that apply everywhere apply here
	git   bool  // git writes in it, below a bare repository; if what is modules: it holds objects
	top   bool  // it is .git/modules or .git/worktrees itself, which is not a repository even with a HEAD
	was   *node // what an earlier look found, or nil
	now   *node // what this look finds, to be filled in
}

// walk looks at one tree, breadth first, so that a bound cuts off the deepest directories.
type walk struct {
	*look
	first   *node // the root
	root    int   // handle
	path    string
	dev     uint64
	trusted bool // KeepsCtime, for directories of that device
	files   bool // KeepsFileTimes

	mu      sync.Mutex
	more    sync.Cond
	queue   []task
	waiting int // bytes of paths in queue
	running int
	hired   int // workers in addition to the first
	others  sync.WaitGroup
}

// newWalk returns a walk through a directory and everything below it. was is what an earlier
// look found, or nil.
func newWalk(l *look, top place, was *node) *walk {
	w := &walk{look: l, first: &node{}, root: top.fd, path: top.root, dev: top.dev, trusted: dirfd.KeepsCtime(top.fd), files: top.trusted}
	w.more.L = &w.mu
	what := plain
	if path.Base(top.root) == ".git" {
		what = gitDir
	}
	w.queue = append(w.queue, task{what: what, was: was, now: w.first})
	return w
}

// all looks at everything that is left, and returns the root.
func (w *walk) all(ctx context.Context) *node {
	w.work(ctx, math.MaxInt)
	w.others.Wait()
	return w.first
}

// done reports whether nothing is left.
func (w *walk) done() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue) == 0 && w.running == 0
}

// work looks at up to dirs directories.
func (w *walk) work(ctx context.Context, dirs int) {
	for range dirs {
		t, ok := w.next(ctx)
		if !ok {
			return
		}
		kids := w.directory(ctx, t)
		w.mu.Lock()
		for _, k := range kids {
			if w.waiting += len(k.rel); w.waiting > maxPaths {
				w.halt(k.depth, "the paths of its directories are longer than "+strconv.Itoa(maxPaths>>20)+" MiB")
				break
			}
			w.queue = append(w.queue, k)
		}
		if len(w.queue) > crowd && w.hired < workers-1 {
			w.hired++
			w.others.Go(func() { w.work(ctx, math.MaxInt) })
		}
		w.running--
		w.mu.Unlock()
		w.more.Broadcast()
	}
}

// halt is cut where directories are left out that nothing names.
func (w *walk) halt(depth int, why string) {
	w.cut(depth, why)
	w.look.mu.Lock()
	defer w.look.mu.Unlock()
	w.partial = true
}

// next waits for a directory to look at. It reports false when none is left.
func (w *walk) next(ctx context.Context) (task, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && w.running > 0 {
		w.more.Wait()
	}
	if len(w.queue) == 0 {
		return task{}, false
	}
	t := w.queue[0]
	switch {
	case ctx.Err() != nil:
		w.halt(t.depth, "time ran out")
	case w.entries.Load() > maxEntries || w.dirs.Add(1) > maxDirs:
		w.halt(t.depth, "there are too many")
	default:
		w.queue[0] = task{}
		w.queue = w.queue[1:]
		w.waiting -= len(t.rel)
		w.running++
		return t, true
	}
	w.queue = nil
	w.more.Broadcast()
	return task{}, false
}

// directory looks at one directory, and returns those in it to look at next.
func (w *walk) directory(ctx context.Context, t task) []task {
	fd, err := dirfd.OpenBelow(w.root, t.rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		w.unread(t.rel, err)
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		w.unread(t.rel, err)
		return nil
	}
	if t.was.unchanged(&st) && (t.was.what == t.what || t.what == written && t.was.what == modules) {
		*t.now = node{name: t.now.name, what: t.was.what, bare: t.was.bare, whole: t.was.whole, marks: t.was.marks, kids: t.was.kids, hits: t.was.hits, socks: t.was.socks, links: t.was.links}
	} else if err := w.read(t, fd, &st); err != nil {
		w.unread(t.rel, err)
		return nil
	}
	t.what = t.now.what
	w.meetSockets(w.path, t.rel, t.now.socks)
	if !w.namesOnly {
		w.entriesIn(ctx, place{fd: fd, root: w.path, rel: t.rel, dev: w.dev, trusted: w.files}, t)
	}
	return w.kids(t, fd)
}

// unread records a directory that could not be read.
func (w *walk) unread(rel string, err error) {
	w.missed(w.path, rel, err)
	if !dirfd.Gone(err) {
		w.passBy(w.path, rel)
	}
}

// unchanged reports whether a directory still has the same names.
func (n *node) unchanged(st *unix.Stat_t) bool {
	return n != nil && n.stable && n.ino == st.Ino && n.dev == uint64(st.Dev) && n.ctim == st.Ctim && n.mtim == st.Mtim //nolint:unconvert // differs between platforms
}

// read reads the names of a directory.
func (w *walk) read(t task, fd int, st *unix.Stat_t) error {
	n := t.now
	n.what = t.what
	n.dev, n.ino, n.ctim, n.mtim = uint64(st.Dev), st.Ino, st.Ctim, st.Mtim //nolint:unconvert // differs between platforms
	n.stable = w.trusted && n.dev == w.dev && w.settled(st)
	firsts := inventory().in(t.what)
	err := dirfd.EachName(fd, func(name []byte, kind byte) bool {
		n.note(name)
		if kind == unix.DT_UNKNOWN {
			kind = dirfd.TypeOf(fd, string(name))
		}
		if firsts != nil && firsts.named(string(name)) != nil {
			n.hits = append(n.hits, string(name))
		}
		switch kind {
		case unix.DT_DIR:
			n.kids = append(n.kids, &node{name: string(name)})
		case unix.DT_LNK:
			n.links = append(n.links, Symlink{string(name), readLink(fd, string(name))})
		case unix.DT_SOCK:
			n.socks = append(n.socks, string(name))
		}
		return w.entries.Add(1) <= maxEntries
	})
	n.whole = err == nil && w.entries.Load() <= maxEntries
	if w.entries.Load() > maxEntries {
		w.halt(t.depth, "there are too many")
	}
	if t.what == plain && t.depth > 0 && !n.git {
		n.hits = slices.DeleteFunc(n.hits, func(name string) bool {
			return !slices.ContainsFunc(firsts.named(name), func(o *policy.Obeyed) bool { return o.Nested })
		})
	}
	n.bare = !t.top && (n.marks.bare() || t.what == modules && n.head)
	if t.what == written && n.marks.bare() && err == nil { // commands have given the directory above it the names of a repository
		*n = node{name: n.name}
		if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
			return err
		}
		t.what = modules
		return w.read(t, fd, st)
	}
	return err
}

// kids returns the directories in one to look at. It leaves out those that are proved to be
// unchanged without opening them.
func (w *walk) kids(t task, fd int) []task {
	var list []task
	for i, kid := range t.now.kids {
		k := task{rel: path.Join(t.rel, kid.name), depth: t.depth + 1, now: kid, cache: t.cache || caches[kid.name]}
		switch {
		case t.what == written:
			k.what = written
		case t.what == gitDir:
			switch {
			case kid.name == "modules" || kid.name == "worktrees":
				k.what, k.top = modules, true
			case writtenDirs[kid.name]:
				k.what = written
			case heldDirs[kid.name]:
				w.passBy(w.path, k.rel)
				continue
			default:
				k.what = modules
			}
		case t.what == modules && t.now.bare && writtenDirs[kid.name]:
			k.what = written
		case t.what == modules && t.git && isObjects(kid.name):
			var st unix.Stat_t
			if fd >= 0 && unix.Fstatat(fd, kid.name+"/HEAD", &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				w.passBy(w.path, k.rel)
				continue
			}
			k.what = modules
		case t.what == modules:
			k.git = t.now.marks.bare() && kid.name == "objects"
			k.what = modules // what looks like a repository may hold others, because anybody can make a HEAD
		case kid.name == ".git":
			k.what = gitDir
		case t.git || t.now.bare && writtenDirs[kid.name]:
			k.git = true // people may work there too
		}
		if k.depth > maxDepth || len(k.rel) > maxRel {
			w.cut(k.depth, "there are directories deeper than "+strconv.Itoa(maxDepth)+" levels")
			w.passBy(w.path, k.rel)
			continue
		}
		if t.was != nil {
			k.was = t.was.kid(i, kid.name)
			if w.idle(fd, k) {
				continue
			}
			if k.now == k.was {
				k.now = &node{name: kid.name}
			}
		}
		list = append(list, k)
	}
	return list
}

// isObjects reports whether git uses this name for a directory of objects.
func isObjects(name string) bool {
	if name == "info" || name == "pack" {
		return true
	}
	_, err := strconv.ParseUint(name, 16, 8)
	return len(name) == 2 && err == nil
}

// kid returns a directory that an earlier look has found. It is mostly at the same index.
func (n *node) kid(i int, name string) *node {
	if i >= 0 && i < len(n.kids) && n.kids[i].name == name {
		return n.kids[i]
	}
	if n.byName == nil {
		n.byName = make(map[string]*node, len(n.kids))
		for _, k := range n.kids {
			n.byName[k.name] = k
		}
	}
	return n.byName[name]
}

// idle reports whether a directory without directories in it has not changed, and neither
// have the entries of the inventory in it. It adds these entries then.
func (w *walk) idle(parent int, t task) bool {
	was := t.was
	if was == nil || !was.stable || was.bare || was.what != t.what || t.what != plain && t.what != written || len(was.kids) > 0 {
		return false
	}
	if len(was.links) > 0 {
		return false
	}
	var st unix.Stat_t
	if unix.Fstatat(parent, was.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || !was.unchanged(&st) {
		return false
	}
	items := make(map[string]item, len(was.hits))
	for _, name := range was.hits {
		full := filepath.Join(w.path, t.rel, name)
		i, there := w.before[full]
		// If another process has replaced the directory by a link, this reads another
		// file, which has another identity.
		if !there || i.kind != isFile || i.fresh || i.weak || unix.Fstatat(parent, was.name+"/"+name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || identity(&st) != i.id {
			return false
		}
		items[full] = i
	}
	for full, i := range items {
		w.add(full, i)
	}
	w.meetSockets(w.path, t.rel, was.socks)
	return true
}
