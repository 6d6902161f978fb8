package agent

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

const (
	// pipeSize is asked for on the pipes of bulk output, in bytes: fewer
	// wake-ups. A host that allows less is fine.
	pipeSize = 1 << 20
	// bulk is what makes output that, in bytes of one read. Most commands
	// print less, and room for more costs them.
	bulk = 32 << 10
)

// nothing is the empty standard input of all commands.
var nothing = sync.OnceValues(func() (int, error) {
	return unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
})

// widen makes room for bulk output.
func widen(pipe *os.File) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
}

// stdio are a command's standard streams: the child's ends, to be closed once
// it runs, and the agent's, nil where there is none.
type stdio struct {
	child          [3]int
	owned          []int      // those of child that are to be closed
	given          []*os.File // likewise, from the client
	stdin          *os.File
	stdout, stderr *os.File
	terminal       *os.File // is stdin and stdout at once
}

func (s *stdio) closeChild() {
	for _, fd := range s.owned {
		_ = unix.Close(fd)
	}
	s.owned = nil
	closeFiles(s.given)
}

func (s *stdio) closeAll() {
	s.closeChild()
	for _, f := range []*os.File{s.stdin, s.stdout, s.stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// newPipes makes the streams of a command without a terminal; withStdin false
// gives it an empty standard input. Outputs that are given take the place of
// pipes to the agent, stdout first.
func newPipes(withStdin bool, outputs []*os.File) (s *stdio, err error) {
	s = &stdio{given: outputs}
	defer func() {
		if err != nil {
			s.closeAll()
		}
	}()
	if withStdin {
		if s.child[0], s.stdin, err = s.pipe(true); err != nil {
			return s, err
		}
	} else {
		if s.child[0], err = nothing(); err != nil {
			return s, err
		}
	}
	for i, f := range outputs {
		s.child[1+i] = int(f.Fd())
	}
	if len(outputs) < 1 {
		if s.child[1], s.stdout, err = s.pipe(false); err != nil {
			return s, err
		}
	}
	if len(outputs) < 2 {
		s.child[2], s.stderr, err = s.pipe(false)
	}
	return s, err
}

// socket makes a pair of connected sockets, of which the agent's does not block.
func (s *stdio) socket() (int, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, os.NewSyscallError("socketpair", err)
	}
	return s.keep(pair[0], pair[1], "socket")
}

// pipe makes one stream. Only the agent's end is non-blocking: the mode
// belongs to an open file description, and commands expect a plain one.
func (s *stdio) pipe(childReads bool) (int, *os.File, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, nil, os.NewSyscallError("pipe2", err)
	}
	child, own := fds[1], fds[0]
	if childReads {
		child, own = fds[0], fds[1]
	}
	return s.keep(child, own, "pipe")
}

// keep makes the agent's end a file that does not block.
func (s *stdio) keep(child, own int, name string) (int, *os.File, error) {
	s.owned = append(s.owned, child)
	if err := unix.SetNonblock(own, true); err != nil {
		unix.Close(own)
		return -1, nil, err
	}
	return child, os.NewFile(uintptr(own), name), nil
}

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
