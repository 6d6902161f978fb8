//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var _ = register(map[string]attack{
	"tcp":       only(func(args []string) error { return connectTCP(args[0]) }),
	"listed":    connections,
	"udp":       only(func(args []string) error { return sendUDP(args[0], 2) }), // the second is told what became of the first
	"udp-far":   only(func(args []string) error { return sendUDP(args[0], 1) }), // some router may say no later: it was let out
	"abstract":  only(func(args []string) error { return connectUnix("@" + args[0]) }),
	"socket":    only(func(args []string) error { return socket(number(args[0]), number(args[1]), number(args[2])) }),
	"route":     only(addAddress),
	"lo-down":   only(loopbackFlags),
	"ifaces":    interfaces,
	"tiocsti":   only(func([]string) error { return typeAhead(typeKey) }),
	"tioclinux": only(func([]string) error { return typeAhead(pasteConsole) }),
	"socket-at": only(func(args []string) error { return connectUnix(args[0]) }),
	"listen":    only(listen),

	"pair-send":    pair(func(fd int, to unix.Sockaddr) error { return unix.Sendto(fd, []byte("x"), 0, to) }),
	"pair-connect": pair(unix.Connect),
})

func connectTCP(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

func sendUDP(addr string, times int) error {
	conn, err := net.Dial("udp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	for ; times > 0 && err == nil; times-- {
		_, err = conn.Write([]byte("x"))
	}
	return err
}

// connections looks for a port in the tables of connections.
func connections(args []string) (string, error) {
	_, port, err := net.SplitHostPort(args[0])
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(text), fmt.Sprintf(":%04X ", number(port))) {
		return "", errors.New("not listed")
	}
	return "listed", nil
}

// connectUnix connects to a path, from its directory: an address has room for
// 107 bytes.
func connectUnix(addr string) error {
	if filepath.IsAbs(addr) {
		if err := os.Chdir(filepath.Dir(addr)); err == nil {
			addr = filepath.Base(addr)
		}
	}
	conn, err := net.Dial("unix", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// listen serves a port that others could take for the host's.
func listen(args []string) error {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // that is another protocol
	ln, err := config.Listen(context.Background(), args[0], args[1])
	if err != nil {
		return err
	}
	return ln.Close()
}

// pair uses one of two connected sockets to reach a third: args[0], a path or
// an abstract name that begins with @.
func pair(use func(fd int, to unix.Sockaddr) error) attack {
	return only(func(args []string) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return use(fds[0], &unix.SockaddrUnix{Name: args[0]})
	})
}

func socket(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// addAddress gives lo another address by netlink (RTM_NEWADDR), and with it a
// route.
func addAddress([]string) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	msg := make([]byte, 0, 64)
	order := binary.NativeEndian
	msg = order.AppendUint32(msg, unix.SizeofNlMsghdr+unix.SizeofIfAddrmsg+16)
	msg = order.AppendUint16(msg, unix.RTM_NEWADDR)
	msg = order.AppendUint16(msg, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE)
	msg = append(msg, 1, 0, 0, 0, 0, 0, 0, 0)                // sequence, port
	msg = append(msg, unix.AF_INET, 32, 0, 0, 1, 0, 0, 0)    // ifaddrmsg: /32 on interface 1
	msg = append(msg, 8, 0, unix.IFA_LOCAL, 0, 127, 9, 9, 9) // rtattr
	msg = append(msg, 8, 0, unix.IFA_ADDRESS, 0, 127, 9, 9, 9)
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 1024)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < 20 {
		return errors.New("short answer")
	}
	return errno(unix.Errno(-int32(order.Uint32(answer[16:]))))
}

// loopbackFlags sets lo's flags as they are, which still needs the right to.
func loopbackFlags([]string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// interfaces looks for any but lo.
func interfaces([]string) (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range all {
		if i.Name != "lo" {
			return i.Name, nil
		}
	}
	return "", errors.New("lo alone")
}

// typeAhead does something to a terminal of its own, as it would to the caller's.
func typeAhead(do func(tty uintptr) error) error {
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer ptmx.Close()
	if err := unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetUint32(int(ptmx.Fd()), unix.TIOCGPTN)
	if err != nil {
		return err
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer tty.Close()
	signal.Ignore(unix.SIGHUP) // for when the terminal goes
	_, _ = unix.Setsid()       // fails where it is a leader already, which does as well
	if err := unix.IoctlSetInt(int(tty.Fd()), unix.TIOCSCTTY, 0); err != nil {
		return fmt.Errorf("no controlling terminal: %v", err)
	}
	return do(tty.Fd())
}

// The upper half of the register is not the kernel's to see.
const upperHalf = 0xdead_0000_0000_0000

func typeKey(tty uintptr) error {
	key := []byte{'x'}
	return second(call(unix.SYS_IOCTL, tty, upperHalf|unix.TIOCSTI, address(&key[0])))
}

// pasteConsole pastes what is selected on a console (subcode 3).
func pasteConsole(tty uintptr) error {
	subcode := []byte{3}
	return second(call(unix.SYS_IOCTL, tty, upperHalf|unix.TIOCLINUX, address(&subcode[0])))
}
