//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Attacks on what is mounted. Outside they are run in namespaces of their
// own, where they succeed and change nothing of the host's.
var _ = register(map[string]attack{
	"mount-tmpfs":   only(func([]string) error { return unix.Mount("x", "/mnt", "tmpfs", 0, "") }),
	"mount-proc":    only(func([]string) error { return unix.Mount("x", "/mnt", "proc", 0, "") }),
	"mount-bind":    only(func([]string) error { return unix.Mount("/usr", "/mnt", "", unix.MS_BIND, "") }),
	"remount-rw":    prepared(remount),
	"umount":        prepared(func(path string) error { return unix.Unmount(path, unix.MNT_DETACH) }),
	"mount-setattr": prepared(setattr),
	"open-tree":     only(openTree),
	"move-mount":    only(moveMount),
	"fspick": only(func([]string) error {
		_, err := unix.Fspick(unix.AT_FDCWD, "/", unix.FSPICK_CLOEXEC)
		return err
	}),
	"fsopen": only(func([]string) error {
		_, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
		return err
	}),
	"chroot": only(func([]string) error { return unix.Chroot("/usr") }),
	"pivot":  only(pivot),

	"unshare":     only(unshare),
	"clone":       only(func(args []string) error { return cloneWith(flag(args[0])) }),
	"clone3":      only(func(args []string) error { return clone3(uint64(flag(args[0]))) }),
	"setns":       setns,
	"setns-pidfd": setnsPidfd,
	"sethostname": only(func([]string) error { return unix.Sethostname([]byte("attacked")) }),
})

// prepared makes an attack on a mount: args[0], which is first made read-only,
// as it is inside, where args[1] is "prepare".
func prepared(do func(path string) error) attack {
	return only(func(args []string) error {
		if len(args) > 1 && args[1] == "prepare" {
			if err := unix.Mount(args[0], args[0], "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("cannot prepare: %v", err)
			}
			if err := unix.MountSetattr(unix.AT_FDCWD, args[0], 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
				return fmt.Errorf("cannot prepare: %v", err)
			}
		}
		return do(args[0])
	})
}

// remount keeps every flag but the one: others may be locked.
func remount(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return err
	}
	const same = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME
	flags := uintptr(st.Flags) & same
	if st.Flags&unix.ST_RELATIME != 0 {
		flags |= unix.MS_RELATIME
	}
	return unix.Mount("none", path, "", unix.MS_REMOUNT|unix.MS_BIND|flags, "")
}

func setattr(path string) error {
	return unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
}

func openTree([]string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/usr", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// moveMount puts a detached copy of a tree somewhere.
func moveMount([]string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/usr", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil { // the other call is to be tried all the same
		fd = -1
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, "/mnt", unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func pivot([]string) error {
	if err := unix.Mount("x", "/mnt", "tmpfs", 0, ""); err == nil {
		if err := unix.Chdir("/mnt"); err != nil {
			return err
		}
	}
	return unix.PivotRoot(".", ".")
}

func flag(name string) uintptr {
	return map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "ipc": unix.CLONE_NEWIPC,
		"uts": unix.CLONE_NEWUTS, "net": unix.CLONE_NEWNET, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
	}[name]
}

// unshare asks in a single-threaded child, since a user namespace is for
// processes with one thread alone.
func unshare(args []string) error {
	if args[0] == "user" {
		return cloneWith(unix.CLONE_NEWUSER)
	}
	runtime.LockOSThread()
	return unix.Unshare(int(flag(args[0])))
}

func cloneWith(flags uintptr) error {
	return fork(func() (uintptr, error) { return call(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD)) })
}

// fork makes a child that ends at once.
func fork(clone func() (uintptr, error)) error {
	runtime.LockOSThread()
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	pid, err := clone()
	if err != nil {
		return err
	}
	if pid == 0 {
		for {
			_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	_, err = unix.Wait4(int(pid), nil, 0, nil)
	return err
}

// setns enters a namespace of process args[0].
func setns(args []string) (string, error) {
	fd, err := unix.Open("/proc/"+args[0]+"/ns/"+args[1], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open: %w", err)
	}
	f := os.NewFile(uintptr(fd), args[1])
	defer f.Close()
	runtime.LockOSThread()
	return "entered", unix.Setns(fd, 0)
}

// setnsPidfd enters namespaces by a handle of process args[0] itself.
func setnsPidfd(args []string) (string, error) {
	fd, err := unix.PidfdOpen(number(args[0]), 0)
	if err != nil {
		return "", fmt.Errorf("no pidfd: %w", err)
	}
	runtime.LockOSThread()
	return "entered", unix.Setns(fd, unix.CLONE_NEWUTS)
}
