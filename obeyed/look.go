package obeyed

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
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
	"github.com/paddock-dev/paddock/backend/hostpath/gitconfig"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// Bounds on the content that is read. Files beyond them are compared by identity and times.
const (
	maxHashed     = 1 << 20  // bytes of one file
	maxHashedSum  = 64 << 20 // bytes of all
	maxHashedMany = 512      // files
	maxPointers   = 1 << 14  // files that name a repository; the bounds above do not count them
	maxItems      = 1 << 16  // paths
	maxPassed     = 1 << 12  // directories whose names are not read
	maxUnseen     = 16       // unseen paths that are reported
	maxTree       = 16       // levels of directories below an entry that is a directory
)

// Types of items.
const (
	isFile   = 'f'
	isDir    = 'd'
	isLink   = 'l'
	isOther  = 'o'
	isMarker = 'm' // a path of any type that matters together with other paths
	isGit    = 'g' // a ".git" that is a directory
)

// item is what was found at a path that programs of the host execute or obey.
type item struct {
	kind byte
	perm uint32
	// id changes with each change of a file, if the file system's times are reliable.
	// fresh means that the last change is so recent that another one may get the same time.
	id    string
	fresh bool
	// sum is a hash of the content, or of the part that is executed; for a link,
	// of its text. Empty: the content was not read.
	sum string

	// to is the path that one of git's files names, by its text alone; repository is
	// the directory that this path resolves to now. harmless means that the file is
	// git configuration, and that it does not make git run anything.
	to, repository string
	harmless       bool

	// by is the entry of the inventory that the item belongs to, and top the path at
	// which the entry was found. An item can be below top if the entry is a directory.
	by  *policy.Obeyed
	top string
	// weak means that the content may have changed although the times are equal.
	weak bool
}

// same reports whether an item is unchanged in all that matters to the host.
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

// look is one pass over everything that is watched.
type look struct {
	began time.Time
	// namesOnly makes the pass read only the names by which entries of the inventory
	// are found, but not the entries.
	namesOnly bool
	before    map[string]item // the result of an earlier look: unchanged files are not read again

	entries, dirs       atomic.Int64
	hashed, hashedBytes atomic.Int64
	pointers            atomic.Int64

	mu    sync.Mutex
	items map[string]item
	links []link // still to be followed
	// aliases are directories that tools fill, or are in one, and to which a link elsewhere leads.
	aliases []string
	texts   map[string]string // of links, by the paths that enter has met; "": it is not one
	// sockets are the paths of all that were met, in use or not.
	sockets []string
	// passed are directories whose names are not read, though a socket may be there: of git's, in which
	// commands cannot change what matters, those too deep, and those that cannot be read.
	passed []string
	// partial: more was left out than passed has.
	partial bool
	// repositories are directories that git's own files name.
	repositories []string
	unseen       map[string]string
	depth        int    // directories at this depth or deeper were skipped; 0: none were
	why          string // the reason for that
}

// place is an open directory.
type place struct {
	fd        int
	root, rel string
	dev, ino  uint64 // of the root
	trusted   bool   // KeepsFileTimes, for files of that device
}

func (p place) path(rel string) string { return filepath.Join(p.root, p.rel, rel) }

// cut records that directories at a depth or deeper were skipped, and why.
func (l *look) cut(depth int, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if depth = max(depth, 1); l.depth == 0 || depth < l.depth {
		l.depth, l.why = depth, why
	}
}

// missed records a path that could not be read.
func (l *look) missed(root, rel string, err error) {
	if dirfd.Gone(err) && rel != "" || errors.Is(err, unix.ENOENT) {
		return // the path does not exist, or a link is in it, which is not followed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unseen) < maxItems {
		l.unseen[filepath.Join(root, rel)] = hostpath.Reason(err)
	}
}

// entriesIn looks at the entries of the inventory in a directory.
func (l *look) entriesIn(ctx context.Context, p place, t task) {
	if t.now.bare && t.what == plain {
		for _, o := range inventory().git.all {
			l.entry(ctx, p, o)
		}
	}
	if t.now.bare || t.git || t.what != plain {
		for _, link := range t.now.links {
			l.at(ctx, p, link.Name, writtenThrough, 0)
		}
	}
	for _, link := range t.now.links {
		if leadsIntoGit(p.fd, link) {
			l.at(ctx, p, link.Name, intoGit, 0)
		}
		if t.what == plain && !t.cache && !Fills(link.Name) {
			l.alias(link.Text, p.path(""))
		}
	}
	if t.what == modules && !t.now.bare {
		return
	}
	root := t.what != plain || t.depth == 0 || t.now.git
	for _, name := range t.now.hits {
		for _, o := range inventory().in(t.what).named(name) {
			switch {
			case !root && !o.Nested, t.cache && !o.Everywhere && (!t.now.git || o.Class != policy.Unasked):
			case !o.Ending:
				l.entry(ctx, p, o)
			case !strings.Contains(o.Path, "/"):
				l.at(ctx, p, name, o, 0)
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
		l.lead(link{to: p.path(o.Path), by: o}) // a parent is a link, which the host's programs follow
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
	if o.Under == onPath && !o.Dir {
		i.top = cmp.Or(o.Path, filepath.Dir(full)) + "/" // the directory itself may be an entry
	}
	switch mode := st.Mode & unix.S_IFMT; {
	case o == writtenThrough && (mode != unix.S_IFLNK || name == "HEAD" && strings.HasPrefix(readLink(p.fd, name), "refs/") && !strings.Contains(readLink(p.fd, name), "..")):
		return // not a link, or a HEAD as git makes it with core.preferSymlinkRefs
	case o.With != nil:
		i = item{kind: isMarker, by: o, top: full}
	case mode == unix.S_IFLNK:
		i.kind, i.sum = isLink, linkText(p.fd, name)
		l.follow(p, name, "", o, hops)
	case mode == unix.S_IFDIR && o.Path == ".git":
		i = item{kind: isGit, id: strconv.FormatUint(st.Ino, 10), by: o, top: full}
		if st.Mode&0o100 == 0 {
			i.id += " closed" // its owner cannot enter it, so no later start could protect what is in it
		}
	case mode == unix.S_IFDIR && o.Dir:
		i = item{kind: isDir, by: o, top: full}
		holds := !o.Repositories && l.below(ctx, p, name, i, 0) > 0 // the walk itself goes through repositories
		if o == searched {
			return // its programs are compared
		}
		if holds || o.Class == policy.Unasked || o.Under != policy.GitDir {
			l.add(i.top, i)
		}
		return
	case o.Under == onPath && (o.Dir || mode != unix.S_IFREG || st.Mode&0o111 == 0):
		return // not a program
	case o.Class == policy.WhenNamed && (mode != unix.S_IFREG || o.Dir && hops == 0): // over a link it is a file in the directory
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

// meetSockets records the sockets in a directory.
func (l *look) meetSockets(root, rel string, names []string) {
	if len(names) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		if len(l.sockets) >= maxItems {
			l.unseen[filepath.Join(root, rel)] = "there are too many sockets"
			return
		}
		l.sockets = append(l.sockets, filepath.Join(root, rel, name))
	}
}

// passBy records a directory whose names are not read.
func (l *look) passBy(root, rel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.passed) >= maxPassed {
		l.partial = true
		return
	}
	l.passed = append(l.passed, filepath.Join(root, rel))
}

// add adds an item. An entry of class [policy.Unasked] takes precedence over others at its
// path.
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

// below looks at all files below an entry that is a directory, and returns the number of
// names in it.
func (l *look) below(ctx context.Context, p place, name string, top item, depth int) int {
	if ctx.Err() != nil {
		l.cut(1, "time ran out")
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
	program := &policy.Obeyed{Path: in.path(""), Under: onPath, Class: searched.Class, Tool: searched.Tool, Why: searched.Why}
	for _, n := range names {
		if top.by == searched {
			l.at(ctx, in, n, program, 0)
			continue
		}
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

// errPointer is the reason why a file that names a repository was not read.
var errPointer = errors.New("the repository that it names was not checked: the file is too large, or there are too many such files")

// read computes the hash of a file. For an unchanged file it reuses the result of an earlier
// look.
func (l *look) read(p place, name string, st *unix.Stat_t, i *item) {
	i.weak = !p.trusted || p.dev != uint64(st.Dev) //nolint:unconvert // differs between platforms
	if was, there := l.before[p.path(name)]; there && !i.weak && was.kind == isFile && was.id == i.id && !was.fresh && (was.to != "" || was.repository == "") {
		i.sum, i.perm, i.to, i.repository, i.harmless = was.sum, was.perm, was.to, was.repository, was.harmless
		return
	}
	pointer := i.by.Path == ".git" || i.by.Path == "commondir" // it names a repository
	switch {
	case pointer && (st.Size > gitconfig.MaxPathFile || l.pointers.Add(1) > maxPointers):
		l.missed(p.root, path.Join(p.rel, name), errPointer)
		return
	case !pointer && (st.Size > maxHashed || l.hashed.Add(1) > maxHashedMany || l.hashedBytes.Add(st.Size) > maxHashedSum):
		return
	}
	fd, err := dirfd.Open(p.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return // id shows a change
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var now unix.Stat_t
	if unix.Fstat(fd, &now) != nil || now.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	text, err := io.ReadAll(io.LimitReader(f, maxHashed+1))
	if err != nil || len(text) > maxHashed {
		return
	}
	i.leads(p.path(name), string(text))
	if name == "package.json" || i.by.Path == "package.json" {
		i.perm, text = 0, executedPackage(text)
	}
	sum := sha256.Sum256(text)
	i.sum = hex.EncodeToString(sum[:16])
}

// readLink returns the text of a link in an open directory, or "" if it is not a link.
func readLink(dir int, name string) string {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// linkText returns a hash of the text of a link, or "" if it is not a link.
func linkText(dir int, name string) string {
	text := readLink(dir, name)
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// leadsIntoGit reports whether the text of a link has ".git" among its names. A link of
// git-annex, to the content of a file, does not count.
func leadsIntoGit(dir int, link Symlink) bool {
	text := link.Text
	if !slices.Contains(strings.Split(text, "/"), ".git") {
		return false
	}
	var st unix.Stat_t
	return !strings.Contains(text, ".git/annex/objects/") || leadsBy(text, "/") == "" ||
		unix.Fstatat(dir, link.Name, &st, 0) == nil && st.Mode&unix.S_IFMT != unix.S_IFREG
}

// settled reports whether a file's last change is so old that any later change would get
// another time.
func (l *look) settled(st *unix.Stat_t) bool {
	return time.Unix(st.Ctim.Unix()).Add(margin).Before(l.began)
}

// identity returns a text that changes with each change of a file. It omits the number of
// the device, which may change when the host boots.
func identity(st *unix.Stat_t) string {
	return fmt.Sprintf("%x.%x.%x.%x", st.Ino, st.Size, st.Ctim.Nano(), st.Mtim.Nano())
}
