//go:build linux

package linux

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// readProc reads a file of /proc whole, as os.ReadFile does, but for most of
// them in one call: the kernel makes their text anew for each read, and the
// runtime's poller cannot wait for them.
func readProc(file string) ([]byte, error) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: file, Err: err}
	}
	defer unix.Close(fd)
	buf, n := make([]byte, 16<<10), 0
	for {
		m, err := unix.Read(fd, buf[n:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: file, Err: err}
		case m == 0:
			return buf[:n], nil
		}
		if n += max(m, 0); n == len(buf) {
			buf = slices.Grow(buf, n)[:2*n]
		}
	}
}
