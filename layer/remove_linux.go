package layer

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
)

// discard removes the temporary files of steps. One that cannot be removed does not keep the others.
func (j *journal) discard(source int, steps []*step) error {
	var failed problems
	for _, s := range steps {
		if s.Deed == chmod {
			continue
		}
		j.before("clean " + string(s.Path))
		err := s.inOpened(source, func(dir int, _, temp string) error {
			return removeTree(dir, temp, func(fd int) error { return j.owns(s, fd) })
		})
		if err != nil && !gone(err) {
			failed.add(fmt.Errorf("cannot remove %s: %w", text.QuoteName(string(s.Temp)), err))
		}
	}
	return failed.err()
}

// owns returns an error unless the commit has put a directory at the temporary name of a step. Who may
// rename a directory there, but not empty it, could otherwise have the commit do that.
func (j *journal) owns(s *step, fd int) error {
	st, err := look(fd, "")
	if err != nil {
		return err
	}
	is := s.Ino != 0 && st.Ino == s.Ino
	switch {
	case j.state == landed:
		is = is || s.Any || st.Ino == s.Expect.Ino
	case s.Ino == 0: // a process has ended while it was staged
		when, err := born(fd)
		if err != nil {
			return err
		}
		is = when == 0 || when >= j.Since-tick.Nanoseconds()
	}
	if !is {
		return &ForeignError{string(s.Temp)}
	}
	return nil
}

// removeTree removes what is at a name; a directory only if own, which may be nil, returns no error.
// It holds few descriptors however deep a tree is: a directory's directories come to the top before it
// is removed.
func removeTree(dir int, name string, own func(fd int) error) error {
	unlinked := unix.Unlinkat(dir, name, 0)
	if unlinked == nil || gone(unlinked) {
		return nil
	}
	top, err := reach(dir, name, unix.O_PATH|unix.O_DIRECTORY)
	if gone(err) { // it is not a directory
		return unlinked
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(top) }()
	if own != nil {
		err = own(top)
	}
	if err == nil {
		err = chmodHandle(top, 0o700)
	}
	if err != nil {
		return err
	}
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
