//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attacks that end a process, args[0]. All of them send what cannot be caught.
var _ = register(map[string]attack{
	"kill":        strike(every(unix.Kill)),
	"tkill":       strike(threads(func(_, tid int) error { return second(call(unix.SYS_TKILL, uintptr(tid), uintptr(unix.SIGKILL))) })),
	"tgkill":      strike(threads(func(pid, tid int) error { return unix.Tgkill(pid, tid, unix.SIGKILL) })),
	"kill-thread": strike(threads(func(_, tid int) error { return unix.Kill(tid, unix.SIGKILL) })),
	"sigqueue": strike(forged(func(pid int, sig unix.Signal, info *[128]byte) error {
		return queue(unix.SYS_RT_SIGQUEUEINFO, sig, info, pid)
	})),
	"tgsigqueue": strike(forged(func(pid int, sig unix.Signal, info *[128]byte) error {
		return queue(unix.SYS_RT_TGSIGQUEUEINFO, sig, info, pid, pid)
	})),
	"pidfd-signal": strike(func(pid int) error { return pidfdSignal(pid, 0) }),
	"pidfd-thread": strike(threads(func(_, tid int) error { return pidfdSignal(tid, unix.O_EXCL) })), // PIDFD_THREAD
	"own-file":     strike(threads(func(_, tid int) error { return own(unix.F_SETOWN, tid) })),
	"own-file-ex":  strike(threads(func(_, tid int) error { return own(unix.F_SETOWN_EX, tid) })),
	"own-socket":   strike(threads(func(_, tid int) error { return ownSocket(tid) })),
	"own-group":    strike(func(pid int) error { return group(pid, func(pgid int) error { return own(unix.F_SETOWN, -pgid) }) }),
	"kill-group":   strike(func(pid int) error { return group(pid, func(pgid int) error { return unix.Kill(-pgid, unix.SIGKILL) }) }),
})

// strike makes an attack of a blow: it looks whether the victim is there
// afterwards. The init of a pid namespace takes the namespace with it, this
// program included.
func strike(blow func(pid int) error) attack {
	return onPid(func(pid int) error {
		if err := blow(pid); err != nil {
			return err
		}
		for range 30 {
			if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
				return nil
			}
			time.Sleep(10 * time.Millisecond)
		}
		return errors.New("survived")
	})
}

// every sends each signal; where one could be sent, it is no error.
func every(send func(pid int, sig unix.Signal) error) func(pid int) error {
	return func(pid int) error {
		var refused error
		sent := false
		for sig := unix.Signal(1); sig <= 64; sig++ {
			if sig == unix.SIGCHLD {
				continue
			}
			if err := send(pid, sig); err == nil {
				sent = true
			} else if refused == nil {
				refused = err
			}
		}
		if sent {
			return nil
		}
		return refused
	}
}

// threads strikes each thread of a process, as far as they can be seen.
func threads(blow func(pid, tid int) error) func(pid int) error {
	return func(pid int) error {
		tids := []int{pid}
		entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		for _, e := range entries {
			if tid, err := strconv.Atoi(e.Name()); err == nil && tid != pid {
				tids = append(tids, tid)
			}
		}
		var refused error
		sent := false
		for _, tid := range tids {
			if err := blow(pid, tid); err == nil {
				sent = true
			} else {
				refused = err
			}
		}
		if sent {
			return nil
		}
		return refused
	}
}

// forged sends signals as if the kernel had found a fault (si_code -1), and
// one that nobody survives.
func forged(send func(pid int, sig unix.Signal, info *[128]byte) error) func(pid int) error {
	return func(pid int) error {
		var refused error
		sent := false
		for _, sig := range []unix.Signal{unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS, unix.SIGKILL} {
			info := [128]byte{}
			*(*int32)(unsafe.Pointer(&info[0])) = int32(sig)
			*(*int32)(unsafe.Pointer(&info[8])) = -1
			if refused = send(pid, sig, &info); refused == nil {
				sent = true
			}
		}
		if sent {
			return nil
		}
		return refused
	}
}

func queue(nr uintptr, sig unix.Signal, info *[128]byte, ids ...int) error {
	var args []uintptr
	for _, id := range ids {
		args = append(args, uintptr(id))
	}
	return second(call(nr, append(args, uintptr(sig), uintptr(unsafe.Pointer(info)))...))
}

func pidfdSignal(pid, flags int) error {
	fd, err := unix.PidfdOpen(pid, flags)
	if err != nil {
		return fmt.Errorf("no pidfd: %w", err)
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// own makes a process the owner of a pipe: it gets a signal of the maker's
// choice as soon as there is something to read.
func own(how, owner int) error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return err
	}
	arg := uintptr(owner)
	ex := [2]int32{0, int32(owner)} // F_OWNER_TID
	if how == unix.F_SETOWN_EX {
		arg = uintptr(unsafe.Pointer(&ex))
	}
	if _, err := call(unix.SYS_FCNTL, uintptr(p[0]), uintptr(how), arg); err != nil {
		return err
	}
	return fire(p[0], p[1])
}

// ownSocket does the same by the socket's own call.
func ownSocket(owner int) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	id := int32(owner)
	if _, err := call(unix.SYS_IOCTL, uintptr(pair[0]), unix.SIOCSPGRP, uintptr(unsafe.Pointer(&id))); err != nil {
		return err
	}
	return fire(pair[0], pair[1])
}

func fire(read, write int) error {
	if _, err := unix.FcntlInt(uintptr(read), unix.F_SETSIG, int(unix.SIGKILL)); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(read), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK); err != nil {
		return err
	}
	_, err := unix.Write(write, []byte("x"))
	return err
}

// group strikes the process group of a process, if that is not the own one.
func group(pid int, blow func(pgid int) error) error {
	pgid, err := unix.Getpgid(pid)
	if err != nil {
		return err
	}
	if pgid <= 1 || pgid == unix.Getpgrp() { // -1 is everybody
		return errors.New("its group has no number here")
	}
	return blow(pgid)
}
