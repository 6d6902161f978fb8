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
)

// Now returns the present instant by this host's clocks.
func Now() (Began, error) {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return Began{}, fmt.Errorf("cannot read the clock: %w", err)
	}
	return Began{Realtime: time.Now().Round(0), Boottime: time.Duration(boot.Nano())}, nil
}

// steppedBack reports whether the clock was set back since the layer began. A clock that began
// anew, at a boot, says nothing.
func (c *commit) steppedBack() (bool, error) {
	clock := c.opt.Clock
	if clock == nil {
		clock = Now
	}
	now, err := clock()
	if err != nil {
		return false, err
	}
	if now.Realtime.Before(c.Began.Realtime) {
		return true, nil
	}
	return now.Realtime.Add(-now.Boottime).Before(c.Began.Realtime.Add(-c.Began.Boottime).Add(-tick)), nil
}

// recent reports whether a time is not safely before the layer began.
func (c *commit) recent(t time.Time) bool { return !t.Before(c.Began.Realtime.Add(-tick)) }

// changed returns why what the source has at a path may not be what it had when the layer began,
// or "".
func (c *commit) changed(p string, st *unix.Stat_t) (string, error) {
	id := identityOf(st)
	if r, known := c.opt.Known[p]; known && (r.Landed || !c.recent(r.Identity.Ctime) && !c.doubt) {
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
	switch {
	case c.doubt:
		return whyDoubt, nil
	case c.recent(id.Ctime):
		return whyChanged, nil
	}
	return "", nil
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
	c := &commit{Layer: l, source: int(l.Source.Fd())}
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
	st, err := look(c.source, u.Path)
	there := err == nil
	if err != nil && !gone(err) {
		return "", fmt.Errorf("cannot look at %s: %w", text.QuoteName(u.Path), err)
	}
	if parent, _ := splitPath(u.Path); !there && u.Kind != Deleted && !c.hasDir(parent) {
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
		return c.treeChanged(ctx, u.Path)
	case u.New.Mode.IsDir() && isDir && (u.Kind == Added || u.Kind == Modified):
		return c.planMode(u, &st), nil
	case u.Kind == Renamed:
		u.step.Deed = place
		if why, err = c.treeChanged(ctx, u.From); why != "" || err != nil || !there {
			return why, err
		}
		u.step.Deed = exchange
		return c.treeChanged(ctx, u.Path)
	case there:
		u.step.Deed = exchange
		if u.Kind == Added && !c.opt.Known[u.Path].Landed {
			return whyAppears, nil
		}
		return c.treeChanged(ctx, u.Path)
	}
	u.step.Deed = place
	if u.Kind != Added {
		return whyGone, nil
	}
	return c.dropped(u)
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
	err = walkTree(ctx, c.source, p, func(rel string, st *unix.Stat_t) error {
		w, err := c.changed(rel, st)
		if w != "" && rel != p {
			w = "in it, " + text.QuoteName(rel) + ": " + w
		}
		if why = w; why != "" {
			return io.EOF
		}
		return err
	})
	if errors.Is(err, io.EOF) {
		return why, nil
	}
	if gone(err) {
		return whyGone, nil
	}
	return why, err
}

// dropped returns why the source may have had a new path when the layer began: commands had
// changed it and not made it, and its directory in the source has changed since.
func (c *commit) dropped(u *unit) (string, error) {
	if u.New.Mode.IsDir() || c.absent[u.Path] {
		return "", nil
	}
	copied, err := c.copiedUp(u.Path)
	if err != nil || !copied {
		return "", err
	}
	parent, _ := splitPath(u.Path)
	st, err := look(c.source, parent)
	if err != nil {
		return "", fmt.Errorf("cannot look at %s: %w", text.QuoteName(parent), err)
	}
	why, err := c.changed(parent, &st)
	if why != "" {
		why = whyDropped
	}
	return why, err
}

// copiedUp reports whether the kernel made a file of the layer as a copy of one of the source.
func (c *commit) copiedUp(p string) (bool, error) {
	fd, err := reach(c.upper, p, unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return false, nil // a link or a special file
	}
	if err != nil {
		return false, fmt.Errorf("cannot open %s in the layer: %w", text.QuoteName(p), err)
	}
	defer func() { _ = unix.Close(fd) }()
	name := "trusted.overlay.origin"
	if c.Marks == UserMarks {
		name = "user.overlay.origin"
	}
	_, err = unix.Fgetxattr(fd, name, nil)
	return err == nil || errors.Is(err, unix.ERANGE), nil
}
