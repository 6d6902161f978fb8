package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// mountAll makes of the first root what tests expect of a host.
func mountAll() error {
	if err := leaveFirstRoot(); err != nil {
		return fmt.Errorf("cannot leave the first root: %w", err)
	}
	for _, m := range []struct {
		source, target, kind, data string
		flags                      uintptr
	}{
		{"proc", "/proc", "proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"sysfs", "/sys", "sysfs", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"devtmpfs", "/dev", "devtmpfs", "mode=0755", unix.MS_NOSUID},
		{"devpts", "/dev/pts", "devpts", "ptmxmode=0666,mode=0620,gid=5", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"tmpfs", "/dev/shm", "tmpfs", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
		{"tmpfs", "/run", "tmpfs", "mode=0755", unix.MS_NOSUID | unix.MS_NODEV},
		{"cgroup2", cgroupRoot, "cgroup2", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		// A disk, because not every kernel maps the owners of a tmpfs.
		{"/dev/vda", "/tmp", "ext4", "", unix.MS_NODEV},
	} {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("cannot mount %s: %w", m.target, err)
		}
	}
	return errors.Join(unix.Chmod("/", 0o755), unix.Chmod("/tmp", 0o1777), os.WriteFile("/run/utmp", nil, 0o644), upLoopback(), enableControllers())
}

// leaveFirstRoot binds the root over itself: pivot_root refuses a root that
// the kernel has unpacked, because it is mounted on nothing.
func leaveFirstRoot() error {
	const place = "/mnt"
	return errors.Join(
		unix.Unmount("/proc", 0),
		unix.Mount("/", place, "", unix.MS_BIND, ""),
		unix.Chdir(place),
		unix.Mount(".", "/", "", unix.MS_MOVE, ""),
		unix.Chroot("."),
		unix.Chdir("/"),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""), // as service managers have it
	)
}

// upLoopback gives the machine 127.0.0.1.
func upLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// enableControllers makes all that the kernel has usable in groups.
func enableControllers() error {
	names, err := os.ReadFile(cgroupRoot + "/cgroup.controllers")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(names)) {
		if err := os.WriteFile(cgroupRoot+"/cgroup.subtree_control", []byte("+"+name), 0); err != nil {
			return fmt.Errorf("cannot enable %s: %w", name, err)
		}
	}
	return nil
}
