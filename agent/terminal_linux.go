package agent

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// newTerminal makes a terminal in the sandbox's own devpts. The agent's side
// is non-blocking, and is only ever reached through its File: a deadline and
// a close must end what waits for it, since processes that were left behind
// may hold the other side for ever.
func newTerminal(size wire.TTY) (*stdio, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	terminal := os.NewFile(uintptr(fd), "terminal")
	if size.Rows == 0 || size.Cols == 0 {
		size = wire.TTY{Rows: 24, Cols: 80}
	}
	child, err := openChild(fd, size)
	if err != nil {
		terminal.Close()
		return nil, err
	}
	return &stdio{child: [3]int{child, child, child}, owned: []int{child}, stdin: terminal, stdout: terminal, terminal: terminal}, nil
}

// openChild sets the size and opens the command's side, by the agent's side
// and not by a name.
func openChild(fd int, size wire.TTY) (int, error) {
	if err := setSize(fd, size); err != nil {
		return -1, err
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return -1, os.NewSyscallError("TIOCSPTLCK", err)
	}
	child, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return -1, os.NewSyscallError("TIOCGPTPEER", errno)
	}
	return int(child), nil
}

func setSize(fd int, size wire.TTY) error {
	err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	return os.NewSyscallError("TIOCSWINSZ", err)
}

// resize fails where the terminal is closed already.
func resize(terminal *os.File, size wire.TTY) error {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = setSize(int(fd), size) })
	if cerr != nil {
		return cerr
	}
	return err
}

// foreground is the process group that has the terminal, 0 where none does.
func foreground(terminal *os.File) int {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return 0
	}
	group := 0
	_ = raw.Control(func(fd uintptr) {
		if g, err := unix.IoctlGetInt(int(fd), unix.TIOCGPGRP); err == nil {
			group = g
		}
	})
	return group
}
