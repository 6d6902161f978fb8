//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
)

// stateDir is one sandbox's directory, and the sandbox's resources elsewhere.
type stateDir struct {
	*state.Dir
	uid     uint32 // that was lent to it, or 0
	scratch string // its private directories at the landlock level, or ""
	group   string // the directory of its control group, or ""
	created time.Time
}

// newStateDir makes the directory of a new sandbox, after removing what killed
// processes left behind.
func newStateDir(root, id string) (*stateDir, error) {
	d, err := state.New(root, id, func(path string, r *state.Record) bool { return sweepOne(root, path, r) })
	if err != nil {
		return nil, err
	}
	return &stateDir{Dir: d}, nil
}

// lendUID reserves a host id that no other sandbox has.
func (d *stateDir) lendUID() (uid uint32, err error) {
	d.uid, err = d.LendID()
	return d.uid, err
}

// save writes the sandbox's record, for later starts and for processes that attach.
func (d *stateDir) save(pid int, start uint64, isolation *policy.Isolation) error {
	if d.created.IsZero() {
		d.created = time.Now().UTC()
	}
	return d.Save(state.Record{
		Backend: "linux", PID: pid, Start: start, UID: d.uid, Scratch: osstring.String(d.scratch), Cgroup: d.group, Created: d.created, Isolation: isolation,
	})
}

// remove removes everything that the sandbox has, the lock last.
func (d *stateDir) remove() {
	removeHeld(&state.Record{Scratch: osstring.String(d.scratch), Cgroup: d.group}, d.Path)
	d.Remove(func() { state.ReturnID(d.Root, d.uid) })
}

// removeHeld removes a sandbox's resources outside its directory.
func removeHeld(r *state.Record, path string) {
	if r.Cgroup != "" && filepath.Base(r.Cgroup) == groupName(filepath.Base(path)) {
		removeGroup(r.Cgroup)
	}
	if scratch := string(r.Scratch); filepath.Base(scratch) == scratchPrefix+filepath.Base(path) || scratch == filepath.Join(path, state.ScratchName) {
		removeTree(scratch)
	}
}

// sweepOne removes the rest of a sandbox whose owner was killed, beginning with the agent, if
// that is still running. It reports whether everything is removed. r is nil if the owner was
// killed before it wrote the record.
func sweepOne(root, path string, r *state.Record) bool {
	if r == nil { // there may be any of this
		d := stateDir{Dir: &state.Dir{Root: root, Path: path, ID: filepath.Base(path)}}
		r = &state.Record{Scratch: osstring.String(d.scratchPath())}
		if place, err := cgroup.ProbeDelegate(); err == nil {
			r.Cgroup = filepath.Join(place.Dir, groupName(d.ID))
		}
	}
	if stillTidying(path, r) || !state.EndProcess(r.PID, r.Start) {
		return false
	}
	removeHeld(r, path)
	state.ReturnID(root, r.UID)
	return true
}

// removeTree removes a tree that commands made, including directories that they closed
// to everybody. It follows no link in the tree.
func removeTree(dir string) {
	const closed = 10_000 // directories; a tree with more stays
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

// openUp makes a directory accessible to its owner, and reports whether that changed anything.
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

// stillTidying reports whether the agent of a sandbox without namespaces may still be ending
// its processes. No other process would end them, so the agent gets some time.
func stillTidying(path string, r *state.Record) bool {
	if r.Scratch == "" || !state.Alive(r.PID, r.Start) {
		return false
	}
	seen := filepath.Join(path, "orphaned") // made when the agent was first found without an owner
	info, err := os.Lstat(seen)
	if err != nil {
		return hostpath.Replace(seen, 0o600, nil) == nil
	}
	return time.Since(info.ModTime()) < 2*tidyTime
}
