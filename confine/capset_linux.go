package confine

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capset reduces every thread of the process to the given sets. proc is a handle of a proc that
// shows the process, 0 for /proc. The calling thread must be locked.
//
// The runtime does it for a program without C. Beside C it refuses (ENOTSUP), because it does not
// know threads that C has started; in this process the only C is what packages net and os/user
// link when cgo is on. The kernel knows all threads: [capsetEach] goes by its list.
func capset(proc int, set [2]unix.CapUserData) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&set[0])), 0)
	runtime.KeepAlive(&header)
	runtime.KeepAlive(&set)
	switch errno {
	case 0:
		return nil
	case syscall.ENOTSUP:
		return capsetEach(proc, set)
	}
	return errno
}

// What capsetHandler's first function gives to capset(2). Nothing else may run capsetEach meanwhile.
var (
	capsetHeader unix.CapUserHeader
	capsetData   [2]unix.CapUserData
)

// capsetHandler returns the address of a signal handler that calls capset(2) with the variables
// above, and of the function that a handler returns to. The handler uses neither the stack nor
// anything of the Go runtime.
func capsetHandler() (handler, restorer uintptr)

// sigaction is the kernel's struct sigaction, see rt_sigaction(2).
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const (
	// capsetSignal is never blocked by Go, because C libraries call setuid(2) in every
	// thread by it. That is what it is for here, too.
	capsetSignal  = 33
	capsetTimeout = 10 * time.Second

	saOnStack  = 0x08000000
	saRestart  = 0x10000000
	saRestorer = 0x04000000
)

// setAction sets the action of capsetSignal and returns the one before.
func setAction(action sigaction) (before sigaction, err error) {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, capsetSignal,
		uintptr(unsafe.Pointer(&action)), uintptr(unsafe.Pointer(&before)), unsafe.Sizeof(action.mask), 0, 0)
	if errno != 0 {
		return before, os.NewSyscallError("rt_sigaction", errno)
	}
	return before, nil
}

// capsetEach interrupts every thread that has more than the given sets, so that it reduces
// itself. It ends when the kernel has listed all threads twice without one that has more: a
// thread that was being started while the list was read the first time is on the second one, and
// has what its parent had.
func capsetEach(proc int, set [2]unix.CapUserData) error {
	capsetHeader, capsetData = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, set
	handler, restorer := capsetHandler()
	before, err := setAction(sigaction{handler, saOnStack | saRestart | saRestorer, restorer, ^uint64(0)})
	if err != nil {
		return err
	}
	if err := unix.Capset(&capsetHeader, &capsetData[0]); err != nil { // the error of all, if there is one
		_, _ = setAction(before)
		return err
	}
	// A thread gets the signal once, and is reduced by it: none is left when the action is restored.
	sent, deadline := map[int]bool{}, time.Now().Add(capsetTimeout)
	for clean := 0; clean < 2; {
		tid, err := unreduced(proc, set, sent)
		switch {
		case err != nil:
			return err
		case tid == 0:
			clean++
			continue
		case time.Now().After(deadline):
			return fmt.Errorf("thread %d keeps its capabilities", tid)
		}
		clean = 0
		time.Sleep(20 * time.Microsecond)
	}
	_, err = setAction(before)
	return err
}

// unreduced returns a thread of this process that has more than the given sets, 0 if none has. It
// signals each such thread that was not sent the signal before.
func unreduced(proc int, set [2]unix.CapUserData, sent map[int]bool) (int, error) {
	path := "self/task"
	if proc == 0 {
		proc, path = unix.AT_FDCWD, "/proc/self/task"
	}
	fd, err := unix.Openat(proc, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	tasks := os.NewFile(uintptr(fd), path)
	defer tasks.Close()
	names, err := tasks.Readdirnames(0)
	if err != nil {
		return 0, err
	}
	found := 0
	for _, name := range names {
		more, err := hasMore(fd, name, set)
		if err != nil {
			return 0, err
		}
		tid, err := strconv.Atoi(name)
		if err != nil || !more {
			continue
		}
		found = tid
		if sent[tid] {
			continue
		}
		sent[tid] = true
		if err := unix.Tgkill(unix.Getpid(), tid, capsetSignal); err != nil && err != unix.ESRCH {
			return 0, os.NewSyscallError("tgkill", err)
		}
	}
	return found, nil
}

// hasMore reports whether a thread has a capability that is not in the sets. A thread that has
// ended has none.
func hasMore(tasks int, tid string, set [2]unix.CapUserData) (bool, error) {
	fd, err := unix.Openat(tasks, tid+"/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
			return false, nil
		}
		return false, &fs.PathError{Op: "open", Path: tid + "/status", Err: err}
	}
	status := os.NewFile(uintptr(fd), tid+"/status")
	defer status.Close()
	both := func(low, high uint32) uint64 { return uint64(high)<<32 | uint64(low) }
	want := map[string]uint64{
		"CapInh": both(set[0].Inheritable, set[1].Inheritable),
		"CapPrm": both(set[0].Permitted, set[1].Permitted),
		"CapEff": both(set[0].Effective, set[1].Effective),
		"CapAmb": 0,
	}
	lines := bufio.NewScanner(status)
	lines.Buffer(nil, 1<<20) // all groups are on one line
	for lines.Scan() && len(want) > 0 {
		name, value, _ := strings.Cut(lines.Text(), ":\t")
		allowed, ok := want[name]
		if !ok {
			continue
		}
		have, err := strconv.ParseUint(value, 16, 64)
		if err != nil {
			return false, fmt.Errorf("unreadable %s of thread %s: %q", name, tid, value)
		}
		if have&^allowed != 0 {
			return true, nil
		}
		delete(want, name)
	}
	if err := lines.Err(); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, err
	}
	return false, nil
}
