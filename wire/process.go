package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

const (
	copyBuffer  = 256 << 10 // the most output that is read at once, in bytes
	stdinBuffer = 64 << 10  // the most standard input, likewise
)

// Streams are the standard streams of a command that is followed.
type Streams struct {
	// Stdin is read until its end; nil is empty. A Read that blocks outlives
	// the command: Wait does not wait for it, and bytes that it reads later are
	// lost. A caller that needs those bytes must end the Read itself. An Unreader gets
	// back what the command has not read; its Read must not block.
	Stdin io.Reader
	// Stdout and Stderr receive output as it arrives, never both at once, so
	// that one writer may serve as both; nil discards. A Write that blocks
	// holds up the command, and Wait too, even when the context has ended.
	//
	// On Linux, over a Unix socket, output bypasses the connection if Stdout is
	// a pipe (an *os.File, or a PipeWriter in front of one): it flows at the
	// speed of a pipe, and possibly while Stderr is written. If Stderr is the
	// same pipe, or one writer serves as both, the two streams arrive in the
	// order in which the command printed.
	Stdout, Stderr io.Writer
}

// Unreader is a reader that can take bytes back, such as a file.
type Unreader interface {
	io.Reader
	// Unread takes back the last n bytes that were read.
	Unread(n int64) error
}

// Process is a command that an agent runs and a client follows. Its methods
// are safe for concurrent use.
type Process struct {
	id      string
	conn    *connection
	frames  *FrameReader
	out     *FrameWriter
	streams Streams
	bypass  *bypass // nil if all output comes in frames
	window  *window
	buf     []byte     // of copyBuffer bytes, made when output first arrives
	counted bool       // the agent tells how much of Stdin was read
	read    int64      // how much that is, once the command has ended
	fed     chan int64 // gets how many bytes of Stdin were taken from it, once no more are

	done   chan struct{} // closed when result and err are final
	result ExecResult
	err    error

	mu       sync.Mutex
	failures [3]error // the first error of stdin, stdout and stderr, by stream
	refusal  error    // the first error that the agent sent in a frame, an *Error
}

// Start starts a command and follows it: its output goes to s as it arrives.
// It returns when the agent has started the command. If the agent cannot start
// it, the error is an *Error with the agent's code. Start sets q.Stream. When
// ctx ends, the command's whole tree is killed.
func (c *Client) Start(ctx context.Context, q ExecRequest, s Streams) (*Process, error) {
	q.Stream = true
	_, again := s.Stdin.(Unreader)
	q.CountStdin = again && q.TTY == nil && !q.Detach
	if err := checkUTF8("stdin", q.Stdin); err != nil {
		return nil, err
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	var way *bypass
	if !c.Framed {
		way, err = newBypass(conn.Conn, &q, s)
	}
	if err != nil {
		conn.close()
		return nil, fmt.Errorf("cannot make a pipe for the output: %w", err)
	}
	started, err := conn.startExec(q, way)
	if err != nil {
		conn.close()
		way.discard()
		return nil, err
	}
	p := &Process{
		id:      printable(started.ID),
		conn:    conn,
		frames:  NewFrameReader(conn.br, MaxFrame),
		out:     NewFrameWriter(conn.Conn),
		streams: s,
		bypass:  way,
		window:  newWindow(min(started.StdinWindow, StdinWindow)),
		counted: q.CountStdin,
		fed:     make(chan int64, 1),
		done:    make(chan struct{}),
	}
	way.start(func(err error) { p.fail(StreamStdout, err) })
	go p.run()
	go p.feed()
	return p, nil
}

// startExec sends the request, with the pipes of a bypass, and reads the answer.
func (c *connection) startExec(q ExecRequest, way *bypass) (ExecStarted, error) {
	var started ExecStarted
	q.Pass = way.streams()
	line, err := requestLine(ExecStream.Name, &q)
	if err != nil {
		return started, err
	}
	if way == nil {
		c.sent = writeAll(c.Conn, line)
	} else {
		c.sent = way.send(c.Conn, line)
	}
	if err := c.answer(&started, MaxLine); err != nil {
		return started, err
	}
	if !started.Streaming || started.StdinWindow <= 0 {
		return started, Errorf(CodeInternal, "cannot follow the command: the agent's answer announces no frames")
	}
	return started, nil
}

// ID returns the name that the agent gave the command.
func (p *Process) ID() string { return p.id }

// Wait waits until the command has ended and returns its result. It may be
// called more than once.
//
// If the command ended but a stream could not be copied whole, the result is
// valid and the error is that of the reader or writer. When a writer in Streams
// fails, the command gets SIGPIPE, as from a closed pipe (with a bypass, at its
// next write), and its further output is discarded. When Stdin fails, the
// command's standard input is closed.
//
// Any other error means that the end was not seen: ctx's error if it ended,
// else an *Error, with CodeGone if the connection broke and CodeInternal if the
// agent broke the protocol.
func (p *Process) Wait() (ExecResult, error) {
	<-p.done
	return p.result, p.err
}

// Refused returns the agent's first error about a request made by Signal or
// Resize, or nil. Wait does not return it, because the command may have ended
// while the request was under way.
func (p *Process) Refused() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusal
}

// Signal sends a signal, "INT", "SIGINT", …, to the command; if it has a terminal, to the job
// in the foreground. It returns when the request is sent; Refused says whether the agent could
// not do it.
func (p *Process) Signal(name string) error {
	return p.control(Control{Type: "signal", Signal: name})
}

// SignalGroup is Signal for the command's whole process group.
func (p *Process) SignalGroup(name string) error {
	return p.control(Control{Type: "signal", Signal: name, Group: true})
}

// Resize sets the size of the command's terminal, in characters. It returns
// as Signal does.
func (p *Process) Resize(rows, cols uint16) error {
	return p.control(Control{Type: "resize", Rows: rows, Cols: cols})
}

// Close closes the connection, at which the agent ends the command's tree
// (unless the request had Detach). After the command's end it does nothing.
func (p *Process) Close() error {
	p.window.close()
	err := p.conn.Conn.Close()
	select {
	case <-p.done:
		return nil
	default:
		return err
	}
}

// control sends a control frame.
func (p *Process) control(c Control) error {
	err := p.out.WriteControl(c)
	if err == nil {
		return nil
	}
	select {
	case <-p.done:
		return Errorf(CodeGone, "cannot send %s to the command: it has ended", c.Type)
	default:
		return Errorf(CodeGone, "cannot send %s to the command: %v", c.Type, err)
	}
}

// run follows the command to its end.
func (p *Process) run() {
	defer close(p.done)
	err := p.follow()
	// A caller may keep p for its result, and needs none of these.
	p.frames, p.buf, p.conn.br = nil, nil, nil
	p.window.close()
	p.conn.close()
	p.bypass.finish()
	if input, ok := p.streams.Stdin.(Unreader); ok && err == nil && p.counted {
		if unread := <-p.fed - p.read; unread < 0 || p.read < 0 {
			err = Errorf(CodeInternal, "cannot follow the command: the agent says that %d bytes of its standard input were read, and %d were taken", p.read, unread+p.read)
		} else if failed := input.Unread(unread); failed != nil {
			p.fail(StreamStdin, fmt.Errorf("cannot give back what the command has not read of its standard input: %w", failed))
		}
	}
	p.err = p.explain(err)
}

// explain returns Wait's error, given that follow returned err.
func (p *Process) explain(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var own *Error
	switch {
	case err == nil:
		return cmp.Or(p.failures[StreamStdout], p.failures[StreamStderr], p.failures[StreamStdin])
	case p.conn.ctx.Err() != nil:
		return p.conn.ctx.Err()
	case errors.As(err, &own):
		return own
	case p.refusal != nil:
		return p.refusal
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		return Errorf(CodeGone, "cannot follow the command: the connection was closed")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Errorf(CodeGone, "cannot follow the command: the connection ended before it did")
	default:
		return Errorf(CodeGone, "cannot follow the command: %v", err)
	}
}

// follow handles the agent's frames up to the one with the result.
func (p *Process) follow() error {
	for {
		stream, _, err := p.frames.Next()
		if err != nil {
			return protocolError(err)
		}
		ended := false
		switch stream {
		case StreamStdout:
			err = p.output(stream, p.streams.Stdout)
		case StreamStderr:
			err = p.output(stream, p.streams.Stderr)
		case StreamControl:
			ended, err = p.handleControl()
		default:
			err = Errorf(CodeInternal, "cannot follow the command: the agent sent a %s frame", stream)
		}
		if err != nil || ended {
			return err
		}
	}
}

// protocolError turns the error about an unreadable frame into one that blames
// the agent.
func protocolError(err error) error {
	var bad *Error
	if errors.As(err, &bad) {
		return Errorf(CodeInternal, "cannot follow the command: %s", printable(bad.Message))
	}
	return err
}

// output copies the current frame to sink, in one Write if it fits into the
// buffer. It returns the connection's error. If the sink fails, the command
// gets SIGPIPE, as from a closed pipe. Bytes that arrived before the connection
// broke are still written.
func (p *Process) output(s Stream, sink io.Writer) error {
	if sink == nil || p.failed(s) {
		return nil // Next discards the frame
	}
	if p.buf == nil {
		p.buf = make([]byte, copyBuffer)
	}
	for p.frames.left > 0 {
		n, err := io.ReadFull(p.frames.Payload(), p.buf[:min(len(p.buf), p.frames.left)])
		sinkErr := writeAll(sink, p.buf[:n])
		if sinkErr != nil && p.fail(s, sinkErr) {
			// If this fails, the connection is broken, as Next will find.
			_ = p.SignalGroup("PIPE")
		}
		if err != nil || sinkErr != nil {
			return err
		}
	}
	return nil
}

// handleControl reads a control frame and acts on it. It reports whether the
// command has ended.
func (p *Process) handleControl() (ended bool, err error) {
	c, err := p.frames.ReadControl(MaxFrame)
	if err != nil {
		return false, protocolError(err)
	}
	switch c.Type {
	case "exit":
		if c.Result == nil {
			return false, Errorf(CodeInternal, "cannot follow the command: the agent's exit frame has no result")
		}
		if err := c.Result.fromPeer(); err != nil {
			return false, err
		}
		p.result, p.read = *c.Result, c.Read
		return true, nil
	case "stdin_ack":
		return false, p.window.acknowledge(c.Bytes)
	case "error":
		// The command may go on: a signal that the agent does not know, say, ends
		// nothing.
		if c.Error == nil {
			c.Error = Errorf(CodeInternal, "the agent reports an error and does not say which")
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.refusal == nil {
			p.refusal = c.Error.fromPeer()
		}
	}
	// Types that this version does not know are skipped.
	return false, nil
}

// fail keeps the first error of a stream, and reports whether err is it.
func (p *Process) fail(s Stream, err error) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first = p.failures[s] == nil; first {
		p.failures[s] = err
	}
	return first
}

// failed reports whether a stream has failed.
func (p *Process) failed(s Stream) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures[s] != nil
}

// feed copies Stdin to the command until its end or an error, and then closes
// the command's standard input. It returns early when the command has ended,
// unless it is blocked in Stdin's Read.
func (p *Process) feed() {
	var taken int64
	defer func() { p.fed <- taken }()
	if p.streams.Stdin != nil {
		buf := make([]byte, stdinBuffer)
		for {
			n, err := p.streams.Stdin.Read(buf)
			taken += int64(n)
			if !p.send(buf[:n]) || errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				p.fail(StreamStdin, err)
				break
			}
		}
	}
	// If this fails, the connection is broken, as follow will find.
	_ = p.control(Control{Type: "close_stdin"})
}

// send sends data as the window allows, and reports whether more can follow.
func (p *Process) send(data []byte) bool {
	for len(data) > 0 {
		n := p.window.reserve(len(data))
		if n == 0 || p.out.WriteFrame(StreamStdin, data[:n]) != nil {
			return false
		}
		data = data[n:]
	}
	return !p.window.isClosed()
}

// window bounds how much standard input may be under way. It keeps the
// connection from filling up, so that a signal is never stuck behind input
// that the command does not read.
type window struct {
	mu     sync.Mutex
	moved  sync.Cond
	free   int // bytes that may be sent now
	sent   int // bytes that were sent and not acknowledged
	closed bool
}

func newWindow(size int) *window {
	w := &window{free: size}
	w.moved.L = &w.mu
	return w
}

// reserve waits until something may be sent and returns how many of the want
// bytes that is, or 0 if the window is closed.
func (w *window) reserve(want int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.free == 0 && !w.closed {
		w.moved.Wait()
	}
	if w.closed {
		return 0
	}
	n := min(want, w.free)
	w.free -= n
	w.sent += n
	return n
}

// acknowledge opens the window by n bytes, which must have been sent before.
func (w *window) acknowledge(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n < 0 || n > w.sent {
		return Errorf(CodeInternal,
			"cannot follow the command: the agent acknowledges %d bytes of standard input, and %d are under way", n, w.sent)
	}
	w.sent -= n
	w.free += n
	w.moved.Broadcast()
	return nil
}

func (w *window) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.moved.Broadcast()
}

func (w *window) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}
