//go:build linux

package state

import (
	"cmp"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
)

const (
	// unreportedDir has a file for each sandbox, with the state before its commands
	// ran. The file stays until the changes have been reported to a user. The owner
	// holds a lock on the file, so a file that is not locked belongs to a killed owner.
	unreportedDir = "unreported"
	// maxUnreported is how many files are taken at a time, and maxUnreportedSize
	// the largest size of each in bytes.
	maxUnreported     = 32
	maxUnreportedSize = 64 << 20
	// maxKept is about how many files there may be of sandboxes that have ended. If there are
	// more, some are removed. One in counted starts counts them.
	maxKept = 512
	counted = 16
)

// Unreported is the stored state of one sandbox.
type Unreported struct {
	id   string
	file *os.File
	path string
}

// KeepUnreported stores a text until [Unreported.Forget], even if this process is killed.
// It is written completely or not at all, but not synced: the sandbox does not outlive a
// crash of the host.
func KeepUnreported(root, id string, text []byte) (*Unreported, error) {
	dir := filepath.Join(root, unreportedDir)
	name := filepath.Join(dir, id)
	const flags = os.O_CREATE | os.O_EXCL | os.O_RDWR
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	below, err := OpenDir(root, unreportedDir)
	if err != nil {
		return nil, err
	}
	defer below.Close()
	f, err := os.OpenFile(name+".new", flags, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		_, err = f.Write(text)
	}
	if err == nil { // an earlier run of the same sandbox may have left one: it becomes another's
		if old := (&Unreported{path: name}); Exists(name) {
			if _, free := old.tryLock(); free {
				err = os.Rename(name, filepath.Join(dir, backend.NewID()))
				old.Release()
			}
		}
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(name + ".new")
		return nil, err
	}
	if rand.N(counted) == 0 && len(Names(below)) > maxKept+len(paths(root)) { //nolint:gosec // nobody gains anything by knowing which
		for _, u := range TakeUnreported(root) {
			u.Forget()
		}
	}
	return &Unreported{id: id, file: f, path: name}, nil
}

// File returns the file, whose lock shows that it has an owner.
func (u *Unreported) File() *os.File { return u.file }

// AdoptUnreported returns the stored state whose file another process has handed over.
func AdoptUnreported(root, id string, file *os.File) *Unreported {
	return &Unreported{id: id, file: file, path: filepath.Join(root, unreportedDir, id)}
}

// TakeUnreported returns what killed owners left whose sandboxes have ended, the oldest
// first. Nobody else gets the same before [Unreported.Release].
func TakeUnreported(root string) []*Unreported {
	dir, err := OpenDir(root, unreportedDir)
	if err != nil {
		return nil // New refuses to start
	}
	defer dir.Close()
	type old struct {
		u  *Unreported
		at time.Time
	}
	var found []old
	for _, name := range Some(dir, 2*maxUnreported) {
		if len(found) == maxUnreported {
			break
		}
		id, half := strings.CutSuffix(name, ".new")
		if !IsID(id) {
			continue
		}
		if half {
			if info, err := dir.Lstat(name); err == nil && time.Since(info.ModTime()) > settle {
				_ = dir.Remove(name)
			}
			continue
		}
		u := &Unreported{id: id, path: filepath.Join(root, unreportedDir, id)}
		at, ok := u.tryLock() // the owner of one that runs has it
		switch {
		case !ok:
		case nothingRuns(filepath.Join(root, sandboxesDir, id)):
			found = append(found, old{u, at})
		default:
			u.Release()
		}
	}
	slices.SortFunc(found, func(a, b old) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	taken := make([]*Unreported, len(found))
	for i, f := range found {
		taken[i] = f.u
	}
	return taken
}

// nothingRuns reports whether nothing of a sandbox runs any more.
func nothingRuns(dir string) bool {
	if !Exists(dir) {
		return true
	}
	lock, err := takeLock(dir)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer lock.Close()
	r, err := Read(dir)
	return err == nil && !r.Kept && hasEnded(r.PID, r.Start)
}

// hasEnded reports whether a process has ended, even if it has not been waited for yet.
func hasEnded(pid int, start uint64) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	if !Alive(pid, start) {
		return true
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n == 1
}

// tryLock locks the file, if no other process has.
func (u *Unreported) tryLock() (at time.Time, ok bool) {
	fd, err := unix.Open(u.path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return at, false
	}
	var st unix.Stat_t
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil || unix.Fstat(fd, &st) != nil || st.Nlink == 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = unix.Close(fd)
		return at, false
	}
	u.file = os.NewFile(uintptr(fd), u.path)
	return time.Unix(st.Mtim.Unix()), true
}

// Name returns the id of the sandbox.
func (u *Unreported) Name() string { return u.id }

// Text returns the stored text.
func (u *Unreported) Text() ([]byte, error) {
	text, err := io.ReadAll(io.NewSectionReader(u.file, 0, maxUnreportedSize+1))
	if err == nil && len(text) > maxUnreportedSize {
		err = errors.New("too large")
	}
	return text, err
}

// Forget removes the file, once the changes have been reported.
func (u *Unreported) Forget() {
	_ = os.Remove(u.path)
	_ = u.file.Close()
}

// Release leaves the file to somebody else.
func (u *Unreported) Release() { _ = u.file.Close() }
