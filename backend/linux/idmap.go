//go:build linux

package linux

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/clone"
)

// idmapMount makes a detached mount of a user's path in which its owner
// appears as the sandbox's host id, and the other way round for new files
// (mount_setattr(2), MOUNT_ATTR_IDMAP). It needs root and a file system that
// takes part. What is mounted below comes along, or it would lay bare what it covers:
// read-only, and with its owners as they are, so that commands read there what
// everybody may.
// What goes on after it returns is in helpers.
func idmapMount(m userMount, id identity, helpers *sync.WaitGroup) (*os.File, error) {
	userns, err := newUserns(helpers,
		confine.IDMap{Inside: m.uid, Host: id.uid, Count: 1},
		confine.IDMap{Inside: m.gid, Host: id.gid, Count: 1})
	if err != nil {
		return nil, err
	}
	defer userns.Close()
	tree, err := confine.OpenResolved(m.source, m.id)
	if err != nil {
		return nil, os.NewSyscallError("open", err)
	}
	f := os.NewFile(uintptr(tree), m.source)
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

// newUserns makes a user namespace with these maps. A user namespace can only
// be made together with a process, so one is made, and ended again: the kernel
// takes a while for that, so it is one of the helpers.
func newUserns(helpers *sync.WaitGroup, uid, gid confine.IDMap) (*os.File, error) {
	runtime.LockOSThread() // which the process dies with
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

// writeMaps gives a new user namespace its ids, through its first process
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
