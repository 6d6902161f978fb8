//go:build linux

// Package kept has the records of sandboxes that outlive their creators:
//
//	kept/lock              held while a name is taken or freed
//	kept/<id>/lock         held by the process that acts on the sandbox: it starts, ends or removes it
//	          record.json  the record
//	          record.new   the next one, while it is written
//	          scratch      its workspace, if it has one of its own
//	names/<key>            the id of the sandbox of that key: its name, or that of [Key]
//
// A directory without a record is half made, and nothing if its lock is free. A record is
// replaced as a whole and is on the disk before anything else happens because of it, so a
// crash at any instant leaves the old one or the new one.
package kept

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/removal"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/policy"
)

const (
	keptDir    = "kept"
	namesDir   = "names"
	lockName   = "lock"
	recordName = "record.json"
	// scratchName is the directory of a workspace of its own.
	scratchName = "scratch"
	nextName    = "record.new"
	maxRecord   = 16 << 20 // bytes
	version     = 1
)

// The statuses of a record.
const (
	Running = "running" // it has a keeper, unless that was killed
	Stopped = "stopped"
)

// What happens when a sandbox's time is up.
const (
	ThenStop   = "stop"
	ThenRemove = "remove"
)

// Record is what is known about a sandbox.
type Record struct {
	Version   int               `json:"version"`
	ID        string            `json:"id"`
	Name      string            `json:"name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Principal string            `json:"principal,omitempty"`
	// Served says that a server made it for Principal, which has names of its own ([Key]).
	Served bool `json:"served,omitempty"`
	// Scratch says that its workspace is in this directory ([Scratch]), and ends with the record.
	Scratch bool              `json:"scratch,omitempty"`
	Spec    policy.StoredSpec `json:"spec"` // as it was asked for, without the variables that may be secret
	Secret  []string          `json:"secret,omitempty"`
	Created time.Time         `json:"created"`
	Idle    time.Duration     `json:"idle,omitempty"`
	Life    time.Duration     `json:"life,omitempty"`
	Then    string            `json:"then,omitempty"`
	Status  string            `json:"status"`
	// Boot is the host's boot in which it was started last, and Started when.
	Boot    string    `json:"boot,omitempty"`
	Started time.Time `json:"started,omitzero"`
	// Keeper and Agent are its processes since then, in that boot.
	Keeper state.Process `json:"keeper,omitzero"`
	Agent  state.Process `json:"agent,omitzero"`
	End    *End          `json:"end,omitempty"` // the last one
}

// End is how a sandbox ended.
type End struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	// Proved says that the kernel has confirmed the end of every process inside.
	Proved bool `json:"proved"`
	// Changes are what Left says, for programs.
	Changes json.RawMessage `json:"changes,omitempty"`
	// Left is what the commands left that the host would execute or obey, as text; Log what
	// its agent said, and Error what the end could not do.
	Left  string `json:"left,omitempty"`
	Log   string `json:"log,omitempty"`
	Error string `json:"error,omitempty"`
}

// Called returns what the command line calls it: the name, or the id without one. Names of a
// server's sandboxes are their principals' own.
func (r *Record) Called() string {
	if r.Name != "" && !r.Served {
		return r.Name
	}
	return r.ID
}

// Key returns what the sandbox is found by, "" if it is only found by its id.
func (r *Record) Key() string {
	if r.Served {
		return Key(r.Principal, r.Name)
	}
	return r.Name
}

// Key returns what a sandbox is found by that a server made for a principal and that has this
// name there. No name is one, and no other principal has it.
func Key(principal, name string) string { return keyPrefix(principal) + name }

func keyPrefix(principal string) string {
	sum := sha256.Sum256([]byte(principal))
	return hex.EncodeToString(sum[:12]) + ":"
}

// isKey reports whether a text has the form of a [Key].
func isKey(text string) bool {
	owner, name, ok := strings.Cut(text, ":")
	return ok && len(owner) == 24 && strings.Trim(owner, "0123456789abcdef") == "" && ValidName(name)
}

// Errors that callers distinguish.
var (
	ErrTaken   = errors.New("the name is taken")
	ErrMany    = errors.New("the principal has as many as it can have")
	ErrUnknown = errors.New("no such sandbox")
	ErrBusy    = errors.New("another process is acting on it")
)

// Entry is a sandbox's directory, and its lock, which this process holds.
type Entry struct {
	root, id string
	lock     *os.File
}

// ValidName reports whether a sandbox can have the name: it is none that an id has.
func ValidName(name string) bool {
	for i, c := range []byte(name) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return name != "" && len(name) <= 64 && !state.IsID(name)
}

// Boot returns the id of the host's present boot.
var Boot = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // "" has never been booted
	return strings.TrimSpace(string(text))
})

// Reserve makes the directory of a new sandbox, and takes the key, if that is not empty. It
// stays half made until a record is written.
func Reserve(root, id, name string) (*Entry, error) { return ReserveOf(root, id, name, 0) }

// ReserveOf is Reserve for a key of [Key]. If its principal has most sandboxes already, running or
// not or being made, the error is [ErrMany]. 0: no bound.
func ReserveOf(root, id, name string, most int) (*Entry, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	for _, dir := range []string{keptDir, namesDir} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	unlock, err := lockNames(root)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if name != "" {
		if _, taken, err := holder(root, name); err != nil {
			return nil, err
		} else if taken {
			return nil, ErrTaken
		}
	}
	if most > 0 && countOf(root, name) >= most {
		return nil, ErrMany
	}
	if err := os.Mkdir(Dir(root, id), 0o700); err != nil {
		return nil, err
	}
	e := &Entry{root: root, id: id}
	if e.lock, err = openLock(root, filepath.Join(keptDir, id), unix.LOCK_EX|unix.LOCK_NB); err == nil && name != "" {
		if err = hostpath.Replace(filepath.Join(root, namesDir, name), 0o600, []byte(id+"\n")); err == nil {
			err = syncDir(filepath.Join(root, namesDir))
		}
	}
	if err != nil {
		_ = os.RemoveAll(Dir(root, id))
		return nil, err
	}
	return e, nil
}

// Dir returns the directory of a sandbox.
func Dir(root, id string) string { return filepath.Join(root, keptDir, id) }

// Scratch returns the workspace of a sandbox that has one of its own.
func Scratch(root, id string) string { return filepath.Join(Dir(root, id), scratchName) }

// countOf returns how many keys of the principal of a key are taken. The caller holds the lock of
// all names.
func countOf(root, key string) (n int) {
	dir, err := state.OpenDir(root, namesDir)
	if err != nil {
		return 0
	}
	defer dir.Close()
	owner, _, _ := strings.Cut(key, ":")
	for _, name := range state.Names(dir) {
		if !strings.HasPrefix(name, owner+":") {
			continue
		}
		if _, taken, err := holder(root, name); err != nil || taken {
			n++
		}
	}
	return n
}

// holder returns the id of the sandbox that has a name. A name whose sandbox was removed, or
// never finished, is free.
func holder(root, name string) (id string, taken bool, err error) {
	text, err := hostpath.Read(context.Background(), root, filepath.Join(namesDir, name), 64)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	if id = strings.TrimSpace(string(text)); !state.IsID(id) {
		return "", false, nil
	}
	if r, err := Read(root, id); err == nil {
		return id, r.Key() == name, nil
	}
	lock, err := openLock(root, filepath.Join(keptDir, id), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		_ = lock.Close()
		return id, false, nil
	}
	return id, errors.Is(err, unix.EWOULDBLOCK), nil // it is being made
}

// lockNames takes the lock of all names.
func lockNames(root string) (unlock func(), err error) {
	lock, err := openLock(root, keptDir, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// openLock takes the lock in a directory. It fails if that was removed meanwhile.
func openLock(root, dir string, how int) (*os.File, error) {
	top, err := state.OpenDir(root, dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	f, err := top.OpenFile(lockName, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err == nil {
		var held, there fs.FileInfo
		if held, err = f.Stat(); err == nil {
			there, err = top.Lstat(lockName)
		}
		if err == nil && !os.SameFile(held, there) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Act takes the lock of a sandbox. While another process acts on it, it waits until ctx ends:
// the error is then [ErrBusy].
func Act(ctx context.Context, root, id string) (*Entry, error) {
	for {
		lock, err := openLock(root, filepath.Join(keptDir, id), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return &Entry{root: root, id: id, lock: lock}, nil
		case errors.Is(err, fs.ErrNotExist):
			return nil, ErrUnknown
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ErrBusy
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Adopt returns the entry whose lock another process has handed over.
func Adopt(root, id string, lock *os.File) *Entry { return &Entry{root: root, id: id, lock: lock} }

// Read reads the record of a sandbox. fs.ErrNotExist: it was removed, or is half made.
func Read(root, id string) (*Record, error) {
	text, err := hostpath.Read(context.Background(), root, filepath.Join(keptDir, id, recordName), maxRecord)
	if err != nil {
		return nil, err
	}
	r := &Record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("its record is damaged: %w", err)
	}
	if r.Version != version || r.ID != id {
		return nil, errors.New("its record is of another version, or of another sandbox")
	}
	return r, nil
}

// Find returns the id of the sandbox with this name, key or id. The error is [ErrUnknown] if there
// is none.
func Find(root, name string) (string, error) {
	if state.IsID(name) {
		if _, err := Read(root, name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return name, err
		}
		return "", ErrUnknown
	}
	if !ValidName(name) && !isKey(name) {
		return "", ErrUnknown
	}
	id, taken, err := holder(root, name)
	if err == nil && !taken {
		err = ErrUnknown
	}
	return id, err
}

// List returns all records, the oldest first, and the ids of those that cannot be read, with
// the reasons.
func List(root string) (all []*Record, damaged map[string]error) {
	dir, err := state.OpenDir(root, keptDir)
	if err != nil {
		return nil, nil
	}
	defer dir.Close()
	ids := slices.DeleteFunc(state.Names(dir), func(name string) bool { return !state.IsID(name) })
	records, errs := make([]*Record, len(ids)), make([]error, len(ids))
	state.Each(len(ids), func(i int) { records[i], errs[i] = Read(root, ids[i]) })
	damaged = map[string]error{}
	for i, id := range ids {
		switch err := errs[i]; {
		case err == nil:
			all = append(all, records[i])
		case !errors.Is(err, fs.ErrNotExist):
			damaged[id] = err
		}
	}
	slices.SortStableFunc(all, func(a, b *Record) int { return a.Created.Compare(b.Created) })
	return all, damaged
}

// swept is how many sandboxes a sweep looks at.
const swept = 24

// Sweep removes what creators that were killed have left half made: of many, a part. also removes
// what else there is of a sandbox; if it fails, a later sweep tries again.
func Sweep(root string, also func(id string) error) {
	dir, err := state.OpenDir(root, keptDir)
	if err != nil {
		return
	}
	defer dir.Close()
	for _, id := range state.Some(dir, swept) {
		if !state.IsID(id) || Has(root, id) {
			continue
		}
		e, err := takeHalf(root, id)
		if err != nil {
			continue
		}
		if also(id) == nil {
			_ = e.Remove("")
		} else {
			e.Close()
		}
	}
	sweepNames(root)
}

// sweepNames frees names whose sandboxes do not exist.
func sweepNames(root string) {
	dir, err := state.OpenDir(root, namesDir)
	if err != nil {
		return
	}
	defer dir.Close()
	for _, name := range state.Some(dir, swept) {
		if !ValidName(name) || recorded(root, name) {
			continue
		}
		if _, taken, err := holder(root, name); err != nil || taken {
			continue
		}
		unlock, err := lockNames(root)
		if err != nil {
			return
		}
		if _, taken, err := holder(root, name); err == nil && !taken {
			_ = dir.Remove(name)
		}
		unlock()
	}
}

// Has reports whether there is a record of the sandbox with this id.
func Has(root, id string) bool { return state.Exists(filepath.Join(Dir(root, id), recordName)) }

// recorded reports whether the sandbox that a name stands for has a record.
func recorded(root, name string) bool {
	text, err := hostpath.Read(context.Background(), root, filepath.Join(namesDir, name), 64)
	id := strings.TrimSpace(string(text))
	return err == nil && state.IsID(id) && Has(root, id)
}

// takeHalf takes the lock of a directory without a record. The lock of all names makes sure
// that nobody is between making the directory and locking it.
func takeHalf(root, id string) (*Entry, error) {
	unlock, err := lockNames(root)
	if err != nil {
		return nil, err
	}
	defer unlock()
	lock, err := openLock(root, filepath.Join(keptDir, id), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return nil, err
	}
	if Has(root, id) {
		_ = lock.Close()
		return nil, fs.ErrExist
	}
	return &Entry{root: root, id: id, lock: lock}, nil
}

// Prepare writes the next record, and returns the paths of the rename that makes it count.
func (e *Entry) Prepare(r Record) (from, to string, err error) {
	r.Version, r.ID = version, e.id
	text, err := json.Marshal(r)
	if err != nil {
		return "", "", err
	}
	dir := Dir(e.root, e.id)
	from, to = filepath.Join(dir, nextName), filepath.Join(dir, recordName)
	f, err := os.OpenFile(from, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", "", err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return from, to, errors.Join(err, f.Close())
}

// Write replaces the record. It is on the disk when Write returns.
func (e *Entry) Write(r Record) error {
	from, to, err := e.Prepare(r)
	if err == nil {
		err = os.Rename(from, to)
	}
	if err != nil {
		return err
	}
	return e.Sync()
}

// Sync writes the directory to the disk, after a rename.
func (e *Entry) Sync() error { return syncDir(Dir(e.root, e.id)) }

// Lock returns the file that is locked.
func (e *Entry) Lock() *os.File { return e.lock }

// Remove removes the record, with the key, and all that is in the directory. key is the
// sandbox's, or "" if it has none. What commands left in a workspace there may be large and hostile.
func (e *Entry) Remove(key string) error {
	dir := Dir(e.root, e.id)
	err := e.forget(key)
	if err == nil {
		err = removal.Tree(context.Background(), Scratch(e.root, e.id))
	}
	if err == nil {
		err = os.RemoveAll(dir)
	}
	return errors.Join(err, e.lock.Close())
}

// forget removes the record and the key: what is left of the directory is half made from then on.
func (e *Entry) forget(key string) error {
	unlock, err := lockNames(e.root)
	if err != nil {
		return err
	}
	defer unlock()
	err = os.Remove(filepath.Join(Dir(e.root, e.id), recordName))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if key != "" && err == nil {
		if id, _, herr := holder(e.root, key); herr == nil && id == e.id {
			err = os.Remove(filepath.Join(e.root, namesDir, key))
		}
	}
	return err
}

// Close frees the lock.
func (e *Entry) Close() { _ = e.lock.Close() }

// syncDir writes the names of a directory to the disk.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
