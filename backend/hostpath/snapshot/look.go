package snapshot

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// Bounds of what is read. Of what lies beyond them identity and times are
// compared instead of content.
const (
	maxHashed     = 1 << 20  // bytes of one file
	maxHashedSum  = 64 << 20 // bytes of all
	maxHashedMany = 512      // files
	maxPointers   = 1 << 14  // files that name a repository, read beside these
	maxItems      = 1 << 16  // paths
	maxUnseen     = 16       // paths that are told of
	maxTree       = 16       // directories below an entry that is one
)

// Types of items.
const (
	isFile   = 'f'
	isDir    = 'd'
	isLink   = 'l'
	isOther  = 'o'
	isMarker = 'm' // a path that matters together with others, whatever it is
	isGit    = 'g' // a ".git" that is a directory
)

// item is what was found at a path that programs of the host execute or obey.
type item struct {
	kind byte
	perm uint32
	// id changes with each change of a file, where the file system tells. fresh
	// says that the last one is so young that one more may have the same time.
	id    string
	fresh bool
	// sum is a hash of the content, or of what of it is executed; for a link, of
	// where it leads. Empty: the content was not read.
	sum string

	// to is where a file of git's leads, by its text alone, repository the directory
	// that it leads to now, and harmless says that configuration has git run nothing.
	to, repository string
	harmless       bool

	// by is the entry of the inventory, and top the path that it was found at:
	// below that where the entry is a directory.
	by  *policy.Obeyed
	top string
	// weak says that its times do not prove that its content is what it was.
	weak bool
}

// same reports whether nothing has changed that the host would notice.
func (i item) same(was item) bool {
	switch {
	case i.kind != was.kind:
		return false
	case i.kind == isDir, i.kind == isMarker:
		return true
	case i.sum != "" && was.sum != "":
		return i.sum == was.sum && i.perm == was.perm
	}
	return i.id == was.id
}

// look is one look at all that is watched.
type look struct {
	matcher *matcher
	began   time.Time
	// namesOnly: nothing of the inventory is looked at, but the names by which it is found.
	namesOnly bool
	before    map[string]item // what an earlier look found, so that what is as it was need not be read again

	entries, dirs       atomic.Int64
	hashed, hashedBytes atomic.Int64
	pointers            atomic.Int64

	mu    sync.Mutex
	items map[string]item
	links []link // that lead on
	// repositories are directories that git's own files name.
	repositories []string
	unseen       map[string]string
	depth        int // of the directories that were not looked at any more; 0: there are none
	why          string
}

// place is an open directory.
type place struct {
	fd        int
	root, rel string
	dev, ino  uint64 // of the root
	trusted   bool   // KeepsFileTimes, for files of that device
}

func (p place) path(rel string) string { return filepath.Join(p.root, p.rel, rel) }

// cut notes that directories from a depth on were not looked at.
func (l *look) cut(depth int, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if depth = max(depth, 1); l.depth == 0 || depth < l.depth {
		l.depth, l.why = depth, why
	}
}

// missed notes a directory that could not be looked at.
func (l *look) missed(root, rel string, err error) {
	if dirfd.Gone(err) && rel != "" || errors.Is(err, unix.ENOENT) {
		return // nothing is there, or a link, which nobody follows
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unseen) < maxItems {
		l.unseen[filepath.Join(root, rel)] = hostpath.Reason(err)
	}
}

// meet looks at what a directory holds of the inventory.
func (l *look) meet(ctx context.Context, p place, t task) {
	if t.now.bare && t.what == plain {
		for _, o := range l.matcher.git {
			l.entry(ctx, p, o)
		}
	}
	if t.now.bare || t.git || t.what != plain {
		for _, name := range t.now.links {
			l.at(ctx, p, name, writtenThrough, 0)
		}
	}
	for _, name := range t.now.links {
		if leadsIntoGit(p.fd, name) {
			l.at(ctx, p, name, intoGit, 0)
		}
	}
	if t.what == modules && !t.now.bare {
		return
	}
	firsts := l.matcher.firsts(t.what, t.depth == 0 || t.now.Git)
	for _, name := range t.now.hits {
		for _, o := range firsts[name] {
			if !t.cache || o.Everywhere || t.now.Git && o.Class == policy.Unasked {
				l.entry(ctx, p, o)
			}
		}
	}
}

// entry looks at a path of the inventory below an open directory.
func (l *look) entry(ctx context.Context, p place, o *policy.Obeyed) {
	dir, name := path.Split(o.Path)
	if dir = strings.TrimSuffix(dir, "/"); dir == "" {
		l.at(ctx, p, name, o, 0)
		return
	}
	fd, err := dirfd.OpenBelow(p.fd, dir, dirfd.DirFlags)
	if errors.Is(err, unix.ELOOP) {
		l.lead(link{to: p.path(o.Path), by: o}) // over a parent that is a link, as the host's programs go
		return
	}
	if err != nil {
		l.missed(p.root, path.Join(p.rel, dir), err)
		return
	}
	defer func() { _ = unix.Close(fd) }()
	l.at(ctx, place{fd: fd, root: p.root, rel: path.Join(p.rel, dir), dev: p.dev, trusted: p.trusted}, name, o, 0)
}

// at looks at one name in an open directory.
func (l *look) at(ctx context.Context, p place, name string, o *policy.Obeyed, hops int) {
	var st unix.Stat_t
	if err := unix.Fstatat(p.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		l.missed(p.root, path.Join(p.rel, name), err)
		return
	}
	for _, other := range o.With {
		var st unix.Stat_t
		if unix.Fstatat(p.fd, other, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return
		}
	}
	full := p.path(name)
	i := item{kind: isFile, perm: uint32(st.Mode & 0o7777), id: identity(&st), fresh: !l.settled(&st), by: o, top: full} //nolint:unconvert // differs between platforms
	switch mode := st.Mode & unix.S_IFMT; {
	case o == writtenThrough && (mode != unix.S_IFLNK || isSymref(p.fd, name)):
		return
	case o.With != nil:
		i = item{kind: isMarker, by: o, top: full}
	case mode == unix.S_IFLNK:
		i.kind, i.sum = isLink, linkText(p.fd, name)
		l.follow(p, name, "", o, hops)
	case mode == unix.S_IFDIR && o.Path == ".git":
		i = item{kind: isGit, id: strconv.FormatUint(st.Ino, 10), by: o, top: full}
		if st.Mode&0o100 == 0 {
			i.id += " closed" // to its owner: no later start can protect what is in it
		}
	case mode == unix.S_IFDIR && o.Dir:
		i = item{kind: isDir, by: o, top: full}
		holds := !o.Repositories && l.below(ctx, p, name, i, 0) > 0 // the walk goes through repositories
		if holds || o.Class == policy.Unasked || o.Under != policy.GitDir {
			l.add(i.top, i)
		}
		return
	case o.Class == policy.WhenNamed && (mode != unix.S_IFREG || o.Dir):
		return
	case mode == unix.S_IFDIR:
		i.kind, i.id = isDir, ""
	case mode != unix.S_IFREG:
		i.kind = isOther
	default:
		l.read(p, name, &st, &i)
	}
	l.add(full, i)
}

func (l *look) add(full string, i item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, there := l.items[full]; there && (old.by.Class == policy.Unasked && old.kind != isMarker || i.by.Class != policy.Unasked) {
		return
	}
	if len(l.items) >= maxItems {
		if l.depth == 0 {
			l.depth, l.why = 1, "there are more than "+strconv.Itoa(maxItems)+" paths that programs run or obey"
		}
		return
	}
	l.items[full] = i
	if i.repository != "" {
		l.repositories = append(l.repositories, i.repository)
	}
}

// below looks at all files of an entry that is a directory, and gives how many names
// are in it.
func (l *look) below(ctx context.Context, p place, name string, top item, depth int) int {
	if ctx.Err() != nil {
		l.cut(1, "there was no time for more")
		return 0
	}
	if depth > maxTree {
		l.cut(strings.Count(p.rel, "/")+2, "there are directories deeper than "+strconv.Itoa(maxTree)+" levels in "+top.by.Path)
		return 0
	}
	fd, err := dirfd.Open(p.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		l.missed(p.root, path.Join(p.rel, name), err)
		return 0
	}
	defer func() { _ = unix.Close(fd) }()
	in := place{fd: fd, root: p.root, rel: path.Join(p.rel, name), dev: p.dev, trusted: p.trusted}
	var names []string
	err = dirfd.EachName(fd, func(b []byte, _ byte) bool {
		names = append(names, string(b))
		return l.entries.Add(1) <= maxEntries
	})
	if err != nil {
		l.missed(p.root, in.rel, err)
	}
	for _, n := range names {
		var st unix.Stat_t
		if depth == 0 && slices.Contains(top.by.Except, n) || unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW) != nil ||
			top.by.Under == policy.GitDir && top.by.Path == "hooks" && strings.HasSuffix(n, ".sample") && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		i := item{kind: isFile, perm: uint32(st.Mode & 0o7777), id: identity(&st), fresh: !l.settled(&st), by: top.by, top: top.top} //nolint:unconvert // differs between platforms
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			l.below(ctx, in, n, top, depth+1)
			continue
		case unix.S_IFLNK:
			i.kind, i.sum = isLink, linkText(fd, n)
			l.follow(in, n, "", top.by, 0)
		case unix.S_IFREG:
			l.read(in, n, &st, &i)
		default:
			i.kind = isOther
		}
		l.add(in.path(n), i)
	}
	return len(names)
}
