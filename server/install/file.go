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
	// Path is the path of the file.
	Path string
	// What names the addition in messages.
	What string
	// Text is the addition as a separate file, to print.
	Text string
	// Follow resolves the links of Path, and refuses one that commands of a sandbox
	// could have made. If it is nil, a file that is a link is refused. No link of a
	// project may lead out of it, whatever Follow says.
	Follow func(path string) (string, error)

	// Unmarked means that the addition can look like text of the user. Undo may then be
	// called only if it is certain that Do has written the addition.
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

// Undo takes out of the file what Do puts in, and reports whether anything was there. It
// removes a file that is then empty.
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
	if rest, _, err := read(dir, name); err == nil {
		rest, _ = bytes.CutPrefix(rest, bom)
		if rest = bytes.Join(bytes.Fields(rest), nil); len(rest) == 0 || string(rest) == "{}" {
			return true, dir.Remove(name)
		}
	}
	return true, nil
}

// There reports whether the file holds what Undo takes out.
func (c *Change) There() (bool, error) {
	old, err := c.text()
	if err != nil {
		return false, err
	}
	rest, err := c.drop(old)
	return !bytes.Equal(rest, old), err
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

// unsafe returns an [UnsafeError] with the cause, but without the names of temporary and
// relative files that were used on the way.
func (c *Change) unsafe(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) && (p.Path == c.Path || !filepath.IsAbs(p.Path)) {
		err = p.Err
	}
	return &UnsafeError{Path: c.Path, Reason: err.Error(), cause: err}
}

// place opens the directory of the file. A missing directory is created with create, and
// otherwise [fs.ErrNotExist]. In a project, which commands may be changing, links must not
// lead out of it; a user's own file may be elsewhere.
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

// read returns the content of a file, or nil twice if it does not exist.
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
		return nil, nil, errors.New("it is not a regular file")
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

// write replaces the file by a new one with the mode and owner of the old.
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
		// If root writes for others, the file keeps its owner.
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
			err = file.Chown(int(stat.Uid), int(stat.Gid))
		}
		if err == nil {
			err = file.Chmod(info.Mode().Perm())
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return c.unsafe(err)
	}
	// Somebody may have saved the file in the meantime.
	if now, _, err := read(dir, name); err != nil || !bytes.Equal(now, old) {
		return c.unsafe(ErrChanged)
	}
	if err := dir.Rename(next, name); err != nil {
		return c.unsafe(err)
	}
	return nil
}
