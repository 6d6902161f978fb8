package files

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// checkEntry checks an entry of an archive of the agent, which commands may have taken over. Its
// name is below the destination; of a single file it is a name alone.
func checkEntry(h *tar.Header, tree bool) error {
	name := path.Clean(h.Name)
	switch {
	case !filepath.IsLocal(name) || name == "." || !tree && strings.Contains(name, "/"):
		return refuseEntry(h.Name, "the agent sent it, and it is outside of what is copied", "")
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeSymlink && (h.Typeflag != tar.TypeDir || !tree):
		return refuseEntry(h.Name, "it is not a file, a directory or a symbolic link", leaveOut(name))
	}
	h.Name = name
	return nil
}

// lander writes entries below a directory of the host, and follows no link there.
type lander struct {
	tree   *os.Root
	name   string // of a single file
	become string // the path of the file or the directory, for people

	// The directory of the last entry, which the next one often shares.
	parent *os.Root
	path   string
}

// toHost returns what writes to the destination on the host.
func (c *copying) toHost(tree bool) (*lander, error) {
	to := c.to
	way, err := hostpath.Locate(c.env.StateDir(), to.text)
	if err != nil {
		return nil, op.FieldError(to.field, to.text, err)
	}
	name := c.from.base()
	switch {
	case !way.IsDir():
		above, err := hostpath.Locate(c.env.StateDir(), filepath.Dir(filepath.Clean(to.text)))
		if err != nil {
			return nil, op.FieldError(to.field, to.text, err)
		}
		if err := checkNew(to, above, tree); err != nil {
			return nil, err
		}
		way, name = above, filepath.Base(to.text)
	case tree && c.from.content:
		name = "."
	}
	root, err := openDir(way)
	if err != nil {
		return nil, refuseTarget(to, op.CauseOf(err), "")
	}
	l := &lander{tree: root, name: name, become: filepath.Join(way.Path, name)}
	if !tree {
		return l, nil
	}
	if l.name = ""; name != "." {
		sub, err := enter(root, name)
		_ = root.Close()
		if err != nil {
			return nil, landError(l.become, err)
		}
		l.tree = sub
	}
	return l, nil
}

// checkNew checks a destination that is not a directory, in the directory above it.
func checkNew(to copyPlace, above *hostpath.Way, tree bool) error {
	if !above.IsDir() {
		return refuseTarget(to, "the directory above it does not exist", "mkdir -p "+policy.ShellWord(filepath.Dir(filepath.Clean(to.text)))+" makes it")
	}
	st, err := os.Lstat(filepath.Join(above.Path, filepath.Base(to.text)))
	switch {
	case errors.Is(err, fs.ErrNotExist) && to.slash && !tree:
		return refuseTarget(to, "the directory does not exist", "make it, or leave out the / at its end: then it is the name of the file")
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return refuseTarget(to, op.CauseOf(err), "")
	case st.Mode()&fs.ModeSymlink != 0:
		return refuseTarget(to, "it is a symbolic link, and nothing is written through one", "name what it leads to, or remove it")
	case !st.Mode().IsRegular():
		return refuseTarget(to, "it is not a directory, or a file that can be replaced", "- writes an archive to standard output")
	case tree:
		return refuseTarget(to, "a directory cannot replace a file", "copy to another name, or remove the file first")
	case to.slash:
		return refuseTarget(to, "it is not a directory", "")
	}
	return nil
}

// openDir opens the directory that a way leads to, and nothing that was put in its place.
func openDir(way *hostpath.Way) (*os.Root, error) {
	root, err := os.OpenRoot(way.Path)
	if err != nil {
		return nil, err
	}
	st, err := root.Stat(".")
	again, aerr := hostpath.Follow(way.Path)
	if err = errors.Join(err, aerr); err == nil && (!again.Same(way.Identity) || !sameDir(st, way.Path)) {
		err = errors.New("another directory has taken its place")
	}
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return root, nil
}

// sameDir reports whether a path, without following a link, is an open directory.
func sameDir(open fs.FileInfo, name string) bool {
	st, err := os.Lstat(name)
	return err == nil && os.SameFile(open, st)
}

// enter opens a directory in another one, and makes it if it is missing. It is not a link.
func enter(dir *os.Root, name string) (*os.Root, error) {
	st, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = dir.Mkdir(name, 0o777); err == nil || errors.Is(err, fs.ErrExist) {
			st, err = dir.Lstat(name)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case st.Mode()&fs.ModeSymlink != 0:
		return nil, errLink
	case !st.IsDir():
		return nil, errOccupied
	}
	return dir.OpenRoot(name)
}

// Why an entry does not land.
var (
	errLink     = errors.New("a symbolic link is in its place, or above it")
	errOccupied = errors.New("something of another kind is in its place")
)

// landError returns the error of a path where nothing landed.
func landError(at string, err error) error {
	hint, cause := "", op.CauseOf(err)
	if of := (*os.LinkError)(nil); errors.As(err, &of) {
		cause = of.Err.Error() // without the temporary name
	}
	if errors.Is(err, errLink) || errors.Is(err, errOccupied) {
		hint = "remove it, or copy to another directory"
	}
	if hostpath.Full(err) {
		hint = "make room there, or copy less"
	}
	return refuseTarget(copyPlace{text: at}, cause, hint)
}

// close closes the directories.
func (l *lander) close() error {
	if l.parent != nil && l.parent != l.tree {
		_ = l.parent.Close()
	}
	return l.tree.Close()
}

// in returns the directory that an entry is in, and makes it if it is missing.
func (l *lander) in(dir string) (*os.Root, error) {
	if l.parent != nil && l.path == dir {
		return l.parent, nil
	}
	if l.parent != nil && l.parent != l.tree {
		_ = l.parent.Close()
	}
	l.parent, l.path = l.tree, "."
	if dir == "." {
		return l.tree, nil
	}
	at := l.tree
	for _, name := range strings.Split(dir, "/") {
		next, err := enter(at, name)
		if at != l.tree {
			_ = at.Close()
		}
		if err != nil {
			return nil, err
		}
		at = next
	}
	l.parent, l.path = at, dir
	return at, nil
}

// land writes an entry that was checked.
func (l *lander) land(h *tar.Header, content io.Reader) error {
	if l.name != "" {
		h.Name = l.name
	}
	dir, err := l.in(path.Dir(h.Name))
	if err == nil {
		switch base := path.Base(h.Name); h.Typeflag {
		case tar.TypeDir:
			err = landDir(dir, base, h)
		case tar.TypeSymlink:
			err = replace(dir, base, func(temporary string) error { return dir.Symlink(h.Linkname, temporary) })
		default:
			err = replace(dir, base, func(temporary string) error { return landFile(dir, temporary, h, content) })
		}
	}
	if source := (*sourceError)(nil); errors.As(err, &source) {
		return source.error // of the sandbox, not of this file
	}
	if err != nil {
		at := l.become
		if l.name == "" {
			at = filepath.Join(at, h.Name) //nolint:gosec // G305: it is for the message alone
		}
		return landError(at, err)
	}
	return nil
}

// landDir makes a directory, unless it exists. Its owner can always use it.
func landDir(dir *os.Root, name string, h *tar.Header) error {
	err := dir.Mkdir(name, fs.FileMode(h.Mode)&0o777|0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	sub, err := enter(dir, name)
	if err == nil {
		err = sub.Close()
	}
	return err
}

// landFile writes a new file.
func landFile(dir *os.Root, name string, h *tar.Header, content io.Reader) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(h.Mode)&0o777)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, &source{content})
	return errors.Join(err, f.Close())
}

// replace makes a file under a name of its own, and renames it to where nothing, a file or a link
// is. If that fails, nothing is left of it.
func replace(dir *os.Root, name string, makeIt func(temporary string) error) error {
	st, err := dir.Lstat(name)
	if err == nil && !st.Mode().IsRegular() && st.Mode()&fs.ModeSymlink == 0 {
		return errOccupied
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temporary := ".paddock-cp-" + strings.ToLower(rand.Text()[:12])
	if err = makeIt(temporary); err == nil {
		if err = dir.Rename(temporary, name); err == nil {
			return nil
		}
	}
	_ = dir.Remove(temporary) // the first error says more
	return err
}

// source marks errors of what is read.
type source struct{ io.Reader }

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &sourceError{err}
	}
	return n, err
}

type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }
