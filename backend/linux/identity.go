//go:build linux

package linux

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/paddock-dev/paddock/confine"
)

// Identities inside, and the range of host ids that root lends to sandboxes.
// The range lies above every id that distributions give to users, services
// and containers (systemd's list of ranges ends at 0x6FFFFFFF).
const (
	insideID  = 1000
	lentFirst = 0x70000000
	lentCount = 1 << 16
)

// Ways in which files keep their owner.
const (
	mapped = "mapped" // the caller's own id is the one inside
	idmap  = "idmap"  // an id-mapped mount translates the owner
	owner  = "owner"  // the sandbox runs as the workspace's owner
)

// identity is who commands are.
type identity struct {
	kind     string
	uid, gid uint32 // on the host; not chosen yet for idmap
	groups   []int  // supplementary groups that cannot be dropped
}

// chooseIdentity decides how the caller's files can be used inside. It
// decides on idmap without trying; start falls back where the file system
// refuses.
func chooseIdentity() (identity, error) {
	euid, egid := os.Geteuid(), os.Getegid()
	if euid == 0 {
		initial, err := inInitialUserns()
		if err != nil {
			return identity{}, fail("identity", "read", "/proc/self/uid_map", err, "mount /proc")
		}
		if initial {
			return identity{kind: idmap, uid: lentFirst, gid: lentFirst}, nil
		}
		// Root of a user namespace is somebody ordinary to the kernel.
	}
	id := identity{kind: mapped, uid: uint32(euid), gid: uint32(egid)}
	err := id.keepGroups()
	return id, err
}

// keepGroups notes the supplementary groups of this process.
func (id *identity) keepGroups() error {
	groups, err := syscall.Getgroups()
	if err != nil {
		return fail("identity", "getgroups", "", err, "")
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

// asOwner is the next step of the ladder where a mount cannot be id-mapped:
// the sandbox runs as the owner of everything that was named, who must not be root.
func asOwner(mounts []userMount) (identity, error) {
	var id identity
	for i, m := range mounts {
		if m.uid == 0 {
			return identity{}, fmt.Errorf("%s belongs to root, and its file system cannot be id-mapped", m.source)
		}
		if i > 0 && (m.uid != id.uid || m.gid != id.gid) {
			return identity{}, fmt.Errorf("%s and %s have different owners, and their file systems cannot be id-mapped", mounts[0].source, m.source)
		}
		id = identity{kind: owner, uid: m.uid, gid: m.gid}
	}
	return id, nil
}

func errnoOf(err error) (int, bool) {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return int(errno), true
	}
	return 0, false
}
