// Package beneath reaches files through directory handles, one component at a
// time, and never through a link: whatever other processes do to the tree
// meanwhile, nothing outside of the root is touched.
//
// A path is a list of names, none of which is empty, "." or ".."; [Clean]
// makes one of a text. A walk opens each name relative to the handle of the
// one before with O_NOFOLLOW (openat(2)), so that there is no moment between
// a check and a use, and no kernel newer than 2.6.39 is needed.
//
// A directory that is moved away while it is open stays open: what is done in
// it is then done where it is now. That is somewhere the mover could write.
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

// LinkError is a walk that met a symbolic link, or something else that is no
// directory, where only a directory will do.
type LinkError struct {
	Index int  // of the name in the path that was walked
	Link  bool // it is a symbolic link
}

// Error says what was met.
func (e *LinkError) Error() string {
	if e.Link {
		return "a parent is a symbolic link"
	}
	return "a parent is not a directory"
}

// Unwrap gives ENOTDIR, or ELOOP for a link, as the kernel would.
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

// None is no directory: whatever is done with it fails with EBADF.
var None = Dir{-1}

// Valid says whether d is a directory, and not None.
func (d Dir) Valid() bool { return d.fd >= 0 }

// FD is the descriptor, for system calls that have no method here.
func (d Dir) FD() int { return d.fd }

// Close closes the handle.
func (d Dir) Close() error { return unix.Close(d.fd) }

// Dup gives a handle of its own on the same directory.
func (d Dir) Dup() (Dir, error) {
	fd, err := unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0)
	return Dir{fd}, os.NewSyscallError("fcntl", err)
}

// Walk opens the directory at path, whose every name must be one. Without
// names it is a handle on d itself.
func (d Dir) Walk(path []string) (Dir, error) { return d.walk(path, nil) }

// MakeAll is Walk, but makes what is missing with mode, less the umask. It
// calls made, where not nil, with the handle of the parent and the name of
// each directory that it made.
func (d Dir) MakeAll(path []string, mode uint32, made func(parent Dir, depth int)) (Dir, error) {
	return d.walk(path, func(parent Dir, depth int) error {
		err := unix.Mkdirat(parent.fd, path[depth], mode)
		if err == nil && made != nil {
			made(parent, depth)
		}
		if errors.Is(err, unix.EEXIST) {
			return nil // somebody else was faster
		}
		return err
	})
}

// walk opens name after name; missing, where not nil, may make one.
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
	// A handle on whatever is there says for sure what it is, which a second
	// look at the name would not: it may be a directory again.
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

// openat is openat(2), whatever signals come.
func openat(fd int, name string, flags int) (int, error) {
	for {
		child, err := unix.Openat(fd, name, flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return child, err
		}
	}
}

// Lstat looks at name without following it; at d itself where name is empty.
func (d Dir) Lstat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
	if err != nil {
		return st, &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	return st, nil
}

// OpenFile opens name, which is not followed where it is a link (ELOOP) and
// not waited for where it is a FIFO. The caller has to look at what it is.
func (d Dir) OpenFile(name string, flags int, mode uint32) (*os.File, error) {
	for {
		fd, err := unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, mode)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		_ = unix.SetNonblock(fd, false) // a regular file is no business of the poller
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

// Readlink gives the target of a link, whole.
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
