// Package ports connects clients to the ports of the sandbox's own loopback.
package ports

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// dialTimeout bounds a connection to the sandbox's own loopback.
const dialTimeout = 10 * time.Second

// Dial connects to a port of the loopback. A program may listen on either of its addresses.
func Dial(port int) (*net.TCPConn, error) {
	if port < 1 || port > 65535 {
		return nil, &wire.Error{Code: wire.CodeBadRequest, Object: "port", Message: "port must be from 1 to 65535"}
	}
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: -1}
	var first error
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := dialer.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		if first == nil {
			first = err
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			break
		}
	}
	return nil, refusal(port, first)
}

// refusal returns the error of a port that cannot be connected to.
func refusal(port int, err error) *wire.Error {
	object := strconv.Itoa(port)
	errno := syscall.Errno(0)
	if !errors.As(err, &errno) {
		return &wire.Error{Code: wire.CodeTimeout, Object: object, Message: fmt.Sprintf("cannot connect to port %d: %v", port, err)}
	}
	e := &wire.Error{Code: wire.CodeFailed, Object: object, Errno: int(errno), Message: fmt.Sprintf("cannot connect to port %d: %v", port, errno)}
	switch errno {
	case unix.ECONNREFUSED:
		e.Message = fmt.Sprintf("cannot connect to port %d: nothing listens there", port)
		e.Hint = "a program inside must listen on 127.0.0.1, ::1 or all addresses"
	case unix.EMFILE, unix.ENFILE:
		e.Code = wire.CodeBusy
	}
	return e
}
