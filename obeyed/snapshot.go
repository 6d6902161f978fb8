package obeyed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// Watch lists the paths to compare: files that programs of the host execute or obey in
// directories that commands can write.
type Watch struct {
	// Workspace is the directory to which reported paths are relative.
	Workspace string
	// Roots are the directories. They are free of symbolic links. One may be a file.
	Roots []string
	// Also are further paths in them that are not in the inventory.
	Also []policy.Obeyed // with absolute paths
	// Homes are the homes of the host's users.
	Homes []string
	// Search are the directories in which the host's shells look for programs, as absolute paths.
	Search []string
	// Relative says that the user's configuration of git may name programs by paths
	// relative to the repository. Then each new repository matters.
	Relative bool
}

// Snapshot is the state before commands could run.
type Snapshot struct {
	watch  Watch
	items  map[string]item
	unseen map[string]string
	depth  int // from which on directories were not looked at; 0: all were
	why    string
	seen   int64
	trees  map[string]*node // by root; nil if the snapshot was read from a file
	// sockets are the paths of all sockets, in use or not.
	sockets []string
}

// Change is a path that programs of the host execute or obey, and that was made or changed.
type Change struct {
	Path string // on the host
	Made bool   // it did not exist before
	// By is the entry of the inventory that it belongs to.
	By policy.Obeyed
}

// Changes is the result of a comparison.
type Changes struct {
	List []Change
	// Sockets are those of the host that a program has begun to listen at since, so that commands
	// could connect to them.
	Sockets []string
	// Unseen lists what was not compared, and why. Empty: everything was compared.
	Unseen []string
}

// Take records the present state. It never fails: the comparison reports the paths that could
// not be read.
func Take(ctx context.Context, watch Watch) *Snapshot { return Begin(ctx, watch, nil)() }

// Begin begins a [Take]. known are names that were read already, or nil. The function that
// it returns waits for the end.
func Begin(ctx context.Context, watch Watch, known *Names) (wait func() *Snapshot) {
	watch.Homes = slices.DeleteFunc(slices.Clone(watch.Homes), func(home string) bool { // only those in or around a root matter
		return !slices.ContainsFunc(watch.Roots, func(root string) bool {
			_, in := hostpath.Within(home, root)
			_, holds := hostpath.Within(root, home)
			return in || holds
		})
	})
	return take(ctx, watch, nil, known)
}

// take takes a snapshot within a limited time, even if a file system does not answer. known
// are names that were read already, or nil. The look runs beside the caller until wait
// returns.
func take(ctx context.Context, watch Watch, before *Snapshot, known *Names) (wait func() *Snapshot) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	done := make(chan *Snapshot, 1)
	go func() { done <- takeAll(ctx, watch, before, known, time.Now()) }()
	return func() *Snapshot {
		defer cancel()
		select {
		case s := <-done:
			return s
		case <-ctx.Done():
		}
		select { // it ends soon, if the file system answers
		case s := <-done:
			return s
		case <-time.After(time.Second):
			return &Snapshot{watch: watch, depth: 1, why: "the file system does not answer"}
		}
	}
}

// takeAll takes a snapshot. before is an earlier one of the same directories, or nil.
func takeAll(ctx context.Context, watch Watch, before *Snapshot, known *Names, now time.Time) *Snapshot {
	var l *look
	if known != nil {
		l = known.begin(ctx)
	}
	if l == nil {
		known, l = nil, &look{began: now, items: map[string]item{}, unseen: map[string]string{}}
	}
	if before != nil {
		l.before = before.items
	}
	s := &Snapshot{watch: watch, trees: map[string]*node{}}
	roots, files := map[string]place{}, map[string]place{} // files by their paths, with the directories that hold them
	defer func() {
		for _, p := range roots {
			_ = unix.Close(p.fd)
		}
		for _, p := range files {
			_ = unix.Close(p.fd)
		}
	}()
	for _, root := range outermost(watch.Roots) {
		top, err := openRoot(root, unix.O_RDONLY)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			if top, err = openRoot(filepath.Dir(root), dirfd.DirFlags); err == nil {
				files[root] = top
			}
		} else if err == nil {
			roots[root] = top
		}
		if err != nil {
			l.missed(root, "", err)
			continue
		}
		if top.root == root {
			var was *node
			if before != nil {
				was = before.trees[root]
			}
			if known != nil && known.tops[root] != nil && known.tops[root].ino == top.ino && known.tops[root].dev == top.dev {
				s.trees[root] = known.tops[root]
				l.meetAll(ctx, top, known.tops[root])
			} else {
				s.trees[root] = newWalk(l, top, was).all(ctx)
			}
		}
		l.links = append(l.links, inventory().around(root, watch.Homes)...)
	}
	for i := range watch.Also {
		l.links = append(l.links, link{to: watch.Also[i].Path, by: &watch.Also[i]})
	}
	l.texts = map[string]string{}
	l.search(watch.Search, roots, files)
	l.meetAliases(ctx, roots)
	l.followAll(ctx, roots, files)
	s.items, s.unseen, s.depth, s.why, s.seen, s.sockets = l.items, l.unseen, l.depth, l.why, l.entries.Load(), l.sockets
	return s
}

// outermost returns the roots that do not lie in another one.
func outermost(roots []string) []string {
	var list []string
	for _, root := range slices.Compact(slices.Sorted(slices.Values(roots))) {
		if !slices.ContainsFunc(list, func(other string) bool { _, in := hostpath.Within(root, other); return in }) {
			list = append(list, root)
		}
	}
	return list
}

// Compare looks again, and returns the changes. No command may run any more.
func (s *Snapshot) Compare(ctx context.Context) Changes {
	now := take(ctx, s.watch, s, nil)()
	return s.changes(now, time.Now().Add(lookTime))
}

// CompareWith does what [Snapshot.Compare] does for a snapshot that was read from a file. It
// keeps the new look in looked, for other snapshots of the same directories.
func (s *Snapshot) CompareWith(ctx context.Context, looked map[string]*Snapshot) Changes {
	key := fmt.Sprintf("%q %q %q %q %v", s.watch.Workspace, s.watch.Roots, s.watch.Homes, s.watch.Search, s.watch.Also)
	if looked[key] == nil {
		looked[key] = take(ctx, s.watch, nil, nil)()
	}
	return s.changes(looked[key], time.Now().Add(lookTime))
}

// Workspace returns the workspace of the [Watch].
func (s *Snapshot) Workspace() string { return s.watch.Workspace }

const format = "paddock before 1"

// ErrDamaged is the error of a text that [Snapshot.Encode] has not made.
var ErrDamaged = errors.New("damaged")

// Encode returns a text from which [Decode] makes the snapshot again, for the process that
// finds that the owner was killed.
func (s *Snapshot) Encode() []byte {
	var b bytes.Buffer
	b.WriteString(format + "\n")
	line := func(word string, fields ...string) {
		b.WriteString(word)
		for _, f := range fields {
			b.WriteByte(' ')
			b.WriteString(strconv.Quote(f))
		}
		b.WriteByte('\n')
	}
	line("workspace", s.watch.Workspace)
	for _, home := range s.watch.Homes {
		line("home", home)
	}
	for _, root := range s.watch.Roots {
		line("root", root)
	}
	for _, dir := range s.watch.Search {
		line("search", dir)
	}
	if s.watch.Relative {
		line("relative")
	}
	for _, o := range s.watch.Also {
		line("also", o.Path, strconv.FormatBool(o.Dir), string(o.Class), o.Tool, o.Why)
	}
	line("bound", strconv.Itoa(s.depth), s.why, strconv.FormatInt(s.seen, 10))
	for path, i := range s.items {
		line("item", path, string(i.kind), strconv.FormatUint(uint64(i.perm), 8), i.id, i.sum)
	}
	line("end", strconv.Itoa(len(s.items)))
	return b.Bytes()
}

// Decode reads a text that [Snapshot.Encode] has made.
func Decode(text []byte) (*Snapshot, error) {
	s := &Snapshot{items: map[string]item{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || lines.Text() != format {
		return nil, ErrDamaged
	}
	ended := false
	for lines.Scan() {
		word, f, ok := fields(lines.Text())
		if !ok || ended {
			return nil, ErrDamaged
		}
		switch {
		case word == "workspace" && len(f) == 1:
			s.watch.Workspace = f[0]
		case word == "home" && len(f) == 1:
			s.watch.Homes = append(s.watch.Homes, f[0])
		case word == "root" && len(f) == 1 && filepath.IsAbs(f[0]):
			s.watch.Roots = append(s.watch.Roots, f[0])
		case word == "search" && len(f) == 1:
			s.watch.Search = append(s.watch.Search, f[0])
		case word == "relative" && len(f) == 0:
			s.watch.Relative = true
		case word == "also" && len(f) == 5:
			s.watch.Also = append(s.watch.Also, policy.Obeyed{Path: f[0], Dir: f[1] == "true", Class: policy.Class(f[2]), Tool: f[3], Why: f[4]})
		case word == "bound" && len(f) == 3:
			s.depth, _ = strconv.Atoi(f[0])
			s.seen, _ = strconv.ParseInt(f[2], 10, 64)
			s.why = f[1]
		case word == "item" && len(f) == 5 && len(f[1]) == 1:
			perm, _ := strconv.ParseUint(f[2], 8, 32)
			s.items[f[0]] = item{kind: f[1][0], perm: uint32(perm), id: f[3], sum: f[4]}
		case word == "end" && len(f) == 1 && f[0] == strconv.Itoa(len(s.items)):
			ended = true
		default:
			return nil, ErrDamaged
		}
	}
	if lines.Err() != nil || !ended {
		return nil, ErrDamaged
	}
	return s, nil
}

// fields splits a line into its word and the texts after it.
func fields(line string) (word string, list []string, ok bool) {
	word, rest, _ := strings.Cut(line, " ")
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", nil, false
		}
		text, err := strconv.Unquote(quoted)
		if err != nil {
			return "", nil, false
		}
		list = append(list, text)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	return word, list, true
}
