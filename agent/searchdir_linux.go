package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/search"
)

// searchDir is a directory that is searched, a plain descriptor. It speaks to
// the kernel itself: package os asks two questions more for each file.
type searchDir struct{ fd int }

const searchFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY

// Dir opens a directory.
func (d searchDir) Dir(name string) (search.Dir, error) {
	fd, err := d.open(name, searchFlags|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return searchDir{fd}, nil
}

// Open opens a regular file. What something is was seen before it is opened; it
// may be another thing by now, which is not waited for.
func (d searchDir) Open(name string) (search.File, error) {
	fd, err := d.open(name, searchFlags)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = search.ErrGone
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return searchFile(fd), nil
}

func (d searchDir) open(name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(d.fd, name, flags, 0)
		switch err {
		case unix.EINTR:
			continue
		case unix.ENOENT, unix.ELOOP, unix.ENOTDIR, unix.ENXIO:
			return -1, search.ErrGone
		}
		return fd, err
	}
}

// Has says whether there is something of that name.
func (d searchDir) Has(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// Close closes the handle.
func (d searchDir) Close() error { return unix.Close(d.fd) }

// List gives the first entries from a name on. It holds no more than a few times
// as many as are asked for.
func (d searchDir) List(from string, limit int) ([]search.Entry, error) {
	fd, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	var found []string // a name, a NUL byte, and its kind: they are in the order of names
	for {
		n, err := unix.Getdents(fd, *buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = d.entries(found, (*buf)[:n], from)
		if n == 0 || len(found) > 2*limit+namesAtOnce {
			slices.Sort(found)
			found = found[:min(len(found), limit)]
		}
		if n == 0 {
			break
		}
	}
	entries := make([]search.Entry, len(found))
	for i, e := range found {
		entries[i] = search.Entry{Name: e[:len(e)-2], Kind: kinds[e[len(e)-1]]}
	}
	return entries, nil
}

var kinds = [16]search.Kind{unix.DT_REG: search.Regular, unix.DT_DIR: search.Directory}

// entries appends what a buffer of the kernel's holds (struct linux_dirent64)
// whose names do not come before from.
func (d searchDir) entries(found []string, buf []byte, from string) []string {
	const kindAt, nameAt = 18, 19
	for len(buf) > nameAt {
		size := int(binary.NativeEndian.Uint16(buf[kindAt-2:]))
		if size <= nameAt || size > len(buf) {
			break
		}
		name, _, _ := bytes.Cut(buf[nameAt:size], []byte{0})
		kind := buf[kindAt]
		buf = buf[size:]
		if string(name) < from || string(name) == "." || string(name) == ".." {
			continue
		}
		if kind == unix.DT_UNKNOWN {
			kind = d.kind(string(name))
		}
		found = append(found, string(append(name, 0, kind&15)))
	}
	return found
}

// kind asks for the kind of an entry where the file system does not tell it
// with the name.
func (d searchDir) kind(name string) byte {
	var st unix.Stat_t
	if unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return unix.DT_UNKNOWN
	}
	return byte(st.Mode & unix.S_IFMT >> 12)
}

// searchFile is a regular file, a plain descriptor.
type searchFile int

// Read reads on.
func (f searchFile) Read(p []byte) (int, error) {
	return ended(func() (int, error) { return unix.Read(int(f), p) })
}

// ReadAt reads at a place.
func (f searchFile) ReadAt(p []byte, at int64) (int, error) {
	return ended(func() (int, error) { return unix.Pread(int(f), p, at) })
}

// Close closes the file.
func (f searchFile) Close() error { return unix.Close(int(f)) }

// ended is a read whatever signals come, and io.EOF at the end.
func ended(read func() (int, error)) (int, error) {
	for {
		n, err := read()
		switch {
		case err == nil && n > 0:
			return n, nil
		case err == nil:
			return 0, io.EOF
		case !errors.Is(err, unix.EINTR):
			return 0, err
		}
	}
}
