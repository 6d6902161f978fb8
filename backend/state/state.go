//go:build linux

// Package state keeps the directories of sandboxes, for every backend:
//
//	sandboxes/<id>/lock        held by the process that owns the sandbox
//	               state.json  what it is (Record)
//	               agent.sock  the wire
//	               agent.log   the agent's standard error, or its wall's
//
// A sandbox lives as long as its owner, so its lock tells the living from the
// dead: whoever can take it may remove the directory, once what the record
// names has ended ([Sweep]).
//
// Errors of [New] are *backend.StartError of the stage "state".
package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// The files of a sandbox's directory that backends use.
const (
	SocketName = "agent.sock"
	LogName    = "agent.log"
	// ScratchName is the directory of private files of the landlock level.
	ScratchName = "scratch"

	lockName   = "lock"
	recordName = "state.json"
)

// Record is a sandbox's state.json.
type Record struct {
	Backend string    `json:"backend"`
	PID     int       `json:"pid"`               // of the agent, or of the keeper of its pipe, on the host
	Start   uint64    `json:"start_time"`        // of that process, in clock ticks since boot
	UID     uint32    `json:"uid"`               // lent to it, 0 where none is
	Scratch string    `json:"scratch,omitempty"` // its private directories, outside of this one
	Cgroup  string    `json:"cgroup,omitempty"`  // the directory of its control group
	Created time.Time `json:"created"`
	// Kept says that a keeper owns the pipe to the agent. Whoever sweeps ends
	// that, and runs the commands of Cleanup, with its own environment. Others
	// than those that backends write are not run, see [Refused].
	Kept    bool       `json:"kept,omitempty"`
	Cleanup [][]string `json:"cleanup,omitempty"`
	// Isolation is what really holds, for who attaches. nil: not known yet.
	Isolation *policy.Isolation `json:"isolation,omitempty"`
}

// Dir is one sandbox's directory, and its lock.
type Dir struct {
	Root string // Paddock's
	Path string // this sandbox's
	ID   string
	lock *os.File
}

const elsewhere = "choose a directory of your own with PADDOCK_STATE_DIR"

// New makes the directory of a sandbox of this id ([backend.NewID]; empty: a new one),
// after it has swept those that others have left. sweeper may be nil, see [Sweep].
func New(root, id string, sweeper Sweeper) (*Dir, error) {
	const writable = "choose a writable directory with PADDOCK_STATE_DIR"
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fail("create", root, err, writable)
	}
	if err := private(root); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(root, sandboxesDir), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fail("create", filepath.Join(root, sandboxesDir), err, writable)
	}
	if err := Check(root); err != nil {
		return nil, err
	}
	Sweep(root, sweeper)
	if id == "" {
		id = backend.NewID()
	} else if !isID(id) {
		return nil, fail("create", id, errors.New("it is not the id of a sandbox"), "")
	}
	d := &Dir{Root: root, ID: id, Path: filepath.Join(root, sandboxesDir, id)}
	if err := os.Mkdir(d.Path, 0o700); err != nil {
		return nil, fail("create", d.Path, err, writable)
	}
	lock, err := takeLock(d.Path)
	if err != nil {
		_ = os.RemoveAll(d.Path)
		return nil, fail("lock", d.Path, err, "")
	}
	d.lock = lock
	return d, nil
}

// private refuses a state directory that others could change, and closes one
// that others could read. They pass through it where it holds [hostpath.LentName]; what
// else is in it is private by itself.
func private(root string) error {
	var st unix.Stat_t
	if err := unix.Stat(root, &st); err != nil {
		return fail("stat", root, err, "")
	}
	if int(st.Uid) != os.Geteuid() {
		return fail("use", root, fmt.Errorf("it belongs to uid %d", st.Uid), elsewhere)
	}
	if st.Mode&0o022 != 0 {
		return fail("use", root, errors.New("others can write to it"), elsewhere+", or chmod 700 one that holds nothing of theirs")
	}
	mode := fs.FileMode(0o700)
	if Exists(filepath.Join(root, hostpath.LentName)) {
		mode = 0o711
	}
	if fs.FileMode(st.Mode)&0o077&^mode == 0 {
		return nil
	}
	if err := os.Chmod(root, mode); err != nil {
		return fail("chmod", root, err, "")
	}
	return nil
}

// takeLock takes the lock of a sandbox's directory, EWOULDBLOCK where its
// owner lives.
func takeLock(path string) (*os.File, error) {
	dir, err := OpenDir(filepath.Split(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if info, err := dir.Lstat(lockName); err == nil && !info.Mode().IsRegular() {
		return nil, hostpath.ErrNotRegular
	}
	f, err := dir.OpenFile(lockName, os.O_CREATE|os.O_RDWR|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Save writes state.json whole or not at all. It is not synced: the sandbox
// does not outlive this process, let alone a crash of the host.
func (d *Dir) Save(r Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return hostpath.Replace(filepath.Join(d.Path, recordName), 0o600, text)
}

// Empty removes what nobody needs of a sandbox that is about to end. What says
// that it may still live stays: the lock and state.json.
func (d *Dir) Empty() {
	for _, name := range []string{SocketName, LogName} {
		_ = os.Remove(filepath.Join(d.Path, name))
	}
}

// Remove gives the directory back. more, if not nil, gives back what is
// elsewhere, between the record's removal and the lock's: who sweeps in between
// finds a new directory without state, and leaves it. The lock is closed before
// it is removed, because file systems take long over an open file without a name.
func (d *Dir) Remove(more func()) {
	_ = os.Remove(filepath.Join(d.Path, recordName))
	if more != nil {
		more()
	}
	_ = d.lock.Close()
	_ = os.RemoveAll(d.Path)
}

// Abandon leaves the directory to a later start, which does what could not be
// done now.
func (d *Dir) Abandon() { _ = d.lock.Close() }

// errDamaged is a record that was not written whole.
var errDamaged = errors.New("it is damaged")

// Read reads the record of a sandbox's directory.
func Read(path string) (*Record, error) {
	text, err := Text(path)
	if err != nil {
		return nil, err
	}
	r := &Record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w: %v", filepath.Join(path, recordName), errDamaged, err)
	}
	return r, nil
}

// fail makes a StartError of an operation that failed.
func fail(op, object string, err error, hint string) *backend.StartError {
	return backend.Failed("state", op, object, err, cmp.Or(hostpath.RoomHint(err, filepath.Dir(object)), hint))
}
