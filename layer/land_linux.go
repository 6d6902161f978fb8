package layer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
)

// KeptError is the error of a commit that was taken back while somebody else changed the same
// paths: both contents are kept.
type KeptError struct {
	// Paths has, for each path, the name beside it with what was there before the commit.
	Paths map[string]string
}

// Error names one of them.
func (e *KeptError) Error() string {
	for p, temp := range e.Paths {
		return fmt.Sprintf("%s was changed while the commit was taken back (%d such paths): what was there before is in %s", text.QuoteName(p), len(e.Paths), text.QuoteName(temp))
	}
	return "paths were changed while the commit was taken back"
}

// errOther says that a step has replaced something else than what was looked at.
var errOther = errors.New("it changed while the commit landed")

// inParent calls f with the directory of a step's path.
func (s *step) inParent(source int, f func(dir int, name, temp string) error) error {
	parent, name := splitPath(string(s.Path))
	dir, err := reach(source, parent, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	_, temp := splitPath(string(s.Temp))
	return f(dir, name, temp)
}

// inOpened is like inParent, also where a directory has lost the permissions for that by the commit.
func (s *step) inOpened(source int, f func(dir int, name, temp string) error) error {
	err := s.inParent(source, f)
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	var closed []func()
	defer func() {
		for _, restore := range slices.Backward(closed) {
			restore()
		}
	}()
	parent, _ := splitPath(string(s.Path))
	for i := 0; i <= len(parent); i++ {
		if i < len(parent) && parent[i] != '/' {
			continue
		}
		fd, err := reach(source, parent[:i], unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		st, err := look(fd, "")
		if err == nil && st.Mode&0o700 != 0o700 {
			err = chmodHandle(fd, st.Mode&0o7777|0o700)
			closed = append(closed, func() { _ = chmodHandle(fd, st.Mode&0o7777); _ = unix.Close(fd) })
		} else {
			_ = unix.Close(fd)
		}
		if err != nil {
			return err
		}
	}
	return s.inParent(source, f)
}

// staged reports whether what was staged is at a name.
func (s *step) staged(dir int, name string) (bool, error) {
	st, err := look(dir, name)
	if gone(err) {
		return false, nil
	}
	return err == nil && st.Ino == s.Ino, err
}

// do does a step, unless it is done, and then looks at what it has replaced.
func (s *step) do(source int) error {
	return s.inParent(source, func(dir int, name, temp string) error {
		switch s.Deed {
		case place, exchange:
			done, err := s.staged(dir, name)
			if err != nil {
				return err
			}
			if !done {
				if ready, err := s.staged(dir, temp); err != nil || !ready {
					return errors.Join(errors.New("what was staged is not there any more"), err)
				}
				err = unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE)
				if errors.Is(err, unix.EEXIST) {
					if s.Deed == place && !s.Any {
						return errOther
					}
					err = unix.Renameat2(dir, temp, dir, name, unix.RENAME_EXCHANGE)
				} else if err == nil && s.Deed == exchange && !s.Any {
					return errOther // it was there when it was looked at
				}
			}
			if err != nil {
				return err
			}
		case remove:
			switch _, err := look(dir, temp); {
			case gone(err):
				err = unix.Renameat2(dir, name, dir, temp, unix.RENAME_NOREPLACE)
				if gone(err) {
					return nil // somebody else has removed it
				}
				if err != nil {
					return err
				}
			case err != nil:
				return err
			}
		case chmod:
			return s.chmod(dir, name, s.New)
		}
		return s.check(dir, temp)
	})
}

// check looks at what a step has replaced.
func (s *step) check(dir int, temp string) error {
	if s.Any || s.Deed == place {
		return nil
	}
	st, err := look(dir, temp)
	if gone(err) {
		return errOther
	}
	if err == nil && !s.Expect.Still(identityOf(&st)) {
		return errOther
	}
	return err
}

// chmod changes the permissions of a directory.
func (s *step) chmod(dir int, name string, mode uint32) error {
	fd, err := reach(dir, name, unix.O_PATH|unix.O_DIRECTORY)
	if gone(err) {
		return errOther
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return chmodHandle(fd, mode)
}

// chmodHandle changes the permissions of what a handle is of, which may be opened with O_PATH.
func chmodHandle(fd int, mode uint32) error {
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
}

// undo takes a step back, if it was done. It reports false if somebody else has changed the path
// meanwhile, so that it was left.
func (s *step) undo(source int) (whole bool, err error) {
	whole = true
	err = s.inParent(source, func(dir int, name, temp string) error {
		switch s.Deed {
		case place, exchange:
			done, err := s.staged(dir, name)
			if err != nil {
				return err
			}
			_, err = look(dir, temp)
			replaced := err == nil
			if err != nil && !gone(err) {
				return err
			}
			if !done {
				ready, err := s.staged(dir, temp)
				whole = !replaced || ready
				return err
			}
			if replaced {
				return unix.Renameat2(dir, temp, dir, name, unix.RENAME_EXCHANGE)
			}
			return unix.Renameat2(dir, name, dir, temp, unix.RENAME_NOREPLACE)
		case remove:
			if _, err := look(dir, temp); gone(err) {
				return nil
			}
			err := unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE)
			if errors.Is(err, unix.EEXIST) {
				whole = false
				return nil
			}
			return err
		case chmod:
			st, err := look(dir, name)
			if err == nil && st.Mode&0o7777 == s.New {
				return s.chmod(dir, name, s.Old)
			}
			if gone(err) {
				return nil
			}
			return err
		}
		return nil
	})
	if gone(err) {
		return false, nil // its directory is gone
	}
	return whole, err
}

// land does all steps. A step that meets something else than what was looked at ends it, or is
// left out if the caller wants that.
func (j *journal) land(source int) error {
	for _, s := range j.Steps {
		j.before("land " + string(s.Path))
		err := s.do(source)
		switch {
		case err == nil:
			continue
		case errors.Is(err, unix.EINVAL):
			return fmt.Errorf("cannot change %s: its file system cannot rename files as a commit needs it (RENAME_NOREPLACE, RENAME_EXCHANGE): %w", text.QuoteName(string(s.Path)), err)
		case !errors.Is(err, errOther) && !gone(err):
			return fmt.Errorf("cannot change %s: %w", text.QuoteName(string(s.Path)), err)
		case j.OnConflict != Skip:
			return &ConflictError{[]Conflict{{Path: string(s.Path), Why: errOther.Error()}}}
		}
		if whole, err := s.undo(source); err != nil || !whole {
			return errors.Join(err, &ConflictError{[]Conflict{{Path: string(s.Path), Why: errOther.Error()}}})
		}
		s.left = true
	}
	j.before("sync")
	if err := syncTree(source); err != nil {
		return fmt.Errorf("cannot write to disk: %w", err)
	}
	return nil
}

// undo takes all steps back, and removes the journal.
func (j *journal) undo(source int) error {
	if j.state != undoing {
		if err := j.become(undoing); err != nil {
			return err
		}
	}
	kept := map[string]string{}
	for i := len(j.Steps) - 1; i >= 0; i-- {
		s := j.Steps[i]
		j.before("undo " + string(s.Path))
		whole, err := s.undo(source)
		if err != nil {
			return fmt.Errorf("cannot take back the change of %s: %w", text.QuoteName(string(s.Path)), err)
		}
		if !whole {
			kept[string(s.Path)] = string(s.Temp)
		}
	}
	if err := syncTree(source); err != nil {
		return err
	}
	if err := j.clean(source, kept); err != nil {
		return err
	}
	if len(kept) > 0 {
		return &KeptError{kept}
	}
	return nil
}

// finish removes what was replaced, and the journal.
func (j *journal) finish(source int) error {
	if err := j.become(landed); err != nil {
		return err
	}
	return j.clean(source, nil)
}

// clean removes the temporary files, but for those that are kept, and the journal.
func (j *journal) clean(source int, kept map[string]string) error {
	for _, s := range j.Steps {
		if _, keep := kept[string(s.Path)]; keep || s.Deed == chmod {
			continue
		}
		j.before("clean " + string(s.Path))
		err := s.inOpened(source, func(dir int, _, temp string) error { return removeTree(dir, temp) })
		if err != nil && !gone(err) {
			return fmt.Errorf("cannot remove %s: %w", text.QuoteName(string(s.Temp)), err)
		}
	}
	return j.end()
}

// removeTree removes what is at a name. It holds few descriptors however deep a tree is: a
// directory's directories come to the top before it is removed.
func removeTree(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if gone(err) || err == nil {
		return nil
	}
	top, err := openOwn(dir, name)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(top) }()
	for moved := 0; ; {
		list, err := names(top, "")
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		}
		for _, n := range list {
			if unix.Unlinkat(top, n, 0) == nil || unix.Unlinkat(top, n, unix.AT_REMOVEDIR) == nil {
				continue
			}
			if moved, err = flatten(top, n, moved); err != nil {
				return err
			}
		}
	}
}

// openOwn opens a directory that is to be removed, whatever its permissions are.
func openOwn(dir int, name string) (int, error) {
	fd, err := reach(dir, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	err = chmodHandle(fd, 0o700)
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, err
}

// flatten removes a directory in another, into which it moves the directories that are in it.
func flatten(top int, name string, moved int) (int, error) {
	fd, err := openOwn(top, name)
	if err != nil {
		return moved, err
	}
	defer func() { _ = unix.Close(fd) }()
	list, err := names(fd, "")
	if err != nil {
		return moved, err
	}
	for _, n := range list {
		if unix.Unlinkat(fd, n, 0) == nil || unix.Unlinkat(fd, n, unix.AT_REMOVEDIR) == nil {
			continue
		}
		below, err := openOwn(fd, n) // a directory that moves must be writable
		if err != nil {
			return moved, err
		}
		_ = unix.Close(below)
		for {
			moved++
			err = unix.Renameat2(fd, n, top, ".moved-"+strconv.Itoa(moved), unix.RENAME_NOREPLACE)
			if !errors.Is(err, unix.EEXIST) {
				break
			}
		}
		if err != nil {
			return moved, err
		}
	}
	return moved, unix.Unlinkat(top, name, unix.AT_REMOVEDIR)
}
