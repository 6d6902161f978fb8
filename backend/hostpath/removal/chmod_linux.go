package removal

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/dirfd"
)

// chmodDir gives the owner of a directory all rights to it, and never follows a link: the
// handle is of a directory, and its name in /proc leads to nothing else.
func chmodDir(dir int, name string) error {
	var st unix.Stat_t
	fd, err := dirfd.Open(dir, name, dirfd.DirFlags)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&0o700 == 0o700 {
		return err
	}
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
}
