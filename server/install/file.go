package install

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxFile bounds a configuration, in bytes.
const maxFile = 8 << 20

// Change is an edit of one file, which can be taken back.
type Change struct {
	// Path is of the file.
	Path string
	// What is added, for messages.
	What string
	// Text is what the file has then, as a file of its own, to print.
	Text string
	// Follow resolves the links of Path, and refuses one that commands of a sandbox
	// could have made. nil: a file that is a link is refused. Of a project's links
	// none leads out of it, whatever Follow says.
	Follow func(path string) (string, error)

	// Unmarked says that what Do puts in can look like what the user wrote. Who takes it
	// back has to know that Do has put it there.
	Unmarked bool

	dir, sub  string // the project, and the file in it; empty for a user's file
	mode      os.FileMode
	put, drop func(old []byte) ([]byte, error)
}

// Do edits the file, and reports whether that changed anything.
func (c *Change) Do() (changed bool, err error) {
	dir, name, err := c.place(true)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	return c.edit(dir, name, c.put)
}

// Undo takes out of the file what Do puts in, and reports whether anything was
// there. A file that says nothing then is removed.
func (c *Change) Undo() (changed bool, err error) {
	dir, name, err := c.place(false)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if changed, err = c.edit(dir, name, c.drop); err != nil || !changed {
		return false, err
	}
	if rest, _, err := read(dir, name); err == nil && saysNothing(rest) {
		return true, dir.Remove(name)
	}
	return true, nil
}

// There reports whether the file has what Undo takes out.
func (c *Change) There() (bool, error) {
	old, err := c.text()
	if err != nil {
		return false, err
	}
	rest, err := c.drop(old)
	return !bytes.Equal(rest, old), err
}

func saysNothing(text []byte) bool {
	text, _ = bytes.CutPrefix(text, bom)
	rest := string(bytes.Join(bytes.Fields(text), nil))
	return rest == "" || rest == "{}"
}

func (c *Change) edit(dir *os.Root, name string, change func([]byte) ([]byte, error)) (bool, error) {
	old, info, err := read(dir, name)
	if err != nil {
		return false, c.unsafe(err)
	}
	edited, err := change(old)
	switch {
	case errors.Is(err, ErrOther):
		return false, err
	case err != nil:
		return false, c.unsafe(err)
	case bytes.Equal(edited, old):
		return false, nil
	}
	if err := c.write(dir, name, edited, old, info); err != nil {
		return false, err
	}
	return true, nil
}

// text reads the file. It returns nil if the file does not exist.
func (c *Change) text() ([]byte, error) {
	dir, name, err := c.place(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	old, _, err := read(dir, name)
	if err != nil {
		return nil, c.unsafe(err)
	}
	return old, nil
}

// unsafe says what is wrong, without the names that were used on the way there.
func (c *Change) unsafe(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) && (p.Path == c.Path || !filepath.IsAbs(p.Path)) {
		err = p.Err
	}
	return &UnsafeError{Path: c.Path, Reason: err.Error(), cause: err}
}

// place opens the directory of the file; with create it makes it where there is
// none, else that is [fs.ErrNotExist]. In a project, which commands may be changing,
// no link leads out of it; a user's own file may be kept elsewhere.
func (c *Change) place(create bool) (*os.Root, string, error) {
	path := c.Path
	if c.Follow != nil {
		var err error
		if path, err = c.Follow(path); err != nil {
			return nil, "", err
		}
	}
	if c.dir == "" {
		if create {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return nil, "", c.unsafe(err)
			}
		}
		dir, err := os.OpenRoot(filepath.Dir(path))
		if err != nil {
			return nil, "", c.unsafe(err)
		}
		return dir, filepath.Base(path), nil
	}
	project, err := os.OpenRoot(c.dir)
	if err != nil {
		return nil, "", c.unsafe(err)
	}
	sub := filepath.Dir(c.sub)
	if sub == "." {
		return project, c.sub, nil
	}
	defer project.Close()
	if create {
		if err := project.Mkdir(sub, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, "", c.unsafe(err)
		}
	}
	dir, err := project.OpenRoot(sub)
	if err != nil {
		return nil, "", c.unsafe(err)
	}
	return dir, filepath.Base(c.sub), nil
}

// read gives what the file holds, and nil twice where there is none.
func read(dir *os.Root, name string) ([]byte, fs.FileInfo, error) {
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case info.Mode().Type() == fs.ModeSymlink:
		return nil, nil, errors.New("it is a symbolic link")
	case !info.Mode().IsRegular():
		return nil, nil, errors.New("it is no regular file")
	}
	file, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	if err != nil {
		return nil, nil, err
	}
	info, err = file.Stat()
	return data, info, err
}

// write puts a new file into the place of the old one, with its mode and owner.
func (c *Change) write(dir *os.Root, name string, data, old []byte, info fs.FileInfo) (err error) {
	next := "." + name + "." + rand.Text()[:8]
	file, err := dir.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, c.mode)
	if err != nil {
		return c.unsafe(err)
	}
	defer func() {
		if err != nil {
			_ = dir.Remove(next) // the first error says more
		}
	}()
	_, err = file.Write(data)
	if err == nil && info != nil {
		err = keep(file, info)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return c.unsafe(err)
	}
	// Somebody may have saved it meanwhile.
	if now, _, err := read(dir, name); err != nil || !bytes.Equal(now, old) {
		return c.unsafe(ErrChanged)
	}
	if err := dir.Rename(next, name); err != nil {
		return c.unsafe(err)
	}
	return nil
}

// keep gives a file the mode and, where root writes for others, the owner of the
// one that it replaces.
func keep(file *os.File, info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		if err := file.Chown(int(stat.Uid), int(stat.Gid)); err != nil {
			return err
		}
	}
	return file.Chmod(info.Mode().Perm())
}
