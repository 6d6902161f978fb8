//go:build linux

package state

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// positionName is a file in a directory of which only a part was looked at: where the next look
// begins, as the file system counts (telldir(3)), in 20 digits.
const positionName = ".next"

// Some returns about n of the names in a directory, and all if there are not more. The next call,
// of whichever process, continues where this one stopped. So the starts look at all of many, one
// after another, and each takes the same time, however many there are.
//
// A position means the same to every process on file systems that NFS can export. On others a
// call may return names that an earlier one has returned.
func Some(dir *os.Root, n int) []string { return some(dir, n, position(dir)) }

func some(dir *os.Root, n int, from int64) []string {
	f, err := dir.Open(".")
	if err != nil {
		return nil
	}
	defer f.Close()
	fd := int(f.Fd())
	if _, err := unix.Seek(fd, from, unix.SEEK_SET); err != nil {
		from = 0
	}
	var names []string
	buf := make([]byte, 1<<10) // about 25 names
	for len(names) < n {
		m, err := unix.ReadDirent(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && m > 0:
			_, _, names = unix.ParseDirent(buf[:m], -1, names)
		default: // it was read to its end
			_ = dir.Remove(positionName)
			if from > 0 { // ext4 does not go back to the beginning of an open directory
				names = append(names, some(dir, n-len(names), 0)...)
			}
			return names
		}
	}
	if at, err := unix.Seek(fd, 0, unix.SEEK_CUR); err == nil {
		savePosition(dir, at)
	}
	return names
}

// Each calls do with the numbers from 0 to n-1, several at a time.
func Each(n int, do func(i int)) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	wait.Wait()
}

// position returns where a look at a directory begins: 0 is its beginning.
func position(dir *os.Root) int64 {
	f, err := dir.OpenFile(positionName, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	var digits [20]byte
	if _, err := f.ReadAt(digits[:], 0); err != nil {
		return 0
	}
	at, _ := strconv.ParseInt(string(digits[:]), 10, 64)
	return max(at, 0)
}

// savePosition is the reverse of position. Processes may do it at the same time: any position will
// do.
func savePosition(dir *os.Root, at int64) {
	f, err := dir.OpenFile(positionName, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(f, "%020d", at)
	_ = f.Close()
}
