package dirfd

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
)

// DirFlags are the flags that open a directory to continue from it, even one that cannot
// be read.
const DirFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW

// Stat has the attributes of a file.
type Stat struct {
	Identity
	Mode, UID, GID uint32
}

// Of reads it for a name in a directory, or for the directory itself. It follows no link.
func (s *Stat) Of(dir int, name string) error {
	var st unix.Statx_t
	for {
		err := unix.Statx(dir, name, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	s.FileID = confine.FileID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}
	s.Mode, s.UID, s.GID, s.Born = uint32(st.Mode), st.Uid, st.Gid, 0
	if st.Mask&unix.STATX_BTIME != 0 {
		s.Born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return nil
}

// IsMount reports whether something is mounted at a path. It follows no link at its end.
func IsMount(name string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
