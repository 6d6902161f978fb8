//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

var _ = register(map[string]attack{
	"read":      read,
	"list":      list,
	"create":    only(create),
	"overwrite": only(overwrite),
	"append":    only(appendTo),
	"remove":    only(func(args []string) error { return os.Remove(args[0]) }),
	"rename":    only(func(args []string) error { return os.Rename(args[0], args[1]) }),
	"exchange":  only(exchange),
	"replace":   only(replace),
	"hardlink":  only(hardlink),
	"climb":     climb,
	"inherited": inherited,
	"filecap":   only(fileCapability),
	"mknod": only(func([]string) error {
		return make1(func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) })
	}),
	"handle":     handle,
	"open":       only(openFor),
	"shared-map": only(sharedMap),
	"socket-at":  only(connectTo),
})

// read reaches the first byte of a file.
func read(args []string) (string, error) {
	f, err := os.Open(args[0])
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 1)); err != nil {
		return "", err
	}
	return "read " + args[0], nil
}

// list reaches the entries of a directory.
func list(args []string) (string, error) {
	entries, err := os.ReadDir(args[0])
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return "", errors.New("empty")
	}
	return fmt.Sprintf("%d entries", len(entries)), nil
}

// openFor opens a file with flags "r", "w" or "p" (a path handle).
func openFor(args []string) error {
	flags := map[string]int{"r": unix.O_RDONLY, "w": unix.O_WRONLY}[args[1]]
	fd, err := unix.Open(args[0], flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// create makes a new file and takes it away again.
func create(args []string) error {
	f, err := os.OpenFile(args[0], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(args[0]))
}

func overwrite(args []string) error {
	f, err := os.OpenFile(args[0], os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("#!attacker\n")
	return errors.Join(err, f.Close())
}

func appendTo(args []string) error {
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("attacked\n")
	return errors.Join(err, f.Close())
}

// replace puts a new file in the place of an old one, as editors do.
func replace(args []string) error {
	tmp := args[0] + ".attacker"
	if err := os.WriteFile(tmp, []byte("#!attacker\n"), 0o755); err != nil {
		// Its directory is read-only: bring the file from elsewhere.
		tmp = filepath.Join(os.TempDir(), "attacker-file")
		if err := os.WriteFile(tmp, nil, 0o755); err != nil {
			return err
		}
	}
	defer os.Remove(tmp)
	return os.Rename(tmp, args[0])
}

// exchange swaps a directory for one of the attacker's.
func exchange(args []string) error {
	fake := args[0] + ".attacker"
	if err := os.Mkdir(fake, 0o755); err != nil {
		return err
	}
	defer os.Remove(fake)
	if err := unix.Renameat2(unix.AT_FDCWD, fake, unix.AT_FDCWD, args[0], unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	return unix.Renameat2(unix.AT_FDCWD, fake, unix.AT_FDCWD, args[0], unix.RENAME_EXCHANGE)
}

func hardlink(args []string) error {
	name := "attacker-link"
	defer os.Remove(name)
	return os.Link(args[0], name)
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

// make1 makes something at a fresh path and takes it away again.
func make1(do func(path string) error) error {
	path := fmt.Sprintf("attacker-%d", os.Getpid())
	if err := do(path); err != nil {
		return err
	}
	return os.Remove(path)
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

// handle opens a file by a handle, which asks no directory for leave. Where
// none is to be had it makes one up: an inode number is all that it takes.
func handle([]string) (string, error) {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, ".", 0)
	if err != nil {
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

// sharedMap changes a file through a shared mapping, which the kernel does not
// take for a write when it decides on a set-id bit.
func sharedMap(args []string) error {
	f, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	copy(m, "evil")
	if err := unix.Munmap(m); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(args[0], &st); err != nil {
		return err
	}
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 {
		return errors.New("the bit was cleared")
	}
	return nil
}

// connectTo connects to a socket that has a path.
func connectTo(args []string) error { return connectUnix(args[0]) }

func cstring(s string) uintptr {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err)
	}
	pinned = append(pinned, p)
	return uintptr(unsafe.Pointer(p))
}

// pinned keeps what raw system calls point to.
var pinned []*byte
