// Package beneath opens files through directory handles, one name at a
// time, and never through a link: whatever other processes do to the tree
// meanwhile, no operation reaches anything outside of the root.
//
// A path is a list of names, none of which is empty, "." or ".."; [Clean]
// parses it from a text. A walk opens each name relative to the handle of the
// previous one with O_NOFOLLOW (openat(2)), so that the tree cannot change between
// a check and a use. It needs no kernel newer than 2.6.39.
//
// A directory that is moved while it is open stays open: operations in
// it then happen at its new place, where the process that moved it can write anyway.
package beneath

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is an open directory. It is a plain descriptor, and must be closed.
type Dir struct{ fd int }

// LinkError reports that a walk found a symbolic link, or another file that is not a
// directory.
type LinkError struct {
	Index int  // of the name in the path that was walked
	Link  bool // it is a symbolic link
}

// Error says what the walk found.
func (e *LinkError) Error() string {
	if e.Link {
		return "a parent is a symbolic link"
	}
	return "a parent is not a directory"
}

// Unwrap returns ENOTDIR, or ELOOP for a link, as the kernel would.
func (e *LinkError) Unwrap() error {
	if e.Link {
		return unix.ELOOP
	}
	return unix.ENOTDIR
}

// Open opens the root, whose own path is trusted and may lead over links.
func Open(path string) (Dir, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Dir{-1}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return Dir{fd}, nil
}

// FromFD takes over a descriptor of a directory.
func FromFD(fd int) Dir { return Dir{fd} }

// None is not a directory: every operation on it fails with EBADF.
var None = Dir{-1}

// Valid reports whether d is a directory, and not None.
func (d Dir) Valid() bool { return d.fd >= 0 }

// FD returns the descriptor, for system calls that have no method here.
func (d Dir) FD() int { return d.fd }

// Close closes the handle.
func (d Dir) Close() error { return unix.Close(d.fd) }

// Dup returns another handle of the same directory.
func (d Dir) Dup() (Dir, error) {
	fd, err := unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0)
	return Dir{fd}, os.NewSyscallError("fcntl", err)
}

// Walk opens the directory at path. Every name in it must be a directory. Without
// names it returns another handle of d itself.
func (d Dir) Walk(path []string) (Dir, error) { return d.walk(path, nil) }

// MakeAll is like Walk, but makes missing directories with mode, less the umask. If
// made is not nil, MakeAll calls it for each directory that it has made, with the
// handle of the parent and the index of the name.
func (d Dir) MakeAll(path []string, mode uint32, made func(parent Dir, depth int)) (Dir, error) {
	return d.walk(path, func(parent Dir, depth int) error {
		err := unix.Mkdirat(parent.fd, path[depth], mode)
		if err == nil && made != nil {
			made(parent, depth)
		}
		if errors.Is(err, unix.EEXIST) {
			return nil // another process was faster
		}
		return err
	})
}

// walk opens name after name; missing, if not nil, may make a directory that does not exist.
func (d Dir) walk(path []string, missing func(parent Dir, depth int) error) (Dir, error) {
	at, err := d.Dup()
	if err != nil {
		return Dir{-1}, err
	}
	for i, name := range path {
		next, err := at.child(name)
		if errors.Is(err, unix.ENOENT) && missing != nil {
			if err = missing(at, i); err == nil {
				next, err = at.child(name)
			}
		}
		var link *LinkError
		if errors.As(err, &link) {
			link.Index = i
		}
		at.Close()
		if err != nil {
			return Dir{-1}, err
		}
		at = next
	}
	return at, nil
}

// child opens one directory.
func (d Dir) child(name string) (Dir, error) {
	const handle = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := openat(d.fd, name, handle|unix.O_DIRECTORY)
	if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
		return opened(fd, name, err)
	}
	// The type is read from a handle. A second lookup of the name could find another
	// file, such as a directory.
	if fd, err = openat(d.fd, name, handle); err != nil {
		return opened(fd, name, err)
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	kind := st.Mode & unix.S_IFMT
	if err == nil && kind == unix.S_IFDIR {
		return Dir{fd}, nil
	}
	_ = unix.Close(fd)
	if err != nil {
		return opened(-1, name, err)
	}
	return Dir{-1}, &LinkError{Link: kind == unix.S_IFLNK}
}

func opened(fd int, name string, err error) (Dir, error) {
	if err != nil {
		return Dir{-1}, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return Dir{fd}, nil
}

// openat calls openat(2) again if a signal interrupts it.
func openat(fd int, name string, flags int) (int, error) {
	for {
		child, err := unix.Openat(fd, name, flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return child, err
		}
	}
}

// Lstat describes the file name without following a link, or d itself if name is empty.
func (d Dir) Lstat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
	if err != nil {
		return st, &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	return st, nil
}

// OpenFile opens name. It does not follow a link (ELOOP), and does not block on a FIFO.
// The caller must check the type of the file.
func (d Dir) OpenFile(name string, flags int, mode uint32) (*os.File, error) {
	for {
		fd, err := unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, mode)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		_ = unix.SetNonblock(fd, false) // the runtime's poller cannot wait for a regular file
		return os.NewFile(uintptr(fd), name), nil
	}
}

// List opens the directory itself for reading its names.
func (d Dir) List() (*os.File, error) {
	fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: ".", Err: err}
	}
	return os.NewFile(uintptr(fd), "."), nil
}

// Readlink returns the whole target of a link.
func (d Dir) Readlink(name string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(d.fd, name, buf)
		if err != nil {
			return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// Clean splits a slash-separated path into its names; empty ones and "." are
// dropped. It reports false for a path with "..", or a NUL byte.
func Clean(path string) (names []string, ok bool) {
	if strings.IndexByte(path, 0) >= 0 {
		return nil, false
	}
	for _, name := range strings.Split(path, "/") {
		switch name {
		case "", ".":
		case "..":
			return nil, false
		default:
			names = append(names, name)
		}
	}
	return names, true
}
