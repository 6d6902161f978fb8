package agent

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/spawn"
)

// mountMissing mounts what programs expect of a machine, where it is not
// there. Somebody who mounted it before had a reason.
func mountMissing() error {
	for _, m := range []struct {
		target, kind, data string
		flags              uintptr
		missing            func(path string) bool
	}{
		{"/proc", "proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, func(string) bool { return !spawn.ShowsSelf() }},
		{"/sys", "sysfs", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, isEmpty},
		{"/dev", "devtmpfs", "mode=0755", unix.MS_NOSUID, lacks("null")},
		{"/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=0620,gid=5", unix.MS_NOSUID | unix.MS_NOEXEC, lacks("ptmx")},
		{"/dev/shm", "tmpfs", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV, isBare},
		{"/run", "tmpfs", "mode=0755", unix.MS_NOSUID | unix.MS_NODEV, isBare},
		{"/tmp", "tmpfs", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV, isBare},
	} {
		if !m.missing(m.target) {
			continue
		}
		_ = os.MkdirAll(m.target, 0o755) // the mount tells where there is none
		if err := unix.Mount(m.kind, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("cannot mount %s: %w", m.target, err)
		}
	}
	return nil
}

func isEmpty(path string) bool {
	names, err := os.ReadDir(path)
	return err != nil || len(names) == 0
}

func lacks(name string) func(string) bool {
	return func(path string) bool {
		_, err := os.Lstat(path + "/" + name)
		return err != nil
	}
}

// isBare reports whether a directory is empty and on the file system of its
// parent: a mount would hide nothing that somebody has put there.
func isBare(path string) bool {
	var st, parent unix.Stat_t
	if !isEmpty(path) {
		return false
	}
	if unix.Stat(path, &st) != nil || unix.Stat(path+"/..", &parent) != nil {
		return true
	}
	return st.Dev == parent.Dev
}

// powerOff ends the machine or, where the pid namespace is none, its processes.
func powerOff() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
