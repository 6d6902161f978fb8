//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attacks on what a process holds: args[0] is its pid.
var _ = register(map[string]attack{
	"proc-open":     procOpen,
	"proc-link":     procLink,
	"ptrace":        onPid(unix.PtraceSeize),
	"ptrace-attach": onPid(attach),
	"vm-read":       onPid(func(pid int) error { return reach(unix.SYS_PROCESS_VM_READV, pid) }),
	"vm-write":      onPid(func(pid int) error { return reach(unix.SYS_PROCESS_VM_WRITEV, pid) }),
	"pidfd-getfd":   onPid(pidfdGetfd),
	"kcmp":          onPid(func(pid int) error { return second(call(unix.SYS_KCMP, uintptr(pid), uintptr(pid), 2, 0, 0)) }),
	"madvise":       onPid(madvise),
	"move-pages":    onPid(func(pid int) error { return second(call(unix.SYS_MOVE_PAGES, uintptr(pid), 0, 0, 0, 0, 0)) }),
	"find-process":  findProcess,
	"find-memfd":    findMemfd,
	"hold":          hold,
	"personality":   raw(unix.SYS_PERSONALITY, 0x0400000),
})

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func onPid(do func(pid int) error) attack {
	return only(func(args []string) error { return do(number(args[0])) })
}

// procOpen opens /proc/PID/NAME.
func procOpen(args []string) (string, error) {
	f, err := os.Open("/proc/" + args[0] + "/" + args[1])
	if err != nil {
		return "", err
	}
	defer f.Close()
	if args[1] == "mem" {
		return "opened", nil
	}
	if strings.HasPrefix(args[1], "fd") || args[1] == "cwd" || args[1] == "root" {
		_, err = f.Readdirnames(1)
		return "listed", err
	}
	_, err = f.Read(make([]byte, 1))
	return "read", err
}

func procLink(args []string) (string, error) {
	return os.Readlink("/proc/" + args[0] + "/" + args[1])
}

// attach stops a process as debuggers do, and lets it go.
func attach(pid int) error {
	runtime.LockOSThread() // the tracer is a thread
	if err := unix.PtraceAttach(pid); err != nil {
		return err
	}
	if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
}

// reach reads or writes the memory of a process, where there need not be any:
// EFAULT comes after the permission.
func reach(nr uintptr, pid int) error {
	buf := make([]byte, 8)
	local := unix.Iovec{Base: &buf[0], Len: 8}
	remote := unix.RemoteIovec{Base: 8, Len: 8}
	_, err := call(nr, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil
	}
	return err
}

func pidfdGetfd(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("no pidfd: %w", err)
	}
	_, err = unix.PidfdGetfd(fd, 0, 0)
	return err
}

// madvise takes memory away from a process.
func madvise(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("no pidfd: %w", err)
	}
	remote := unix.RemoteIovec{Base: 4096, Len: 4096}
	_, err = call(unix.SYS_PROCESS_MADVISE, uintptr(fd), uintptr(unsafe.Pointer(&remote)), 1, unix.MADV_PAGEOUT, 0)
	if errors.Is(err, unix.ENOMEM) { // nothing is there; the permission comes first
		return nil
	}
	return err
}

// findProcess looks for a process whose command line has a text.
func findProcess(args []string) (string, error) {
	pid, err := processOf(args[0])
	return "/proc/" + pid, err
}

func processOf(token string) (string, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return "", err
	}
	own := fmt.Sprintf("/proc/%d/cmdline", os.Getpid())
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && file != own && strings.Contains(string(text), token) {
			return filepath.Base(filepath.Dir(file)), nil
		}
	}
	return "", errors.New("not visible")
}

// findMemfd opens the nameless file of a process (see hold).
func findMemfd(args []string) (string, error) {
	fds, err := filepath.Glob("/proc/" + args[0] + "/fd/*")
	if err != nil {
		return "", err
	}
	last := error(unix.EACCES) // of the directory, which Glob does not tell
	if _, err := os.Stat("/proc/" + args[0]); err != nil {
		last = err
	}
	for _, fd := range fds {
		link, err := os.Readlink(fd)
		if err != nil {
			last = err
			continue
		}
		if strings.HasPrefix(link, "/memfd:") {
			f, err := os.OpenFile(fd, os.O_RDWR, 0)
			if err != nil {
				return "", err
			}
			return "opened", f.Close()
		}
	}
	return "", last
}

// hold is no attack but a victim: args[0] is there to be found, args[1] is a
// file that it makes, args[2] the key of shared memory, where it may make any,
// and a nameless file is in its memory. It stays, once it has said so.
func hold(args []string) (string, error) {
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // whatever Yama says
	if len(args) > 1 {
		if err := os.WriteFile(args[1], []byte("the victim's"), 0o600); err != nil {
			return "", err
		}
	}
	if len(args) > 2 {
		_, _ = unix.SysvShmGet(number(args[2]), 4096, unix.IPC_CREAT|0o666)
	}
	if _, err := unix.MemfdCreate("victim", 0); err != nil {
		return "", err
	}
	fmt.Println("held")
	time.Sleep(time.Hour) // a victim is killed long before
	return "", nil
}
