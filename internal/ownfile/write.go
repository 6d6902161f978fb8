package ownfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// lock waits until nobody else, in this process or another, changes the file.
// The kernel takes the lock from a process that ends.
func (f *File[T]) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("others change it: %w", ctx.Err())
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
		lockErr = flock(file)
		close(locked)
	}()
	release := func() {
		_ = file.Close() // and with it the lock
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
			<-locked // who waits for a lock cannot be called back
			release()
		}()
		return nil, fmt.Errorf("another process changes it: %w", ctx.Err())
	}
}

func flock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
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

// write puts data in the place of what the file holds. The lock is held.
func (f *File[T]) write(data []byte, mode fs.FileMode) error {
	dir, err := os.OpenRoot(f.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	next := f.name + ".new"
	// One that is left was not finished by its maker, who has ended.
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
	return syncDir(dir)
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

// syncDir puts the rename on disk, too.
func syncDir(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
