package agent

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hangupInterval is how often a half-closed connection is looked at.
const hangupInterval = 50 * time.Millisecond

// awaitHangup waits until a peer that has finished sending has closed its
// other half as well, or until stopped. It reports whether the peer is gone.
func awaitHangup(conn net.Conn, stopped <-chan struct{}) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	for {
		hungUp := false
		err := raw.Control(func(fd uintptr) {
			fds := []unix.PollFd{{Fd: int32(fd)}} // POLLHUP and POLLERR are always reported
			n, _ := unix.Poll(fds, 0)
			hungUp = n > 0
		})
		if err != nil || hungUp {
			return true
		}
		select {
		case <-stopped:
			return false
		case <-time.After(hangupInterval):
		}
	}
}
