// Package cache keeps the directories that stay between sandboxes: caches of tools, and
// HOME. Each belongs to one workspace, one principal and one tool, because whoever writes
// into a build cache decides what later builds do.
//
//	STORE/.paddock-store                marks the directory as Paddock's
//	STORE/WORKSPACE/PRINCIPAL/go        what commands see, at the same path
//	STORE/WORKSPACE/PRINCIPAL/go.json   for whom it is, and its size when last measured
//	STORE/WORKSPACE/PRINCIPAL/go.lock   locked while sandboxes use it; last used at its
//	                                    modification time
//
// WORKSPACE and PRINCIPAL are hashes. What lies in a cache is hostile: this package only
// measures and removes it, through handles and without following links, and nothing else of
// the host's reads it.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/removal"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
)

// DirEnv is the environment variable with the path of the store.
const DirEnv = "PADDOCK_CACHE_DIR"

// RootStore is root's store if no variable names one. HOME and its like do not count for
// root: they may be another user's.
var RootStore = "/var/cache/paddock"

// Place returns the path of the store, over whatever links, and the variable that names
// it, if one does: $PADDOCK_CACHE_DIR, else [Usual].
func Place() (dir, field string, err error) {
	if dir := os.Getenv(DirEnv); dir != "" {
		dir, err = hostpath.Abs(dir)
		return dir, DirEnv, err
	}
	dir, err = Usual()
	return dir, "", err
}

// Usual returns the path of the store if no variable names one: for root [RootStore], for
// others $XDG_CACHE_HOME/paddock, else ~/.cache/paddock. Without a home the error is
// hostpath.ErrNoHome.
func Usual() (string, error) {
	if os.Geteuid() == 0 {
		return RootStore, nil
	}
	// The XDG specification tells programs to ignore a relative value.
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "paddock"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", hostpath.ErrNoHome
	}
	return filepath.Join(home, ".cache", "paddock"), nil
}

// Store is the directory with everything that stays.
type Store struct {
	Dir string // free of symbolic links

	exists bool
}

// Open finds the store, and makes nothing. It refuses a store that commands of a sandbox or
// other users could have put there, by what a start has read about the host, and a directory
// that has other things in it, since whole directories of the store are removed.
func Open(seen *hostpath.Seen) (*Store, error) {
	dir, field, err := Place()
	if err != nil {
		return nil, err
	}
	way, err := seen.Trust(backend.OwnFile{Path: dir, What: "the cache directory", Field: field, Dir: true})
	if err != nil {
		return nil, err
	}
	s := &Store{Dir: way.Path, exists: way.Exists}
	if way.Exists {
		if err = s.private(s.Dir); err == nil {
			err = s.ours()
		}
	}
	return s, err
}

// markName is the name of the file that marks a directory as a store.
const markName = ".paddock-store"

// ours refuses a directory that has no mark and is not empty.
func (s *Store) ours() error {
	dir, err := os.Open(s.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := dir.Readdirnames(1); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	info, err := os.Lstat(filepath.Join(s.Dir, markName)) // the first file of a store
	if err == nil && info.Mode().IsRegular() {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return hostpath.Refuse("the cache directory", s.Dir, "it has files that are not Paddock's", "name a directory that is empty or does not exist: "+DirEnv+"="+policy.ShellWord(filepath.Join(s.Dir, "paddock")))
}

// Foreign reports whether a directory is no store, and cannot become one, because other things
// are in it.
func Foreign(dir string) bool {
	e := (*policy.FieldError)(nil)
	return errors.As((&Store{Dir: dir}).ours(), &e)
}

// mark makes the store, if it does not exist, and marks it.
func (s *Store) mark() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	if err := s.private(s.Dir); err != nil {
		return err
	}
	name := filepath.Join(s.Dir, markName)
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	if err := s.ours(); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// private refuses a directory of the store that others may use.
func (s *Store) private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	refuse := func(why, hint string) error { return hostpath.Refuse("the cache directory", dir, why, hint) }
	const elsewhere = "remove it, or choose another place for the caches with " + DirEnv
	switch st, ok := info.Sys().(*syscall.Stat_t); {
	case info.Mode()&fs.ModeSymlink != 0:
		return refuse("it is a symbolic link", elsewhere)
	case !info.IsDir():
		return refuse("it is not a directory", elsewhere)
	case !ok || int(st.Uid) != os.Geteuid():
		return refuse("it belongs to another user", elsewhere)
	case info.Mode().Perm()&0o077 != 0:
		return refuse(fmt.Sprintf("it is open to others (mode %04o)", info.Mode().Perm()), "chmod 700 "+dir)
	}
	return nil
}

// Key names one cache.
type Key struct {
	Workspace string // free of symbolic links
	Principal string
	Tool      string
}

// place returns the path of a cache and its record. The workspace counts by its path and by
// its directory's identity, so that another directory in its place has caches of its own.
func (s *Store) place(k Key) (string, record, error) {
	way, err := hostpath.Follow(k.Workspace)
	if err != nil {
		return "", record{}, err
	}
	if !way.IsDir() {
		return "", record{}, &fs.PathError{Op: "open", Path: k.Workspace, Err: unix.ENOTDIR}
	}
	r := record{Version: recordVersion, Tool: k.Tool, Workspace: osstring.String(way.Path), Identity: fmt.Sprintf("%d %d", way.Ino, way.Born), Principal: k.Principal}
	return filepath.Join(s.Dir, r.path()), r, nil
}

// hash returns a name for a text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// Find returns the path of a cache, and whether it exists.
func (s *Store) Find(k Key) (dir string, exists bool, err error) {
	if dir, _, err = s.place(k); err != nil {
		return "", false, err
	}
	if _, err = os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return dir, false, nil
	}
	return dir, err == nil, err
}

// Used is a cache that a sandbox uses. It is not removed before [Used.Release].
type Used struct {
	Dir  string
	lock *os.File
}

// Release ends the use.
func (u *Used) Release() { _ = u.lock.Close() }

// File returns the file whose lock shows that the cache is used.
func (u *Used) File() *os.File { return u.lock }

// Adopt returns a cache whose use another process has handed over.
func Adopt(lock *os.File) *Used { return &Used{lock: lock} }

// Use makes a cache, if it does not exist, and marks it as used until Release, or until this
// process ends. One that is larger than most bytes by its record, or that could be measured only
// in part, is emptied before, unless it is in use or HOME. While it is being removed, Use waits,
// for at most 10 seconds or until ctx ends.
func (s *Store) Use(ctx context.Context, k Key, most int64) (*Used, error) {
	dir, fresh, err := s.place(k)
	if err == nil {
		err = s.mark()
	}
	if err != nil {
		return nil, err
	}
	parent := filepath.Dir(dir)
	for _, dir := range []string{filepath.Dir(parent), parent} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err := s.private(dir); err != nil {
			return nil, err
		}
	}
	if r, err := readRecord(dir); err == nil && (r.Bytes > most || r.Partial) && k.Tool != Home {
		if trash, err := s.discard(background, dir); err == nil && trash != "" { // else others use it, or it is gone
			go func() { _ = removal.Tree(background, trash) }()
		}
	}
	for {
		lock, err := acquire(ctx, dir, unix.LOCK_SH)
		if err == nil {
			if err = s.ready(dir, fresh); err == nil {
				return &Used{Dir: dir, lock: lock}, nil
			}
			_ = lock.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := os.MkdirAll(parent, 0o700); err != nil { // it was removed meanwhile
			return nil, err
		}
	}
}

// ready makes the record of a cache, if it has none that fits, and then its directory: a
// cache without a record would not be found again. Commands can change the mode of the
// directory itself: it becomes the user's again.
func (s *Store) ready(dir string, fresh record) error {
	if old, err := readRecord(dir); err != nil || old.path() != fresh.path() {
		if err := writeRecord(dir, fresh); err != nil {
			return err
		}
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && info.IsDir() && info.Mode().Perm() != 0o700 {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Geteuid() {
			err = os.Chmod(dir, 0o700) // only the caller could replace it by a link
		}
	}
	if err == nil {
		err = s.private(dir)
	}
	return err
}

// MountPoints makes a directory of a cache, and directories in it, for mounts of a sandbox.
// Commands may have put anything there, and no link is followed.
func (s *Store) MountPoints(cache, dir string, names ...string) error {
	at, err := dirfd.Open(unix.AT_FDCWD, cache, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	below, err := makeDir(at, dir)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(below) }()
	for _, name := range names {
		fd, err := makeDir(below, name)
		if err != nil {
			return err
		}
		_ = unix.Close(fd)
	}
	return nil
}

// makeDir opens a directory in another one, and makes it if it does not exist.
func makeDir(at int, name string) (int, error) {
	if err := unix.Mkdirat(at, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return dirfd.Open(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
}

// acquire locks a cache: shared for its use, exclusively for its removal. An exclusive lock
// does not wait: if others use it the error is [ErrInUse].
func acquire(ctx context.Context, dir string, how int) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lockTime, errRemoving)
	defer cancel()
	for {
		file, err := os.OpenFile(dir+lockSuffix, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			err = unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		}
		if errors.Is(err, unix.EWOULDBLOCK) && how == unix.LOCK_SH {
			_ = file.Close()
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("%s: %w", dir, context.Cause(ctx))
			case <-time.After(lockPause):
			}
			continue
		}
		var held, there os.FileInfo
		if err == nil {
			held, err = file.Stat()
		}
		if err == nil {
			there, err = os.Lstat(file.Name())
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(held, there): // removed with its cache meanwhile
			_ = file.Close()
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			err = ErrInUse
		}
		if err == nil && how == unix.LOCK_SH {
			now := time.Now()
			err = os.Chtimes(file.Name(), now, now)
		}
		if err != nil {
			_ = file.Close()
			return nil, err
		}
		return file, nil
	}
}

// How long a start waits for a removal to end, and between two looks.
const (
	lockTime  = 10 * time.Second
	lockPause = 10 * time.Millisecond
)

var errRemoving = errors.New("it is being removed, and that takes long")

// ErrInUse is the error of removing a cache that a sandbox uses.
var ErrInUse = errors.New("a sandbox uses it")

const (
	lockSuffix    = ".lock"
	recordSuffix  = ".json"
	recordVersion = 1
	maxRecord     = 64 << 10 // bytes
)

// record says for whom a cache is.
type record struct {
	Version   int             `json:"version"`
	Tool      string          `json:"tool"`
	Workspace osstring.String `json:"workspace"`
	Identity  string          `json:"identity"` // the inode and the birth of the workspace
	Principal string          `json:"principal"`
	Bytes     int64           `json:"bytes"`             // when it was last measured
	Partial   bool            `json:"partial,omitempty"` // it has more than Bytes
	Measured  time.Time       `json:"measured,omitzero"`
}

// path returns where in the store the cache is that the record is for.
func (r record) path() string {
	return filepath.Join(hash(fmt.Sprintf("workspace %q %s", r.Workspace, r.Identity)), hash("principal "+r.Principal), r.Tool)
}

func readRecord(dir string) (record, error) {
	var r record
	file, err := os.OpenFile(dir+recordSuffix, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return r, err
	}
	defer file.Close()
	text := make([]byte, maxRecord)
	n, err := file.Read(text)
	if err == nil {
		err = json.Unmarshal(text[:n], &r)
	}
	if err == nil && r.Version != recordVersion {
		err = errors.New("its record is of another version")
	}
	return r, err
}

// writeRecord replaces a record. Several starts may do that at once.
func writeRecord(dir string, r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(dir), ".record-") // mode 0600
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), dir+recordSuffix)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
