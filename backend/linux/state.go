//go:build linux

package linux

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/cgroup"
)

// The state directory:
//
//	sandboxes/<id>/lock        held by the process that owns the sandbox
//	               state.json  what it is (record)
//	               agent.sock  the wire
//	               agent.log   the agent's standard error
//	ids/<uid>                  host ids that are lent, with the borrower's id
//
// A sandbox lives as long as its owner, so its lock tells the living from the
// dead: whoever can take it may remove the directory.

// record is a sandbox's state.json.
type record struct {
	Backend string    `json:"backend"`
	PID     int       `json:"pid"`               // of the agent, on the host
	Start   uint64    `json:"start_time"`        // of that process, in clock ticks since boot
	UID     uint32    `json:"uid"`               // lent to it, 0 where none is
	Scratch string    `json:"scratch,omitempty"` // its private directories, outside of this one
	Cgroup  string    `json:"cgroup,omitempty"`  // the directory of its control group
	Created time.Time `json:"created"`
}

// stateDir is one sandbox's directory.
type stateDir struct {
	root string // Paddock's
	path string // this sandbox's
	id   string
	lock *os.File
	uid  uint32 // lent, 0 where none is
	// scratch is a directory of the landlock level, empty where there is none.
	scratch string
	// group is the directory of its control group, empty where it has none.
	group string
}

// settle is how long a directory without a held lock may be somebody's who is
// about to take it.
const settle = 10 * time.Second

func newStateDir(root string) (*stateDir, error) {
	if err := os.MkdirAll(filepath.Join(root, "sandboxes"), 0o700); err != nil {
		return nil, fail("state", "create", root, err, "choose a writable directory with PADDOCK_STATE_DIR")
	}
	if err := private(root); err != nil {
		return nil, err
	}
	sweep(root)
	id := "pd-" + strings.ToLower(rand.Text()[:13])
	d := &stateDir{root: root, id: id, path: filepath.Join(root, "sandboxes", id)}
	if err := os.Mkdir(d.path, 0o700); err != nil {
		return nil, fail("state", "create", d.path, err, "choose a writable directory with PADDOCK_STATE_DIR")
	}
	lock, err := takeLock(d.path)
	if err != nil {
		_ = os.RemoveAll(d.path)
		return nil, fail("state", "lock", d.path, err, "")
	}
	d.lock = lock
	return d, nil
}

// private refuses a state directory that others could change, and closes one
// that others could read.
func private(root string) error {
	var st unix.Stat_t
	if err := unix.Stat(root, &st); err != nil {
		return fail("state", "stat", root, err, "")
	}
	if int(st.Uid) != os.Geteuid() {
		return fail("state", "use", root, fmt.Errorf("it belongs to uid %d", st.Uid), "choose a directory of your own with PADDOCK_STATE_DIR")
	}
	if st.Mode&0o022 != 0 {
		return fail("state", "use", root, errors.New("others can write to it"), "choose a directory of your own with PADDOCK_STATE_DIR, or chmod 700 one that holds nothing of theirs")
	}
	if st.Mode&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(root, 0o700); err != nil {
		return fail("state", "chmod", root, err, "")
	}
	return nil
}

// takeLock takes the lock of a sandbox's directory, EWOULDBLOCK where its
// owner lives.
func takeLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// lendUID takes a host id that no other sandbox has.
func (d *stateDir) lendUID() (uint32, error) {
	dir := filepath.Join(d.root, "ids")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, fail("identity", "create", dir, err, "")
	}
	for range 64 {
		n, err := rand.Int(rand.Reader, big.NewInt(lentCount))
		if err != nil {
			return 0, fail("identity", "choose", "", err, "")
		}
		uid := lentFirst + uint32(n.Int64())
		f, err := os.OpenFile(idFile(d.root, uid), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return 0, fail("identity", "create", dir, err, "")
		}
		_, err = f.WriteString(d.id + "\n")
		d.uid = uid
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return 0, fail("identity", "write", dir, err, "")
		}
		return uid, nil
	}
	return 0, fail("identity", "choose", dir, errors.New("no free host id was found"), "end some sandboxes")
}

func idFile(root string, uid uint32) string {
	return filepath.Join(root, "ids", strconv.FormatUint(uint64(uid), 10))
}

// save writes state.json whole or not at all. It is not synced: the sandbox
// does not outlive this process, let alone a crash of the host.
func (d *stateDir) save(pid int, start uint64) error {
	text, err := json.Marshal(record{Backend: "linux", PID: pid, Start: start, UID: d.uid, Scratch: d.scratch, Cgroup: d.group, Created: time.Now().UTC()})
	if err != nil {
		return err
	}
	tmp := filepath.Join(d.path, "state.json.new")
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(d.path, "state.json"))
}

// empty removes what nobody needs of a sandbox that is about to end. What says
// that it may still live stays: the lock, state.json and the lent id.
func (d *stateDir) empty() {
	for _, name := range []string{socketName, logName} {
		_ = os.Remove(filepath.Join(d.path, name))
	}
}

// remove gives everything back. The lock goes last, and is closed before it is
// removed, because file systems take long over an open file without a name.
// Whoever sweeps in between finds a new directory without state, and leaves it.
func (d *stateDir) remove() {
	removeHeld(record{Scratch: d.scratch, Cgroup: d.group}, d.path)
	_ = os.Remove(filepath.Join(d.path, "state.json"))
	if d.uid >= lentFirst {
		_ = os.Remove(idFile(d.root, d.uid))
	}
	_ = d.lock.Close()
	_ = os.RemoveAll(d.path)
}

func removeState(root, path string, r record) {
	removeHeld(r, path)
	_ = os.RemoveAll(path)
	if r.UID >= lentFirst {
		_ = os.Remove(idFile(root, r.UID))
	}
}

// removeHeld removes what a sandbox has outside its directory.
func removeHeld(r record, path string) {
	if r.Cgroup != "" && filepath.Base(r.Cgroup) == groupName(filepath.Base(path)) {
		removeGroup(r.Cgroup)
	}
	if strings.HasPrefix(filepath.Base(r.Scratch), scratchPrefix) || filepath.Dir(r.Scratch) == path {
		removeTree(r.Scratch)
	}
}

// sweep removes what killed processes left: their sandboxes' directories and
// lent ids, and first of all the agent, should it still run.
func sweep(root string) {
	dirs, err := os.ReadDir(filepath.Join(root, "sandboxes"))
	if err != nil {
		return
	}
	for _, entry := range dirs {
		path := filepath.Join(root, "sandboxes", entry.Name())
		if info, err := entry.Info(); err != nil || time.Since(info.ModTime()) < settle && !exists(filepath.Join(path, "state.json")) {
			continue
		}
		lock, err := takeLock(path)
		if err != nil {
			continue
		}
		var r record
		text, err := os.ReadFile(filepath.Join(path, "state.json"))
		if err != nil || json.Unmarshal(text, &r) != nil {
			r = lost(root, path)
		}
		if !tidies(path, r) && endProcess(r.PID, r.Start) {
			removeState(root, path, r)
		}
		_ = lock.Close()
	}
	sweepIDs(root)
}

// lost is the record of a sandbox whose owner was killed before it wrote down
// what there is: what there may be.
func lost(root, path string) record {
	d := stateDir{root: root, path: path, id: filepath.Base(path)}
	r := record{Scratch: d.scratchPath()}
	if place, err := cgroup.LookForPlace(); err == nil {
		r.Cgroup = filepath.Join(place.Dir, groupName(d.id))
	}
	return r
}

// removeTree removes a tree that commands made, directories that they closed to
// everybody included. No link in it is followed.
func removeTree(dir string) {
	const closed = 10_000 // directories; whoever makes more keeps them
	for range closed {
		err := os.RemoveAll(dir)
		var pe *fs.PathError
		if !errors.As(err, &pe) || !errors.Is(err, fs.ErrPermission) {
			return
		}
		opened := false
		for _, at := range []string{filepath.Dir(pe.Path), pe.Path} {
			if _, below := within(at, dir); below {
				opened = openUp(at) || opened
			}
		}
		if !opened {
			return
		}
	}
}

// openUp lets the owner of a directory into it, and says whether that changed anything.
func openUp(dir string) bool {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&0o700 == 0o700 {
		return false
	}
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700) == nil
}

// tidies says whether the agent of a sandbox without namespaces is about to end
// what it started, which nobody else would: it is left to that for a while.
func tidies(path string, r record) bool {
	if r.Scratch == "" || !alive(r.PID, r.Start) {
		return false
	}
	seen := filepath.Join(path, "orphaned") // since when that is known
	info, err := os.Stat(seen)
	if err != nil {
		return os.WriteFile(seen, nil, 0o600) == nil
	}
	return time.Since(info.ModTime()) < 2*tidyTime
}

// alive says whether the process that had this pid and start time lives.
func alive(pid int, start uint64) bool {
	now, err := startTime(pid)
	return err == nil && now == start
}

// sweepIDs takes back host ids whose borrower is gone, or was killed before it
// was written down that it has one.
func sweepIDs(root string) {
	files, err := os.ReadDir(filepath.Join(root, "ids"))
	if err != nil {
		return
	}
	for _, entry := range files {
		path := filepath.Join(root, "ids", entry.Name())
		info, err := entry.Info()
		if err != nil || time.Since(info.ModTime()) < settle {
			continue
		}
		borrower, err := os.ReadFile(path)
		if id := strings.TrimSpace(string(borrower)); err == nil && (id == "" || !exists(filepath.Join(root, "sandboxes", id))) {
			_ = os.Remove(path)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// endProcess kills the process that had this pid and start time, waits for its
// end, for 2 s at most, and says whether it has ended. A pid that was given to
// another process is left alone.
func endProcess(pid int, start uint64) (ended bool) {
	if pid <= 1 || start == 0 {
		return true
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	if now, err := startTime(pid); err != nil || now != start {
		return true
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 2000)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n == 1
		}
	}
}

// startTime is field 22 of /proc/PID/stat (proc_pid_stat(5)).
func startTime(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	const afterName = 22 - 2 // the name, in parentheses, may contain anything
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < afterName {
		return 0, errors.New("cannot parse /proc/PID/stat")
	}
	return strconv.ParseUint(fields[afterName-1], 10, 64)
}
