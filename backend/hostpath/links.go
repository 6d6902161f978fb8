package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/policy"
)

// LinkError is a symbolic link that is not followed, because commands of a
// sandbox made it, or could have.
type LinkError struct {
	Link, Text string
	Leads      string // where the whole path leads, whether something is there or not
	Why        string
}

// Error says which link, and why.
func (e *LinkError) Error() string { return e.Link + " is a symbolic link to " + e.Text + ", " + e.Why }

// Hint says what to do about it.
func (e *LinkError) Hint() string {
	return "name the path that the link leads to, if you trust it: " + e.Leads
}

// Judge refuses a way that follows a link which commands of a sandbox could have
// made: one that lies in a directory of the list, or in one of more, which
// commands of this start can write. Links of other users, root's among them, are
// followed where they are safe alone: what their sandboxes could write is on a list
// of theirs. Without a list (w is nil) that holds for links of this user's, too.
func (w *Written) Judge(way *Way, more []Dir) error {
	for _, l := range way.Links {
		refuse := func(why string) error { return way.refused(l, why) }
		if d, ok := w.above(l.Dirs); ok {
			return refuse("and commands of a sandbox could have made it: " + d.Path + " was writable for them")
		}
		if err := way.changeable(l, more); err != nil {
			return err
		}
		if owner := int(l.UID); owner != os.Geteuid() && !l.safe() && !unmapped(l.UID) {
			return refuse("and belongs to uid " + strconv.Itoa(owner) + ", whose sandboxes could have made it")
		}
		if w == nil && !l.safe() {
			return refuse("and no list says yet which directories commands of sandboxes could write")
		}
	}
	return nil
}

func (w *Way) refused(l Link, why string) error {
	return &LinkError{Link: l.Path, Text: l.Text, Leads: w.Path, Why: why}
}

// changeable returns the error for a link of the way that lies in directories which
// commands of this start can write.
func (w *Way) changeable(l Link, dirs []Dir) error {
	for _, d := range dirs {
		if slices.ContainsFunc(l.Dirs, func(at Dir) bool { return at.Same(d.Identity) }) {
			return w.refused(l, "and commands can make such links: "+d.Path+" is writable for them")
		}
	}
	return nil
}

// unmapped reports whether an owner is one whom the user namespace does not have,
// as the host's root is in a sandbox, and who owns the program that runs, too.
func unmapped(uid uint32) bool { return uid == nobody && programOwner() == nobody }

// nobody is shown instead of such a user.
const nobody = 65534

// systemDirs are directories in which root alone makes links, and which are no
// workspace: commands of root's sandboxes can make links that belong to root.
var systemDirs = []string{"/", "/etc", "/etc/alternatives", "/home", "/opt", "/usr", "/usr/bin", "/usr/local", "/usr/local/bin", "/var"}

// safe reports whether no command can have made a link or put it there, as far
// as its owner and its directories tell: it is root's, in a system directory that
// root alone can change.
func (l Link) safe() bool {
	others := func(d Dir) bool { return d.UID != 0 || d.Mode&0o022 != 0 }
	return l.UID == 0 && !slices.ContainsFunc(l.Dirs, others) && slices.Contains(systemDirs, l.Dirs[len(l.Dirs)-1].Path)
}

// Locate resolves a path that somebody has named, and judges the links in it by
// the list in a directory of state.
func Locate(state, name string) (*Way, error) {
	way, err := locate(List(state), name)
	if err != nil {
		return nil, err
	}
	way.close()
	return way, nil
}

// LocateOwn is Locate for a path that this user's own settings name: without any
// list no sandbox was started, and links of this user's are followed.
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

// Real returns the path free of symbolic links, or "" where it does not exist.
func Real(p string) string {
	if p == "" {
		return ""
	}
	if _, err := os.Stat(p); err != nil { // the kernel follows few links, and ends
		return ""
	}
	resolved, err := filepath.EvalSymlinks(p)
	if err != nil {
		return ""
	}
	return resolved
}

// Future returns the path free of symbolic links as it will be once it exists.
func Future(p string) string {
	if resolved := Real(p); resolved != "" || p == "" || p == "/" {
		return resolved
	}
	return filepath.Join(Future(filepath.Dir(p)), filepath.Base(p))
}

// absent returns the error of a way that ends where nothing is.
func (w *Way) absent() error {
	if w.Exists {
		return nil
	}
	return unix.ENOENT
}

// Hint returns what to do about an error of Judge, "" where it is another one.
func Hint(err error) string {
	if e := (*LinkError)(nil); errors.As(err, &e) {
		return e.Hint()
	}
	if e := (*policy.FieldError)(nil); errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
