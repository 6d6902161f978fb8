// Package dirfd opens directories and files through handles, name by name, and
// never over a symbolic link that commands of a sandbox could have put there.
package dirfd

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
)

// Open opens a name in a directory. The descriptor is closed on exec.
func Open(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// LinkError returns ELOOP instead of ENOTDIR if the name is a link. With O_DIRECTORY and
// O_NOFOLLOW together, the kernel answers ENOTDIR for links too.
func LinkError(dir int, name string, err error) error {
	var st unix.Stat_t
	if errors.Is(err, unix.ENOTDIR) && unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.ELOOP
	}
	return err
}

// Identity identifies a file of this host. A later file with the same inode has another
// one.
type Identity struct {
	confine.FileID
	Born int64 // when it was made, in nanoseconds since 1970; 0: the file system does not say
}

// Same reports whether two identities belong to the same file.
func (i Identity) Same(o Identity) bool {
	return i.FileID == o.FileID && (i.Born == o.Born || i.Born == 0 || o.Born == 0)
}

// TypeOf returns the type of a name, for file systems that do not list it with the name.
func TypeOf(dir int, name string) byte {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			return unix.DT_DIR
		case unix.S_IFLNK:
			return unix.DT_LNK
		case unix.S_IFSOCK:
			return unix.DT_SOCK
		}
	}
	return unix.DT_UNKNOWN
}

// OpenByName opens rel name by name, each relative to the handle of the one before.
func OpenByName(dir int, rel string, flags int) (int, error) {
	at := dir
	names := strings.Split(rel, "/")
	for i, name := range names {
		f := flags | unix.O_NOFOLLOW
		if i < len(names)-1 {
			f = DirFlags
		}
		next, err := Open(at, name, f)
		if err != nil {
			err = LinkError(at, name, err)
		}
		if at != dir {
			_ = unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// Gone reports whether an error means that nothing exists at a path, or that a link, which is
// not followed, is in the path.
func Gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
