package proxy

import (
	"context"
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
)

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

// copyAll copies what from has until it ends. It uses no splice(2): that takes a pipe for each
// direction, from a budget that all programs of a user share.
func copyAll(to io.Writer, from net.Conn) error {
	for big := false; ; {
		n, end, err := copyOnce(to, from, big)
		if end || err != nil {
			return err
		}
		big = big || n >= smallBuffer
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
// both ends.
func relay(inside, outside net.Conn, up, down func() error) error {
	ctx, fail := context.WithCancelCause(context.Background())
	defer fail(nil)
	var ended atomic.Int32
	direction := func(from, to net.Conn, run func() error) {
		err := run()
		if err == nil {
			err = closeWrite(to)
		}
		switch {
		case err != nil:
			err = blame(err, from, to, outside)
		case ended.Add(1) == 2:
			_ = to.SetReadDeadline(time.Unix(1, 0)) // the other direction need not wait any more
		default:
			if err = awaitGone(from); err != nil && from == outside {
				err = &outsideError{err}
			} else if err != nil {
				err = errInside
			}
		}
		if err != nil {
			fail(err)
			reset(inside)
			reset(outside)
		}
	}
	var other sync.WaitGroup
	other.Go(func() { direction(outside, inside, down) })
	direction(inside, outside, up)
	other.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_ = outside.Close()
	return inside.Close()
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
