package layer

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
)

// ReplacedError is the error of a path that cannot be discarded alone, because commands put
// another directory in the place of one above it, and so hid what the source has there.
type ReplacedError struct{ Path, Above string }

// Error names both.
func (e *ReplacedError) Error() string {
	return fmt.Sprintf("cannot discard %s alone: commands replaced %s as a whole; discard that", shortName(e.Path), shortName(e.Above))
}

// Discard takes changes out of the upper directory: all that it has at and below each of the
// paths, which it moves to the directory trash beside it; none: everything. changes are those of
// the layer, or nil if they cannot be read. What a directory was renamed from comes back with it.
func (l *Layer) Discard(ctx context.Context, paths []string, changes []Change, trash string) error {
	to, err := unix.Open(trash, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot open the directory for what is discarded: %w", err)
	}
	defer func() { _ = unix.Close(to) }()
	if paths = cleaned(paths); len(paths) == 0 {
		if paths, err = names(int(l.Upper.Fd()), ""); err != nil {
			return fmt.Errorf("cannot list the layer: %w", err)
		}
	} else if err := l.alone(paths, changes); err != nil {
		return err
	}
	n := 0
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range changes {
			if c := &changes[i]; c.Kind != Renamed || !within(c.Path, p) {
				continue
			} else if st, err := look(int(l.Upper.Fd()), c.From); err == nil && isWhiteout(&st) {
				if err := l.take(c.From, to, &n); err != nil {
					return err
				}
			}
		}
		if err := l.take(p, to, &n); err != nil {
			return err
		}
	}
	return nil
}

// alone refuses paths that hide more of the source than what they are of.
func (l *Layer) alone(paths []string, changes []Change) error {
	for _, p := range paths {
		hides := false
		for i := range changes {
			hides = hides || within(changes[i].Path, p) && changes[i].Kind != Added
		}
		for dir, _ := splitPath(p); hides && dir != ""; dir, _ = splitPath(dir) {
			fd, err := reach(int(l.Upper.Fd()), dir, unix.O_RDONLY|unix.O_DIRECTORY)
			if gone(err) {
				continue
			}
			if err != nil {
				return l.upper().fail("open", dir, err)
			}
			m, err := l.marks(fd, dir)
			_ = unix.Close(fd)
			if err != nil {
				return err
			}
			if m.opaque {
				return &ReplacedError{p, dir}
			}
		}
	}
	return nil
}

// take moves what the upper directory has at a path to the trash.
func (l *Layer) take(p string, trash int, n *int) error {
	parent, name := splitPath(p)
	dir, err := reach(int(l.Upper.Fd()), parent, unix.O_PATH|unix.O_DIRECTORY)
	if gone(err) {
		return nil
	}
	if err != nil {
		return l.upper().fail("open", parent, err)
	}
	defer func() { _ = unix.Close(dir) }()
	*n++
	move := func() error { return unix.Renameat(dir, name, trash, strconv.Itoa(*n)) }
	err = move()
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) { // a directory that is closed to its owner, or in one
		restore := openUp(dir, "")
		openUp(dir, name)
		err = move()
		restore()
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return l.upper().fail("discard", p, err)
	}
	return nil
}

// openUp gives the owner of a directory all rights to it, and returns what takes them back.
func openUp(dir int, name string) (restore func()) {
	restore = func() {}
	fd := dir
	if name != "" {
		var err error
		if fd, err = openBeneath(dir, name, unix.O_PATH|unix.O_DIRECTORY); err != nil {
			return restore
		}
		defer func() { _ = unix.Close(fd) }()
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&0o700 == 0o700 {
		return restore
	}
	at := "/proc/self/fd/" + strconv.Itoa(fd)
	if unix.Chmod(at, st.Mode&0o7777|0o700) != nil || name != "" {
		return restore
	}
	return func() { _ = unix.Chmod(at, st.Mode&0o7777) }
}

// Settle makes a layer fit its source after a commit: a directory that was renamed has its new
// name in the source now.
func (l *Layer) Settle(landed []Change) error {
	var errs []error
	for i := range landed {
		c := &landed[i]
		if c.Kind != Renamed || l.Marks != TrustedMarks {
			continue
		}
		fd, err := reach(int(l.Upper.Fd()), c.Path, unix.O_RDONLY|unix.O_DIRECTORY)
		if gone(err) {
			continue
		}
		if err == nil {
			for _, mark := range []string{"trusted.overlay.redirect", "trusted.overlay.origin"} {
				if rerr := unix.Fremovexattr(fd, mark); rerr != nil && !errors.Is(rerr, unix.ENODATA) {
					err = errors.Join(err, rerr)
				}
			}
			_ = unix.Close(fd)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot settle %s, which has landed: %w", text.QuoteName(c.Path), err))
		}
	}
	return errors.Join(errs...)
}
