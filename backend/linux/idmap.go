//go:build linux

package linux

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/clone"
)

// idmapMount makes a detached mount of a user's path in which its owner
// appears as the sandbox's host id, and the other way round for new files
// (mount_setattr(2), MOUNT_ATTR_IDMAP). It needs root and a file system that
// takes part.
func idmapMount(m userMount, id identity) (*os.File, error) {
	userns, err := newUserns(
		confine.IDMap{Inside: m.uid, Host: id.uid, Count: 1},
		confine.IDMap{Inside: m.gid, Host: id.gid, Count: 1})
	if err != nil {
		return nil, err
	}
	defer userns.Close()
	tree, err := unix.OpenTree(unix.AT_FDCWD, m.source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("open_tree", err)
	}
	f := os.NewFile(uintptr(tree), m.source)
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Userns_fd: uint64(userns.Fd()),
	})
	if err != nil {
		_ = f.Close()
		return nil, os.NewSyscallError("mount_setattr", err)
	}
	return f, nil
}

// newUserns makes a user namespace with these maps. A user namespace can only
// be made together with a process, so one is made, and ended again.
func newUserns(uid, gid confine.IDMap) (*os.File, error) {
	runtime.LockOSThread()
	syscall.ForkLock.Lock()
	pid, errno := clone.Fork(unix.CLONE_NEWUSER, idle)
	syscall.ForkLock.Unlock()
	runtime.UnlockOSThread()
	if errno != 0 {
		return nil, os.NewSyscallError("clone", errno)
	}
	defer func() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}()
	for file, m := range map[string]confine.IDMap{"uid_map": uid, "gid_map": gid} {
		line := fmt.Sprintf("%d %d %d\n", m.Inside, m.Host, m.Count)
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, file), []byte(line), 0); err != nil {
			return nil, err
		}
	}
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
}

// idle is a process that waits to be killed.
//
//go:norace
//go:nosplit
func idle() {
	_, _, _ = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
	for {
		_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}
