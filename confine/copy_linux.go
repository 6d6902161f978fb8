package confine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// copyDepth bounds the depth of a tree that is copied: each level keeps two
// descriptors open.
const copyDepth = 400

// copier copies a tree: directories, files with their holes and hard links,
// symbolic links and named pipes, with permissions and times. The copy belongs
// to the sandbox's user and has no set-id bits. Sockets and devices are left
// out, because a copy of one would not work, and so are files that vanish
// during the copy.
type copier struct {
	root  int                  // the root directory of the copy
	links map[[2]uint64]string // device and inode to the path of the first link
	buf   []byte
}

// CopyTree copies the content of one directory into another. An error is an
// *Error that names the path that could not be copied.
func CopyTree(from, to string) error {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	source, err := unix.Open(from, flags, 0)
	if err != nil {
		return copyError(from, err)
	}
	defer unix.Close(source)
	target, err := unix.Open(to, flags, 0)
	if err != nil {
		return copyError(to, err)
	}
	defer unix.Close(target)
	return copyTree(source, target)
}

// copyTree copies the content of one open directory into another.
func copyTree(from, to int) error {
	c := &copier{root: to, links: map[[2]uint64]string{}, buf: make([]byte, 256<<10)}
	return c.dir(from, to, "", 0)
}

// dir copies the content of a directory; at is its path, for errors.
func (c *copier) dir(from, to int, at string, depth int) error {
	if depth > copyDepth {
		return copyError(at, unix.ENAMETOOLONG)
	}
	fd, err := unix.Openat(from, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return copyError(at, err)
	}
	f := os.NewFile(uintptr(fd), at)
	defer f.Close()
	for {
		names, err := f.Readdirnames(512)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return copyError(at, err)
		}
		for _, name := range names {
			if err := c.entry(from, to, name, path.Join(at, name), depth); err != nil {
				return err
			}
		}
	}
}

// entry copies one entry of a directory.
func (c *copier) entry(from, to int, name, at string, depth int) error {
	var st unix.Stat_t
	err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			err = c.subdir(from, to, name, at, depth, &st)
		case unix.S_IFREG:
			err = c.file(from, to, name, at, &st)
		case unix.S_IFLNK:
			err = c.symlink(from, to, name, &st)
		case unix.S_IFIFO:
			err = unix.Mknodat(to, name, unix.S_IFIFO|st.Mode&0o777, 0)
		}
	}
	if errors.Is(err, unix.ENOENT) {
		return nil // it has vanished
	}
	return copyError(at, err)
}

// subdir copies a directory.
func (c *copier) subdir(from, to int, name, at string, depth int, st *unix.Stat_t) error {
	source, err := unix.Openat(from, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(source)
	if err := unix.Mkdirat(to, name, 0o700); err != nil {
		return err
	}
	target, err := unix.Openat(to, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	if err := c.dir(source, target, at, depth+1); err != nil {
		return err
	}
	return finishCopy(target, st)
}

// file copies a regular file, or links it to the copy of its first hard link.
func (c *copier) file(from, to int, name, at string, st *unix.Stat_t) error {
	if st.Nlink > 1 {
		key := [2]uint64{st.Dev, st.Ino}
		if first, ok := c.links[key]; ok {
			return unix.Linkat(c.root, first, to, name, 0)
		}
		c.links[key] = at
	}
	source, err := unix.Openat(from, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(source)
	target, err := unix.Openat(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	if err := c.content(source, target, st.Size); err != nil {
		return err
	}
	return finishCopy(target, st)
}

// content copies data and keeps holes (lseek(2), SEEK_DATA). If the file grows
// during the copy, the copy is cut at size.
func (c *copier) content(from, to int, size int64) error {
	for at := int64(0); at < size; {
		data, err := unix.Seek(from, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // only a hole is left
		}
		end := size
		if err == nil {
			if end, err = unix.Seek(from, data, unix.SEEK_HOLE); err != nil {
				return err
			}
		} else {
			data = at // the file system does not support it
		}
		if err := c.span(from, to, data, min(end, size)); err != nil {
			return err
		}
		at = max(end, at+1)
	}
	return unix.Ftruncate(to, size)
}

// span copies the bytes of a file from at to end.
func (c *copier) span(from, to int, at, end int64) error {
	for at < end {
		n, err := unix.Pread(from, c.buf[:min(int64(len(c.buf)), end-at)], at)
		if err != nil {
			return err
		}
		if n == 0 {
			return nil // the file has become shorter
		}
		for written := 0; written < n; {
			w, err := unix.Pwrite(to, c.buf[written:n], at+int64(written))
			if err != nil {
				return err
			}
			written += w
		}
		at += int64(n)
	}
	return nil
}

// symlink copies a symbolic link.
func (c *copier) symlink(from, to int, name string, st *unix.Stat_t) error {
	n, err := unix.Readlinkat(from, name, c.buf)
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(string(c.buf[:n]), to, name); err != nil {
		return err
	}
	return unix.UtimesNanoAt(to, name, times(st), unix.AT_SYMLINK_NOFOLLOW)
}

// finishCopy gives a copy the permissions and times of its original.
func finishCopy(fd int, st *unix.Stat_t) error {
	if err := unix.Fchmod(fd, st.Mode&0o1777); err != nil {
		return err
	}
	return unix.UtimesNanoAt(fd, "", times(st), unix.AT_EMPTY_PATH)
}

// times returns the access and modification times of a copy.
func times(st *unix.Stat_t) []unix.Timespec {
	return []unix.Timespec{unix.NsecToTimespec(time.Now().UnixNano()), st.Mtim}
}

// copyError returns an *Error with the path that could not be copied. It keeps
// an error that has one already: that path is the innermost.
func copyError(at string, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	e = &Error{Op: string(OpCopy), Object: at, Cause: err.Error()}
	var errno unix.Errno
	if errors.As(err, &errno) {
		e.Errno, e.Cause = int(errno), ""
	}
	switch {
	case errors.Is(err, unix.ENOSPC):
		e.Hint = "the workspace does not fit: raise `limits.disk`, or use workspace mode bind"
	case errors.Is(err, unix.EACCES):
		e.Hint = "the workspace must be readable by its owner, all of it, to be copied"
	}
	return e
}

// maxOwnCopy bounds the size of a file of which commands get a copy.
const maxOwnCopy = 1 << 20

// ownCopy copies a file and mounts a symbolic link to the copy over it. Programs
// that replace a file by renaming, as git does with its configuration, follow
// the link first and so replace the copy. They could not replace a mounted file
// (EBUSY). The link itself is a mount point, which cannot be renamed or removed.
func (a *Applier) ownCopy(s *Step) error {
	at, err := openInside(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	data := s.Data
	if len(data) == 0 {
		if data, err = readInside(s.Target); err != nil {
			return err
		}
	}
	err = a.makeFile(&Step{Target: s.Source, Mode: 0o644, Data: data})
	if err != nil && !errors.Is(err, unix.EEXIST) { // it exists if two mounts show the file
		_ = unix.Unlink(relative(s.Source))
		return err
	}
	link := relative(s.Source) + OwnCopyLink
	if err := unix.Symlink(s.Source, link); err != nil {
		return err
	}
	defer func() { _ = unix.Unlink(link) }() // the mount keeps it
	tree, err := unix.OpenTree(unix.AT_FDCWD, link, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := setAttrs(tree, mountAttrs(s.Flags)); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// readInside reads a regular file of the new root.
func readInside(target string) ([]byte, error) {
	fd, err := openBeneath(target, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY) // O_NONBLOCK: never wait for the writer of a FIFO
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), target)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxOwnCopy {
		return nil, fmt.Errorf("%s is not a regular file of at most %d bytes", target, maxOwnCopy)
	}
	return io.ReadAll(io.LimitReader(f, maxOwnCopy))
}
