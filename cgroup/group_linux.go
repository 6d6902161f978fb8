package cgroup

import (
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Group is a control group, by a handle of its directory. Its methods may be
// called at the same time until it is closed.
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
		return errors.New("it is no cgroup2 directory")
	}
	return nil
}

// FromFD takes over a handle of a group's directory; one of O_PATH will do.
func FromFD(fd int) *Group { return &Group{fd, "."} }

// FD is the handle, for CLONE_INTO_CGROUP (clone(2)). It stays the group's.
func (g *Group) FD() int { return g.fd }

// Name is the last part of the group's path.
func (g *Group) Name() string { return g.name }

// Close gives up the handle. The group lives on.
func (g *Group) Close() error { return unix.Close(g.fd) }

// checkName refuses what would not be a group inside of this one.
func checkName(op, name string) error {
	if name == "" || name == "." || name == ".." || len(name) > unix.NAME_MAX ||
		strings.ContainsAny(name, "/\x00\n") || strings.HasPrefix(name, "cgroup.") {
		return &Error{Op: op, Object: name, Err: errors.New("it is no name of a group")}
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
	if err := isGroup(fd); err != nil { // somebody mounted over it
		_ = unix.Close(fd)
		return nil, child.fail("open", "", err)
	}
	child.fd = fd
	return child, nil
}

// Create makes a group inside this one and opens it. As long as that handle is
// open, [Group.SweepEmpty] leaves the group alone, in whichever process.
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
			if err = errors.Join(unix.Fchmod(child.fd, 0o755), g.hold(child)); err == nil { // whatever the umask
				return child, nil
			}
			_ = child.Close()
		}
		if !Gone(err) { // else a sweep came between, and it is made again
			_ = unix.Unlinkat(g.fd, name, unix.AT_REMOVEDIR)
			return nil, err
		}
	}
}

// hold locks a child against sweeps. It fails with ENOENT where one was faster.
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

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Remove removes a group inside this one, with the groups inside of that. One
// in which processes live is EBUSY; one that does not exist is no error.
func (g *Group) Remove(name string) error {
	if err := checkName("remove", name); err != nil {
		return err
	}
	err := unix.Unlinkat(g.fd, name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.EBUSY) {
		// Groups inside, or processes: only a look tells.
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

// Children lists the groups inside this one; a group that is gone has none.
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
