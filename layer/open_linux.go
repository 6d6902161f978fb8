package layer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/layer/delta"
)

// tree is one of the two directories, with what errors call it.
type tree struct {
	root   *os.File
	name   string
	source bool
}

func (l *Layer) source() tree { return tree{l.Source, "the source", true} }
func (l *Layer) upper() tree  { return tree{l.Upper, "the layer", false} }

// fail returns an error about a path.
func (t tree) fail(verb, path string, err error) error {
	return fmt.Errorf("cannot %s %s of %s: %w", verb, shortName(path), t.name, err)
}

// open opens a path below the root, "" for the root itself.
func (t tree) open(path string, flags uint64) (int, error) {
	return reach(int(t.root.Fd()), path, int(flags))
}

func openBeneath(dir int, path string, flags uint64) (int, error) {
	if path == "" {
		path = "."
	}
	how := unix.OpenHow{Flags: flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(dir, path, &how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) && tries < 64 {
			continue
		}
		return fd, err
	}
}

// openDir opens a directory to list it.
func (t tree) openDir(path string) (*os.File, error) {
	fd, err := t.open(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, t.fail("open", path, err)
	}
	return os.NewFile(uintptr(fd), "."), nil
}

// handle is an open regular file. It is read without the runtime's poller, which costs more
// system calls than most files.
type handle int

// Close closes it.
func (h handle) Close() error { return unix.Close(int(h)) }

// ReadAt reads all of p, else it returns an error.
func (h handle) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		more, err := unix.Pread(int(h), p[n:], at+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return n, err
		case more == 0:
			return n, io.EOF
		}
		n += more
	}
	return n, nil
}

// openFile opens a regular file that is still the one that was looked at.
func (t tree) openFile(path string, e Entry) (handle, error) {
	fd, err := t.open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		if gone(err) || errors.Is(err, unix.ENXIO) {
			return -1, &ChangedError{path, t.source}
		}
		return -1, t.fail("open", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, t.fail("read", path, err)
	}
	if identityOf(&st) != e.Identity {
		_ = unix.Close(fd)
		return -1, &ChangedError{path, t.source}
	}
	return handle(fd), nil
}

// entry returns what an overlay shows at a path of a tree below it, if anything is there.
func (t tree) entry(path string) (e Entry, ok bool, err error) {
	parent, name := delta.Split(path)
	dir, err := t.open(parent, unix.O_PATH|unix.O_DIRECTORY)
	if gone(err) {
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, t.fail("open", parent, err)
	}
	defer unix.Close(dir)
	return t.entryIn(dir, name, path)
}

// lstat returns the attributes of what is at a path.
func (t tree) lstat(path string) (st unix.Stat_t, err error) {
	parent, name := delta.Split(path)
	dir, err := t.open(parent, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		_ = unix.Close(dir)
	}
	if gone(err) {
		return st, &ChangedError{path, t.source}
	}
	if err != nil {
		return st, t.fail("read", path, err)
	}
	return st, nil
}

// entryIn is like entry, for a name in an open directory.
func (t tree) entryIn(dir int, name, path string) (e Entry, ok bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) || err == nil && isWhiteout(&st) {
		return Entry{}, false, nil
	}
	if err == nil {
		e, err = entryAt(dir, name, &st)
	}
	if err != nil {
		err = t.fail("read", path, err)
	}
	return e, err == nil, err
}

// isWhiteout reports whether a file is how overlays mark a name that is gone. In a source it
// hides its own name.
func isWhiteout(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 }

// gone reports whether an error means that nothing is at a path.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// entryAt returns the entry of a name whose attributes were read.
func entryAt(dir int, name string, st *unix.Stat_t) (Entry, error) {
	e := Entry{Mode: modeOf(st.Mode), Size: st.Size, Identity: identityOf(st)}
	e.ModTime = e.Identity.Mtime
	if e.Mode&fs.ModeSymlink == 0 {
		return e, nil
	}
	var target [4096]byte
	n, err := unix.Readlinkat(dir, name, target[:])
	if err != nil {
		return Entry{}, err
	}
	e.Link = string(target[:n])
	return e, nil
}

func identityOf(st *unix.Stat_t) Identity {
	return Identity{Dev: st.Dev, Ino: st.Ino, Size: st.Size,
		Mtime: time.Unix(st.Mtim.Unix()), Ctime: time.Unix(st.Ctim.Unix())}
}

func modeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	}
	if m&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if m&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if m&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}
