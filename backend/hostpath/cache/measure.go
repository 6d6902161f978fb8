package cache

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath/removal"
	"github.com/paddock-dev/paddock/internal/dirfd"
)

// The bounds of one measurement. No tool's cache comes near them: what is beyond counts as too
// large, see [Store.Trim].
const (
	measureTime  = time.Minute
	measureDepth = 256
	// fresh is how long a measurement counts.
	fresh = 24 * time.Hour
)

// measure returns how many bytes of the disk a directory takes. partial says that it takes
// more: a bound was reached, or a directory belongs to another user, who has closed it. Those
// that commands have closed are opened again. A file with several names counts once.
func measure(ctx context.Context, dir string) (bytes int64, partial bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	var st unix.Stat_t
	if err := unix.Fstatat(unix.AT_FDCWD, dir, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, false, err
	}
	top, err := openToRead(unix.AT_FDCWD, dir, st.Mode&0o500 != 0o500)
	if err != nil {
		return 0, false, err
	}
	m := measurer{ctx: ctx, linked: map[uint64]bool{}}
	m.add(top, 0)
	return m.bytes, m.partial, nil
}

type measurer struct {
	ctx     context.Context
	bytes   int64
	partial bool
	seen    int
	linked  map[uint64]bool // the inodes with several names, of one file system
}

// maxLinked is how many files with several names are told apart.
const maxLinked = 1 << 18

// add adds what is in an open directory, and closes it.
func (m *measurer) add(dir, depth int) {
	defer func() { _ = unix.Close(dir) }()
	err := dirfd.EachName(dir, func(name []byte, _ byte) bool {
		if m.seen++; m.seen%256 == 0 && m.ctx.Err() != nil {
			m.partial = true
			return false
		}
		var st unix.Stat_t
		if unix.Fstatat(dir, string(name), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return true // it is gone
		}
		if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR && len(m.linked) < maxLinked {
			if m.linked[st.Ino] {
				return true
			}
			m.linked[st.Ino] = true
		}
		m.bytes += st.Blocks * 512
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return true
		}
		sub := -1
		if depth < measureDepth {
			var err error
			if sub, err = openToRead(dir, string(name), st.Mode&0o500 != 0o500); errors.Is(err, unix.ENOENT) {
				return true
			}
		}
		if sub < 0 {
			m.partial = true
			return true
		}
		m.add(sub, depth+1)
		return !m.partial || m.ctx.Err() == nil
	})
	m.partial = m.partial || err != nil
}

// openToRead opens a directory. A closed one, in which its owner has no right to read or to
// search, is opened for that first.
func openToRead(dir int, name string, closed bool) (int, error) {
	if closed {
		return removal.OpenFully(dir, name)
	}
	return dirfd.Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
}
