//go:build !linux

package dirfd

import (
	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
)

// DirFlags are the flags that open a directory to continue from it.
const DirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW

// Stat has the attributes of a file.
type Stat struct {
	Identity
	Mode, UID, GID uint32
}

// Of reads it for a name in a directory, or for the directory itself. It follows no link.
func (s *Stat) Of(dir int, name string) error {
	var st unix.Stat_t
	var err error
	if name == "" {
		err = unix.Fstat(dir, &st)
	} else {
		err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	s.FileID = confine.FileID{Dev: uint64(st.Dev), Ino: st.Ino}
	s.Mode, s.UID, s.GID = uint32(st.Mode), st.Uid, st.Gid
	return err
}

// IsMount reports whether something is mounted at a path. Callers ask for links only, and
// here nothing is ever mounted on a link.
func IsMount(string) bool { return false }
