package wire

import (
	"syscall"
	"unsafe"
)

// What the package syscall has no names for.
const (
	spliceMove     = 0x1
	spliceNonblock = 0x2
	pollIn         = 0x1
	pollOut        = 0x4
)

// isReady reports whether one of events, an error or the other side's end is
// there. It waits for one where it is to.
func isReady(fd int, events int16, wait bool) bool {
	p := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: events}
	var limit *syscall.Timespec // nil is for ever
	if !wait {
		limit = &syscall.Timespec{}
	}
	for {
		n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1,
			uintptr(unsafe.Pointer(limit)), 0, 0, 0)
		if errno != syscall.EINTR {
			return n == 1 // what else went wrong shows at the next try
		}
	}
}

func isNonblocking(fd uintptr) bool {
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
	return errno == 0 && flags&syscall.O_NONBLOCK != 0
}
