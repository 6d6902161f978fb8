// Package ownfile keeps what decides over access in one file that its owner
// alone, and root, can have written.
//
// It is a regular file with one name, it and its directory belong to the caller
// or to root, and no others may write to either. Whatever does not look like
// that is an error for every question. A change is written to a second file
// beside it, put on disk, and renamed, so that readers wait for nobody and find
// the old file or the new one. Who changes holds a lock on a third, NAME.lock,
// which stays.
//
//	f, err := ownfile.New(path, 1<<20, parse)
//	…
//	now, err := f.Read() // a look at the file; it is read again where it changed
//	err = f.Update(ctx, func(old grants) ([]byte, error) { … })
package ownfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// File is one such file, which holds a T. Its methods may be called at the same
// time, from many goroutines and from many processes.
type File[T any] struct {
	dir, name string
	most      int64
	parse     func([]byte) (T, error)
	turn      chan struct{} // held by who changes, one at a time in this process

	mu    sync.Mutex
	cache *snapshot[T]
}

// BrokenError is something about the file that is not as it must be.
type BrokenError struct {
	Reason string
	Hint   string // what to do about it; may be empty
}

// Error is the reason.
func (e *BrokenError) Error() string { return e.Reason }

// New is the file at path, which need not be there yet: the first change makes
// it, with mode 0600, and its directory with mode 0700. It may hold most bytes;
// parse reads them.
func New[T any](path string, most int64, parse func([]byte) (T, error)) (*File[T], error) {
	dir, name, err := split(path)
	if err != nil {
		return nil, err
	}
	return &File[T]{dir: dir, name: name, most: most, parse: parse, turn: make(chan struct{}, 1)}, nil
}

func split(path string) (dir, name string, err error) {
	if path == "" {
		return "", "", errors.New("it has no name")
	}
	abs, err := filepath.Abs(path)
	return filepath.Dir(abs), filepath.Base(abs), err
}

// Path is the file's absolute path.
func (f *File[T]) Path() string { return filepath.Join(f.dir, f.name) }

// Read gives what the file holds now: the zero T where there is none. It looks
// at the file each time, and reads it where it is not the one that was read
// before. Nobody may change what it gives.
func (f *File[T]) Read() (T, error) {
	s, err := f.read()
	if err != nil {
		var none T
		return none, err
	}
	return s.value, nil
}

// Update puts what change makes of the file's content into its place; where that
// is nil, the file stays as it is. It waits for others to be done until ctx ends.
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

// Close forgets what was read.
func (f *File[T]) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
	return nil
}

// Owned says whether the file at path belongs to the user who runs this
// program, or will, because there is none. It says no in doubt.
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
