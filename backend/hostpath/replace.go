package hostpath

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Replace puts a file of Paddock's own state, of this mode, in the place of what is at
// a path, whole or not at all: by way of PATH.new, which is made anew. Nothing that is
// there is opened: no link is followed, and no reader of a FIFO waited for. It is not
// synced. Who replaces one file at a time has to agree on that.
func Replace(path string, mode fs.FileMode, text []byte) error {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil { // whatever the umask
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next) // the first error says more
	}
	return err
}

// Full reports whether an error says that there is no room left for a file.
func Full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// RoomHint returns the remedy of an error of writing to a directory of state that is full,
// "" of any other error.
func RoomHint(err error, dir string) string {
	if !Full(err) {
		return ""
	}
	return "make room in " + dir + ", or choose another directory with PADDOCK_STATE_DIR"
}
