// Package ownfile reads and replaces files that control access, and to which only the caller
// and root may have write access.
//
// Such a file is a regular file with one name; it and its directory belong to the caller or
// to root, and nobody else may write to either. Otherwise every call returns an error. A
// change is written to a second file beside it, synced and renamed, so that readers never
// wait, and read either the old content or the new one. Writers hold a lock on a third file,
// NAME.lock, which is never removed.
//
//	f, err := ownfile.New(path, 1<<20, parse)
//	…
//	now, err := f.Read() // reads the file again only if it has changed
//	err = f.Update(ctx, func(old grants) ([]byte, error) { … })
package ownfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// File is such a file, whose content is parsed into a T. Its methods are safe for concurrent
// use by many goroutines and many processes.
type File[T any] struct {
	dir, name string
	most      int64
	parse     func([]byte) (T, error)
	turn      chan struct{} // held by a writer: one at a time in this process

	mu    sync.Mutex
	cache *snapshot[T]
}

// BrokenError says what is wrong with the file.
type BrokenError struct {
	Reason string
	Hint   string // what to do about it, may be empty
}

// Error returns the reason.
func (e *BrokenError) Error() string { return e.Reason }

// New returns the file at path, which need not exist: the first change creates it with mode
// 0600, and its directory with mode 0700. most bounds its size in bytes; parse parses it.
func New[T any](path string, most int64, parse func([]byte) (T, error)) (*File[T], error) {
	dir, name, err := split(path)
	if err != nil {
		return nil, err
	}
	return &File[T]{dir: dir, name: name, most: most, parse: parse, turn: make(chan struct{}, 1)}, nil
}

func split(path string) (dir, name string, err error) {
	if path == "" {
		return "", "", errors.New("the path is empty")
	}
	abs, err := filepath.Abs(path)
	return filepath.Dir(abs), filepath.Base(abs), err
}

// Path returns the absolute path of the file.
func (f *File[T]) Path() string { return filepath.Join(f.dir, f.name) }

// Read returns the content of the file, or the zero T if it does not exist. The file is
// checked each time, and parsed again if it has changed. Callers must not change the result.
func (f *File[T]) Read() (T, error) {
	s, err := f.read()
	if err != nil {
		var none T
		return none, err
	}
	return s.value, nil
}

// Update replaces the content by what change makes of it; nil leaves it as it is. Update
// waits for other writers until ctx ends.
func (f *File[T]) Update(ctx context.Context, change func(T) ([]byte, error)) error {
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := f.read()
	if err != nil {
		return err
	}
	data, err := change(s.value)
	if err != nil || data == nil {
		return err
	}
	return f.write(data, s.mode())
}

// Close frees the cached content.
func (f *File[T]) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
	return nil
}

// Owned reports whether the file at path belongs to the user who runs this program, or would
// if it were created. It returns false if that cannot be found out.
func Owned(path string) bool {
	dir, name, err := split(path)
	if err != nil {
		return false
	}
	for at := filepath.Join(dir, name); ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		switch {
		case err == nil:
			return ownerOf(info) == os.Geteuid()
		case !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at):
			return false
		}
	}
}

func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

// settled is how old the modification time of a file must be for its content to be cached:
// the time has the grain of the kernel's clock, 10 ms at most, so a second change within one
// grain would not show.
const settled = 50 * time.Millisecond

// snapshot is the content of the file when it was read.
type snapshot[T any] struct {
	value T
	// file stays open while the snapshot is used, so that no other file can get its inode
	// number. It is nil if there was no file.
	file *os.File
	info fs.FileInfo
	// certain says that the modification time was older than settled.
	certain bool
}

// mode returns the mode for the file that replaces this one.
func (s *snapshot[T]) mode() fs.FileMode {
	if s.info == nil {
		return 0o600
	}
	return s.info.Mode().Perm()
}

// same reports whether the file on disk is still the file that was read.
func (s *snapshot[T]) same(now fs.FileInfo) bool {
	return s.certain && os.SameFile(s.info, now) && s.info.Mode() == now.Mode() && ownerOf(s.info) == ownerOf(now) &&
		s.info.Size() == now.Size() && s.info.ModTime().Equal(now.ModTime())
}

// read returns the cached content if the file has not changed, else it reads the file.
// An error drops the cached content.
func (f *File[T]) read() (_ *snapshot[T], err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() {
		if err != nil {
			f.forget()
		}
	}()
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
		_ = f.cache.file.Close() // it was only read
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

// openOwn opens a file that only the caller and root can have written. Nobody else can
// replace it by a link after the check, because nobody else may write to the directory.
func openOwn(dir *os.Root, name string, flags int) (*os.File, fs.FileInfo, error) {
	if info, err := dir.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, nil, &BrokenError{name + " is a symbolic link", "name the file itself"}
	}
	// O_NONBLOCK: opening a pipe must not block.
	file, err := dir.OpenFile(name, flags|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil {
		stat, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case !info.Mode().IsRegular():
			err = &BrokenError{"not a regular file", ""}
		case !ok || stat.Nlink > 1:
			err = &BrokenError{"it has a second name (a hard link)", "remove the other name"}
		default:
			err = checkOwner("it", info)
		}
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

// checkOwner returns an error if anybody but the caller and root may write.
func checkOwner(what string, info fs.FileInfo) error {
	if uid := ownerOf(info); uid != 0 && uid != os.Geteuid() {
		return &BrokenError{fmt.Sprintf("%s belongs to another user (uid %d)", what, uid), "use a file of your own, or one of root's"}
	}
	if info.Mode().Perm()&0o022 != 0 {
		return &BrokenError{fmt.Sprintf("others may write to %s (mode %04o)", what, info.Mode().Perm()), "take that away: chmod go-w"}
	}
	return nil
}

// lock waits until no other goroutine or process changes the file. The kernel releases the
// lock of a process that ends.
func (f *File[T]) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("others are changing it: %w", ctx.Err())
	}
	free := func() { <-f.turn }
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		free()
		return nil, err
	}
	file, err := f.openLock()
	if err != nil {
		free()
		return nil, err
	}
	locked := make(chan struct{})
	var lockErr error
	go func() {
		defer close(locked)
		for {
			if lockErr = syscall.Flock(int(file.Fd()), syscall.LOCK_EX); !errors.Is(lockErr, syscall.EINTR) {
				return
			}
		}
	}()
	release := func() {
		_ = file.Close() // which releases the lock
		free()
	}
	select {
	case <-locked:
		if lockErr != nil {
			release()
			return nil, lockErr
		}
		return release, nil
	case <-ctx.Done():
		go func() {
			<-locked // flock(2) cannot be interrupted
			release()
		}()
		return nil, fmt.Errorf("another process is changing it: %w", ctx.Err())
	}
}

func (f *File[T]) openLock() (*os.File, error) {
	dir, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	file, _, err := openOwn(dir, f.name+".lock", os.O_RDWR|os.O_CREATE)
	return file, err
}

// write replaces the content. The lock is held.
func (f *File[T]) write(data []byte, mode fs.FileMode) error {
	dir, err := os.OpenRoot(f.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	next := f.name + ".new"
	// A file that is left over belongs to a writer that was killed.
	if err := dir.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = writeNew(dir, next, data, mode)
	if err == nil {
		err = dir.Rename(next, f.name)
	}
	if err != nil {
		_ = dir.Remove(next) // the first error says more
		return err
	}
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close()) // syncs the rename
}

func writeNew(dir *os.Root, name string, data []byte, mode fs.FileMode) error {
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
