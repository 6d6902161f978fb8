//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const sysFchmodat2 = 452 // on every architecture

const setID = unix.S_ISUID | unix.S_ISGID

// Each attack of this family makes a set-id file in its own way. On disk such
// a file would give its owner's identity to whoever runs it on the host.
var _ = register(map[string]attack{
	"setid-fchmod": only(func([]string) error {
		return plant(func(p string) error { return withFile(p, func(fd int) error { return unix.Fchmod(fd, 0o6755) }) })
	}),
	"setid-fchmodat": only(func([]string) error {
		return plant(func(p string) error {
			return errors.Join(touch(p), second(call(unix.SYS_FCHMODAT, atCwd, cstring(p), 0o6755)))
		})
	}),
	"setid-fchmodat2": only(func([]string) error {
		return plant(func(p string) error {
			return errors.Join(touch(p), second(call(sysFchmodat2, atCwd, cstring(p), 0o6755, 0)))
		})
	}),
	"setid-openat": only(func([]string) error {
		return plant(func(p string) error {
			return second(call(unix.SYS_OPENAT, atCwd, cstring(p), unix.O_CREAT|unix.O_WRONLY, 0o6755))
		})
	}),
	"setid-openat2": only(func([]string) error {
		return plant(func(p string) error {
			_, err := unix.Openat2(unix.AT_FDCWD, p, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o6755})
			return err
		})
	}),
	"setid-tmpfile": only(tmpfile),
	"setid-mknodat": only(func([]string) error {
		return plant(func(p string) error { return second(call(unix.SYS_MKNODAT, atCwd, cstring(p), unix.S_IFREG|0o6755, 0)) })
	}),
	"setid-mkdirat": only(func([]string) error {
		return plant(func(p string) error { return second(call(unix.SYS_MKDIRAT, atCwd, cstring(p), 0o6755)) })
	}),
	"setid-highbits": only(func([]string) error { return plant(highBits) }),
	"setid-io_uring": raw(unix.SYS_IO_URING_SETUP, 1, address(&zeroes[0])),
	"setid-flood":    only(flood),
	"setid-tar":      only(func([]string) error { return plant(untar) }),
	"setid-cp":       only(func([]string) error { return plant(copySuid) }),
})

var atCwd = uintptr(0xffffffffffffff9c) // AT_FDCWD as the register holds it

func second(_ uintptr, err error) error { return err }

func touch(path string) error { return os.WriteFile(path, nil, 0o755) }

func withFile(path string, do func(fd int) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o755)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(int(f.Fd()))
}

// plant makes a file, and looks whether a set-id bit came with it.
func plant(do func(path string) error) error {
	path := fmt.Sprintf("attacker-%d", os.Getpid())
	defer os.Remove(path)
	if err := do(path); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&setID == 0 {
		return errors.New("the bit was left out")
	}
	return nil
}

// tmpfile makes a file without a name, which a link gives one afterwards.
func tmpfile([]string) error {
	return plant(func(p string) error {
		fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_RDWR, 0o6755)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, p, unix.AT_SYMLINK_FOLLOW)
	})
}

// flood asks until whoever tells of refusals has had enough, and once more.
func flood([]string) error {
	return plant(func(p string) error {
		return withFile(p, func(fd int) (err error) {
			began := time.Now()
			for n := 0; n < 70000 && time.Since(began) < 10*time.Second; n++ {
				if err = unix.Fchmod(fd, 0o6755); err == nil {
					break
				}
			}
			return err
		})
	})
}

// untar lets tar make the file, which is not to be hindered in making others.
func untar(path string) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: path, Mode: 0o6755}), w.Close()); err != nil {
		return err
	}
	cmd := exec.Command("tar", "-xpf", "-")
	cmd.Stdin = &archive
	return said(cmd)
}

// copySuid lets cp copy a set-id program of the system's.
func copySuid(path string) error {
	for _, program := range []string{"/usr/bin/su", "/bin/su", "/usr/bin/passwd", "/usr/bin/mount"} {
		if info, err := os.Stat(program); err == nil && info.Mode()&os.ModeSetuid != 0 {
			return said(exec.Command("cp", "-p", program, path))
		}
	}
	return errors.New("no such program")
}

// said makes a system call's error of what a program complains about.
func said(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil && bytes.Contains(out, []byte("Operation not permitted")) {
		return unix.EPERM
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// highBits hides the bit from a filter that compares whole registers.
func highBits(path string) error {
	return errors.Join(touch(path), second(call(unix.SYS_FCHMODAT, atCwd, cstring(path), 0xdead_0000_0000_0000|0o6755)))
}

// cloneArgs is struct clone_args as of its first version.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
}

func clone3(flags uint64) error {
	args := cloneArgs{flags: flags, exitSignal: uint64(unix.SIGCHLD)}
	return fork(func() (uintptr, error) {
		return call(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
	})
}
