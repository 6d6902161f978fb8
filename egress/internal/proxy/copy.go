package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	bigBuffer   = 128 << 10
	smallBuffer = 16 << 10
	// Connections whose peers read slowly hold buffers: more big ones than these are not
	// used at once. A connection gets one after it has filled a small one.
	mostBigBuffers = 64
	// The kernel lets the buffers of a connection grow to megabytes, from memory that all
	// programs of the host share. If more connections than these are open, those of new ones
	// are of a fixed size.
	mostWide     = 16
	narrowBuffer = 128 << 10
	// splice(2) takes a pipe for each direction, from a budget that all programs of a user
	// share: 16,384 pages, of which one of this size takes 64. So only directions that have
	// carried much get one, and few at once.
	spliceAfter = 4 << 20
	mostPipes   = 16
	pipeSize    = 256 << 10
)

// spliceLeast is how many bytes must have come at once, on average, for splice(2). Tests lower it.
var spliceLeast = bigBuffer / 2

var (
	bigBuffers   = sync.Pool{New: func() any { return new([bigBuffer]byte) }}
	smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	bigInUse     atomic.Int64
)

// takeBuffer returns a buffer, a big one if that is wanted and not too many are in use, and how
// it is given back.
func takeBuffer(big bool) ([]byte, func()) {
	if big {
		if bigInUse.Add(1) <= mostBigBuffers {
			b := bigBuffers.Get().(*[bigBuffer]byte)
			return b[:], func() {
				bigBuffers.Put(b)
				bigInUse.Add(-1)
			}
		}
		bigInUse.Add(-1)
	}
	b := smallBuffers.Get().(*[smallBuffer]byte)
	return b[:], func() { smallBuffers.Put(b) }
}

// copyAll copies what from has until it ends. What comes much at once for long, the kernel moves by
// itself where it can: that costs less, while small pieces, such as those of TLS, cost more.
func copyAll(to io.Writer, from net.Conn) error {
	copied, reads := 0, 0
	for big := false; ; {
		n, end, err := copyOnce(to, from, big)
		if end || err != nil {
			return err
		}
		big = big || n >= smallBuffer
		copied += n
		if reads++; copied < spliceAfter {
			continue
		}
		if copied >= reads*spliceLeast && canSplice(to, from) {
			return spliceAll(to, from)
		}
		copied, reads = 0, 0
	}
}

// copyOnce waits until from has something and copies it. While it waits it has no buffer.
func copyOnce(to io.Writer, from net.Conn, big bool) (n int, end bool, err error) {
	var buffer []byte
	var release func()
	if tcp, ok := from.(*net.TCPConn); ok {
		raw, err := tcp.SyscallConn()
		if err != nil {
			return 0, false, err
		}
		var readErr error
		err = raw.Read(func(fd uintptr) bool {
			buffer, release = takeBuffer(big)
			if n, readErr = readNow(fd, buffer); errors.Is(readErr, syscall.EAGAIN) {
				release()
				return false
			}
			return true
		})
		if err != nil {
			return 0, false, err
		}
		defer release()
		if readErr != nil {
			return 0, false, &net.OpError{Op: "read", Net: "tcp", Addr: tcp.RemoteAddr(), Err: os.NewSyscallError("read", readErr)}
		}
		end = n == 0
	} else {
		buffer, release = takeBuffer(big)
		defer release()
		n, err = from.Read(buffer)
		if end = errors.Is(err, io.EOF); end {
			err = nil
		}
	}
	if n > 0 {
		if _, err := to.Write(buffer[:n]); err != nil {
			return n, end, err
		}
	}
	return n, end, err
}

// narrow gives a connection small buffers in the kernel.
func narrow(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok { // whoever has ended it already needs none
		_ = tcp.SetReadBuffer(narrowBuffer)
		_ = tcp.SetWriteBuffer(narrowBuffer)
	}
}

// closeWrite tells a peer that no more comes.
func closeWrite(conn net.Conn) error {
	c, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("it cannot be closed in one direction")
	}
	if err := c.CloseWrite(); !errors.Is(err, syscall.ENOTCONN) { // the peer is gone, and whoever reads finds that
		return err
	}
	return nil
}

// reset ends a connection at once, as one that was never accepted.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// awaitGone waits until a peer that sends no more is gone altogether, and returns an error
// then. It returns nil when the read deadline of the connection is set to the past.
func awaitGone(conn net.Conn) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil // it is not known, and found when the operator's proxy ends
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	err = raw.Read(isGone)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err == nil {
		err = syscall.ECONNRESET
	}
	return err
}

// relay copies between the two ends of a connection until both have ended, by up from the
// inside and by down from the outside, which return nil at an end. An error of either resets
// both ends. At the end it calls done, with the first error.
func relay(inside, outside net.Conn, up, down func() error, done func(error)) {
	r := &relayed{inside: inside, outside: outside, done: done}
	go r.run(inside, outside, up)
	go r.run(outside, inside, down)
}

// relayed is a connection that is relayed.
type relayed struct {
	inside, outside net.Conn
	done            func(error)
	ended           atomic.Int32 // directions that came to an end
	left            atomic.Int32 // directions that are done
	failing         sync.Once
	failure         error
}

// run copies in one direction. The last one to be done ends the connection.
func (r *relayed) run(from, to net.Conn, copies func() error) {
	if err := r.direction(from, to, copies); err != nil {
		r.failing.Do(func() { r.failure = err })
		reset(r.inside)
		reset(r.outside)
	}
	if r.left.Add(1) < 2 {
		return
	}
	if r.failure == nil {
		_ = r.outside.Close()
		r.failure = r.inside.Close()
	}
	r.done(r.failure)
}

func (r *relayed) direction(from, to net.Conn, copies func() error) error {
	err := copies()
	if err == nil {
		err = closeWrite(to)
	}
	switch {
	case err != nil:
		return blame(err, from, to, r.outside)
	case r.ended.Add(1) == 2:
		_ = to.SetReadDeadline(time.Unix(1, 0)) // the other direction need not wait any more
	default:
		if err := awaitGone(from); err != nil && from == r.outside {
			return &outsideError{err}
		} else if err != nil {
			return errInside
		}
	}
	return nil
}

// blame returns the error of a direction as one of the end that caused it.
func blame(err error, from, to, outside net.Conn) error {
	op := (*net.OpError)(nil)
	if !errors.As(err, &op) {
		return err
	}
	at := from
	if op.Op == "write" || op.Op == "close" {
		at = to
	}
	if at == outside {
		return &outsideError{err}
	}
	return errInside
}
