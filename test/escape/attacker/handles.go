//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Attacks by handles that lead elsewhere, and on what a file can be.
var _ = register(map[string]attack{
	"climb":       climb,
	"working-dir": workingDir,
	"inherited":   inherited,
	"filecap":     only(fileCapability),
	"handle":      handle,
	"mknod-null":  node(unix.S_IFCHR, unix.Mkdev(1, 3)),
	"mknod-disk":  node(unix.S_IFBLK, unix.Mkdev(8, 0)),
	"mknod-white": node(unix.S_IFCHR, 0),
	"euid":        euid,
	"whoami":      func([]string) (string, error) { return fmt.Sprint(os.Geteuid()), nil },
})

// node makes a device node.
func node(kind uint32, dev uint64) attack {
	return only(func([]string) error {
		return make1(func(p string) error { return unix.Mknod(p, kind|0o600, int(dev)) })
	})
}

// workingDir tells of a working directory that is not args[0].
func workingDir(args []string) (string, error) {
	dir, err := os.Readlink("/proc/self/cwd")
	if err == nil && dir == args[0] {
		err = errors.New("the workspace")
	}
	return dir, err
}

// climb looks for a file of the host above every directory that can be had.
func climb(args []string) (string, error) {
	const up = "../../../../../../../../../../../../../../../.."
	last := errors.New("no handle leads out")
	for _, dir := range []string{"/", ".", "/tmp", "/usr", "/proc/self/root", "/proc/self/cwd", "/proc/thread-self/root",
		"/proc/self/fd/0/..", "/proc/self/fd/1/..", "/proc/self/exe/..", "/dev/pts", "/proc", "/proc/self/task"} {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		at, err := unix.Openat(fd, up+args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
		_ = unix.Close(fd)
		if err == nil {
			_ = unix.Close(at)
			return "through " + dir, nil
		}
		last = err
	}
	return "", last
}

// inherited looks for descriptors that nobody gave to this program.
func inherited([]string) (string, error) {
	self, err := os.Open("/proc/self/fd")
	if err != nil {
		return "", err
	}
	defer self.Close()
	names, err := self.Readdirnames(-1)
	if err != nil {
		return "", err
	}
	var found []string
	for _, name := range names {
		target, err := os.Readlink("/proc/self/fd/" + name)
		if err != nil || name == fmt.Sprint(self.Fd()) || strings.HasPrefix(target, "anon_inode:") {
			continue // the runtime's own
		}
		var st unix.Stat_t
		if unix.Stat("/proc/self/fd/"+name, &st) != nil {
			continue
		}
		switch kind := st.Mode & unix.S_IFMT; {
		case len(name) > 1 || name > "2", kind == unix.S_IFDIR, kind == unix.S_IFSOCK:
			found = append(found, name+" → "+target)
		}
	}
	if len(found) == 0 {
		return "", errors.New("none")
	}
	return strings.Join(found, ", "), nil
}

// fileCapability gives a file every capability (vfs_cap_data, revision 2).
func fileCapability([]string) error {
	return make1(func(path string) error {
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			return err
		}
		value := make([]byte, 20)
		copy(value, []byte{1, 0, 0, 2, 0xff, 0xff, 0xff, 0xff})
		err := unix.Setxattr(path, "security.capability", value, 0)
		if err != nil {
			_ = os.Remove(path)
		}
		return err
	})
}

// handle opens a file by a handle, which asks no directory for leave.
func handle([]string) (string, error) {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, ".", 0)
	if err != nil { // then one is made up: an inode number is all that it takes
		h = unix.NewFileHandle(1, make([]byte, 8))
	}
	dir, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	fd, err := unix.OpenByHandleAt(dir, h, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	return "opened by handle", unix.Close(fd)
}

// euid runs a set-id program, which tells who it is.
func euid(args []string) (string, error) {
	out, err := exec.Command(args[0], "whoami").Output()
	if err != nil {
		return "", err
	}
	var v verdict
	if err := json.Unmarshal(out, &v); err != nil {
		return "", err
	}
	if v.Detail == fmt.Sprint(os.Geteuid()) {
		return "", errors.New("the same identity")
	}
	return "uid " + v.Detail, nil
}
