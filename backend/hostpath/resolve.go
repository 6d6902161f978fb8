package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// Dir is a directory on the way to a path.
type Dir struct {
	Path string // absolute, free of symbolic links
	dirfd.Identity
	Mode uint32 // in the format of stat(2)
	UID  uint32
}

// Link is a symbolic link that was followed.
type Link struct {
	Path string // absolute; its directory is free of symbolic links
	Text string
	UID  uint32
	Dirs []Dir // the directories above it, from "/" on
}

// Way is a path of the host, followed name by name from "/".
type Way struct {
	Path  string // absolute, free of symbolic links
	Dirs  []Dir  // the directories above it, from "/" on
	Links []Link // that were followed, in their order
	// Exists means that a file exists at the path. Otherwise Path is the path that it
	// would have, and Dirs end with the last directory that exists.
	Exists         bool
	dirfd.Identity // of what exists there
	Mode           uint32
	UID, GID       uint32

	parent int    // the handle of the directory above it, -1 once it is closed
	name   string // its name there, "" if it is "/" itself
}

// maxNames is how many names one path may have, those in links included.
const maxNames = 4096

// Follow resolves an absolute path through handles of its directories. A path that does
// not exist is not an error, see Way.Exists.
func Follow(name string) (*Way, error) {
	w, err := follow(name)
	if err != nil {
		return nil, err
	}
	w.close()
	return w, nil
}

// follow resolves a path and keeps the last directory open. If it fails, it returns the
// way as far as it has come, closed.
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
		case "..": // starts again from "/", because the names may lead to another directory by now
			rest = append(strings.Split(path.Dir(w.at()), "/"), rest...)
			err = w.root()
		default:
			rest, err = w.step(word, rest)
		}
		if err != nil {
			return fail(err)
		}
	}
	if w.name == "" { // it ends with a directory, whose handle is parent
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

// IsDir reports whether the way leads to a directory.
func (w *Way) IsDir() bool { return w.Exists && w.Mode&unix.S_IFMT == unix.S_IFDIR }

// Writable returns nil if this user can write in the directory to which the way leads,
// or can make it, else an error that names the directory that prevents it.
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

// root starts again from "/".
func (w *Way) root() error {
	w.close()
	w.Dirs = nil
	fd, err := dirfd.Open(unix.AT_FDCWD, "/", dirfd.DirFlags)
	if err != nil {
		return err
	}
	return w.enter("/", fd)
}

// enter continues in a directory.
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

// step follows one name, and returns the names that are left. Those of a link come before
// the rest.
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
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR: // it cannot be entered
		return nil, err
	case len(rest) > 0:
		return nil, unix.ENOTDIR
	}
	w.Path, w.name, w.Exists, w.Identity, w.Mode, w.UID, w.GID = at, name, true, st.Identity, st.Mode, st.UID, st.GID
	return nil, nil
}

// Getwd returns the real path of the current directory. os.Getwd trusts $PWD, which may
// lead to it over links.
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

// Abs returns the clean absolute path of a name, from the current directory's real path.
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

// Barrier returns what keeps the caller from a path: a directory on the way that the
// caller cannot enter, or the path itself.
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

// MaxLinks is how many links one path may have, as in the kernel.
const MaxLinks = 40

// LinkError is the error of a symbolic link that is not followed, because commands of a
// sandbox made it, or could have.
type LinkError struct {
	Link, Text string
	Leads      string // where the whole path leads, whether or not that exists
	Why        string
}

// Error returns which link is not followed, and why.
func (e *LinkError) Error() string { return e.Link + " is a symbolic link to " + e.Text + ", " + e.Why }

// Hint returns what to do about it.
func (e *LinkError) Hint() string {
	return "name the path that the link leads to, if you trust it: " + e.Leads
}

// Judge refuses a way over a link that commands of a sandbox could have made: a link in a
// directory of the list, or in one of more, which commands of this start can write. Links
// of other users, root included, are allowed only if they are safe, because what those
// users' sandboxes could write is on their own lists. Without a list (w is nil) the same
// applies to this user's links.
func (w *Written) Judge(way *Way, more []Dir) error {
	for _, l := range way.Links {
		refuse := func(why string) error { return way.refused(l, why) }
		if d, ok := w.above(l.Dirs); ok {
			return refuse("and commands of a sandbox could have made it: " + WasWritable(d.Path))
		}
		if err := way.changeable(l, more); err != nil {
			return err
		}
		if owner := int(l.UID); owner != os.Geteuid() && !l.safe() && (l.UID != nobody || programOwner() != nobody) {
			return refuse("and belongs to uid " + strconv.Itoa(owner) + ", whose sandboxes could have made it")
		}
		if w == nil && !l.safe() {
			return refuse("and no list says yet which directories commands of sandboxes could write")
		}
	}
	return nil
}

// refused returns the error of a link of the way.
func (w *Way) refused(l Link, why string) error {
	return &LinkError{Link: l.Path, Text: l.Text, Leads: w.Path, Why: why}
}

// changeable returns the error of a link of the way, if it lies in one of the directories
// that commands of this start can write.
func (w *Way) changeable(l Link, dirs []Dir) error {
	for _, d := range dirs {
		if slices.ContainsFunc(l.Dirs, func(at Dir) bool { return at.Same(d.Identity) }) {
			return w.refused(l, "and commands can make such links: "+d.Path+" is writable for them")
		}
	}
	return nil
}

// nobody is the id that a user namespace shows for users that it does not have, such as
// the host's root in a sandbox. If nobody also owns the running program, its links are
// trusted like that program.
const nobody = 65534

// systemDirs are directories in which only root makes links, and which are never used as a
// workspace. In other directories, commands of root's sandboxes could have made links that
// belong to root.
var systemDirs = []string{"/", "/etc", "/etc/alternatives", "/home", "/opt", "/usr", "/usr/bin", "/usr/local", "/usr/local/bin", "/var"}

// safe reports whether, by its owner and its directories, no command can have made a link
// or put it there: it is root's, in a system directory that only root can change.
func (l Link) safe() bool {
	others := func(d Dir) bool { return d.UID != 0 || d.Mode&0o022 != 0 }
	return l.UID == 0 && !slices.ContainsFunc(l.Dirs, others) && slices.Contains(systemDirs, l.Dirs[len(l.Dirs)-1].Path)
}

// Locate resolves a path that somebody has named, and checks the links in it against the
// list in a state directory.
func Locate(state, name string) (*Way, error) {
	way, err := locate(List(state), name)
	if err != nil {
		return nil, err
	}
	way.close()
	return way, nil
}

// LocateOwn is like Locate, for a path that this user's own settings name. If there is no
// list, no sandbox was ever started, and this user's links are followed.
func LocateOwn(state, name string) (*Way, error) {
	list, err := readLists(state)
	if errors.Is(err, fs.ErrNotExist) {
		list = unlisted()
	}
	way, err := locate(list, name)
	if err != nil {
		return nil, err
	}
	way.close()
	return way, nil
}

// locate resolves a path and checks the links in it against a list. It keeps the last
// directory open.
func locate(w *Written, name string) (*Way, error) {
	name, err := Abs(name)
	if err != nil {
		return nil, err
	}
	way, err := follow(name)
	if err != nil {
		return nil, err
	}
	if err := w.Judge(way, nil); err != nil {
		way.close()
		return nil, err
	}
	return way, nil
}

// Real returns the path without symbolic links, or "" if it does not exist.
func Real(p string) string {
	if p == "" {
		return ""
	}
	if _, err := os.Stat(p); err != nil { // first, because the kernel refuses to follow links endlessly
		return ""
	}
	resolved, err := filepath.EvalSymlinks(p)
	if err != nil {
		return ""
	}
	return resolved
}

// Future returns the path without symbolic links that a path will have once it exists.
func Future(p string) string {
	if resolved := Real(p); resolved != "" || p == "" || p == "/" {
		return resolved
	}
	return filepath.Join(Future(filepath.Dir(p)), filepath.Base(p))
}

// absent returns the error of a way to something that does not exist, or nil.
func (w *Way) absent() error {
	if w.Exists {
		return nil
	}
	return unix.ENOENT
}

// Hint returns what to do about an error of Judge, or "" for other errors.
func Hint(err error) string {
	if e := (*LinkError)(nil); errors.As(err, &e) {
		return e.Hint()
	}
	if e := (*policy.FieldError)(nil); errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
