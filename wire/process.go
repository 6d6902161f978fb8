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

// copyBuffer is the most output that is read at once, in bytes.
const copyBuffer = 256 << 10

// Streams are the standard streams of a command that is followed.
type Streams struct {
	// Stdin is read until its end; nil is empty. A Read that blocks outlives
	// the command: Wait does not wait for it, and what it then reads is lost.
	// A caller that needs those bytes must end the Read itself.
	Stdin io.Reader
	// Stdout and Stderr receive output as it arrives, never both at once, so
	// that one writer may serve as both; nil discards. A Write that blocks
	// holds the command back, and holds Wait even when the context has ended.
	//
	// On Linux, over a Unix socket, output goes around the connection to a
	// Stdout that is a pipe (an *os.File, or a PipeWriter before one): at the
	// speed of a pipe, and possibly while Stderr is written. A Stderr that is
	// the same pipe, or any writer that is both, gets the two streams in the
	// order in which the command printed.
	Stdout, Stderr io.Writer
}

// Process is a command that an agent runs and a client follows. Its methods
// are safe for concurrent use.
type Process struct {
	id      string
	conn    *connection
	frames  *FrameReader
	out     *FrameWriter
	streams Streams
	bypass  *bypass // nil where all output comes in frames
	window  *window
	buf     []byte // of copyBuffer bytes, made when output first arrives

	done   chan struct{} // closed when result and err are final
	result ExecResult
	err    error

	mu       sync.Mutex
	failures [3]error // the first error of stdin, stdout and stderr, by stream
	refusal  error    // the first error that the agent sent in a frame, an *Error
}

// Start starts a command and follows it: its output goes to s as it arrives.
// It returns when the agent has started the command; an error that kept it
// from starting is an *Error with the agent's code. It sets q.Stream. When
// ctx ends, so does the command's tree.
func (c *Client) Start(ctx context.Context, q ExecRequest, s Streams) (*Process, error) {
	q.Stream = true
	if err := q.checkText(); err != nil {
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
		done:    make(chan struct{}),
	}
	way.start(func(err error) { p.fail(StreamStdout, err) })
	go p.run()
	go p.feed()
	return p, nil
}

// startExec asks for the command, whose output may go another way.
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

// ID is the name that the agent gave the command.
func (p *Process) ID() string { return p.id }

// Wait waits until the command has ended and returns how. It may be called
// more than once.
//
// The result is valid, and comes with an error, where the command ended but
// its streams were not copied whole: a failing writer in Streams is answered
// as the kernel answers a closed pipe, with SIGPIPE to the command (where
// output goes around the connection, when it next writes), and what it prints
// after that is discarded; a failing Stdin is closed. The error is
// then that of the reader or writer.
//
// Otherwise an error means that the end was not seen: ctx's error where it
// ended, else an *Error, with CodeGone where the connection broke and
// CodeInternal where the agent broke the protocol.
func (p *Process) Wait() (ExecResult, error) {
	<-p.done
	return p.result, p.err
}

// Refused is the first request, made by Signal or Resize, that the agent has
// said it could not do; nil where there is none. It is no part of Wait's
// error, because the command may have ended while the request was under way.
func (p *Process) Refused() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusal
}

// Signal sends the command a signal, "INT", "SIGINT", …: its process group,
// or, where it has a terminal, the job in the foreground. It returns when the
// request is sent; Refused tells of an agent that could not do it.
func (p *Process) Signal(name string) error {
	return p.control(Control{Type: "signal", Signal: name})
}

// Resize sets the size of the command's terminal, in characters. It returns
// as Signal does.
func (p *Process) Resize(rows, cols uint16) error {
	return p.control(Control{Type: "resize", Rows: rows, Cols: cols})
}

// Close drops the connection, on which the agent ends the command's tree
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
	// Who asks later how it ended keeps p, and needs none of these.
	p.frames, p.buf, p.conn.br = nil, nil, nil
	p.window.close()
	p.conn.close()
	p.bypass.finish()
	p.err = p.explain(err)
}

// explain gives Wait's error, where follow ended with err.
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

// fail keeps the first error of a stream.
func (p *Process) fail(s Stream, err error) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first = p.failures[s] == nil; first {
		p.failures[s] = err
	}
	return first
}

func (p *Process) failed(s Stream) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures[s] != nil
}
