// Package stdiomux multiplexes many connections over one pair of pipes: the server
// listens with [Listen] on its standard input and output, the process
// that started it dials with [Dial]. It uses yamux, with bounds and without a log.
//
// When either pipe ends, all connections end.
package stdiomux

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
)

const (
	// backlog is how many connections may wait to be accepted.
	backlog = 128
	// writeTimeout is how long the other side may read nothing before all
	// connections end.
	writeTimeout = 30 * time.Second
	// closeTimeout is how long a connection that this side has closed waits
	// for the other side to close it as well.
	closeTimeout = 30 * time.Second
)

func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = backlog
	c.EnableKeepAlive = false // pipes break by themselves
	c.ConnectionWriteTimeout = writeTimeout
	c.StreamCloseTimeout = closeTimeout
	c.LogOutput = io.Discard
	return c
}

// Broken is a message that ends all connections of the other side. A side writes it to
// a pipe that it cannot use any more, while the other side still can.
var Broken = []byte{0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1} // a yamux header: going away, for an error of the protocol

// Listener accepts connections until the pipes end. After Close it accepts no more, and
// connections that are open go on.
type Listener struct {
	session *yamux.Session
	ctx     context.Context
	cancel  context.CancelFunc
}

// Listen serves connections that come over a pair of pipes.
func Listen(in io.ReadCloser, out io.WriteCloser) (*Listener, error) {
	s, err := yamux.Server(pair{in, out}, config())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Listener{s, ctx, cancel}, nil
}

// Accept waits for a connection. Its error is io.EOF once a pipe has ended.
func (l *Listener) Accept() (net.Conn, error) {
	stream, err := l.session.AcceptStreamWithContext(l.ctx)
	switch {
	case err == nil:
		return &conn{Stream: stream}, nil
	case l.ctx.Err() != nil:
		return nil, net.ErrClosed
	default:
		return nil, io.EOF // after any error the pipes cannot be used any more
	}
}

// Close makes Accept fail.
func (l *Listener) Close() error {
	l.cancel()
	return l.session.GoAway()
}

// Addr returns the address of the pipes.
func (l *Listener) Addr() net.Addr { return l.session.Addr() }

// Dialer opens connections over a pair of pipes. It is safe for concurrent use.
type Dialer struct{ session *yamux.Session }

// Dial returns a Dialer on the other ends of the pipes that Listen uses.
func Dial(in io.ReadCloser, out io.WriteCloser) (*Dialer, error) {
	s, err := yamux.Client(pair{in, out}, config())
	if err != nil {
		return nil, err
	}
	return &Dialer{s}, nil
}

// Done returns a channel that is closed when either pipe has ended, or the Dialer is
// closed.
func (d *Dialer) Done() <-chan struct{} { return d.session.CloseChan() }

// DialContext opens a connection.
func (d *Dialer) DialContext(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stream, err := d.session.OpenStream()
	if err != nil {
		return nil, err
	}
	return &conn{Stream: stream}, nil
}

// Close ends all connections, and closes the pipes.
func (d *Dialer) Close() error { return d.session.Close() }

// conn is a connection whose Close also ends its reads and writes, where those of
// a bare stream would wait for the other side, and whose errors are those of other
// connections: who uses one does not know of yamux.
type conn struct {
	*yamux.Stream
	reading sync.Mutex // held while bytes are read
	closed  atomic.Bool
}

// Read reads into b.
func (c *conn) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.Stream.Read(b)
	return n, common(err)
}

// Write writes all of b.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Stream.Write(b)
	return n, common(err)
}

// common returns what other connections answer in place of an error of yamux.
func common(err error) error {
	switch {
	case errors.Is(err, yamux.ErrTimeout):
		return os.ErrDeadlineExceeded
	case errors.Is(err, yamux.ErrConnectionReset):
		return syscall.ECONNRESET
	case errors.Is(err, yamux.ErrStreamClosed):
		return net.ErrClosed
	case errors.Is(err, yamux.ErrSessionShutdown):
		return syscall.EPIPE
	default:
		return err
	}
}

// Close closes the connection. Later writes of the other side are dropped until it closes, too: it never
// waits for room, and can still read earlier data.
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	_ = c.SetDeadline(time.Unix(1, 0))
	err := c.Stream.Close()
	go func() {
		c.reading.Lock() // a read that waited has ended, and later ones fail
		_ = c.SetReadDeadline(time.Time{})
		c.reading.Unlock()
		_, _ = io.Copy(io.Discard, c.Stream) // closeTimeout at most
	}()
	return err
}

// pair makes one stream of two pipes.
type pair struct {
	io.ReadCloser
	out io.WriteCloser
}

// Write writes to the outgoing pipe.
func (p pair) Write(b []byte) (int, error) { return p.out.Write(b) }

// Close closes both, the outgoing pipe first: the other side notices that even
// while a read of the incoming one cannot be interrupted.
func (p pair) Close() error {
	err := p.out.Close()
	if cerr := p.ReadCloser.Close(); err == nil {
		err = cerr
	}
	return err
}
