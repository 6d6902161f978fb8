package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// gatewayEnv makes the test's program try a gateway.
const gatewayEnv = "PADDOCK_CONFINE_GATEWAY"

// TestGateway: what commands connect to arrives at the sockets of the gateway, whatever the
// address; nothing listens elsewhere; and the way out ends with the sockets.
func TestGateway(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), gatewayEnv+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch exit := (*exec.ExitError)(nil); {
	case err != nil && !errors.As(err, &exit):
		t.Skipf("user namespaces are forbidden here: %v", err)
	case strings.Contains(string(out), "(veth): operation not supported"):
		t.Skip("the kernel has no virtual interfaces (veth)")
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	}
}

// gatewayChild is what the test's program does.
func gatewayChild() error {
	runtime.LockOSThread()
	if err := loopbackUp(); err != nil {
		return err
	}
	const count = 5
	sockets, err := gateway(count)
	if err != nil {
		return err
	}
	if len(sockets) != count {
		return fmt.Errorf("there are %d sockets", len(sockets))
	}
	here, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	ours, err := unix.GetsockoptUint64(here, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return err
	}
	for i, fd := range sockets {
		kind, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		if err != nil || cookie == ours || (kind == unix.SOCK_DGRAM) != (i == 0) {
			return fmt.Errorf("socket %d has type %d and namespace %d, the sandbox %d (%w)", i, kind, cookie, ours, err)
		}
	}
	listener := sockets[1]
	_ = unix.SetNonblock(listener, false)
	if err := errors.Join(unix.Bind(listener, &unix.SockaddrInet4{Port: 443}), unix.Listen(listener, 8)); err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	for _, to := range [][4]byte{{198, 18, 0, 7}, {1, 1, 1, 1}, {169, 254, 169, 254}, {10, 0, 0, 1}} {
		if err := connect(to, 443); err != nil {
			return fmt.Errorf("connect to %v: %w", to, err)
		}
		fd, from, err := unix.Accept(listener)
		if err != nil {
			return err
		}
		at, err := unix.Getsockname(fd)
		_ = unix.Close(fd)
		if err != nil || at.(*unix.SockaddrInet4).Addr != to || from.(*unix.SockaddrInet4).Addr != sandboxAddr {
			return fmt.Errorf("a connection to %v arrived at %v from %v (%w)", to, at, from, err)
		}
		if err := connect(to, 444); !errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("connect to another port of %v: %w", to, err)
		}
	}
	if err := connect([4]byte{127, 0, 0, 1}, 443); !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("connect to loopback: %w", err)
	}
	udp, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(udp)
	if err := errors.Join(unix.SetsockoptTimeval(udp, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}),
		unix.Connect(udp, &unix.SockaddrInet4{Addr: [4]byte{1, 1, 1, 1}, Port: 443})); err != nil {
		return err
	}
	for refused, sent := 0, 0; refused < 10; sent++ { // more than one in a second, which is the usual bound
		_, err := unix.Write(udp, []byte("x"))
		if err == nil {
			_, err = unix.Read(udp, make([]byte, 1))
		}
		switch lost := sent - refused; {
		case errors.Is(err, unix.ECONNREFUSED):
			refused++
		case !errors.Is(err, unix.EAGAIN) || lost > 3: // another bound is that of the whole host
			return fmt.Errorf("datagram %d: %w", sent, err)
		}
	}
	// A command can have the port that a rule names, too.
	if err := errors.Join(unix.Bind(here, &unix.SockaddrInet4{Port: 443}), unix.Listen(here, 1)); err != nil {
		return fmt.Errorf("cannot listen in the sandbox: %w", err)
	}
	for _, fd := range sockets {
		_ = unix.Close(fd)
	}
	for range 1000 { // the kernel takes the namespace apart in the background
		if err = connect([4]byte{198, 18, 0, 7}, 443); errors.Is(err, unix.ENETUNREACH) {
			return nil
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 10e6}, nil)
	}
	return fmt.Errorf("connect after the end: %w", err)
}

// connect makes a connection and closes it.
func connect(to [4]byte, port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// While the kernel takes a gateway apart, nobody answers.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrInet4{Addr: to, Port: port})
}
