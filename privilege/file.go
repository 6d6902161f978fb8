package privilege

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// updateTime bounds how long an update waits for others to be done with the
// file.
const updateTime = 10 * time.Second

// File is a store in one file of JSON:
//
//	{"version": 1, "principals": {"user:ann": "0x4"}}
//
// Nobody but the file's owner and root may be able to change it, or to put
// another into its place: it is a regular file with one name, it and its
// directory belong to the caller or to root, and no others may write to
// either. Whatever does not look like that is an error for every question. A
// file that is not there holds no grants.
//
// A change is written to a second file beside it, put on disk, and renamed, so
// that readers wait for nobody and find the old file or the new one. Who
// changes holds a lock on a third, NAME.lock, which stays.
type File struct {
	dir, name string
	turn      chan struct{} // held by who changes, one at a time in this process

	mu    sync.Mutex
	cache *snapshot
}

// OpenFile opens the store in the file at path, which need not be there yet:
// the first grant makes it, with mode 0600, and its directory with mode 0700.
// What is wrong with an existing file is told here, and again by every question.
func OpenFile(path string) (Store, error) {
	f, err := newFile(path)
	if err != nil {
		return nil, err
	}
	if _, err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

func newFile(path string) (*File, error) {
	abs, err := filepath.Abs(path)
	if err == nil && path == "" {
		err = errors.New("it has no name")
	}
	if err != nil {
		return nil, &Unavailable{Store: quote(path), Cause: err}
	}
	return &File{dir: filepath.Dir(abs), name: filepath.Base(abs), turn: make(chan struct{}, 1)}, nil
}

// Get is what the file grants to a principal.
func (f *File) Get(ctx context.Context, principal string) (Set, error) {
	if err := errors.Join(ctx.Err(), CheckName(principal)); err != nil {
		return 0, err
	}
	s, err := f.read()
	if err != nil {
		return 0, err
	}
	return s.grants[principal], nil
}

// List is all that the file grants.
func (f *File) List(ctx context.Context) (map[string]Set, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := f.read()
	if err != nil {
		return nil, err
	}
	return maps.Clone(s.grants), nil
}

// Update changes one line of the file. It waits at most ten seconds for others
// to be done, and less where ctx ends.
func (f *File) Update(ctx context.Context, principal string, change func(Set) Set) (before, after Set, err error) {
	if err := CheckName(principal); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, updateTime)
	defer cancel()
	unlock, err := f.lock(ctx)
	if err != nil {
		return 0, 0, f.unavailable(err)
	}
	defer unlock()
	s, err := f.read()
	if err != nil {
		return 0, 0, err
	}
	before = s.grants[principal]
	after = change(before)
	if after == before {
		return before, after, nil
	}
	grants := maps.Clone(s.grants)
	grants[principal] = after
	if after == 0 {
		delete(grants, principal)
	}
	if err := f.write(grants, s.mode()); err != nil {
		return 0, 0, f.unavailable(err)
	}
	return before, after, nil
}

// Close forgets what was read.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
	return nil
}

// Owned says whether the file at path belongs to the user who runs this
// program, or will, because there is none: then that is an administrator of
// it. It says no in doubt.
func Owned(path string) bool {
	f, err := newFile(path)
	if err != nil {
		return false
	}
	for at := filepath.Join(f.dir, f.name); ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		switch {
		case err == nil:
			return ownerOf(info) == os.Geteuid()
		case !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at):
			return false
		}
	}
}

func (f *File) unavailable(err error) error {
	if u := (*Unavailable)(nil); errors.As(err, &u) {
		return err
	}
	u := &Unavailable{Store: filepath.Join(f.dir, f.name), Cause: err}
	if broken := (*brokenError)(nil); errors.As(err, &broken) {
		u.Hint = broken.hint
	}
	return u
}
