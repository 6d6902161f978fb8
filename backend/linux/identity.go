//go:build linux

package linux

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/clone"
)

// insideID is the identity inside.
const insideID = 1000

// The kinds of identities, by how files keep their owner.
const (
	mapped = "mapped" // the caller's own id is mapped to the one inside
	idmap  = "idmap"  // an id-mapped mount translates the owner
	owner  = "owner"  // the sandbox runs as the workspace's owner
)

// identity is the user that commands run as.
type identity struct {
	kind     string
	uid, gid uint32 // on the host; not chosen yet for idmap
	groups   []int  // supplementary groups that cannot be dropped
}

// chooseIdentity decides how the caller's files can be used inside. It chooses idmap
// without trying it; startFull falls back if the file system refuses.
func chooseIdentity() (identity, error) {
	euid, egid := os.Geteuid(), os.Getegid()
	if euid == 0 {
		initial, err := inInitialUserns()
		if err != nil {
			return identity{}, backend.Failed("identity", "read", "/proc/self/uid_map", err, "mount /proc")
		}
		if initial {
			return identity{kind: idmap, uid: state.LentFirst, gid: state.LentFirst}, nil
		}
		// To the kernel, root of a user namespace is an ordinary user.
	}
	id := identity{kind: mapped, uid: uint32(euid), gid: uint32(egid)}
	err := id.keepGroups()
	return id, err
}

// keepGroups records the supplementary groups of this process.
func (id *identity) keepGroups() error {
	groups, err := syscall.Getgroups()
	if err != nil {
		return backend.Failed("identity", "getgroups", "", err, "")
	}
	for _, g := range groups {
		if g != int(id.gid) {
			id.groups = append(id.groups, g)
		}
	}
	return nil
}

func inInitialUserns() (bool, error) {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false, err
	}
	return strings.Join(strings.Fields(string(text)), " ") == "0 0 4294967295", nil
}

func (id identity) maps() (uids, gids []confine.IDMap) {
	return []confine.IDMap{{Inside: insideID, Host: id.uid, Count: 1}},
		[]confine.IDMap{{Inside: insideID, Host: id.gid, Count: 1}}
}

// asOwner returns the identity that is tried if a mount cannot be id-mapped: the sandbox
// runs as the owner of everything that was named, who must not be root.
func asOwner(mounts []hostpath.Mount) (identity, error) {
	var id identity
	for i, m := range mounts {
		if m.UID == 0 {
			return identity{}, fmt.Errorf("%s belongs to root, and its file system cannot be id-mapped", m.Source)
		}
		if i > 0 && (m.UID != id.uid || m.GID != id.gid) {
			return identity{}, fmt.Errorf("%s and %s have different owners, and their file systems cannot be id-mapped", mounts[0].Source, m.Source)
		}
		id = identity{kind: owner, uid: m.UID, gid: m.GID}
	}
	return id, nil
}

// idmapMount makes a detached mount of a user's path in which its owner
// appears as the sandbox's host id, and the other way round for new files
// (mount_setattr(2), MOUNT_ATTR_IDMAP). It needs root and a file system that supports
// it. Mounts below are included, because leaving them out would show the files that they
// cover. They are read-only and keep their owners, so that commands can read in them only
// files that everybody may read. helpers waits for processes that are still running after
// the return.
func idmapMount(m hostpath.Mount, id identity, helpers *sync.WaitGroup) (*os.File, error) {
	userns, err := ownerUserns(m, id, helpers)
	if err != nil {
		return nil, err
	}
	defer userns.Close()
	return mountMapped(m, userns)
}

// mountMapped does what idmapMount does, with the user namespace of the mount's owner.
func mountMapped(m hostpath.Mount, userns *os.File) (*os.File, error) {
	tree, err := confine.OpenResolved(m.Source, m.ID.FileID)
	if err != nil {
		return nil, os.NewSyscallError("open", err)
	}
	f := os.NewFile(uintptr(tree), m.Source)
	err = confine.BelowReadOnly(tree)
	if err == nil {
		err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
	}
	if err == nil {
		err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(userns.Fd())})
	}
	if err != nil {
		_ = f.Close()
		return nil, os.NewSyscallError("mount_setattr", err)
	}
	return f, nil
}

// ownerUserns makes a user namespace that maps the owner of a mount to an identity.
func ownerUserns(m hostpath.Mount, id identity, helpers *sync.WaitGroup) (*os.File, error) {
	return newUserns(helpers,
		confine.IDMap{Inside: m.UID, Host: id.uid, Count: 1},
		confine.IDMap{Inside: m.GID, Host: id.gid, Count: 1})
}

// newUserns makes a user namespace with these maps. A user namespace can only be made
// together with a process, so it makes one and ends it again. The kernel takes a while
// for that, so helpers waits for it.
func newUserns(helpers *sync.WaitGroup, uid, gid confine.IDMap) (*os.File, error) {
	runtime.LockOSThread() // the process dies with the thread
	defer runtime.UnlockOSThread()
	p, err := clone.Idle(unix.CLONE_NEWUSER)
	if err != nil {
		return nil, err
	}
	defer helpers.Go(p.End)
	if err := writeMaps(p.PID, []confine.IDMap{uid}, []confine.IDMap{gid}); err != nil {
		return nil, err
	}
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", p.PID))
}

// writeMaps writes the id maps of a new user namespace, through its first process
// (user_namespaces(7)).
func writeMaps(pid int, uids, gids []confine.IDMap) error {
	for _, m := range []struct {
		file string
		maps []confine.IDMap
	}{{"uid_map", uids}, {"gid_map", gids}} {
		var lines []byte
		for _, l := range m.maps {
			lines = fmt.Appendf(lines, "%d %d %d\n", l.Inside, l.Host, l.Count)
		}
		if err := writeProc(pid, m.file, lines); err != nil {
			return err
		}
	}
	return nil
}

func writeProc(pid int, file string, text []byte) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/%s", pid, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
