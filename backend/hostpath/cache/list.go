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

	"github.com/paddock-dev/paddock/backend/hostpath/removal"
)

// background is the context of work that ends with the process.
var background = context.Background()

// Cache is a cache of the store.
type Cache struct {
	Key      // without a workspace and a principal if its record is damaged
	Dir      string
	Used     time.Time // when a sandbox last began to use it
	InUse    bool
	Bytes    int64     // when it was last measured
	Partial  bool      // it has more
	Measured time.Time // zero: never
}

// List returns all caches of the store, the last used first, and the trash of removals that
// were interrupted. What Paddock has not made is neither, whatever its name.
func (s *Store) List() (caches []Cache, trash []string, err error) {
	if !s.exists {
		return nil, nil, nil
	}
	hash := strings.Repeat("[0-9a-f]", 24)
	dirs, err := filepath.Glob(filepath.Join(escapeGlob(s.Dir), hash, hash))
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
			case entry.IsDir() && known(entry.Name()):
				if c, ok := s.look(at); ok {
					caches = append(caches, c)
				}
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

// known reports whether a cache can have this name.
func known(tool string) bool {
	return tool == Home || slices.ContainsFunc(Tools(), func(t Tool) bool { return t.Name == tool })
}

// look returns what is known of a cache without looking into it. What has a record for another
// place is no cache. Where the record is damaged, the lock beside it shows that Paddock has
// made the cache: the lock is made before and removed after it, and is always empty, so that a
// full disk or a killed process cannot damage it.
func (s *Store) look(dir string) (c Cache, ok bool) {
	r, err := readRecord(dir)
	if err != nil {
		if info, err := os.Lstat(dir + lockSuffix); err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
			return c, false
		}
		r = record{Tool: filepath.Base(dir)}
	} else if filepath.Join(s.Dir, r.path()) != dir {
		return c, false
	}
	return Cache{Dir: dir, Key: Key{Workspace: string(r.Workspace), Principal: r.Principal, Tool: r.Tool},
		Bytes: r.Bytes, Partial: r.Partial, Measured: r.Measured}.locked(), true
}

// locked returns a cache with what its lock says.
func (c Cache) locked() Cache {
	dir := c.Dir
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

// Measure measures a cache, unless the last result that was kept is of less than a day ago.
func (s *Store) Measure(ctx context.Context, c Cache) (Cache, error) {
	if !c.Measured.IsZero() && time.Since(c.Measured) < fresh {
		return c, nil
	}
	bytes, partial, err := measure(ctx, c.Dir)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		c.Bytes, c.Partial, c.Measured = bytes, partial, time.Now()
	}
	return c, err
}

// keep writes what was measured into the record, unless that is damaged. The lock, which it
// shares with starts, keeps the cache from being removed meanwhile.
func keep(c Cache) error {
	if c.Workspace == "" {
		return nil
	}
	lock, err := os.OpenFile(c.Dir+lockSuffix, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return fs.ErrNotExist // it is being removed
	}
	held, err := lock.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(c.Dir + lockSuffix)
	if err != nil || !os.SameFile(held, there) {
		return fs.ErrNotExist // it was removed
	}
	r, err := readRecord(c.Dir)
	if err != nil || r.Measured.Equal(c.Measured) {
		return err
	}
	r.Bytes, r.Partial, r.Measured = c.Bytes, c.Partial, c.Measured
	return writeRecord(c.Dir, r)
}

// Remove removes a cache. If a sandbox uses it, the error is [ErrInUse].
func (s *Store) Remove(ctx context.Context, c Cache) error {
	trash, err := s.discard(ctx, c.Dir)
	if err == nil && trash != "" {
		err = removal.Tree(ctx, trash)
	}
	s.prune(filepath.Dir(c.Dir))
	return err
}

// Clean removes the trash of interrupted removals.
func (s *Store) Clean(ctx context.Context, trash []string) error {
	var errs []error
	for _, dir := range trash {
		errs = append(errs, removal.Tree(ctx, dir))
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

// Trim measures the caches that are due, and removes trash, the caches of which only a part
// could be measured, and then those that were used least recently, until the rest is not larger
// than most bytes, or in use. A HOME is never removed.
func (s *Store) Trim(ctx context.Context, most int64) (removed []Cache, err error) {
	caches, trash, err := s.List()
	if err != nil {
		return nil, err
	}
	errs := []error{s.Clean(ctx, trash)}
	var sum int64
	for i, c := range caches {
		if c.Tool == Home { // it is not bounded
			continue
		}
		if caches[i], err = s.Measure(ctx, c); err == nil {
			err = keep(caches[i])
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		sum += caches[i].Bytes
	}
	slices.SortStableFunc(caches, func(a, b Cache) int { // those last whose size commands may have hidden
		switch {
		case a.Partial == b.Partial:
			return 0
		case a.Partial:
			return 1
		}
		return -1
	})
	for _, c := range slices.Backward(caches) {
		if sum <= most && !c.Partial || ctx.Err() != nil {
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
