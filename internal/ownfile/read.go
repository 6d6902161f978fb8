package ownfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"
)

// settled is how long a file must have been as it is before what was read
// is believed of it without reading again: times of files have the grain of
// the kernel's clock, 10 ms at most, and a change in place within one grain
// would not show.
const settled = 50 * time.Millisecond

// snapshot is what was read from the file.
type snapshot[T any] struct {
	value T
	// file is open for as long as the snapshot is used, so that no other file
	// can get its number. nil where there was none.
	file *os.File
	info fs.FileInfo
	// certain says that the file was settled when it was read.
	certain bool
}

// mode is that of the file that takes the place of this one.
func (s *snapshot[T]) mode() fs.FileMode {
	if s.info == nil {
		return 0o600
	}
	return s.info.Mode().Perm()
}

// same says whether the file on disk is the one that was read.
func (s *snapshot[T]) same(now fs.FileInfo) bool {
	return s.certain && os.SameFile(s.info, now) && s.info.Mode() == now.Mode() && ownerOf(s.info) == ownerOf(now) &&
		s.info.Size() == now.Size() && s.info.ModTime().Equal(now.ModTime())
}

func (f *File[T]) read() (*snapshot[T], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.readLocked()
	if err != nil {
		f.forget()
		return nil, err
	}
	return s, nil
}

func (f *File[T]) readLocked() (*snapshot[T], error) {
	dir, err := os.OpenRoot(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &snapshot[T]{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	info, err := dir.Lstat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.forget()
		return &snapshot[T]{}, nil
	case err != nil:
		return nil, err
	case f.cache != nil && f.cache.same(info):
		return f.cache, nil
	}
	s, err := f.load(dir)
	if err != nil {
		return nil, err
	}
	f.forget()
	f.cache = s
	return s, nil
}

// forget drops the snapshot. f.mu is held.
func (f *File[T]) forget() {
	if f.cache != nil && f.cache.file != nil {
		_ = f.cache.file.Close() // nothing was written
	}
	f.cache = nil
}

func (f *File[T]) load(dir *os.Root) (_ *snapshot[T], err error) {
	file, info, err := openOwn(dir, f.name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = file.Close() // nothing was written
		}
	}()
	began := time.Now()
	data, err := io.ReadAll(io.LimitReader(file, f.most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > f.most {
		return nil, errors.New("it is larger than " + strconv.FormatInt(f.most>>20, 10) + " MiB")
	}
	value, err := f.parse(data)
	if err != nil {
		return nil, err
	}
	return &snapshot[T]{value: value, file: file, info: info, certain: began.Sub(info.ModTime()) > settled}, nil
}

// openOwn opens a file that only its owner can have made and changed. Nobody
// else can put a link into its place after the look: nobody else may write to
// the directory.
func openOwn(dir *os.Root, name string, flags int) (*os.File, fs.FileInfo, error) {
	if info, err := dir.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, nil, &BrokenError{name + " is a symbolic link", "name the file itself"}
	}
	// O_NONBLOCK: a pipe in its place must not hold anybody up.
	file, err := dir.OpenFile(name, flags|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = checkFile(info)
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, nil, err
	}
	return file, info, nil
}

func checkDir(dir *os.Root) error {
	info, err := dir.Stat(".")
	if err != nil {
		return err
	}
	return checkOwner("its directory", info)
}

func checkFile(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return &BrokenError{"it is no regular file", ""}
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Nlink > 1 {
		return &BrokenError{"it has a second name (a hard link)", "remove the other name"}
	}
	return checkOwner("it", info)
}

// checkOwner refuses what somebody else than the caller and root may change.
func checkOwner(what string, info fs.FileInfo) error {
	if uid := ownerOf(info); uid != 0 && uid != os.Geteuid() {
		return &BrokenError{fmt.Sprintf("%s belongs to another user (uid %d)", what, uid), "use a file of your own, or one of root's"}
	}
	if info.Mode().Perm()&0o022 != 0 {
		return &BrokenError{fmt.Sprintf("others may write to %s (mode %04o)", what, info.Mode().Perm()), "take that away: chmod go-w"}
	}
	return nil
}
