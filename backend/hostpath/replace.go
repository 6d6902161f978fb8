package hostpath

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Replace puts a file of Paddock's own state, of mode 0600, in the place of what is at
// a path, whole or not at all: by way of PATH.new, which is made anew. Nothing that is
// there is opened: no link is followed, and no reader of a FIFO waited for. It is not
// synced. Who replaces one file at a time has to agree on that.
func Replace(path string, text []byte) error {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next) // the first error says more
	}
	return err
}
