//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var _ = register(map[string]attack{
	"read":       read,
	"list":       list,
	"create":     only(create),
	"overwrite":  only(overwrite),
	"append":     only(appendTo),
	"remove":     only(func(args []string) error { return os.Remove(args[0]) }),
	"rename":     only(func(args []string) error { return os.Rename(args[0], args[1]) }),
	"exchange":   only(exchange),
	"replace":    only(replace),
	"hardlink":   only(hardlink),
	"open":       only(openFor),
	"shared-map": only(sharedMap),

	"stat":      only(func(args []string) error { _, err := os.Stat(args[0]); return err }),
	"chmod":     only(func(args []string) error { return os.Chmod(args[0], 0o644) }),
	"touch":     only(func(args []string) error { return os.Chtimes(args[0], time.Time{}, time.Now()) }),
	"setxattr":  only(func(args []string) error { return unix.Setxattr(args[0], "user.attacker", []byte("x"), 0) }),
	"truncate":  only(func(args []string) error { return os.Truncate(args[0], 10) }),
	"watch":     only(watch),
	"execute":   only(func(args []string) error { return exec.Command(args[0]).Run() }),
	"through":   only(throughLink),
	"take-away": only(takeAway),
	"reopen":    only(reopen),
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

// list reaches the entries of a directory other than those that are named.
func list(args []string) (string, error) {
	entries, err := os.ReadDir(args[0])
	if err != nil {
		return "", err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return slices.Contains(args[1:], e.Name()) })
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

// watch is told when others use a file.
func watch(args []string) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, args[0], unix.IN_ALL_EVENTS)
	return err
}

// throughLink reads a file by a symbolic link in the working directory.
func throughLink(args []string) error {
	return make1(func(path string) error {
		if err := os.Symlink(args[0], path); err != nil {
			return err
		}
		_, err := os.ReadFile(path)
		if err != nil {
			_ = os.Remove(path)
		}
		return err
	})
}

// reopen makes a handle for reading one for writing.
func reopen(args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	return openFor([]string{fmt.Sprintf("/proc/self/fd/%d", f.Fd()), "w"})
}

// takeAway moves a file of the host's into the working directory, and back.
func takeAway(args []string) error {
	here := fmt.Sprintf("attacker-%d", os.Getpid())
	if err := os.Rename(args[0], here); err != nil {
		return err
	}
	return os.Rename(here, args[0])
}

func hardlink(args []string) error {
	name := fmt.Sprintf("attacker-link-%d", os.Getpid())
	defer os.Remove(name)
	return os.Link(args[0], name)
}

// make1 makes something at a fresh path and takes it away again.
func make1(do func(path string) error) error {
	path := fmt.Sprintf("attacker-%d", os.Getpid())
	if err := do(path); err != nil {
		return err
	}
	return os.Remove(path)
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
