//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var _ = register(map[string]attack{
	"proc-open":    procOpen,
	"proc-link":    procLink,
	"ptrace":       only(func(args []string) error { return ptrace(number(args[0])) }),
	"vm-read":      only(func(args []string) error { return vmRead(number(args[0])) }),
	"pidfd-getfd":  only(func(args []string) error { return pidfdGetfd(number(args[0])) }),
	"kill":         only(func(args []string) error { return survives(number(args[0]), killAll) }),
	"sigqueue":     only(func(args []string) error { return survives(number(args[0]), forge) }),
	"prlimit":      only(func(args []string) error { return prlimit(number(args[0])) }),
	"affinity":     only(func(args []string) error { return affinity(number(args[0])) }),
	"find-process": findProcess,
	"hold":         hold,
	"personality":  raw(unix.SYS_PERSONALITY, 0x0400000),
	"nice-user":    only(func([]string) error { return unix.Setpriority(unix.PRIO_USER, 0, 1) }),
})

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
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

func ptrace(pid int) error { return unix.PtraceSeize(pid) }

func vmRead(pid int) error {
	buf := make([]byte, 8)
	local := []unix.Iovec{{Base: &buf[0], Len: 8}}
	// The address may be wrong, which is an answer of its own: EFAULT comes
	// after the permission.
	_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
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

// survives attacks a process and looks whether it is there afterwards. The
// init of a pid namespace takes the namespace with it, this program included.
func survives(pid int, strike func(pid int)) error {
	strike(pid)
	for range 50 {
		if err := unix.Kill(pid, 0); err != nil {
			return nil //nolint:nilerr // it is gone, which is the success of the attack
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("survived")
}

func killAll(pid int) {
	for sig := unix.Signal(1); sig <= 64; sig++ {
		if sig != unix.SIGCHLD {
			_ = unix.Kill(pid, sig)
		}
	}
}

// forge sends signals as if the kernel had found a fault (si_code -1).
func forge(pid int) {
	for _, sig := range []unix.Signal{unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS, unix.SIGKILL} {
		info := [128]byte{}
		*(*int32)(unsafe.Pointer(&info[0])) = int32(sig)
		*(*int32)(unsafe.Pointer(&info[8])) = -1
		_, _ = call(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(sig), uintptr(unsafe.Pointer(&info)))
	}
}

func prlimit(pid int) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &old); err != nil {
		return fmt.Errorf("look: %w", err)
	}
	return unix.Prlimit(pid, unix.RLIMIT_CPU, &old, nil) // no change, and yet a write
}

func affinity(pid int) error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return err
	}
	return unix.SchedSetaffinity(pid, &set)
}

// findProcess looks for a process whose command line has a text.
func findProcess(args []string) (string, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return "", err
	}
	own := fmt.Sprintf("/proc/%d/cmdline", os.Getpid())
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && file != own && strings.Contains(string(text), args[0]) {
			return file, nil
		}
	}
	return "", errors.New("not visible")
}

// hold is no attack but a victim: args[0] is there to be found, args[1] is a
// file that it makes. It stays, once it has said so.
func hold(args []string) (string, error) {
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // whatever Yama says
	if len(args) > 1 {
		if err := os.WriteFile(args[1], nil, 0o600); err != nil {
			return "", err
		}
	}
	fmt.Println("held")
	time.Sleep(time.Hour) // a victim is killed long before
	return "", nil
}
