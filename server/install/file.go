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

// Add puts the server into the file, and says whether that changed anything.
// force replaces another server of the same name.
func (t *Target) Add(s Server, force bool) (changed bool, err error) {
	if err := s.Check(); err != nil {
		return false, err
	}
	dir, name, err := t.place()
	if err != nil {
		return false, err
	}
	defer dir.Close()
	old, info, err := read(dir, name)
	if err != nil {
		return false, t.unsafe(err)
	}
	edited, err := t.client.format.edit(old, s, force)
	switch {
	case errors.Is(err, ErrOther):
		return false, err
	case err != nil:
		return false, t.unsafe(err)
	case info != nil && bytes.Equal(edited, old):
		return false, nil
	}
	return true, t.write(dir, name, edited, old, info)
}

// unsafe says what is wrong, without the names that were used on the way there.
func (t *Target) unsafe(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) && (p.Path == t.Path || !filepath.IsAbs(p.Path)) {
		err = p.Err
	}
	return &UnsafeError{t.Path, err.Error()}
}

// place opens the directory of the file, and makes it where there is none. In a
// project, which commands may be changing, no link leads out of it; a user's
// own file may be kept elsewhere.
func (t *Target) place() (*os.Root, string, error) {
	path := t.Path
	if t.Follow != nil {
		var err error
		if path, err = t.Follow(path); err != nil {
			return nil, "", err
		}
	}
	if t.dir == "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, "", t.unsafe(err)
		}
		dir, err := os.OpenRoot(filepath.Dir(path))
		if err != nil {
			return nil, "", t.unsafe(err)
		}
		return dir, filepath.Base(path), nil
	}
	project, err := os.OpenRoot(t.dir)
	if err != nil {
		return nil, "", t.unsafe(err)
	}
	sub := filepath.Dir(t.client.path)
	if sub == "." {
		return project, t.client.path, nil
	}
	defer project.Close()
	if err := project.Mkdir(sub, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, "", t.unsafe(err)
	}
	dir, err := project.OpenRoot(sub)
	if err != nil {
		return nil, "", t.unsafe(err)
	}
	return dir, filepath.Base(t.client.path), nil
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
func (t *Target) write(dir *os.Root, name string, data, old []byte, info fs.FileInfo) (err error) {
	next := "." + name + "." + rand.Text()[:8]
	file, err := dir.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, t.client.mode)
	if err != nil {
		return t.unsafe(err)
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
		return t.unsafe(err)
	}
	// Somebody may have saved it meanwhile.
	if now, _, err := read(dir, name); err != nil || !bytes.Equal(now, old) {
		return t.unsafe(errors.New("it was changed at the same moment"))
	}
	if err := dir.Rename(next, name); err != nil {
		return t.unsafe(err)
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
