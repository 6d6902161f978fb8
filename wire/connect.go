package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// ConnectRequest asks the agent to connect to a TCP port of the sandbox's own loopback.
type ConnectRequest struct {
	Action string `json:"action"`
	// Port is from 1 to 65535. 127.0.0.1 is tried first, then [::1].
	Port int `json:"port"`
}

// ConnectResult says that the connection was made. Frames of both directions follow it.
type ConnectResult struct {
	// Address is where the agent has connected to.
	Address string `json:"address"`
	// Window is how many bytes either side may have sent that the other has not
	// acknowledged.
	Window int `json:"window"`
}

// ConnectWindow is [ConnectResult].Window.
const ConnectWindow = 256 << 10

const (
	// connectFrame is the most that one frame of a connection carries, in bytes.
	connectFrame = 64 << 10
	// ackEvery is how many bytes are taken before they are acknowledged.
	ackEvery = ConnectWindow / 2
	// small pieces are kept together, so that many of them take no more than their bytes.
	small = 4 << 10
)

// Conn is one side of a connection that is carried in frames. It is a net.Conn, and has
// CloseWrite as a TCP connection has. Each direction has a window of its own, so that a side
// that does not read never keeps the other direction waiting, nor the news that a peer is gone.
type Conn struct {
	conn    net.Conn
	frames  *FrameReader
	out     *FrameWriter
	from    Stream // of the peer's bytes
	to      Stream // of this side's
	local   addr
	remote  addr
	sending sync.Mutex // held while one Write sends, so that its bytes stay together
	done    chan struct{}

	mu      sync.Mutex
	moved   sync.Cond
	queue   []piece // what has come and was not read; its first may be read in part
	queued  int     // bytes
	taken   int     // bytes that were read and not acknowledged
	free    int     // bytes that may be sent
	unacked int     // bytes that were sent and not acknowledged
	ended   bool    // the peer sends no more
	closed  bool    // this side sends no more
	err     error   // why the connection cannot be used any more
	over    bool    // the peer has closed it, or it broke
	readBy  deadline
	writeBy deadline
}

// piece is a part of what has come.
type piece struct {
	bytes []byte
	large *[connectFrame]byte // what holds the bytes, to be used again; nil: they are few
}

// used ends the use of the bytes.
func (p *piece) used() {
	if p.large != nil {
		frames.Put(p.large)
	}
	*p = piece{}
}

// frames are buffers for large frames.
var frames = sync.Pool{New: func() any { return new([connectFrame]byte) }}

// addr is an end of a connection.
type addr string

// Network returns "tcp".
func (addr) Network() string { return "tcp" }

// String returns the address and port.
func (a addr) String() string { return string(a) }

// deadline is a time after which waiting ends.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

// AcceptConn returns the agent's side of a connection whose [ConnectResult] has been sent.
// What the client sends is read through in.
func AcceptConn(conn net.Conn, in *bufio.Reader) *Conn {
	return newConn(conn, in, StreamStdin, StreamStdout, "")
}

func newConn(conn net.Conn, in *bufio.Reader, from, to Stream, remote string) *Conn {
	c := &Conn{conn: conn, frames: NewFrameReader(in, connectFrame), out: NewFrameWriter(conn), from: from, to: to,
		local: "sandbox", remote: addr(remote), free: ConnectWindow, done: make(chan struct{})}
	c.moved.L = &c.mu
	go c.receive()
	return c
}

// Connect connects to a port of the sandbox's own loopback. If nothing listens there, the
// error is an *Error with CodeFailed and the errno ECONNREFUSED. ctx applies only until
// Connect returns.
func (c *Client) Connect(ctx context.Context, port int) (*Conn, error) {
	conn, err := open(ctx, c, Connect, ConnectRequest{Port: port})
	if err != nil {
		return nil, err
	}
	var r ConnectResult
	err = conn.answer(&r, MaxLine)
	if err == nil && r.Window != ConnectWindow {
		err = Errorf(CodeInternal, "cannot use the agent's answer: a window of %d bytes is not one of %d", r.Window, ConnectWindow)
	}
	if err == nil && !conn.unhook() {
		err = ctx.Err() // the connection was closed
	}
	if err != nil {
		conn.close()
		return nil, err
	}
	return newConn(conn.Conn, conn.br, StreamStdout, StreamStdin, printable(r.Address)), nil
}

// receive takes the peer's frames until its end of the connection is closed.
func (c *Conn) receive() {
	defer close(c.done)
	for {
		err := c.receiveOne()
		if err == nil {
			continue
		}
		c.mu.Lock()
		if c.err == nil {
			c.err = err
		}
		c.over = true
		c.moved.Broadcast()
		c.mu.Unlock()
		return
	}
}

// receiveOne takes one frame.
func (c *Conn) receiveOne() error {
	stream, size, err := c.frames.Next()
	var bad *Error
	switch {
	case errors.As(err, &bad):
		return Errorf(bad.Code, "cannot use the connection: %s", printable(bad.Message))
	case err != nil:
		return Errorf(CodeGone, "cannot use the connection: the other side has closed it")
	case stream == StreamControl:
		return c.receiveControl()
	case stream != c.from:
		return Errorf(CodeBadRequest, "cannot use the connection: a frame of %s came", stream)
	}
	c.mu.Lock()
	fits := !c.ended && c.queued+c.taken+size <= ConnectWindow
	c.mu.Unlock()
	if !fits {
		return Errorf(CodeTooLarge, "cannot use the connection: more came than was acknowledged, or more after the end")
	}
	came := piece{}
	if size >= connectFrame/2 { // so that what is held is never twice as much as the window
		came.large = frames.Get().(*[connectFrame]byte)
		came.bytes = came.large[:]
	}
	if came.bytes, err = c.frames.ReadPayload(came.bytes); err != nil {
		came.used()
		return Errorf(CodeGone, "cannot use the connection: it broke")
	}
	if size == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil { // it was closed here meanwhile, and nothing is read any more
		came.used()
		return c.err
	}
	if last := len(c.queue) - 1; last >= 0 && c.queue[last].large == nil && len(c.queue[last].bytes)+size <= small {
		c.queue[last].bytes = append(c.queue[last].bytes, came.bytes...)
	} else {
		c.queue = append(c.queue, came)
	}
	c.queued += size
	c.moved.Broadcast()
	return nil
}

// receiveControl takes a control frame. Types that this version does not know are skipped.
func (c *Conn) receiveControl() error {
	control, err := c.frames.ReadControl(MaxControl)
	if err != nil {
		return Errorf(CodeBadRequest, "cannot use the connection: a control frame cannot be read")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch control.Type {
	case "ack":
		if control.Bytes < 0 || control.Bytes > c.unacked {
			return Errorf(CodeBadRequest, "cannot use the connection: %d bytes were acknowledged, and %d are under way", control.Bytes, c.unacked)
		}
		c.unacked -= control.Bytes
		c.free += control.Bytes
	case "end":
		c.ended = true
	case "reset":
		err := control.Error
		if err == nil {
			err = Errorf(CodeGone, "the connection was reset")
		}
		c.queue, c.queued = nil, 0
		return err.fromPeer()
	}
	c.moved.Broadcast()
	return nil
}

// Done returns a channel that is closed when the peer has closed its end of the connection, or
// the connection broke.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Read reads what the peer has sent: io.EOF at its end, and an *Error if the peer reset the
// connection or is gone.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.mu.Lock()
	for len(c.queue) == 0 && !c.ended && c.err == nil && !c.readBy.past() {
		c.moved.Wait()
	}
	switch {
	case c.readBy.past():
		c.mu.Unlock()
		return 0, os.ErrDeadlineExceeded
	case len(c.queue) > 0:
	case c.ended:
		c.mu.Unlock()
		return 0, io.EOF
	default:
		defer c.mu.Unlock()
		return 0, c.err
	}
	n := 0
	for n < len(p) && len(c.queue) > 0 {
		m := copy(p[n:], c.queue[0].bytes)
		if n += m; m == len(c.queue[0].bytes) {
			c.queue[0].used()
			c.queue = c.queue[1:]
		} else {
			c.queue[0].bytes = c.queue[0].bytes[m:]
		}
	}
	c.mu.Unlock()
	c.acknowledge(n)
	return n, nil
}

// acknowledge notes that bytes of the queue were used, and tells the peer now and then.
func (c *Conn) acknowledge(n int) {
	c.mu.Lock()
	c.queued -= n
	c.taken += n
	ack := 0
	if c.taken >= ackEvery && !c.ended && c.err == nil {
		ack, c.taken = c.taken, 0
	}
	c.mu.Unlock()
	if ack > 0 {
		_ = c.out.WriteControl(Control{Type: "ack", Bytes: ack}) // if it fails, receive finds the end
	}
}

// next returns the next piece of what the peer has sent, as Read does. Its bytes count as
// queued until they are acknowledged.
func (c *Conn) next() (piece, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) == 0 && !c.ended && c.err == nil {
		c.moved.Wait()
	}
	switch {
	case len(c.queue) > 0:
		p := c.queue[0]
		c.queue[0] = piece{}
		c.queue = c.queue[1:]
		return p, nil
	case c.ended:
		return piece{}, io.EOF
	}
	return piece{}, c.err
}

// complete reports whether both sides have said that they send no more.
func (c *Conn) complete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended && c.closed
}

// Join copies both ways between c and a TCP connection, and closes both once both directions
// have ended. If either breaks, the other is reset.
func (c *Conn) Join(tcp *net.TCPConn) {
	joined, sent := make(chan struct{}), make(chan struct{})
	defer close(joined)
	go func() { // a direction that waits for a slow reader does not see that the peer is gone
		select {
		case <-c.done:
			if !c.complete() {
				abort(tcp)
			}
		case <-joined:
		}
	}()
	go func() {
		defer close(sent)
		c.send(tcp)
	}()
	err := c.deliver(tcp)
	<-sent
	if err != nil {
		abort(tcp)
		_ = c.Reset(Errorf(CodeGone, "the connection was reset"))
		return
	}
	_ = tcp.Close()
	_ = c.Close()
}

// abort resets a TCP connection.
func abort(tcp *net.TCPConn) {
	_ = tcp.SetLinger(0)
	_ = tcp.Close()
}

// deliver writes what the peer sends to a TCP connection, up to its end.
func (c *Conn) deliver(tcp *net.TCPConn) error {
	for {
		came, err := c.next()
		switch {
		case errors.Is(err, io.EOF):
			_ = tcp.CloseWrite() // if its peer is gone, send finds that
			return nil
		case err != nil:
			abort(tcp)
			return err
		}
		_, err = tcp.Write(came.bytes)
		size := len(came.bytes)
		came.used()
		if err != nil {
			return err // and send ends too, when it has read what came before
		}
		c.acknowledge(size)
	}
}

// send sends what a TCP connection receives, up to its end. While little comes it has a small
// buffer.
func (c *Conn) send(tcp *net.TCPConn) {
	little := make([]byte, small)
	for {
		n, err := tcp.Read(little)
		if err == nil {
			_, err = c.Write(little[:n])
		}
		if err == nil && n == len(little) {
			err = c.sendMuch(tcp)
		}
		switch {
		case errors.Is(err, io.EOF):
			if c.CloseWrite() != nil {
				abort(tcp)
			}
			return
		case err != nil:
			_ = c.Reset(Errorf(CodeGone, "the connection was reset"))
			abort(tcp)
			return
		}
	}
}

// sendMuch sends with a large buffer, until a read does not fill it.
func (c *Conn) sendMuch(tcp *net.TCPConn) error {
	buf := frames.Get().(*[connectFrame]byte)
	defer frames.Put(buf)
	for {
		n, err := tcp.Read(buf[:])
		if err == nil {
			_, err = c.Write(buf[:n])
		}
		if err != nil || n < small {
			return err
		}
	}
}

// Write sends p, as the peer's window allows.
func (c *Conn) Write(p []byte) (written int, err error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	for {
		n, err := c.reserve(len(p))
		if err != nil || len(p) == 0 {
			return written, err
		}
		if err := c.out.WriteFrame(c.to, p[:n]); err != nil {
			return written, c.broken(err)
		}
		if written += n; n == len(p) {
			return written, nil
		}
		p = p[n:]
	}
}

// reserve waits until something may be sent, and returns how many of the want bytes that is.
func (c *Conn) reserve(want int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.free == 0 && !c.closed && c.err == nil && !c.writeBy.past() {
		c.moved.Wait()
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case c.closed:
		return 0, net.ErrClosed
	case c.writeBy.past():
		return 0, os.ErrDeadlineExceeded
	}
	n := min(want, c.free, connectFrame)
	c.free -= n
	c.unacked += n
	return n, nil
}

// broken returns the error of a connection on which nothing can be sent any more.
func (c *Conn) broken(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return Errorf(CodeGone, "cannot send over the connection: %v", err)
}

// CloseWrite tells the peer that no more bytes come.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	before, err := c.closed, c.err
	c.closed = true
	c.moved.Broadcast()
	c.mu.Unlock()
	if before || err != nil {
		return err
	}
	return c.out.WriteControl(Control{Type: "end"})
}

// Reset ends the connection, and tells the peer why.
func (c *Conn) Reset(why *Error) error {
	c.mu.Lock()
	usable := c.err == nil
	if usable {
		c.err = net.ErrClosed
	}
	c.moved.Broadcast()
	c.mu.Unlock()
	if usable {
		_ = c.conn.SetWriteDeadline(time.Now().Add(time.Second))
		_ = c.out.WriteControl(Control{Type: "reset", Error: why})
	}
	return c.Close()
}

// Close ends the connection. A peer that has not ended yet sees it break.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.err == nil {
		c.err = net.ErrClosed
	}
	c.queue, c.queued = nil, 0
	c.readBy.stop()
	c.writeBy.stop()
	c.moved.Broadcast()
	c.mu.Unlock()
	return c.conn.Close()
}

// LocalAddr returns a name that stands for this side.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address inside that the agent has connected to.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the time after which Read fails; the zero time is none.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.readBy, t) }

// SetWriteDeadline sets the time after which Write fails; the zero time is none.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.writeBy, t) }

func (c *Conn) setDeadline(d *deadline, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil && errors.Is(c.err, net.ErrClosed) {
		return fmt.Errorf("cannot set a deadline: %w", net.ErrClosed)
	}
	d.stop()
	if d.at = t; !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.moved.Broadcast()
		})
	}
	c.moved.Broadcast()
	return nil
}

func (d *deadline) past() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
