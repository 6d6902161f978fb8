package layer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/layer/delta"
)

// OnConflict says what to do where the source has changed since the layer began.
type OnConflict string

// Ways to treat conflicts.
const (
	Fail      OnConflict = "fail"      // nothing lands
	Overwrite OnConflict = "overwrite" // the layer's change lands
	Skip      OnConflict = "skip"      // the source's stays
)

// Conflict is a path where the source may have changed since the layer began.
type Conflict struct{ Path, Why string }

// ConflictError is the error of a commit that met conflicts.
type ConflictError struct{ Conflicts []Conflict }

// Error names the first.
func (e *ConflictError) Error() string {
	first := e.Conflicts[0]
	s := fmt.Sprintf("nothing was committed: %s: %s", text.QuoteName(first.Path), first.Why)
	if more := len(e.Conflicts) - 1; more > 0 {
		s += fmt.Sprintf(" (and %d more conflicts)", more)
	}
	return s
}

// Record is what the source had at a path when somebody looked.
type Record struct {
	Identity Identity
	Mode     fs.FileMode
	Sum      []byte // SHA-256 of a file, if it was computed
	Landed   bool   // a commit of the layer put it there
}

const (
	// tick is the longest tick of the kernel's clock for files: two changes within one may
	// have equal times.
	tick = 10 * time.Millisecond
	// maxSum is the size, in bytes, up to which files are hashed.
	maxSum = 64 << 20
)

// why texts of conflicts.
const (
	whyChanged = "it has changed in your directory, too"
	whyAppears = "your directory has something there, too, which was not there before"
	whyGone    = "your directory does not have it any more"
	whyDoubt   = "the clock was set back, so that nobody can say whether it has changed in your directory"
	whyParent  = "your directory has no place for it any more: the directory above it is gone, or a link or a file has replaced that"
	whyDropped = "your directory may have had it before, and have lost it since"
	whyOther   = "another directory may have been moved there, or its permissions were changed"
)

// latest returns when the sandbox was started for the last time.
func (l *Layer) latest() Began {
	if l.Started.Realtime.IsZero() {
		return l.Began
	}
	return l.Started
}

// bases tells since when a change of the source at a path is a conflict: since the last start, unless
// the layer already had a change there or above it, which hides later changes of the source.
type bases struct {
	inherited[time.Time]
	latest time.Time
}

func (l *Layer) bases(since map[string]time.Time) bases {
	return bases{inherited[time.Time]{own: since, found: map[string]time.Time{}}, l.latest().Realtime}
}

func (b bases) of(p string) time.Time {
	base, there := b.own[p]
	if !there {
		base = b.above(p)
	}
	if base.IsZero() {
		return b.latest
	}
	return base
}

// Restart returns the Since of commits after another start of the sandbox: for each path that
// changes are of, when commands began to see what the source has there. since is that of the start
// before. The instant of the start must have been taken before the changes were read.
func (l *Layer) Restart(changes []Change, since map[string]time.Time) map[string]time.Time {
	was, now := l.bases(since), make(map[string]time.Time, len(changes))
	trees := newInherited[string]()
	earliest := func(p string, base time.Time) {
		if old, there := now[p]; !there || base.Before(old) {
			now[p], trees.own[p] = base, p
		}
	}
	for i := range changes {
		ch := &changes[i]
		if ch.Kind == Modified && ch.New.Mode.IsDir() {
			continue // it shows what the source has in it
		}
		for _, p := range []string{ch.Path, ch.OldPath()} {
			earliest(p, was.of(p))
		}
	}
	for p, base := range since { // what was changed in a tree that is removed now
		if tree := trees.above(p); tree != "" {
			earliest(tree, base)
		}
	}
	return now
}

// recent reports whether a time is not safely before another one.
func recent(t, base time.Time) bool { return !t.Before(base.Add(-tick)) }

// changed returns why a path of the source may have changed since an instant, or "".
func (c *commit) changed(p string, st *unix.Stat_t, base time.Time) (string, error) {
	id := identityOf(st)
	if !c.doubt && !recent(id.Ctime, base) {
		return "", nil
	}
	if r, known := c.opt.Known[p]; known && (r.Landed || !recent(r.Identity.Ctime, base) && !c.doubt) {
		switch {
		case id.Still(r.Identity) && id.Ctime.Equal(r.Identity.Ctime):
			return "", nil
		case id.Size != r.Identity.Size || modeOf(st.Mode) != r.Mode || r.Sum == nil:
			return whyChanged, nil
		}
		sum, err := sumOf(c.source, p)
		if err != nil || bytes.Equal(sum, r.Sum) {
			return "", err
		}
		return whyChanged, nil
	}
	if c.doubt {
		return whyDoubt, nil
	}
	return whyChanged, nil
}

// sumOf returns the hash of a file.
func sumOf(dir int, p string) ([]byte, error) {
	f, _, err := openFile(dir, p)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", text.QuoteName(p), err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxSum+1)); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", text.QuoteName(p), err)
	}
	return h.Sum(nil), nil
}

// Records returns what the source has now at the paths that changes are of, for the Known of a
// later commit. From then on a conflict is told exactly.
func (l *Layer) Records(ctx context.Context, changes []Change) (map[string]Record, error) {
	c := &commit{source: int(l.Source.Fd())}
	found := map[string]Record{} // what is new in the layer has none
	for i := range changes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := changes[i].OldPath()
		st, err := look(c.source, p)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot look at %s: %w", text.QuoteName(p), err)
		}
		r := Record{Identity: identityOf(&st), Mode: modeOf(st.Mode)}
		if r.Mode.IsRegular() && st.Size <= maxSum {
			if r.Sum, err = sumOf(c.source, p); err != nil {
				return nil, err
			}
		}
		found[p] = r
	}
	return found, nil
}

// conflict finds the step of a unit, and returns why the source may have changed there, or "".
func (c *commit) conflict(ctx context.Context, u *unit) (why string, err error) {
	if why, err = c.conflictAt(ctx, u); why != "" || err != nil || u.step == nil {
		return why, err
	}
	dir, _ := delta.Split(u.Path)
	switch u.step.Deed {
	case place:
		return "", nil
	case chmod:
		dir = u.Path
	}
	other, err := c.otherDir(dir, c.bases.of(u.Path))
	if other == "" || err != nil {
		return "", err
	}
	return text.QuoteName(other) + ": " + whyOther, nil
}

// conflictAt is conflict without a look at the directories above.
func (c *commit) conflictAt(ctx context.Context, u *unit) (why string, err error) {
	st, err := look(c.source, u.Path)
	there := err == nil
	if err != nil && !gone(err) {
		return "", fmt.Errorf("cannot look at %s: %w", text.QuoteName(u.Path), err)
	}
	if parent, _ := delta.Split(u.Path); !there && u.Kind != Deleted && !c.hasDir(parent) {
		if c.opt.OnConflict == Overwrite {
			return "", fmt.Errorf("cannot commit %s: %s", text.QuoteName(u.Path), whyParent)
		}
		return whyParent, nil
	}
	if there {
		u.step.Expect = identityOf(&st)
	}
	isDir := there && st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case u.Kind == Deleted:
		if !there {
			u.step = nil // somebody else did the same
			return "", nil
		}
		u.step.Deed = remove
		return c.takenChanged(ctx, u)
	case u.New.Mode.IsDir() && isDir && (u.Kind == Added || u.Kind == Modified):
		return c.planMode(u, &st), nil
	case u.Kind == Renamed:
		u.step.Deed = place
		if why, err = c.treeChanged(ctx, u.From); why != "" || err != nil || !there {
			return why, err
		}
		u.step.Deed = exchange
		return c.takenChanged(ctx, u)
	case there:
		u.step.Deed = exchange
		appears := u.Kind == Added && !c.opt.Known[u.Path].Landed
		if appears && c.opt.OnConflict != Overwrite {
			return whyAppears, nil
		}
		why, err = c.takenChanged(ctx, u)
		if appears && err == nil {
			why = whyAppears
		}
		return why, err
	}
	u.step.Deed = place
	if u.Kind != Added {
		return whyGone, nil
	}
	if was := c.opt.Known[u.Path]; was.Landed && was.Sum != nil { // it stays in the layer where that hides a directory
		now, err := c.hashed(c.upper, ">"+u.Path, u.Path, u.New.Size)
		if err != nil || now == string(was.Sum) {
			return whyGone, err
		}
	}
	return c.dropped(ctx, u)
}

// planMode plans the change of the permissions of a directory.
func (c *commit) planMode(u *unit, st *unix.Stat_t) (why string) {
	mode := c.landingMode(u.New.Mode, &u.Old) | st.Mode&unix.S_ISGID
	u.step.Deed, u.step.Old, u.step.New = chmod, st.Mode&0o7777, mode
	if u.Kind == Added {
		u.step = nil
		return ""
	}
	if st.Mode&0o7777 != mode && modeOf(st.Mode) != u.Old.Mode {
		return whyChanged
	}
	return ""
}

// treeChanged looks at what the source has at a path, and at all that is below it.
func (c *commit) treeChanged(ctx context.Context, p string) (why string, err error) {
	_, why, err = c.lookThrough(ctx, p)
	return why, err
}

// takenChanged is treeChanged for the tree that the step of a unit takes away. The step keeps its hash.
func (c *commit) takenChanged(ctx context.Context, u *unit) (why string, err error) {
	u.step.Tree, why, err = c.lookThrough(ctx, u.Path)
	return why, err
}

// lookThrough returns the hash of the source's tree at a path, and why that tree may have changed, or "".
// With Overwrite, which lands in spite of that, the hash covers the whole tree.
func (c *commit) lookThrough(ctx context.Context, p string) (sum []byte, why string, err error) {
	h := sha256.New()
	err = walkTree(ctx, c.source, p, func(rel string, st *unix.Stat_t) error {
		describe(h, rel[len(p):], st)
		if why != "" {
			return nil
		}
		w, err := c.changed(rel, st, c.bases.of(rel))
		if w != "" && rel != p {
			w = "in it, " + text.QuoteName(rel) + ": " + w
		}
		if why = w; why != "" && c.opt.OnConflict != Overwrite {
			return io.EOF
		}
		return err
	})
	switch {
	case err == nil:
		return h.Sum(nil), why, nil
	case why != "":
		return nil, why, nil
	case gone(err):
		return nil, whyGone, nil
	}
	return nil, "", err
}

// dirSince is a directory of the source, and an instant.
type dirSince struct {
	path string
	base int64
}

// otherDir returns the first of a directory and those above it that may not be the one that commands
// saw, because another one was moved to its path since an instant; "" if all are.
func (c *commit) otherDir(dir string, base time.Time) (other string, err error) {
	if dir == "" {
		return "", nil
	}
	key := dirSince{dir, base.UnixNano()}
	other, known := c.others[key]
	if known {
		return other, nil
	}
	parent, _ := delta.Split(dir)
	if other, err = c.otherDir(parent, base); err != nil {
		return "", err
	}
	if other == "" {
		is, err := c.isOther(dir, base)
		if err != nil {
			return "", fmt.Errorf("cannot look at %s: %w", text.QuoteName(dir), err)
		}
		if is {
			other = dir
		}
	}
	c.others[key] = other
	return other, nil
}

// isOther reports whether the source's directory at a path may be another one than before. The layer's
// names the one that it shows, if it is root's. Else the times tell: a directory that is moved has a new
// ctime and its old mtime, and so has one that gets other permissions; where commands have made or
// removed nothing in it, the layer's has the mtime of the one that it shows.
func (c *commit) isOther(dir string, base time.Time) (bool, error) {
	source, err := reach(c.source, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(source) }()
	st, err := look(source, "")
	id := identityOf(&st)
	if err != nil || !recent(id.Ctime, base) {
		return false, err
	}
	shown, mark, err := c.shownDir(dir)
	if err != nil {
		return false, err
	}
	named := len(mark) > originHeader
	if named && isOrigin(source, mark) || !named && recent(id.Mtime, base) {
		return false, nil
	}
	if r := c.opt.Known[dir]; r.Landed && !recent(id.Mtime, base) && r.Identity.Still(id) && r.Identity.Ctime.Equal(id.Ctime) {
		return false, nil // a commit has made it, or given it its permissions
	}
	exact := id.Mtime.Nanosecond() != 0 // tools set others, which many directories have
	return named || !exact || !shown.Equal(id.Mtime), nil
}

// shownDir returns the mtime of the layer's directory at a path, and the mark of the one that it shows.
func (c *commit) shownDir(dir string) (mtime time.Time, mark []byte, err error) {
	upper, err := reach(c.upper, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if gone(err) || errors.Is(err, unix.EACCES) {
		return mtime, nil, nil
	}
	if err != nil {
		return mtime, nil, err
	}
	defer func() { _ = unix.Close(upper) }()
	st, err := look(upper, "")
	if err != nil {
		return mtime, nil, err
	}
	mark, _, err = c.attr(upper, dir, "origin")
	return identityOf(&st).Mtime, mark, err
}

// dropped returns why the source may have had a new path when the layer began: commands had
// changed it and not made it, its directory in the source has changed since, and nothing shows that
// they have moved it there.
func (c *commit) dropped(ctx context.Context, u *unit) (string, error) {
	if u.New.Mode.IsDir() || c.absent[u.Path] {
		return "", nil
	}
	origin, copied, err := c.copiedUp(u.Path)
	if err != nil || !copied {
		return "", err
	}
	parent, _ := delta.Split(u.Path)
	st, err := look(c.source, parent)
	if err != nil {
		return "", fmt.Errorf("cannot look at %s: %w", text.QuoteName(parent), err)
	}
	base := c.bases.of(u.Path)
	why, err := c.changed(parent, &st, base)
	if why == "" || err != nil {
		return "", err
	}
	moved, known := c.isUntouched(u.Path, origin, base)
	if !known {
		moved, err = c.isMoved(ctx, u.Change)
	}
	if err != nil || moved && !c.doubt {
		return "", err
	}
	return whyDropped, nil
}

// copiedUp reports whether the kernel made a file of the layer as a copy of one of the source, and
// returns its mark of that one.
func (c *commit) copiedUp(p string) (origin []byte, copied bool, err error) {
	fd, err := reach(c.upper, p, unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, false, nil // a link or a special file
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot open %s in the layer: %w", text.QuoteName(p), err)
	}
	defer func() { _ = unix.Close(fd) }()
	return c.attr(fd, p, "origin")
}

// isUntouched reports whether the file that a mark names, and each directory above a new path, have not
// changed since an instant: then commands have given it that path. known is false if the mark names no
// file, as for ordinary users, or if this process may not open it.
func (c *commit) isUntouched(p string, mark []byte, base time.Time) (is, known bool) {
	if len(mark) <= originHeader {
		return false, false
	}
	top, err := reach(c.source, "", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false, false
	}
	defer func() { _ = unix.Close(top) }()
	fd, err := unix.OpenByHandleAt(top, unix.NewFileHandle(int32(mark[4]), mark[originHeader:]), unix.O_PATH)
	if err != nil {
		return false, errors.Is(err, unix.ESTALE)
	}
	defer func() { _ = unix.Close(fd) }()
	st, err := look(fd, "")
	if err != nil || !isOrigin(fd, mark) || recent(identityOf(&st).Ctime, base) {
		return false, true
	}
	for dir, _ := delta.Split(p); dir != ""; dir, _ = delta.Split(dir) {
		if !c.isBelow(dir) {
			return false, true
		}
	}
	return true, true
}

// isBelow reports whether the source's directory at a path is the one of which the layer's shows
// the names.
func (c *commit) isBelow(dir string) bool {
	upper, err := reach(c.upper, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(upper) }()
	source, err := reach(c.source, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(source) }()
	mark, _, err := c.attr(upper, dir, "origin")
	return err == nil && isOrigin(source, mark)
}

// isMoved reports whether a new file has the content of one that commands have removed or replaced.
// Each of those stands for one new file.
func (c *commit) isMoved(ctx context.Context, ch *Change) (bool, error) {
	if c.pairs[ch.Path] {
		return true, nil
	}
	if c.removed == nil {
		if err := c.listRemoved(ctx); err != nil {
			return false, err
		}
	}
	size := ch.New.Size
	sums, read := c.unpaired[size]
	if !read && len(c.removed[size]) > 0 {
		sums = map[string]int{}
		for _, p := range c.removed[size] {
			sum, err := c.hashed(c.source, "<"+p, p, size)
			if err != nil {
				return false, err
			}
			sums[sum]++
		}
		c.unpaired[size] = sums
	}
	if len(sums) == 0 {
		return false, nil
	}
	sum, err := c.hashed(c.upper, ">"+ch.Path, ch.Path, size)
	if err != nil || sum == "" || sums[sum] == 0 {
		return false, err
	}
	sums[sum]--
	c.pairs[ch.Path] = true
	return true, nil
}

// listRemoved lists the files of the source that commands have removed or replaced, by size.
func (c *commit) listRemoved(ctx context.Context) error {
	c.removed, c.unpaired, c.pairs = map[int64][]string{}, map[int64]map[string]int{}, map[string]bool{}
	seen := 0
	for i := range c.changes {
		ch := &c.changes[i]
		err := c.eachOld(ctx, ch, func(rel string, st *unix.Stat_t) error {
			if seen++; seen > maxSeen {
				return &TooManyError{ch.OldPath()}
			}
			if st.Mode&unix.S_IFMT == unix.S_IFREG {
				c.removed[st.Size] = append(c.removed[st.Size], rel)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("cannot look into %s: %w", text.QuoteName(ch.OldPath()), err)
		}
	}
	return nil
}

// eachOld visits everything that the source has where a change removes or replaces something.
func (c *commit) eachOld(ctx context.Context, ch *Change, visit func(rel string, st *unix.Stat_t) error) error {
	if ch.Kind == Added || ch.Kind == Renamed || ch.Kind == Modified && ch.New.Mode.IsDir() {
		return nil
	}
	err := walkTree(ctx, c.source, ch.OldPath(), visit)
	if gone(err) {
		return nil
	}
	return err
}
