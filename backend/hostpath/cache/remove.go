package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/removal"
)

// trashPrefix begins the names of directories, beside the caches, that hold what is being
// removed. What a killed process has left there is removed by the next one.
const trashPrefix = ".gone-"

// discard takes a cache that no sandbox uses out of the store, at once, and returns the
// directory that [removal.Tree] then removes. Where there is no room for that directory, it removes
// the cache itself, under the lock.
func (s *Store) discard(ctx context.Context, dir string) (trash string, err error) {
	lock, err := acquire(ctx, dir, unix.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	trash = filepath.Join(filepath.Dir(dir), trashPrefix+strings.ToLower(rand.Text()[:16]))
	if err = os.Mkdir(trash, 0o700); err == nil {
		if err = os.Rename(dir, filepath.Join(trash, "0")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", errors.Join(err, os.Remove(trash))
		}
	} else {
		trash = ""
		if hostpath.Full(err) {
			err = removal.Here(ctx, dir)
		}
		if err != nil {
			return "", err
		}
	}
	for _, suffix := range []string{recordSuffix, lockSuffix} { // the lock last: waiting starts then make a new one
		if err := os.Remove(dir + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return trash, err
		}
	}
	return trash, nil
}
