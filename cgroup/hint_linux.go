package cgroup

import (
	"errors"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// fail makes an error of what the kernel said about a group, or a file in it.
func (g *Group) fail(op, file string, err error) error {
	e := &Error{Op: op, Object: path.Join(g.name, file), Err: err}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Hint = hint(op, file, errno)
	}
	return e
}

// hint knows what the kernel means where its errno alone does not tell.
func hint(op, file string, errno syscall.Errno) string {
	switch {
	case errno == unix.EROFS:
		return "cgroup2 is mounted read-only here"
	case file == subtreeFile && errno == unix.EBUSY:
		return "a group that holds processes hands no controllers on: move them into a group inside of it first"
	case file == procsFile && errno == unix.EBUSY:
		return "a group that hands controllers on cannot hold processes: use a group inside of it"
	case file == procsFile && errno == unix.EACCES:
		return "moving a process needs write access to cgroup.procs of the nearest group above both its old and its new one"
	case op == "remove" && errno == unix.EBUSY:
		return "processes live in it, or in a group inside of it"
	case op == "create" && errno == unix.EAGAIN:
		return "raise cgroup.max.descendants or cgroup.max.depth of a group above"
	}
	return ""
}

// Gone says whether an error means that a group was removed.
func Gone(err error) bool { return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) }
