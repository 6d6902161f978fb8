package agent

import (
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// pipeSize is asked for on output pipes, in bytes: fewer wake-ups for bulk
// output. A host that allows less is fine.
const pipeSize = 1 << 20

// stdio are a command's standard streams: the child's ends, to be closed once
// it runs, and the agent's, nil where there is none.
type stdio struct {
	child          [3]int
	owned          []int // those of child that are to be closed
	stdin          *os.File
	stdout, stderr *os.File
	terminal       *os.File // is stdin and stdout at once
}

func (s *stdio) closeChild() {
	for _, fd := range s.owned {
		_ = unix.Close(fd)
	}
	s.owned = nil
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
// gives it an empty standard input.
func newPipes(withStdin bool) (s *stdio, err error) {
	s = &stdio{}
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
		if s.child[0], err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return s, err
		}
		s.owned = append(s.owned, s.child[0])
	}
	if s.child[1], s.stdout, err = s.pipe(false); err != nil {
		return s, err
	}
	s.child[2], s.stderr, err = s.pipe(false)
	return s, err
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
	} else {
		_, _ = unix.FcntlInt(uintptr(own), unix.F_SETPIPE_SZ, pipeSize)
	}
	s.owned = append(s.owned, child)
	if err := unix.SetNonblock(own, true); err != nil {
		unix.Close(own)
		return -1, nil, err
	}
	return child, os.NewFile(uintptr(own), "pipe"), nil
}

// newTerminal makes a terminal in the sandbox's own devpts.
func newTerminal(size wire.TTY) (*stdio, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, err
	}
	if size.Rows == 0 || size.Cols == 0 {
		size = wire.TTY{Rows: 24, Cols: 80}
	}
	if err := resize(master, size); err != nil {
		master.Close()
		slave.Close()
		return nil, err
	}
	// A duplicate of the slave outlives the File, and is closed by number.
	fd, err := unix.FcntlInt(slave.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	slave.Close()
	if err != nil {
		master.Close()
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &stdio{child: [3]int{fd, fd, fd}, owned: []int{fd}, stdin: master, stdout: master, terminal: master}, nil
}

func resize(terminal *os.File, size wire.TTY) error {
	return pty.Setsize(terminal, &pty.Winsize{Rows: size.Rows, Cols: size.Cols})
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
