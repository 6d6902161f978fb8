//go:build linux

package linux

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seccompTSYNC puts every thread of the process behind a filter.
func seccompTSYNC(prog *unix.SockFprog) error {
	tid, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(prog)))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return errno
	}
	if tid != 0 {
		return errors.New("a thread could not be put behind the filter")
	}
	return nil
}
