package agent

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
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
