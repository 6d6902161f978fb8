package hostpath

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/dirfd"
)

// Errors of [Read] about the type of a file. For a link the error is [unix.ELOOP].
var (
	ErrNotRegular = errors.New("not a regular file")
	ErrTooLarge   = errors.New("too large")
)

// Read returns the content of a file that commands could have made: rel, a
// clean relative path below root. It follows no link in rel, reads only regular
// files, never waits for a FIFO's writer, and gives up when ctx ends. If the file
// does not exist the error is fs.ErrNotExist; if it has more than limit bytes, it is
// [ErrTooLarge], and nothing is returned.
func Read(ctx context.Context, root, rel string, limit int64) ([]byte, error) {
	fd, err := openBelow(root, rel)
	if err != nil {
		return nil, err
	}
	if ctx.Done() == nil {
		return readRegular(fd, rel, limit)
	}
	return readAll(ctx, os.NewFile(uintptr(fd), rel), rel, limit)
}

// readRegular reads a whole regular file and closes it, without the poller, which cannot wait for
// such files, and mostly in one call.
func readRegular(fd int, name string, limit int64) ([]byte, error) {
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && st.Size > limit {
		err = ErrTooLarge
	}
	text := make([]byte, 0, min(max(st.Size, 0), limit)+1) // one more, to see the end or that it has grown
	for err == nil {
		var n int
		n, err = unix.Read(fd, text[len(text):cap(text)])
		switch {
		case errors.Is(err, unix.EINTR):
			err = nil
			continue
		case err == nil && n <= 0:
			return text, nil
		case err == nil:
			text = text[:len(text)+n]
		}
		if int64(len(text)) > limit {
			err = ErrTooLarge
		}
		if len(text) == cap(text) {
			text = slices.Grow(text, 512)
		}
	}
	return nil, &os.PathError{Op: "read", Path: name, Err: err}
}

// ReadNamed returns the content of a file that somebody has named. The file is a regular
// one, and no link on the way to it could have been made by commands of a sandbox (see
// [Written.Judge]). Or it is one of this process's own open files, as "-", /dev/stdin or
// a shell's <(…) name them. ReadNamed gives up when ctx ends, and if there are more than
// limit bytes.
func ReadNamed(ctx context.Context, state, name string, limit int64) ([]byte, error) {
	f, err := OpenNamed(state, name)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, f, name, limit)
}

// OpenNamed opens a file for reading, with the checks of [ReadNamed].
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

// ownDescriptor returns the descriptor that a name of one of the process's own open files
// stands for. Opening the name again could wait, and would not give the same open file.
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

// OwnNamed returns a named file as one of Paddock's own, for [OwnFiles]. It returns false
// for one of this process's open files.
func OwnNamed(name string) (backend.OwnFile, bool) {
	if _, ok := ownDescriptor(name); ok {
		return backend.OwnFile{}, false
	}
	abs, err := Abs(name)
	return backend.OwnFile{Path: abs}, err == nil
}

// readAll reads a whole file and closes it.
func readAll(ctx context.Context, f *os.File, name string, limit int64) ([]byte, error) {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > limit {
		_ = f.Close()
		return nil, &os.PathError{Op: "read", Path: name, Err: ErrTooLarge}
	}
	type content struct {
		text []byte
		err  error
	}
	// If the file system hangs (FUSE, NFS), only the goroutine waits, not the caller.
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

// OpenRegular opens a file for reading, with the checks of [Read].
func OpenRegular(root, rel string) (*os.File, error) {
	fd, err := openBelow(root, rel)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// openBelow opens the file of [OpenRegular].
func openBelow(root, rel string) (int, error) {
	fail := func(err error) (int, error) { return -1, &os.PathError{Op: "open", Path: rel, Err: err} }
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
	return fd, nil
}

// openRegular opens a regular file in a directory for reading.
func openRegular(dir int, name string) (int, error) {
	// Check it before opening it, because opening a device can have effects. Nobody
	// without privileges can put a device in the place of a file in between.
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

// Replace replaces a file of Paddock's own state by a new one with this mode, completely or
// not at all. It makes PATH.new and renames it. It opens no existing file: it follows no link,
// and waits for no reader of a FIFO. It does not sync. Callers must ensure that only one
// process at a time replaces a file.
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
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil { // Chmod, because of the umask
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next) // the first error says more
	}
	return err
}

// Full reports whether an error means that there is no room left for a file.
func Full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// RoomHint returns what to do about an error of writing to a full state directory, or ""
// for any other error.
func RoomHint(err error, dir string) string {
	if !Full(err) {
		return ""
	}
	return "make room in " + dir + ", or choose another directory with PADDOCK_STATE_DIR"
}
