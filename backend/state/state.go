//go:build linux

// Package state manages the directories of sandboxes, for every backend:
//
//	sandboxes/<id>/lock        held by the process that owns the sandbox
//	               state.json  its record (Record)
//	               agent.sock  the wire
//	               agent.log   the standard error of the agent or its wall
//	ports/<address>            a port of the host on which a process of Paddock listens
//
// A sandbox lives as long as its owner, so the lock shows whether it still lives: a
// process that can take the lock may remove the directory, once the processes that
// the record names have ended ([Sweep]).
//
// Errors of [New] are *backend.StartError of the stage "state".
package state

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
)

// The files of a sandbox's directory that backends use.
const (
	SocketName = "agent.sock"
	LogName    = "agent.log"
	// ScratchName is the directory of private files of the landlock level.
	ScratchName = "scratch"

	egressSocketName = "egress.sock"
	keeperSocketName = "keeper.sock"
	// LegacyName is what the program needs that ends a sandbox with a keeper.
	LegacyName = "legacy.json"
	pausedName = "paused" // exists while its commands are stopped

	egressLogName = "egress.log"
	// PassageName is the socket over which an agent in a container passes sockets on,
	// SSHAgentName the one on which its commands find an SSH agent, ResolvName the container's
	// resolv.conf, and KnownHostsName its list of known hosts. They are mounted inside.
	PassageName    = "passage.sock"
	SSHAgentName   = "ssh-agent.sock"
	ResolvName     = "resolv.conf"
	KnownHostsName = "known_hosts"

	lockName   = "lock"
	recordName = "state.json"
)

// Record is a sandbox's state.json.
type Record struct {
	Backend string          `json:"backend"`
	PID     int             `json:"pid"`               // of the agent, or of the keeper of its pipe, on the host
	Start   uint64          `json:"start_time"`        // of that process, in clock ticks since boot
	UID     uint32          `json:"uid"`               // that was lent to it, or 0
	Scratch osstring.String `json:"scratch,omitempty"` // its private directories, outside of this one
	Cgroup  string          `json:"cgroup,omitempty"`  // the directory of its control group
	Created time.Time       `json:"created"`
	// Kept says that a keeper owns the pipe to the agent. A process that sweeps
	// ends the keeper and runs the commands of Cleanup, with its own environment.
	// It runs only commands that backends write, see [Refused].
	Kept    bool       `json:"kept,omitempty"`
	Cleanup [][]string `json:"cleanup,omitempty"`
	// Isolation is what really holds, for processes that attach. nil: not known yet.
	Isolation *policy.Isolation `json:"isolation,omitempty"`
}

// Dir is one sandbox's directory, and its lock.
type Dir struct {
	Root string // Paddock's state directory
	Path string // this sandbox's directory
	ID   string
	lock *os.File
}

const elsewhere = "choose a directory of your own with PADDOCK_STATE_DIR"

// Path returns the directory of the sandbox with this id.
func Path(root, id string) string { return filepath.Join(root, sandboxesDir, id) }

// New makes the directory of a sandbox with this id ([backend.NewID]; empty: a new one),
// after sweeping those that killed processes left. sweeper may be nil, see [Sweep].
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
	} else if !IsID(id) {
		return nil, fail("create", id, errors.New("it is not the id of a sandbox"), "")
	}
	d := &Dir{Root: root, ID: id, Path: Path(root, id)}
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

// Lock returns the file that shows, as long as one process has it open, that the sandbox has an
// owner.
func (d *Dir) Lock() *os.File { return d.lock }

// Adopt returns the directory of a sandbox whose lock another process has handed over.
func Adopt(root, id string, lock *os.File) (*Dir, error) {
	d := &Dir{Root: root, ID: id, Path: Path(root, id), lock: lock}
	if !IsID(id) {
		return nil, fail("use", id, errors.New("it is not the id of a sandbox"), "")
	}
	held, err := lock.Stat()
	if err != nil {
		return nil, fail("lock", d.Path, err, "")
	}
	if there, err := os.Lstat(filepath.Join(d.Path, lockName)); err != nil || !os.SameFile(held, there) {
		return nil, fail("lock", d.Path, errors.New("its directory was removed"), "")
	}
	return d, nil
}

// private refuses a state directory that other users could change, and makes one private
// that they could read. If it contains [hostpath.LentName], other users may enter it, because
// all its other entries are private themselves.
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

// takeLock takes the lock of a sandbox's directory. It fails with EWOULDBLOCK if the
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

// Save writes state.json completely or not at all. It does not sync the file, because
// the sandbox does not outlive a crash of the host.
func (d *Dir) Save(r Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return hostpath.Replace(filepath.Join(d.Path, recordName), 0o600, text)
}

// Paused reports whether the commands of the sandbox with this id are stopped.
func Paused(root, id string) bool { return Exists(filepath.Join(Path(root, id), pausedName)) }

// MarkPaused notes whether they are.
func MarkPaused(root, id string, paused bool) error {
	at := filepath.Join(Path(root, id), pausedName)
	if paused {
		return hostpath.Replace(at, 0o600, nil)
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Empty removes the files of a sandbox that is about to end, except the lock and state.json,
// which show that the sandbox may still be alive.
func (d *Dir) Empty() {
	for _, name := range []string{SocketName, LogName, egressSocketName, egressLogName, pausedName, PassageName, SSHAgentName, ResolvName, KnownHostsName} {
		_ = os.Remove(filepath.Join(d.Path, name))
	}
}

// Remove removes the directory. more, if not nil, removes what the sandbox has
// elsewhere. It runs after the record is removed and before the lock is: a process
// that sweeps in between finds what looks like a new directory, and leaves it alone.
// The lock is closed before it is removed, because file systems take long to remove
// an open file.
func (d *Dir) Remove(more func()) {
	_ = os.Remove(filepath.Join(d.Path, recordName))
	if more != nil {
		more()
	}
	_ = d.lock.Close()
	_ = os.RemoveAll(d.Path)
}

// Abandon leaves the directory to a later start, which cleans up.
func (d *Dir) Abandon() { _ = d.lock.Close() }

// errDamaged is the error of a record that was not written completely.
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

// fail returns the StartError of an operation that failed.
func fail(op, object string, err error, hint string) *backend.StartError {
	return backend.Failed("state", op, object, err, cmp.Or(hostpath.RoomHint(err, filepath.Dir(object)), hint))
}

// The directories in Paddock's state directory that only Paddock makes.
const (
	sandboxesDir = "sandboxes"
	IDsDir       = "ids"
	HomesDir     = "codex"
)

// maxRecord is the largest size of a record, in bytes.
const maxRecord = 1 << 20

// OpenDir opens a directory in Paddock's state so that names in it can be removed safely:
// the caller owns it, nobody else can write to it, and it is not a link. The error is
// fs.ErrNotExist if the directory is missing, else a *backend.StartError with a hint.
func OpenDir(root, name string) (*os.Root, error) {
	path := filepath.Join(root, name)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		why := errors.New("it is not a directory")
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			why = errors.New("it is a symbolic link")
		}
		return nil, fail("use", path, why, "look at it, and remove it (rm "+path+"), or "+elsewhere)
	}
	if err != nil {
		return nil, fail("open", path, err, "chmod u+rwx "+path+", or "+elsewhere)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fail("stat", path, err, "")
	}
	switch {
	case int(st.Uid) != os.Geteuid():
		return nil, fail("use", path, fmt.Errorf("it belongs to uid %d", st.Uid), elsewhere)
	case st.Mode&0o022 != 0:
		return nil, fail("use", path, errors.New("others can write to it"), "look at it, and chmod go-w "+path+", or "+elsewhere)
	}
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// Check refuses a state directory with a directory in it that [OpenDir] refuses, the
// audit log's included: files behind a link would not be covered.
func Check(root string) error {
	for _, name := range []string{sandboxesDir, IDsDir, HomesDir, unreportedDir, portsDir, "audit", "kept", "names"} {
		dir, err := OpenDir(root, name)
		if err == nil {
			_ = dir.Close()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Names returns the names in a directory.
func Names(dir *os.Root) []string {
	f, err := dir.Open(".")
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}

// paths returns the directories of sandboxes below root.
func paths(root string) []string {
	dir, err := OpenDir(root, sandboxesDir)
	if err != nil {
		return nil // New refuses
	}
	defer dir.Close()
	var all []string
	for _, name := range Names(dir) {
		if IsID(name) {
			all = append(all, filepath.Join(root, sandboxesDir, name))
		}
	}
	return all
}

// Text returns the text of a sandbox's record, of 1 MiB at most. It follows no link and
// does not wait for a FIFO's writer.
func Text(path string) ([]byte, error) {
	dir, id := filepath.Split(path)
	root, name := filepath.Split(filepath.Clean(dir))
	return hostpath.Read(context.Background(), root, filepath.Join(name, id, recordName), maxRecord)
}

// Records returns the texts of the records of all sandboxes below root.
func Records(root string) [][]byte {
	var all [][]byte
	for _, path := range paths(root) {
		text, _ := Text(path) // the sandbox may have ended meanwhile
		all = append(all, text)
	}
	return all
}

// halfMade reports whether a directory holds only what a sandbox may have before its
// record is written, or after the record was removed.
func halfMade(path string) bool {
	dir, err := OpenDir(filepath.Split(path))
	if err != nil {
		return false
	}
	defer dir.Close()
	for _, name := range Names(dir) {
		info, err := dir.Lstat(name)
		switch {
		case err != nil:
			return false
		case name == lockName && info.Mode().IsRegular() && info.Size() == 0:
		case !slices.Contains([]string{SocketName, LogName, egressSocketName, egressLogName, keeperSocketName, LegacyName, LegacyName + ".new", pausedName, PassageName, SSHAgentName,
			ResolvName, ResolvName + ".new", KnownHostsName, KnownHostsName + ".new", recordName + ".new", ScratchName, "spec.json", "tried", "orphaned"}, name):
			return false
		}
	}
	return true
}
