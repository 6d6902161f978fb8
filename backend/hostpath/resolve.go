package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath/internal/dirfd"
)

// Dir is a directory on the way to a path.
type Dir struct {
	Path string // absolute, free of symbolic links
	dirfd.Identity
	Mode uint32 // as stat(2) has it
	UID  uint32
}

// Link is a symbolic link that was followed.
type Link struct {
	Path string // absolute; its directory is free of symbolic links
	Text string
	UID  uint32
	Dirs []Dir // the directories in which it lies, from "/" on
}

// Way is a path of the host, followed name by name from "/".
type Way struct {
	Path  string // absolute, free of symbolic links
	Dirs  []Dir  // the directories in which it lies, from "/" on
	Links []Link // that were followed, in their order
	// Exists says that something is there. Else Path is what it would be, and Dirs
	// end with the last directory that is there.
	Exists         bool
	dirfd.Identity // of what is there
	Mode           uint32
	UID, GID       uint32

	parent int    // the directory that it lies in, -1 once it is closed
	name   string // its name there, "" of "/" itself
}

// maxNames bounds the names of one path, those of links included.
const maxNames = 4096

// Follow resolves an absolute path by handles of its directories. A path that
// is not there is no error, see Way.Exists.
func Follow(name string) (*Way, error) {
	w, err := follow(name)
	if err != nil {
		return nil, err
	}
	w.close()
	return w, nil
}

// follow is Follow that keeps the last directory open. With an error it returns the way
// as far as it has come, closed.
func follow(name string) (*Way, error) {
	w := &Way{parent: -1}
	fail := func(err error) (*Way, error) {
		w.close()
		return w, &fs.PathError{Op: "follow", Path: name, Err: err}
	}
	if !path.IsAbs(name) {
		return fail(errors.New("not an absolute path"))
	}
	if err := w.root(); err != nil {
		return fail(err)
	}
	rest := strings.Split(name, "/")
	for names := 0; len(rest) > 0; names++ {
		if names > maxNames {
			return fail(unix.ENAMETOOLONG)
		}
		word := rest[0]
		rest = rest[1:]
		var err error
		switch word {
		case "", ".":
		case "..": // of the directory that was reached, by its names: they may mean another meanwhile
			rest = append(strings.Split(path.Dir(w.at()), "/"), rest...)
			err = w.root()
		default:
			rest, err = w.step(word, rest)
		}
		if err != nil {
			return fail(err)
		}
	}
	if w.name == "" { // it ends with a directory, which is open
		last := w.Dirs[len(w.Dirs)-1]
		w.Path, w.Exists, w.Identity, w.Mode, w.UID = last.Path, true, last.Identity, last.Mode, last.UID
		w.Dirs = w.Dirs[:len(w.Dirs)-1]
		var st dirfd.Stat
		if err := st.Of(w.parent, ""); err != nil {
			return fail(err)
		}
		w.GID = st.GID
	}
	return w, nil
}

// IsDir reports whether a directory is there.
func (w *Way) IsDir() bool { return w.Exists && w.Mode&unix.S_IFMT == unix.S_IFDIR }

// canBe reports whether a directory is there, or this user could make one.
func (w *Way) canBe() bool {
	return w.IsDir() || !w.Exists && unix.Access(w.Dirs[len(w.Dirs)-1].Path, unix.W_OK|unix.X_OK) == nil
}

// Writable returns nil where this user can write in the directory to which the way
// leads, or make it, else an error that shows which directory speaks against that.
func (w *Way) Writable() error {
	at := w.at()
	if w.Exists {
		at = w.Path
	}
	if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("cannot write to %s: %w", at, err)
	}
	return nil
}

// at returns the path of the directory that is open.
func (w *Way) at() string { return w.Dirs[len(w.Dirs)-1].Path }

func (w *Way) close() {
	if w.parent >= 0 {
		_ = unix.Close(w.parent)
	}
	w.parent = -1
}

// root begins anew.
func (w *Way) root() error {
	w.close()
	w.Dirs = nil
	fd, err := dirfd.Open(unix.AT_FDCWD, "/", dirfd.DirFlags)
	if err != nil {
		return err
	}
	return w.enter("/", fd)
}

// enter goes on in a directory.
func (w *Way) enter(at string, fd int) error {
	var st dirfd.Stat
	if err := st.Of(fd, ""); err != nil {
		_ = unix.Close(fd)
		return err
	}
	w.close()
	w.parent = fd
	w.Dirs = append(w.Dirs[:len(w.Dirs):len(w.Dirs)], Dir{at, st.Identity, st.Mode, st.UID})
	return nil
}

// step goes one name further, and gives the names that are left.
func (w *Way) step(name string, rest []string) ([]string, error) {
	at := path.Join(w.at(), name)
	fd, err := dirfd.Open(w.parent, name, dirfd.DirFlags)
	if err == nil {
		return rest, w.enter(at, fd)
	}
	var st dirfd.Stat
	if errors.Is(err, unix.ENOENT) || st.Of(w.parent, name) != nil {
		if errors.Is(err, unix.ENOENT) {
			w.Path, w.name = path.Join(append([]string{at}, rest...)...), name
			return nil, nil
		}
		return nil, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return w.link(at, name, st, rest)
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR: // it cannot be entered
		return nil, err
	case len(rest) > 0:
		return nil, unix.ENOTDIR
	}
	w.Path, w.name, w.Exists, w.Identity, w.Mode, w.UID, w.GID = at, name, true, st.Identity, st.Mode, st.UID, st.GID
	return nil, nil
}

// link follows a link: what is left is its text, then the rest.
func (w *Way) link(at, name string, st dirfd.Stat, rest []string) ([]string, error) {
	if len(w.Links) >= MaxLinks {
		return nil, unix.ELOOP
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(w.parent, name, buf)
	if err != nil {
		return nil, err
	}
	text := string(buf[:n])
	w.Links = append(w.Links, Link{Path: at, Text: text, UID: st.UID, Dirs: w.Dirs})
	if path.IsAbs(text) {
		if err := w.root(); err != nil {
			return nil, err
		}
	}
	return append(strings.Split(text, "/"), rest...), nil
}

// Getwd returns the current directory by its real name: $PWD, which os.Getwd
// believes, may lead to it over links.
func Getwd() (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getcwd(buf)
	if err != nil {
		return "", os.NewSyscallError("getcwd", err)
	}
	dir := strings.TrimRight(string(buf[:n]), "\x00")
	if !path.IsAbs(dir) {
		return "", errors.New("the current directory is not below the root")
	}
	return dir, nil
}

// Abs returns a path from the current directory by its real name, cleaned.
func Abs(name string) (string, error) {
	if path.IsAbs(name) {
		return path.Clean(name), nil
	}
	dir, err := Getwd()
	if err != nil {
		return "", err
	}
	return path.Join(dir, name), nil
}

// Barrier returns what keeps the caller from a path: a directory on the way that it
// cannot enter, or what is there.
func Barrier(at string) Dir {
	way, err := follow(at)
	switch {
	case err == nil && way.Exists:
		way.close()
		return Dir{way.Path, way.Identity, way.Mode, way.UID}
	case len(way.Dirs) == 0:
		return Dir{}
	}
	way.close()
	return way.Dirs[len(way.Dirs)-1]
}

// MaxLinks bounds the links of one path, as the kernel does.
const MaxLinks = 40
