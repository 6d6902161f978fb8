package wire

import (
	"cmp"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// newBypass prepares the way around conn for what can take it, nil where
// nothing can.
func newBypass(conn net.Conn, q *ExecRequest, s Streams) (*bypass, error) {
	if _, ok := conn.(*net.UnixConn); !ok {
		return nil, nil
	}
	streams := passable(q, s)
	if streams == nil {
		return nil, nil
	}
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	// Only the reading end is non-blocking, for the runtime to wait on; to the
	// command its output is a plain pipe. The mode lets it open that pipe once
	// more by name, /dev/stdout say, as a user that is not ours.
	err := errors.Join(syscall.SetNonblock(fds[0], true), syscall.Fchmod(fds[1], 0o622))
	b := &bypass{
		carried: streams,
		private: os.NewFile(uintptr(fds[0]), "pipe"), given: os.NewFile(uintptr(fds[1]), "pipe"),
		sink: s.Stdout, pipe: pipeInfo(s.Stdout) != nil, moved: make(chan struct{}),
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

// enlarge makes room in a pipe, where the system lets us: fewer wake-ups.
func enlarge(pipe *os.File) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_SETPIPE_SZ, passSize)
	})
}

// send sends the request line, with the command's end once for each stream.
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

// After little was moved, the next look is put off: in a burst the pipe fills
// meanwhile, and neither the command nor the caller's reader is disturbed for
// every single write. What is printed now and then never waits. The runtime's
// timers would be too coarse.
const passLittle = 256 << 10 // bytes

var passPause = syscall.NsecToTimespec(int64(100 * time.Microsecond))

// Obstacles are no failures of the sink.
var (
	errEmpty    = errors.New("nothing can be read now")
	errNoSplice = errors.New("the kernel cannot splice here")
)

// move moves output until it ends, or the sink fails or wants no more.
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

// awaitInput waits for output or its end. It reports false where neither came
// before the deadline.
func awaitInput(src syscall.RawConn) bool {
	return src.Read(func(fd uintptr) bool { return isReady(int(fd), pollIn, false) }) == nil
}

// splice moves what it can from one pipe into the other, without a copy. It
// gives 0 at the end of the output, and where the sink wants no more.
func (b *bypass) splice(from int) (n int, err error) {
	var obstacle error
	err = withPipe(b.sink, func(pipe *os.File) (int, error) {
		n, obstacle, err = spliceTo(pipe, from)
		return n, err
	})
	return n, cmp.Or(err, obstacle)
}

// spliceTo waits for room in pipe as a write to it would, and for nothing else.
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
				return false // the runtime waits for the change that is to come
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

// copy is splice for a system that cannot, and for a sink that is no pipe.
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
