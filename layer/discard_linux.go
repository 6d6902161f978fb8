package layer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/layer/delta"
)

// ReplacedError is the error of a path that cannot be discarded alone, because commands put
// another directory in the place of one above it, and so hid what the source has there.
type ReplacedError struct{ Path, Above string }

// Error names both.
func (e *ReplacedError) Error() string {
	return fmt.Sprintf("cannot discard %s alone: commands replaced %s as a whole; discard that", shortName(e.Path), shortName(e.Above))
}

// MovedError is the error of a path that cannot be discarded alone, because the content that the source has
// at others was moved there, and something else to the places of those.
type MovedError struct {
	Path string
	With []string
}

// Error names them.
func (e *MovedError) Error() string {
	var names []string
	for _, p := range e.With[:min(len(e.With), 8)] {
		names = append(names, shortName(p))
	}
	all := strings.Join(names, ", ")
	if more := len(e.With) - len(names); more > 0 {
		all += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("cannot discard %s alone: what your directory has at %s was moved there, and something else to that place; discard %s, too",
		shortName(e.Path), names[0], all)
}

// Discard takes changes out of the upper directory: all that it has at and below each of the
// paths, which it moves to the directory trash beside it; none: everything. changes are those of
// the layer, or nil if they cannot be read; then nothing below a replaced directory is taken. A path
// whose content was moved to a change that is discarded comes back with it: Discard returns those.
func (l *Layer) Discard(ctx context.Context, paths []string, changes []Change, trash string) (back []string, err error) {
	to, err := unix.Open(trash, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the directory for what is discarded: %w", err)
	}
	defer func() { _ = unix.Close(to) }()
	if paths = cleaned(paths); len(paths) == 0 || slices.Contains(paths, ".") {
		if paths, err = names(int(l.Upper.Fd()), ""); err != nil {
			return nil, fmt.Errorf("cannot list the layer: %w", err)
		}
	} else if err := l.alone(paths, changes); err != nil {
		return nil, err
	} else if back, err = l.comingBack(ctx, paths, changes); err != nil {
		return nil, err
	}
	n := 0
	for _, p := range slices.Concat(back, paths) {
		if err := ctx.Err(); err != nil {
			return back, err
		}
		if err := l.take(p, to, &n); err != nil {
			return back, err
		}
	}
	return back, nil
}

// comingBack returns the removed paths that were moved to changes at and below others, which are to be
// discarded. It refuses these if something else is in such a place now. A file that was only edited after it
// was copied stays as it is.
func (l *Layer) comingBack(ctx context.Context, paths []string, changes []Change) (back []string, err error) {
	c := &commit{Layer: l, source: int(l.Source.Fd()), upper: int(l.Upper.Fd()), changes: changes}
	named := newInherited[bool]()
	for _, p := range paths {
		named.own[p] = true
	}
	typed := func(ch *Change) string {
		return paths[max(slices.IndexFunc(paths, func(p string) bool { return delta.In(ch.Path, p) }), 0)]
	}
	var refused *MovedError
	for found := true; found; {
		found, back = false, nil
		var stay, gone []*Change
		for i := range changes {
			if ch := &changes[i]; named.own[ch.Path] || named.above(ch.Path) {
				gone = append(gone, ch)
			} else {
				stay = append(stay, ch)
			}
		}
		stranded, err := c.stranded(ctx, stay, gone, true)
		if err != nil {
			return nil, err
		}
		for _, ch := range stay {
			lost, is := stranded[ch.Path]
			switch {
			case !is:
			case ch.Kind == Deleted || ch.Kind == Retyped:
				if err := l.restorable(ch, typed(lost.to), changes); err != nil {
					return nil, err
				}
				back = append(back, ch.Path)
			case ch.Kind == Modified:
				if is, err = c.movedIn(ctx, lost); err != nil {
					return nil, err
				}
				if !is {
					continue
				}
				if refused == nil {
					refused = &MovedError{Path: typed(lost.to)}
				}
				refused.With = append(refused.With, ch.Path) // and so on, where that one was
				named.own[ch.Path], named.found, found = true, map[string]bool{}, true
			}
		}
	}
	if refused != nil {
		return nil, refused
	}
	return back, nil
}

// restorable returns an error unless a removed path comes back when the kernel's mark is taken away; path is
// the one to be discarded.
func (l *Layer) restorable(removed *Change, path string, changes []Change) error {
	st, err := look(int(l.Upper.Fd()), removed.Path)
	if err == nil {
		if !isWhiteout(&st) {
			return &ReplacedError{path, removed.Path}
		}
		return nil
	}
	above, _ := delta.Split(removed.Path) // which hides the source's
	err = l.alone([]string{removed.Path}, changes)
	if replaced := (*ReplacedError)(nil); errors.As(err, &replaced) {
		above = replaced.Above
	} else if err != nil {
		return err
	}
	return &ReplacedError{path, above}
}

// alone refuses paths that hide more of the source than what they are of.
func (l *Layer) alone(paths []string, changes []Change) error {
	seen := map[string]bool{}
	for _, p := range paths {
		hides := changes == nil
		for i := range changes {
			hides = hides || delta.In(changes[i].Path, p) && changes[i].Kind != Added
		}
		for dir, _ := delta.Split(p); hides && dir != ""; dir, _ = delta.Split(dir) {
			above, _ := delta.Split(dir)
			is, err := l.hides(dir, seen)
			if err == nil && is { // the one that is marked itself
				if is, err = l.hides(above, seen); err == nil && !is {
					return &ReplacedError{p, dir}
				}
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// take moves what the upper directory has at a path to the trash.
func (l *Layer) take(p string, trash int, n *int) error {
	parent, name := delta.Split(p)
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

// Settle makes a layer fit its source after a commit: what has landed is taken out of the upper
// directory, to the directory trash beside it, so that later changes of the source are not taken
// for the layer's. A directory that was renamed has its new name in the source now. Below a
// directory that hides the source's, files stay: without them they would be gone. What stays gets
// the permissions that the source has.
func (l *Layer) Settle(landed []Change, trash string) (err error) {
	to, err := unix.Open(trash, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot open the directory for what has landed: %w", err)
	}
	defer func() { _ = unix.Close(to) }()
	var errs []error
	hiding, n := map[string]bool{}, 0
	defer func() { // a directory after what is in it
		for i := len(landed) - 1; err == nil && i >= 0; i-- {
			err = l.align(&landed[i])
		}
	}()
	for i := range landed {
		switch c := &landed[i]; {
		case c.Kind == Renamed:
			parent, _ := delta.Split(c.Path)
			hidden, err := l.hides(parent, hiding)
			switch {
			case err != nil:
			case hidden: // a directory above it shows nothing of the source: it says where it is now
				err = l.mark(c.Path, []byte("/"+c.Path), "origin")
			default:
				err = l.mark(c.Path, nil, "redirect", "origin")
			}
			errs = append(errs, err)
		case c.Kind == Added && c.New.Mode.IsDir(): // what is in it comes after it
			errs = append(errs, l.mark(c.Path, nil, "opaque"))
		case c.Kind != Deleted && c.New.Mode.IsDir():
		default:
			parent, _ := delta.Split(c.Path)
			hidden, err := l.hides(parent, hiding)
			if err == nil && !hidden {
				err = l.takeLanded(c, to, &n)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// align gives what the upper directory still has of something that landed the permissions that it
// has in the source.
func (l *Layer) align(c *Change) error {
	if !c.New.Mode.IsDir() && !c.New.Mode.IsRegular() {
		return nil
	}
	now, err := look(int(l.Source.Fd()), c.Path)
	if gone(err) {
		return nil
	}
	if err != nil {
		return l.source().fail("look at", c.Path, err)
	}
	parent, name := delta.Split(c.Path)
	dir, err := reach(int(l.Upper.Fd()), parent, unix.O_PATH|unix.O_DIRECTORY)
	if gone(err) {
		return nil
	}
	if err != nil {
		return l.upper().fail("open", parent, err)
	}
	defer func() { _ = unix.Close(dir) }()
	st, err := look(dir, name)
	if gone(err) || err == nil && (st.Mode == now.Mode || st.Mode&unix.S_IFMT != now.Mode&unix.S_IFMT) {
		return nil
	}
	if err == nil {
		err = byHandle(dir, name, func(path string) error { return unix.Chmod(path, now.Mode&0o7777) })
	}
	if err != nil && !gone(err) {
		return l.upper().fail("change the permissions of", c.Path, err)
	}
	return nil
}

// takeLanded moves what has landed to the trash. Where something was deleted, only the kernel's
// mark for it is: a directory that has come there meanwhile is a change of its own.
func (l *Layer) takeLanded(c *Change, trash int, n *int) error {
	st, err := look(int(l.Upper.Fd()), c.Path)
	if gone(err) {
		return nil
	}
	if err != nil {
		return l.upper().fail("look at", c.Path, err)
	}
	if isWhiteout(&st) != (c.Kind == Deleted) {
		return nil
	}
	return l.take(c.Path, trash, n)
}

// hides reports whether a directory, or one above it, hides the source's. seen has the answers so
// far.
func (l *Layer) hides(dir string, seen map[string]bool) (bool, error) {
	if dir == "" {
		return false, nil
	}
	if is, known := seen[dir]; known {
		return is, nil
	}
	parent, _ := delta.Split(dir)
	is, err := l.hides(parent, seen)
	if err == nil && !is {
		fd, oerr := reach(int(l.Upper.Fd()), dir, unix.O_RDONLY|unix.O_DIRECTORY)
		switch {
		case gone(oerr):
		case oerr != nil:
			err = l.upper().fail("open", dir, oerr)
		default:
			var m dirMarks
			m, err = l.marks(fd, dir)
			_ = unix.Close(fd)
			is = m.opaque
		}
	}
	seen[dir] = is
	return is, err
}

// mark takes the kernel's marks of these names from a directory that has landed, and gives it the mark
// redirect, unless that is nil.
func (l *Layer) mark(path string, redirect []byte, remove ...string) error {
	fd, err := reach(int(l.Upper.Fd()), path, unix.O_RDONLY|unix.O_DIRECTORY)
	if gone(err) {
		return nil
	}
	if err != nil {
		return l.upper().fail("open", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	prefix := "trusted.overlay."
	if l.Marks == UserMarks {
		prefix = "user.overlay."
	}
	if redirect != nil {
		err = unix.Fsetxattr(fd, prefix+"redirect", redirect, 0)
	}
	for _, name := range remove {
		if rerr := unix.Fremovexattr(fd, prefix+name); rerr != nil && !errors.Is(rerr, unix.ENODATA) {
			err = errors.Join(err, rerr)
		}
	}
	if err != nil {
		return l.upper().fail("change the marks of", path, err)
	}
	return nil
}

// HasMoved reports whether the source has a directory at a path, and nothing any more where it was.
func (l *Layer) HasMoved(from, to string) bool {
	_, err := look(int(l.Source.Fd()), from)
	st, terr := look(int(l.Source.Fd()), to)
	return gone(err) && terr == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}
