package hostpath

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
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
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		_ = f.Close()
		return nil, &os.PathError{Op: "read", Path: rel, Err: ErrTooLarge}
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
			return nil, &os.PathError{Op: "read", Path: rel, Err: ErrTooLarge}
		}
		return c.text, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// OpenRegular opens a file as [Read] does, for reading.
func OpenRegular(root, rel string) (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, &os.PathError{Op: "open", Path: rel, Err: err} }
	dir, err := open(unix.AT_FDCWD, root, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = unix.Close(dir) }()
	names := strings.Split(rel, "/")
	for _, name := range names[:len(names)-1] {
		next, err := open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			return fail(linkError(dir, name, err))
		}
		_ = unix.Close(dir)
		dir = next
	}
	name := names[len(names)-1]
	// Looked at before it is opened: to open a device can have effects. Nobody
	// without privileges puts one in the place of a file.
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fail(err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return fail(unix.ELOOP)
	default:
		return fail(ErrNotRegular)
	}
	fd, err := open(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return fail(err)
	}
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = unix.Close(fd)
		return fail(ErrNotRegular)
	}
	return os.NewFile(uintptr(fd), rel), nil
}

func open(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// linkError tells a link, which O_DIRECTORY and O_NOFOLLOW together call ENOTDIR,
// from what is no directory.
func linkError(dir int, name string, err error) error {
	var st unix.Stat_t
	if errors.Is(err, unix.ENOTDIR) && unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.ELOOP
	}
	return err
}
