package hostpath

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath/internal/dirfd"
)

// Errors of [Read] that tell what is at a path. A link is [unix.ELOOP].
var (
	ErrNotRegular = errors.New("not a regular file")
	ErrTooLarge   = errors.New("too large")
)

// Read returns the content of a file that commands could have made: rel, a
// clean relative path below root. It follows no link in rel, reads regular
// files alone, never waits for a writer of a FIFO, and gives up when ctx ends.
// Without a file the error is fs.ErrNotExist; a file of more than limit bytes
// is [ErrTooLarge], of which nothing is returned.
func Read(ctx context.Context, root, rel string, limit int64) ([]byte, error) {
	f, err := OpenRegular(root, rel)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, f, rel, limit)
}

// ReadNamed returns the content of a file that somebody has named: of a regular
// one, to which no link leads that commands of a sandbox could have made (see
// [Written.Judge]), or of one of this process's own open files, as "-", /dev/stdin
// or a shell's <(…) name them. It gives up when ctx ends, and where there are more
// than limit bytes.
func ReadNamed(ctx context.Context, state, name string, limit int64) ([]byte, error) {
	f, err := OpenNamed(state, name)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, f, name, limit)
}

// OpenNamed opens a file as [ReadNamed] does, for reading.
func OpenNamed(state, name string) (*os.File, error) {
	if fd, ok := ownDescriptor(name); ok {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return os.NewFile(uintptr(dup), name), nil
	}
	way, err := locate(List(state), name)
	if err != nil {
		return nil, err
	}
	defer way.close()
	if err := way.absent(); err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	if way.name == "" {
		return nil, &os.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	fd, err := openRegular(way.parent, way.name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// ownDescriptor reads the names that systems have for the open files of the process
// itself. Opening one anew could wait; the file that is open is meant.
func ownDescriptor(name string) (int, bool) {
	if name == "-" || name == "/dev/stdin" {
		return 0, true
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if text, ok := strings.CutPrefix(name, dir); ok {
			fd, err := strconv.ParseUint(text, 10, 16)
			return int(fd), err == nil
		}
	}
	return 0, false
}

// OwnNamed returns a file that was named as one of Paddock's own, for [OwnFiles]: false
// for one of this process's open files.
func OwnNamed(name string) (backend.OwnFile, bool) {
	if _, ok := ownDescriptor(name); ok {
		return backend.OwnFile{}, false
	}
	abs, err := Abs(name)
	return backend.OwnFile{Path: abs}, err == nil
}

// readAll reads a file whole, and closes it.
func readAll(ctx context.Context, f *os.File, name string, limit int64) ([]byte, error) {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > limit {
		_ = f.Close()
		return nil, &os.PathError{Op: "read", Path: name, Err: ErrTooLarge}
	}
	type content struct {
		text []byte
		err  error
	}
	// A file system that hangs (FUSE, NFS) keeps the goroutine, not the caller.
	done := make(chan content, 1)
	go func() {
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, limit+1))
		done <- content{text, err}
	}()
	select {
	case c := <-done:
		if c.err == nil && int64(len(c.text)) > limit {
			return nil, &os.PathError{Op: "read", Path: name, Err: ErrTooLarge}
		}
		return c.text, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// OpenRegular opens a file as [Read] does, for reading.
func OpenRegular(root, rel string) (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, &os.PathError{Op: "open", Path: rel, Err: err} }
	dir, err := dirfd.Open(unix.AT_FDCWD, root, dirfd.DirFlags&^unix.O_NOFOLLOW)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = unix.Close(dir) }()
	names := strings.Split(rel, "/")
	for _, name := range names[:len(names)-1] {
		next, err := dirfd.Open(dir, name, dirfd.DirFlags)
		if err != nil {
			return fail(dirfd.LinkError(dir, name, err))
		}
		_ = unix.Close(dir)
		dir = next
	}
	fd, err := openRegular(dir, names[len(names)-1])
	if err != nil {
		return fail(err)
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// openRegular opens a regular file of a directory, for reading.
func openRegular(dir int, name string) (int, error) {
	// Looked at before it is opened: to open a device can have effects. Nobody
	// without privileges puts one in the place of a file.
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return -1, unix.ELOOP
	default:
		return -1, ErrNotRegular
	}
	fd, err := dirfd.Open(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return -1, err
	}
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = unix.Close(fd)
		return -1, ErrNotRegular
	}
	return fd, nil
}
