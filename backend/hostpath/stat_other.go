//go:build !linux

package hostpath

import (
	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
)

// dirFlags open a directory to go on from it.
const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW

// stat is what is known of a file.
type stat struct {
	Identity
	mode, uid, gid uint32
}

// of looks at a name in a directory, or at the directory itself, and follows no link.
func (s *stat) of(dir int, name string) error {
	var st unix.Stat_t
	var err error
	if name == "" {
		err = unix.Fstat(dir, &st)
	} else {
		err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	s.FileID = confine.FileID{Dev: uint64(st.Dev), Ino: st.Ino}
	s.mode, s.uid, s.gid = uint32(st.Mode), st.Uid, st.Gid
	return err
}

// isMount reports whether something is mounted at a path: never a link, here.
func isMount(string) bool { return false }
