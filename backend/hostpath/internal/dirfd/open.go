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

// LinkError tells a link, which O_DIRECTORY and O_NOFOLLOW together call ENOTDIR,
// from what is no directory.
func LinkError(dir int, name string, err error) error {
	var st unix.Stat_t
	if errors.Is(err, unix.ENOTDIR) && unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.ELOOP
	}
	return err
}

// Identity tells one file of this host from every other, also from a later one
// that was given its inode.
type Identity struct {
	confine.FileID
	Born int64 // when it was made, in nanoseconds since 1970; 0: the file system does not say
}

// Same reports whether two looks were at one file.
func (i Identity) Same(o Identity) bool {
	return i.FileID == o.FileID && (i.Born == o.Born || i.Born == 0 || o.Born == 0)
}

// TypeOf asks for the type of a name, where the file system did not tell.
func TypeOf(dir int, name string) byte {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			return unix.DT_DIR
		case unix.S_IFLNK:
			return unix.DT_LNK
		}
	}
	return unix.DT_UNKNOWN
}

// OpenByName opens name after name, each relative to the handle of the one before.
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

// Gone reports whether an error says that there is nothing to be looked at, or
// that a link is there, which nobody follows.
func Gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
