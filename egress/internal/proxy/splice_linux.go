package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipes are those of the directions that are spliced.
var pipes pipePool

// pipePool lends pipes. They are closed when no direction is spliced any more.
type pipePool struct {
	mu      sync.Mutex
	users   int
	made    int
	waiting []*pipe // empty ones
}

// pipe is an empty pipe, or one that its holder fills and empties.
type pipe struct{ read, write int }

// join adds a direction that will borrow pipes until it calls leave.
func (p *pipePool) join() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
}

func (p *pipePool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	for _, w := range p.waiting {
		w.close()
	}
	p.made -= len(p.waiting)
	p.waiting = nil
}

// borrow returns an empty pipe, or nil if all are in use or no more can be made.
func (p *pipePool) borrow() *pipe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.waiting) - 1; last >= 0 {
		w := p.waiting[last]
		p.waiting = p.waiting[:last]
		return w
	}
	if p.made == mostPipes {
		return nil
	}
	var ends [2]int
	if unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return nil
	}
	_, _ = unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, pipeSize) // a smaller one moves less at once
	p.made++
	return &pipe{ends[0], ends[1]}
}

// giveBack returns a pipe. One that is not empty is closed.
func (p *pipePool) giveBack(w *pipe, empty bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if empty {
		p.waiting = append(p.waiting, w)
		return
	}
	w.close()
	p.made--
}

func (w *pipe) close() {
	_ = unix.Close(w.read)
	_ = unix.Close(w.write)
}

// canSplice reports whether the kernel can move what comes from one end to the other by itself.
func canSplice(to io.Writer, from net.Conn) bool {
	out, counted := to.(*counter)
	if !counted {
		return false
	}
	_, write := out.to.(*net.TCPConn)
	_, read := from.(*net.TCPConn)
	return write && read
}

// spliceAll moves what from has until it ends. The ends are ones that [canSplice] accepts.
func spliceAll(to io.Writer, from net.Conn) error {
	out, in := to.(*counter), from.(*net.TCPConn)
	pipes.join()
	defer pipes.leave()
	read, err := in.SyscallConn()
	if err != nil {
		return err
	}
	write, err := out.to.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	for {
		end, err := spliceOnce(out, in, read, write)
		if errors.Is(err, errCopy) {
			_, end, err = copyOnce(to, from, true)
		}
		if end || err != nil {
			return err
		}
	}
}

// errCopy says that what has come must be copied.
var errCopy = errors.New("it cannot be spliced")

// spliceOnce waits until in has something, and moves it to out. While it waits it has no pipe.
func spliceOnce(out *counter, in net.Conn, read, write syscall.RawConn) (end bool, err error) {
	var w *pipe
	var held int64
	defer func() {
		if w != nil {
			pipes.giveBack(w, held == 0)
		}
	}()
	var moveErr error
	err = read.Read(func(fd uintptr) bool {
		if w = pipes.borrow(); w == nil {
			moveErr = errCopy
			return true
		}
		held, moveErr = move(int(fd), w.write, pipeSize)
		if held == 0 && isReadable(fd) {
			moveErr = errCopy
			return true
		}
		if errors.Is(moveErr, unix.EAGAIN) {
			pipes.giveBack(w, true)
			w = nil
			return false
		}
		return true
	})
	switch {
	case err != nil:
		return false, err
	case errors.Is(moveErr, errCopy):
		return false, moveErr
	case moveErr != nil:
		return false, &net.OpError{Op: "read", Net: "tcp", Addr: in.RemoteAddr(), Err: os.NewSyscallError("splice", moveErr)}
	case held == 0:
		return true, nil
	}
	if err := out.count(held); err != nil {
		return false, err
	}
	err = write.Write(func(fd uintptr) bool {
		for held > 0 {
			var n int64
			if n, moveErr = move(w.read, int(fd), held); moveErr != nil {
				return !errors.Is(moveErr, unix.EAGAIN)
			}
			held -= n
		}
		return true
	})
	if err == nil && moveErr != nil {
		err = &net.OpError{Op: "write", Net: "tcp", Addr: out.to.RemoteAddr(), Err: os.NewSyscallError("splice", moveErr)}
	}
	return false, err
}

// isReadable reports whether a connection has something. splice(2) never gets over a byte of urgent
// data, and after the peer's end says that this is the end. A read leaves the byte out.
func isReadable(fd uintptr) bool {
	n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err == nil && n > 0
}

// move moves what one descriptor has to another one, a pipe at one of them. It returns 0 at the
// end, and EAGAIN where it would wait.
func move(from, to int, size int64) (int64, error) {
	for {
		n, err := unix.Splice(from, nil, to, nil, int(size), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}
