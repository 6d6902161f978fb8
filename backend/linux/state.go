//go:build linux

package linux

import (
	"context"
	"crypto/rand"
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

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/policy"
)

// Beside the directories of package state there are
//
//	ids/<uid>   host ids that are lent, with the borrower's id

// stateDir is one sandbox's directory, with what it has elsewhere.
type stateDir struct {
	*state.Dir
	uid uint32 // lent, 0 where none is
	// scratch is a directory of the landlock level, empty where there is none.
	scratch string
	// group is the directory of its control group, empty where it has none.
	group   string
	created time.Time
}

// settle is how long a lent id may be somebody's who is about to write down
// that it has one.
const settle = 10 * time.Second

func newStateDir(root, id string) (*stateDir, error) {
	d, err := state.New(root, id, func(path string, r *state.Record) bool { return sweepOne(root, path, r) })
	if err != nil {
		return nil, err
	}
	sweepIDs(root)
	return &stateDir{Dir: d}, nil
}

// lendUID takes a host id that no other sandbox has.
func (d *stateDir) lendUID() (uint32, error) {
	dir := filepath.Join(d.Root, state.IDsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, backend.Failed("identity", "create", dir, err, hostpath.RoomHint(err, d.Root))
	}
	for range 64 {
		n, err := rand.Int(rand.Reader, big.NewInt(lentCount))
		if err != nil {
			return 0, backend.Failed("identity", "choose", "", err, "")
		}
		uid := lentFirst + uint32(n.Int64())
		f, err := os.OpenFile(idFile(d.Root, uid), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return 0, backend.Failed("identity", "create", dir, err, hostpath.RoomHint(err, d.Root))
		}
		_, err = f.WriteString(d.ID + "\n")
		d.uid = uid
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return 0, backend.Failed("identity", "write", dir, err, hostpath.RoomHint(err, d.Root))
		}
		return uid, nil
	}
	return 0, backend.Failed("identity", "choose", dir, errors.New("no free host id was found"), "end some sandboxes")
}

func idFile(root string, uid uint32) string {
	return filepath.Join(root, state.IDsDir, strconv.FormatUint(uint64(uid), 10))
}

// save tells later starts what the sandbox is, and, once its isolation is known,
// who attaches.
func (d *stateDir) save(pid int, start uint64, isolation *policy.Isolation) error {
	if d.created.IsZero() {
		d.created = time.Now().UTC()
	}
	return d.Save(state.Record{
		Backend: "linux", PID: pid, Start: start, UID: d.uid, Scratch: d.scratch, Cgroup: d.group, Created: d.created, Isolation: isolation,
	})
}

// remove gives everything back, the lock last.
func (d *stateDir) remove() {
	removeHeld(&state.Record{Scratch: d.scratch, Cgroup: d.group}, d.Path)
	d.Remove(func() {
		if d.uid >= lentFirst {
			_ = os.Remove(idFile(d.Root, d.uid))
		}
	})
}

// removeHeld removes what a sandbox has outside its directory.
func removeHeld(r *state.Record, path string) {
	if r.Cgroup != "" && filepath.Base(r.Cgroup) == groupName(filepath.Base(path)) {
		removeGroup(r.Cgroup)
	}
	if filepath.Base(r.Scratch) == scratchPrefix+filepath.Base(path) || r.Scratch == filepath.Join(path, state.ScratchName) {
		removeTree(r.Scratch)
	}
}

// sweepOne gives back what a killed process left of a sandbox, first of all
// the agent, should it still run.
func sweepOne(root, path string, r *state.Record) bool {
	if r == nil {
		r = lost(root, path)
	}
	if tidies(path, r) || !state.EndProcess(r.PID, r.Start) {
		return false
	}
	removeHeld(r, path)
	if r.UID >= lentFirst {
		_ = os.Remove(idFile(root, r.UID))
	}
	return true
}

// lost returns the record of a sandbox whose owner was killed before it wrote down
// what there is: what there may be.
func lost(root, path string) *state.Record {
	d := stateDir{Dir: &state.Dir{Root: root, Path: path, ID: filepath.Base(path)}}
	r := &state.Record{Scratch: d.scratchPath()}
	if place, err := cgroup.ProbeDelegate(); err == nil {
		r.Cgroup = filepath.Join(place.Dir, groupName(d.ID))
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
			if _, below := hostpath.Within(at, dir); below {
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

// tidies reports whether the agent of a sandbox without namespaces is about to end
// what it started, which nobody else would: it is left to that for a while.
func tidies(path string, r *state.Record) bool {
	if r.Scratch == "" || !state.Alive(r.PID, r.Start) {
		return false
	}
	seen := filepath.Join(path, "orphaned") // since when that is known
	info, err := os.Lstat(seen)
	if err != nil {
		return hostpath.Replace(seen, 0o600, nil) == nil
	}
	return time.Since(info.ModTime()) < 2*tidyTime
}

// maxBorrower bounds the name of a sandbox in a file, in bytes.
const maxBorrower = 4096

// sweepIDs takes back host ids whose borrower is gone, or was killed before it
// was written down that it has one.
func sweepIDs(root string) {
	dir, err := state.OpenDir(root, state.IDsDir)
	if err != nil {
		return // of a start, state.New refuses
	}
	defer dir.Close()
	for _, name := range state.Names(dir) {
		info, err := dir.Lstat(name)
		if uid, nerr := strconv.ParseUint(name, 10, 32); err != nil || nerr != nil || uid < lentFirst || time.Since(info.ModTime()) < settle {
			continue
		}
		borrower, err := hostpath.Read(context.Background(), root, filepath.Join(state.IDsDir, name), maxBorrower)
		if id := strings.TrimSpace(string(borrower)); err == nil && (id == "" || !state.Exists(filepath.Join(root, "sandboxes", id))) {
			_ = dir.Remove(name)
		}
	}
}
