package spawn

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

const (
	// PipeSize is the size that pipes of bulk output get, in bytes, for fewer
	// wake-ups. A host may allow less.
	PipeSize = 1 << 20
	// Bulk is how many bytes in one read make output bulk output. Most commands
	// print less, and a larger pipe costs them time.
	Bulk = 32 << 10
)

// DevNull is the empty standard input of all commands.
var DevNull = sync.OnceValues(func() (int, error) {
	return unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
})

// Widen enlarges a pipe for bulk output.
func Widen(pipe *os.File) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, PipeSize) })
	}
}

// Stdio holds a command's standard streams: the child's ends, to be closed once
// it runs, and the agent's ends, nil for a stream without one.
type Stdio struct {
	Child          [3]int
	owned          []int      // descriptors of Child that must be closed
	Given          []*os.File // files from the client, to be closed with them
	Stdin          *os.File
	Stdout, Stderr *os.File
	Terminal       *os.File // is Stdin and Stdout at once
}

// CloseChild closes the child's ends.
func (s *Stdio) CloseChild() {
	for _, fd := range s.owned {
		_ = unix.Close(fd)
	}
	s.owned = nil
	CloseFiles(s.Given)
}

// CloseAll closes both the child's ends and the agent's.
func (s *Stdio) CloseAll() {
	s.CloseChild()
	for _, f := range []*os.File{s.Stdin, s.Stdout, s.Stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// NewPipes makes the streams of a command without a terminal. Without withStdin its
// standard input is empty. The given outputs replace pipes to the agent, stdout
// first.
func NewPipes(withStdin bool, outputs []*os.File) (s *Stdio, err error) {
	s = &Stdio{Given: outputs}
	defer func() {
		if err != nil {
			s.CloseAll()
		}
	}()
	if withStdin {
		if s.Child[0], s.Stdin, err = s.Pipe(true); err != nil {
			return s, err
		}
	} else {
		if s.Child[0], err = DevNull(); err != nil {
			return s, err
		}
	}
	for i, f := range outputs {
		s.Child[1+i] = int(f.Fd())
	}
	if len(outputs) < 1 {
		if s.Child[1], s.Stdout, err = s.Pipe(false); err != nil {
			return s, err
		}
	}
	if len(outputs) < 2 {
		s.Child[2], s.Stderr, err = s.Pipe(false)
	}
	return s, err
}

// Socket makes a pair of connected sockets. Only the agent's end is non-blocking.
func (s *Stdio) Socket() (int, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, os.NewSyscallError("socketpair", err)
	}
	return s.addPair(pair[0], pair[1], "socket")
}

// Pipe makes one stream. Only the agent's end is non-blocking: the mode
// belongs to an open file description, and commands expect a plain one.
func (s *Stdio) Pipe(childReads bool) (int, *os.File, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, nil, os.NewSyscallError("pipe2", err)
	}
	child, own := fds[1], fds[0]
	if childReads {
		child, own = fds[0], fds[1]
	}
	return s.addPair(child, own, "pipe")
}

// addPair notes the child's end as one to close, and makes the agent's a non-blocking
// file.
func (s *Stdio) addPair(child, own int, name string) (int, *os.File, error) {
	s.owned = append(s.owned, child)
	if err := unix.SetNonblock(own, true); err != nil {
		unix.Close(own)
		return -1, nil, err
	}
	return child, os.NewFile(uintptr(own), name), nil
}

// NewTerminal makes a terminal in the sandbox's own devpts. The agent's side is
// non-blocking, and is used only through its File: a deadline and a close must end
// reads and writes that wait, since processes that were left behind may hold the
// other side for ever.
func NewTerminal(size wire.TTY) (*Stdio, error) {
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
	return &Stdio{Child: [3]int{child, child, child}, owned: []int{child}, Stdin: terminal, Stdout: terminal, Terminal: terminal}, nil
}

// openChild sets the size and opens the command's side by the agent's descriptor, not
// by a name.
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

// Resize sets the size of a terminal. It fails if the terminal is closed.
func Resize(terminal *os.File, size wire.TTY) error {
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

// Foreground returns the process group in the foreground of the terminal, 0 if there
// is none.
func Foreground(terminal *os.File) int {
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

// CloseFiles closes all of files.
func CloseFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
