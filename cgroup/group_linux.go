package cgroup

import (
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Group is a control group, by a handle of its directory. Its methods may be
// called concurrently until it is closed.
type Group struct {
	fd   int
	name string
}

// Open opens a group by its directory, whose path is trusted.
func Open(dir string) (*Group, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Op: "open", Object: dir, Err: err}
	}
	if err := isGroup(fd); err != nil {
		_ = unix.Close(fd)
		return nil, &Error{Op: "open", Object: dir, Err: err}
	}
	return &Group{fd, path.Base(dir)}, nil
}

// isGroup refuses a directory of another file system.
func isGroup(fd int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return errors.New("it is not a cgroup2 directory")
	}
	return nil
}

// FromFD returns the group of a directory handle, which it takes over. An O_PATH
// handle is enough.
func FromFD(fd int) *Group { return &Group{fd, "."} }

// FD returns the handle, for CLONE_INTO_CGROUP (clone(2)). The group still owns
// it.
func (g *Group) FD() int { return g.fd }

// Name returns the last element of the group's path.
func (g *Group) Name() string { return g.name }

// Close closes the handle. The group stays.
func (g *Group) Close() error { return unix.Close(g.fd) }

// checkName refuses a name that is not that of a group directly inside this one.
func checkName(op, name string) error {
	if name == "" || name == "." || name == ".." || len(name) > unix.NAME_MAX ||
		strings.ContainsAny(name, "/\x00\n") || strings.HasPrefix(name, "cgroup.") {
		return &Error{Op: op, Object: name, Err: errors.New("it is not a valid name of a group")}
	}
	return nil
}

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// Child opens a group inside this one.
func (g *Group) Child(name string) (*Group, error) {
	if err := checkName("open", name); err != nil {
		return nil, err
	}
	child := &Group{-1, name}
	fd, err := unix.Openat(g.fd, name, dirFlags, 0)
	if err != nil {
		return nil, child.fail("open", "", err)
	}
	if err := isGroup(fd); err != nil { // something is mounted over it
		_ = unix.Close(fd)
		return nil, child.fail("open", "", err)
	}
	child.fd = fd
	return child, nil
}

// Create makes a group inside this one and opens it. As long as that handle is
// open, [Group.SweepEmpty] does not remove the group, in any process.
func (g *Group) Create(name string) (*Group, error) {
	if err := checkName("create", name); err != nil {
		return nil, err
	}
	for {
		if err := unix.Mkdirat(g.fd, name, 0o755); err != nil {
			return nil, (&Group{-1, name}).fail("create", "", err)
		}
		child, err := g.Child(name)
		if err == nil {
			if err = errors.Join(unix.Fchmod(child.fd, 0o755), g.hold(child)); err == nil { // not reduced by the umask
				return child, nil
			}
			_ = child.Close()
		}
		if !Gone(err) { // else a sweep removed it, and it is made again
			_ = unix.Unlinkat(g.fd, name, unix.AT_REMOVEDIR)
			return nil, err
		}
	}
}

// hold locks a child against sweeps. It fails with ENOENT if a sweep was faster.
func (g *Group) hold(child *Group) error {
	if err := flock(child.fd, unix.LOCK_SH); err != nil {
		return child.fail("lock", "", err)
	}
	var at, open unix.Stat_t
	err := errors.Join(unix.Fstat(child.fd, &open), unix.Fstatat(g.fd, child.name, &at, unix.AT_SYMLINK_NOFOLLOW))
	if err == nil && at.Ino != open.Ino {
		err = unix.ENOENT
	}
	if err != nil {
		return child.fail("lock", "", err)
	}
	return nil
}

// flock locks a directory, as flock(2).
func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Remove removes a group inside this one, with the groups inside of that. If
// processes live in it, the error is EBUSY. A group that does not exist is not
// an error.
func (g *Group) Remove(name string) error {
	if err := checkName("remove", name); err != nil {
		return err
	}
	err := unix.Unlinkat(g.fd, name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.EBUSY) {
		// It has groups or processes inside.
		if child, cerr := g.Child(name); cerr == nil {
			for _, inner := range child.Children() {
				_ = child.Remove(inner)
			}
			_ = child.Close()
			err = unix.Unlinkat(g.fd, name, unix.AT_REMOVEDIR)
		}
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return (&Group{-1, name}).fail("remove", "", err)
	}
	return nil
}

// Children lists the groups inside this one. A group that was removed has none.
func (g *Group) Children() []string {
	fd, err := unix.Openat(g.fd, ".", dirFlags, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), g.name)
	defer f.Close()
	entries, _ := f.ReadDir(-1)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// SweepEmpty removes the groups inside this one whose names begin with prefix,
// with the groups inside of them, if no process lives in them and no process has
// the handle open that [Group.Create] returned. It returns their names.
func (g *Group) SweepEmpty(prefix string) ([]string, error) {
	var removed []string
	var failed []error
	for _, name := range g.Children() {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		gone, err := g.sweep(name)
		if err != nil && !Gone(err) { // another sweep was faster
			failed = append(failed, err)
		}
		if gone {
			removed = append(removed, name)
		}
	}
	return removed, errors.Join(failed...)
}

// sweep removes a group and the groups inside of it, unless it is in use.
func (g *Group) sweep(name string) (bool, error) {
	child, err := g.Child(name)
	if err != nil {
		return false, err
	}
	defer child.Close()
	err = flock(child.fd, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, child.fail("lock", "", err)
	}
	if populated, err := child.Populated(); err != nil || populated {
		return false, err
	}
	for _, inner := range child.Children() {
		if _, err := child.sweep(inner); err != nil && !Gone(err) {
			return false, err
		}
	}
	err = unix.Unlinkat(g.fd, name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.EBUSY) {
		return false, nil // it has processes again, or a group inside of it is locked
	}
	if err != nil {
		return false, child.fail("remove", "", err)
	}
	return true, nil
}

// fail returns an error about a group, or a file in it, with a hint if the
// kernel's errno alone does not say enough.
func (g *Group) fail(op, file string, err error) error {
	e := &Error{Op: op, Object: path.Join(g.name, file), Err: err}
	switch {
	case errors.Is(err, unix.EROFS):
		e.Hint = "cgroup2 is mounted read-only here"
	case file == subtreeFile && errors.Is(err, unix.EBUSY):
		e.Hint = "a group that holds processes cannot delegate controllers: move them into a group inside of it first"
	case file == procsFile && errors.Is(err, unix.EBUSY):
		e.Hint = "a group that delegates controllers cannot hold processes: use a group inside of it"
	case file == procsFile && errors.Is(err, unix.EACCES):
		e.Hint = "moving a process needs write access to cgroup.procs of the nearest group above both its old and its new one"
	case op == "remove" && errors.Is(err, unix.EBUSY):
		e.Hint = "processes live in it, or in a group inside of it"
	case op == "create" && errors.Is(err, unix.EAGAIN):
		e.Hint = "raise cgroup.max.descendants or cgroup.max.depth of a group above"
	}
	return e
}

// Gone reports whether an error means that a group was removed.
func Gone(err error) bool { return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) }
