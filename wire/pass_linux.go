package wire

import (
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Constants that package syscall lacks.
const (
	spliceMove     = 0x1
	spliceNonblock = 0x2
	pollIn         = 0x1
	pollOut        = 0x4
)

// newBypass prepares a bypass for the streams that can take it, or returns nil.
// These are the output if it is a pipe, and the error output too if it is the
// same pipe or the same writer: the two must stay in order.
func newBypass(conn net.Conn, q *ExecRequest, s Streams) (*bypass, error) {
	_, isUnix := conn.(*net.UnixConn)
	if !isUnix || q.TTY != nil || q.MaxOutputBytes != 0 || len(q.RedactValues)+len(q.Redaction) > 0 {
		return nil, nil
	}
	var streams []string
	out, stderr := pipeInfo(s.Stdout), pipeInfo(s.Stderr)
	switch {
	case out != nil && stderr != nil && os.SameFile(out, stderr), SameWriter(s.Stdout, s.Stderr):
		streams = []string{"stdout", "stderr"}
	case out != nil:
		streams = []string{"stdout"}
	default:
		return nil, nil
	}
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	// Only the reading end is non-blocking, for Go's runtime to wait on; the
	// command gets a plain pipe. The mode lets the command open that pipe again
	// by name, as /dev/stdout say, although it runs as another user.
	err := errors.Join(syscall.SetNonblock(fds[0], true), syscall.Fchmod(fds[1], 0o622))
	b := &bypass{
		carried: streams,
		private: os.NewFile(uintptr(fds[0]), "pipe"), given: os.NewFile(uintptr(fds[1]), "pipe"),
		sink: s.Stdout, pipe: out != nil, moved: make(chan struct{}),
	}
	if err != nil {
		b.discard()
		return nil, err
	}
	enlarge(b.private)
	if b.pipe {
		_ = withPipe(s.Stdout, func(f *os.File) (int, error) { enlarge(f); return 0, nil })
	}
	return b, nil
}

// withPipe calls use with the pipe that w is or stands in front of, if any.
func withPipe(w io.Writer, use func(*os.File) (int, error)) error {
	switch w := w.(type) {
	case *os.File:
		_, err := use(w)
		return err
	case PipeWriter:
		return w.WithPipe(use)
	}
	return nil
}

// pipeInfo describes the pipe that w is or stands in front of, or returns nil.
func pipeInfo(w io.Writer) (info os.FileInfo) {
	_ = withPipe(w, func(f *os.File) (int, error) {
		if found, err := f.Stat(); err == nil && found.Mode()&os.ModeNamedPipe != 0 {
			info = found
		}
		return 0, nil
	})
	return info
}

// enlarge makes room in a pipe, if the system allows it: fewer wake-ups.
func enlarge(pipe *os.File) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_SETPIPE_SZ, passSize)
	})
}

// send sends the request line, with the command's end of the pipe once for each
// stream.
func (b *bypass) send(conn net.Conn, line []byte) error {
	fds := make([]int, len(b.carried))
	for i := range fds {
		fds[i] = int(b.given.Fd())
	}
	n, _, err := conn.(*net.UnixConn).WriteMsgUnix(line, syscall.UnixRights(fds...), nil)
	if err != nil {
		return err
	}
	return writeAll(conn, line[n:])
}

// passLittle and passPause avoid a wake-up for every single write: after fewer
// than passLittle bytes were moved, move sleeps for passPause. In a burst the
// pipe fills meanwhile. Output that is printed now and then never waits. The
// runtime's timers would be too coarse.
const passLittle = 256 << 10

var passPause = syscall.NsecToTimespec(int64(100 * time.Microsecond))

// These two are obstacles, not failures of the sink.
var (
	errEmpty    = errors.New("nothing can be read now")
	errNoSplice = errors.New("the kernel cannot splice here")
)

// move moves output until it ends, the sink fails, or the sink accepts no more.
func (b *bypass) move() error {
	src, err := b.private.SyscallConn()
	if err != nil {
		return err
	}
	step := b.splice
	if !b.pipe {
		step = b.copy
	}
	for left := passSize; left > 0; {
		n := 0
		_ = src.Control(func(fd uintptr) { n, err = step(int(fd)) })
		switch {
		case errors.Is(err, errNoSplice):
			step = b.copy
		case errors.Is(err, errEmpty):
			if b.late.Load() || !awaitInput(src) {
				return nil
			}
		case err != nil || n == 0:
			return err
		case b.late.Load():
			left -= n
		case n < passLittle:
			wait := passPause
			_ = syscall.Nanosleep(&wait, nil)
		}
	}
	return nil
}

// awaitInput waits for output or its end. It reports whether one of them came
// before the deadline.
func awaitInput(src syscall.RawConn) bool {
	return src.Read(func(fd uintptr) bool { return isReady(int(fd), pollIn, false) }) == nil
}

// splice moves as much as possible from one pipe into the other, without a copy. It
// returns 0 at the end of the output, and when the sink accepts no more.
func (b *bypass) splice(from int) (n int, err error) {
	var obstacle error
	err = withPipe(b.sink, func(pipe *os.File) (int, error) {
		n, obstacle, err = spliceTo(pipe, from)
		return n, err
	})
	return n, cmp.Or(err, obstacle)
}

// spliceTo waits for room in pipe, as a write would, but never for input.
func spliceTo(pipe *os.File, from int) (n int, obstacle, err error) {
	dst, err := pipe.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	var moved int64
	var errno error
	err = dst.Write(func(to uintptr) bool {
		for {
			moved, errno = syscall.Splice(from, nil, int(to), nil, passSize, spliceMove|spliceNonblock)
			switch {
			case errno == syscall.EAGAIN && !isReady(from, pollIn, false):
				errno, obstacle = nil, errEmpty
				return true
			case errno == syscall.EAGAIN && isReady(int(to), pollOut, false):
				// It was the source that was empty, and no longer is.
			case errno == syscall.EAGAIN && isNonblocking(to):
				return false // the runtime waits until it is writable
			case errno == syscall.EAGAIN:
				isReady(int(to), pollOut, true)
			case errno != syscall.EINTR:
				return true
			}
		}
	})
	switch {
	case err != nil || obstacle != nil:
		return 0, obstacle, err
	case errno == syscall.EINVAL || errno == syscall.ENOSYS || errno == syscall.EPERM:
		return 0, errNoSplice, nil
	case errno != nil:
		return 0, nil, &os.PathError{Op: "write", Path: pipe.Name(), Err: errno}
	}
	return int(moved), nil, nil
}

// copy does the same for a kernel that cannot splice, and for a sink that is
// not a pipe.
func (b *bypass) copy(from int) (int, error) {
	if b.buf == nil {
		b.buf = make([]byte, copyBuffer)
	}
	for {
		n, err := syscall.Read(from, b.buf)
		switch {
		case err == syscall.EAGAIN:
			return 0, errEmpty
		case err == syscall.EINTR:
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		default:
			return n, writeAll(b.sink, b.buf[:n])
		}
	}
}

// isReady reports whether fd has one of events, an error, or a closed other end. If wait
// is set, it waits until that is so.
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
			return n == 1 // any other problem shows at the next try
		}
	}
}

// isNonblocking reports whether O_NONBLOCK is set.
func isNonblocking(fd uintptr) bool {
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
	return errno == 0 && flags&syscall.O_NONBLOCK != 0
}
