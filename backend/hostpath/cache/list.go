package cache

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// background is the context of work that ends with the process.
var background = context.Background()

// Cache is a cache of the store.
type Cache struct {
	Key
	Dir      string
	Used     time.Time // when a sandbox last began to use it
	InUse    bool
	Bytes    int64     // when it was last measured
	Partial  bool      // it has more
	Measured time.Time // zero: never
}

// List returns all caches of the store, the last used first, and the trash of removals that
// were interrupted.
func (s *Store) List() (caches []Cache, trash []string, err error) {
	if !s.exists {
		return nil, nil, nil
	}
	dirs, err := filepath.Glob(filepath.Join(escapeGlob(s.Dir), "*", "*"))
	if err != nil {
		return nil, nil, err
	}
	for _, dir := range dirs {
		names, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		for _, entry := range names {
			at := filepath.Join(dir, entry.Name())
			switch {
			case strings.HasPrefix(entry.Name(), trashPrefix):
				trash = append(trash, at)
			case entry.IsDir():
				caches = append(caches, look(at))
			}
		}
	}
	slices.SortFunc(caches, func(a, b Cache) int { return b.Used.Compare(a.Used) })
	return caches, trash, nil
}

// escapeGlob returns the pattern that matches a path alone.
func escapeGlob(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// look returns what is known of a cache without looking into it. Without a record, the
// workspace is unknown.
func look(dir string) Cache {
	c := Cache{Dir: dir, Key: Key{Tool: filepath.Base(dir)}}
	if r, err := readRecord(dir); err == nil {
		c.Workspace, c.Principal, c.Bytes, c.Partial, c.Measured = r.Workspace, r.Principal, r.Bytes, r.Partial, r.Measured
	}
	info, err := os.Lstat(dir + lockSuffix)
	if err != nil {
		return c
	}
	c.Used = info.ModTime()
	if lock, err := os.OpenFile(dir+lockSuffix, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil {
		c.InUse = errors.Is(unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
		_ = lock.Close()
	}
	return c
}

// Measure measures a cache, unless that was done within a day, and keeps the result.
func (s *Store) Measure(ctx context.Context, c Cache) (Cache, error) {
	if !c.Measured.IsZero() && time.Since(c.Measured) < fresh {
		return c, nil
	}
	bytes, partial, err := measure(ctx, c.Dir)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return c, err
	}
	c.Bytes, c.Partial, c.Measured = bytes, partial, time.Now()
	err = writeRecord(c.Dir, record{Version: recordVersion, Tool: c.Tool, Workspace: c.Workspace, Principal: c.Principal, Bytes: bytes, Partial: partial, Measured: c.Measured})
	if _, gone := os.Lstat(c.Dir); err == nil && gone != nil { // it was removed meanwhile
		err = os.Remove(c.Dir + recordSuffix)
	}
	return c, err
}

// Remove removes a cache. If a sandbox uses it, the error is [ErrInUse].
func (s *Store) Remove(ctx context.Context, c Cache) error {
	trash, err := s.discard(c.Dir)
	if err == nil {
		err = remove(ctx, trash)
	}
	s.prune(filepath.Dir(c.Dir))
	return err
}

// Clean removes the trash of interrupted removals.
func (s *Store) Clean(ctx context.Context, trash []string) error {
	var errs []error
	for _, dir := range trash {
		errs = append(errs, remove(ctx, dir))
		s.prune(filepath.Dir(dir))
	}
	return errors.Join(errs...)
}

// prune removes a directory of the store and the one above it if they are empty.
func (s *Store) prune(dir string) {
	if os.Remove(dir) == nil {
		_ = os.Remove(filepath.Dir(dir)) // it may have others
	}
}

// Due reports whether nobody has trimmed the store for a while, and notes that the caller now
// does.
func (s *Store) Due() bool {
	stamp := filepath.Join(s.Dir, ".trimmed")
	info, err := os.Lstat(stamp)
	if err == nil && time.Since(info.ModTime()) < trimEvery {
		return false
	}
	file, err := os.OpenFile(stamp, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false
	}
	defer file.Close()
	now := time.Now()
	return os.Chtimes(stamp, now, now) == nil
}

// trimEvery is how often starts trim the store.
const trimEvery = 10 * time.Minute

// Trim measures the caches that are due, removes trash, and then removes the caches that were
// used least recently, until the rest is not larger than most bytes, or in use. A HOME is
// never removed.
func (s *Store) Trim(ctx context.Context, most int64) (removed []Cache, err error) {
	caches, trash, err := s.List()
	if err != nil {
		return nil, err
	}
	errs := []error{s.Clean(ctx, trash)}
	var sum int64
	for i, c := range caches {
		if caches[i], err = s.Measure(ctx, c); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		sum += caches[i].Bytes
	}
	for _, c := range slices.Backward(caches) {
		if sum <= most || ctx.Err() != nil {
			break
		}
		if c.Tool == Home || c.InUse {
			continue
		}
		switch err := s.Remove(ctx, c); {
		case errors.Is(err, ErrInUse):
		case err != nil:
			errs = append(errs, err)
		default:
			sum -= c.Bytes
			removed = append(removed, c)
		}
	}
	return removed, errors.Join(errs...)
}
