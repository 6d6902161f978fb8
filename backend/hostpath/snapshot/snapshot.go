package snapshot

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
	"github.com/paddock-dev/paddock/backend/hostpath/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// Watch is what is compared: directories that commands can write, and what in
// them programs of the host execute or obey.
type Watch struct {
	// Workspace is what paths are told relative to.
	Workspace string
	// Roots are free of symbolic links. One may be a file.
	Roots []string
	// Also are paths in them beside those of the inventory.
	Also []policy.Obeyed // with absolute paths
	// Homes are those of users of the host.
	Homes []string
	// Relative says that the user's configuration of git may name programs by paths
	// relative to the repository: then each new repository matters.
	Relative bool
}

// Snapshot is what was there before commands could run.
type Snapshot struct {
	watch  Watch
	items  map[string]item
	unseen map[string]string
	depth  int // of the directories that were not looked at any more; 0: all were
	why    string
	seen   int64
	trees  map[string]*node // by root; nil where it was read from a file
}

// Change is a path that programs of the host execute or obey, and that was made
// or changed.
type Change struct {
	Path string // of the host
	Made bool   // it was not there before
	// By is the entry of the inventory that it belongs to.
	By policy.Obeyed
}

// Changes is what a comparison has found.
type Changes struct {
	List []Change
	// Unseen says what was not looked at, and why. Empty: all was.
	Unseen []string
}

// MaxChanges bounds what one comparison tells, maxOf what it tells of one
// directory before it names the directory itself.
const (
	MaxChanges = 1000
	maxOf      = 3
)

// Take looks at what is there. It never fails: what could not be looked at is
// told by the comparison.
func Take(ctx context.Context, watch Watch) *Snapshot { return Begin(ctx, watch, nil)() }

// Begin begins [Take]. known are names that were read already; nil: none were. The
// function that it returns waits for the end.
func Begin(ctx context.Context, watch Watch, known *Names) (wait func() *Snapshot) {
	watch.Homes = slices.DeleteFunc(slices.Clone(watch.Homes), func(home string) bool { // the others do not matter
		return !slices.ContainsFunc(watch.Roots, func(root string) bool {
			_, in := hostpath.Within(home, root)
			_, holds := hostpath.Within(root, home)
			return in || holds
		})
	})
	return take(ctx, watch, nil, known)
}

// take bounds the time of a look, also where a file system does not answer. known
// are names that were read already; nil: none were. The look goes on beside the
// caller until wait returns.
func take(ctx context.Context, watch Watch, before *Snapshot, known *Names) (wait func() *Snapshot) {
	ctx, cancel := context.WithTimeout(ctx, LookTime)
	done := make(chan *Snapshot, 1)
	go func() { done <- takeAll(ctx, watch, before, known, time.Now()) }()
	return func() *Snapshot {
		defer cancel()
		select {
		case s := <-done:
			return s
		case <-ctx.Done():
		}
		select { // a file system that answers lets it end soon
		case s := <-done:
			return s
		case <-time.After(time.Second):
			return &Snapshot{watch: watch, depth: 1, why: "the file system does not answer"}
		}
	}
}

func takeAll(ctx context.Context, watch Watch, before *Snapshot, known *Names, now time.Time) *Snapshot {
	var l *look
	if known != nil {
		l = known.begin(ctx)
	}
	if l == nil {
		known, l = nil, &look{matcher: Inventory(), began: now, items: map[string]item{}, unseen: map[string]string{}}
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
			if known != nil && known.tops[root] != nil && known.tops[root].is(top) {
				s.trees[root] = known.tops[root]
				l.meetAll(ctx, top, known.tops[root])
			} else {
				s.trees[root] = newWalk(l, top, was).all(ctx)
			}
		}
		l.links = append(l.links, l.matcher.around(root, watch.Homes)...)
	}
	for i := range watch.Also {
		l.links = append(l.links, link{to: watch.Also[i].Path, by: &watch.Also[i]})
	}
	l.followAll(ctx, roots, files)
	s.items, s.unseen, s.depth, s.why, s.seen = l.items, l.unseen, l.depth, l.why, l.entries.Load()
	return s
}

// outermost returns the roots that lie in no other.
func outermost(roots []string) []string {
	var list []string
	for _, root := range slices.Compact(slices.Sorted(slices.Values(roots))) {
		if !slices.ContainsFunc(list, func(other string) bool { _, in := hostpath.Within(root, other); return in }) {
			list = append(list, root)
		}
	}
	return list
}

// Compare looks again, and tells what has become of it. Nothing inside may run
// any more.
func (s *Snapshot) Compare(ctx context.Context) Changes {
	now := take(ctx, s.watch, s, nil)()
	return s.changes(now, time.Now().Add(LookTime))
}

// CompareWith is [Snapshot.Compare] for one that was read from a file. What it
// finds there now it keeps in looked, for others of the same directories.
func (s *Snapshot) CompareWith(ctx context.Context, looked map[string]*Snapshot) Changes {
	key := fmt.Sprintf("%q %q %q %v", s.watch.Workspace, s.watch.Roots, s.watch.Homes, s.watch.Also)
	if looked[key] == nil {
		looked[key] = take(ctx, s.watch, nil, nil)()
	}
	return s.changes(looked[key], time.Now().Add(LookTime))
}

// Workspace returns what [Watch] says of it.
func (s *Snapshot) Workspace() string { return s.watch.Workspace }

// changes compares with a later look, until an end that says so. It has as much
// time as the look, which may have used up its own.
func (s *Snapshot) changes(now *Snapshot, until time.Time) Changes {
	var found Changes
	var weak []string           // files of which nothing proves that they are as they were
	of := map[string][]Change{} // by the path of the entry
	left := len(now.items)
	for full, i := range now.items {
		if time.Now().After(until) {
			break
		}
		left--
		was, there := s.items[full]
		if there && i.weak && i.kind == isFile && was.kind == isFile && i.id == was.id && (i.sum == "" || was.sum == "") {
			weak = append(weak, full)
		}
		moved := i.to != "" && i.by.Path == ".git" && s.items[filepath.Join(i.to, "config")].kind == isFile && !now.compared(i.to) // over a link, say
		if there && i.same(was) && !moved || !there && !s.knew(full) {
			continue
		}
		of[i.top] = append(of[i.top], Change{Path: full, Made: !there, By: *i.by})
	}
	repositories := map[string]bool{} // directories that have become one
	if !s.watch.Relative {
		now.dropQuiet(of, until)
	}
	found.List = takeResumed(of)
	for top, list := range of {
		entry := slices.IndexFunc(list, func(c Change) bool { return c.Path == top })
		switch {
		case entry >= 0:
			if len(list[entry].By.With) > 0 {
				repositories[filepath.Dir(top)] = true
			}
			found.List = append(found.List, list[entry])
		case len(list) <= maxOf:
			found.List = append(found.List, list...)
		default:
			found.List = append(found.List, Change{Path: top, By: list[0].By})
		}
	}
	slices.SortFunc(found.List, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	found.List = shorten(found.List, repositories, until)
	found.Unseen = s.unlooked(now)
	if left > 0 {
		found.Unseen = append(found.Unseen, fmt.Sprintf("%d of %d paths that programs run or obey were not compared: there was no time for more", left, len(now.items)))
	}
	if len(weak) > 0 {
		found.Unseen = append(found.Unseen, fmt.Sprintf("%d files were not compared, since they are too large, or too many, for a file system whose times prove nothing: %s is one", len(weak), strconv.Quote(slices.Min(weak))))
	}
	if more := len(found.List) - MaxChanges; more > 0 { // what is obeyed unasked comes first
		slices.SortStableFunc(found.List, func(a, b Change) int { return strings.Compare(string(a.By.Class), string(b.By.Class)) })
		found.List = found.List[:MaxChanges]
		found.Unseen = append(found.Unseen, strconv.Itoa(more)+" more changes are not listed")
	}
	return found
}

// knew reports whether the look before has looked where a path is.
func (s *Snapshot) knew(full string) bool {
	if s.depth == 0 {
		return true
	}
	for _, root := range s.watch.Roots {
		if rel, in := hostpath.Within(full, root); in {
			return strings.Count(rel, "/") < s.depth
		}
	}
	return true
}

const format = "paddock before 1"

// ErrDamaged says that what was kept of a [Snapshot] is not what was written.
var ErrDamaged = errors.New("damaged")

// Encode returns a text from which [Decode] makes the snapshot again, for who
// finds that its owner was killed.
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

// Decode reads what [Snapshot.Encode] gave.
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
