// Package removal removes trees that commands of sandboxes made, however deep, wide or closed
// they are, through handles and without following links.
package removal

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/dirfd"
)

// deepest is how deep Tree goes down by recursion: what lies deeper is moved up first.
const deepest = 32

// remover removes a trash directory.
type remover struct {
	ctx   context.Context
	top   int    // the trash directory
	name  string // begins the names of what was moved up
	moved int    // how many directories were moved up
	errs  []error
}

// Tree removes a directory with everything in it, however deep, wide or closed it
// is, unless another process does that. It opens each directory relative to the one above it, and follows no link. The error is
// of what cannot be removed, the rest is removed.
func Tree(ctx context.Context, trash string) error {
	top, err := dirfd.Open(unix.AT_FDCWD, trash, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: trash, Err: err}
	}
	defer func() { _ = unix.Close(top) }()
	if err := unix.Flock(top, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil // another process removes it
	}
	r := &remover{ctx: ctx, top: top, name: rand.Text()[:16] + "-"}
	// Each round removes at least the directories that the last one has moved up.
	for before := -1; r.moved != before && len(r.errs) == 0 && ctx.Err() == nil; {
		before = r.moved
		r.empty(top, 0)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(r.errs) > 0 {
		return &fs.PathError{Op: "remove", Path: trash, Err: r.errs[0]}
	}
	if err := os.Remove(trash); !errors.Is(err, fs.ErrNotExist) { // another process may just have removed it
		return err
	}
	return nil
}

const (
	maxErrors = 64   // after so many a removal ends
	batch     = 4096 // names that are read before they are removed
)

// empty removes what is in an open directory. It closes nothing.
func (r *remover) empty(dir, depth int) {
	for {
		if _, err := unix.Seek(dir, 0, io.SeekStart); err != nil {
			r.errs = append(r.errs, err)
			return
		}
		var names []string
		err := dirfd.EachName(dir, func(name []byte, _ byte) bool {
			names = append(names, string(name))
			return len(names) < batch
		})
		if err != nil {
			r.errs = append(r.errs, err)
			return
		}
		gone := 0
		for _, name := range names {
			if r.ctx.Err() != nil || len(r.errs) >= maxErrors {
				return
			}
			if r.one(dir, name, depth) {
				gone++
			}
		}
		if len(names) < batch || gone == 0 {
			return
		}
	}
}

// one removes a name in an open directory, and reports whether it is gone from there.
func (r *remover) one(dir int, name string, depth int) bool {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return true
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		r.errs = append(r.errs, err)
		return false
	}
	if unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) == nil {
		return true
	}
	sub, err := OpenFully(dir, name)
	if err != nil {
		if errors.Is(err, unix.ENOTDIR) { // a file that cannot be removed
			err = unix.EPERM
		}
		r.errs = append(r.errs, err)
		return false
	}
	defer func() { _ = unix.Close(sub) }()
	if depth >= deepest {
		r.moved++
		if err := unix.Renameat(dir, name, r.top, r.name+strconv.Itoa(r.moved)); err != nil {
			r.errs = append(r.errs, err)
			return false
		}
		return true
	}
	failed := len(r.errs)
	r.empty(sub, depth+1)
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != nil {
		if len(r.errs) == failed && r.ctx.Err() == nil {
			r.errs = append(r.errs, err)
		}
		return false
	}
	return true
}

// OpenFully opens a directory for reading after giving its owner all rights to it.
func OpenFully(dir int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
	if err := chmodDir(dir, name); err != nil {
		return -1, err
	}
	return dirfd.Open(dir, name, flags)
}

// Here is like Tree, for a directory that is closed to its owner, too.
func Here(ctx context.Context, dir string) error {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return err
	}
	if err := chmodDir(unix.AT_FDCWD, dir); err != nil {
		return err
	}
	return Tree(ctx, dir)
}
