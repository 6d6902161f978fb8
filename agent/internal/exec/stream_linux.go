package exec

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// Stream runs a command whose streams are frames on conn, but for the
// outputs that the client has given. It returns
// when the command has ended and its client has been told, or is gone.
func Stream(ctx context.Context, box *core.Sandbox, conn net.Conn, in *bufio.Reader, r *wire.ExecRequest, outputs []*os.File) *wire.Error {
	x, werr := startRun(box, r, true, outputs)
	if werr != nil {
		return werr
	}
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	out := wire.NewFrameWriter(conn)
	s := &stream{run: x, out: out}
	s.input = newInput(x, s.tell)
	if err := wire.WriteLine(conn, wire.ExecStarted{ID: x.id, Streaming: true, StdinWindow: wire.StdinWindow}); err != nil {
		gone()
	}
	go s.input.run()
	go func() {
		defer gone() // a client that vanishes ends its command
		s.receive(wire.NewFrameReader(in, wire.MaxFrame))
	}()
	stdout := &frameSink{out: out, stream: wire.StreamStdout, limit: r.MaxOutputBytes}
	stderr := &frameSink{out: out, stream: wire.StreamStderr, limit: r.MaxOutputBytes}
	go x.pump(stdout, stderr)
	res := x.finish(ctx)
	s.input.close()
	res.StdoutBytes, res.StdoutTruncated = stdout.total, stdout.truncated
	res.StderrBytes, res.StderrTruncated = stderr.total, stderr.truncated
	_ = s.tell(wire.Control{Type: "exit", Result: res})
	return nil
}

// stream is the client's side of a streamed exec.
type stream struct {
	run   *run
	out   *wire.FrameWriter
	input *input

	mu    sync.Mutex
	ended bool // the exit was told
}

var errEnded = errors.New("the command has ended")

// tell sends a control. None follows the exit.
func (s *stream) tell(c wire.Control) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errEnded
	}
	s.ended = c.Type == "exit"
	return s.out.WriteControl(c)
}

// receive handles the client's frames until the connection ends or is
// unusable.
func (s *stream) receive(frames *wire.FrameReader) {
	for {
		kind, _, err := frames.Next()
		if err != nil {
			s.refuse(err)
			return
		}
		switch kind {
		case wire.StreamStdin:
			payload, err := frames.ReadPayload(nil)
			if err == nil {
				err = s.input.put(payload)
			}
			if err != nil {
				s.refuse(err)
				return
			}
		case wire.StreamControl:
			c, err := frames.ReadControl(wire.MaxControl)
			switch {
			case err == nil:
				s.control(c)
			case c.Type == "":
				s.refuse(err)
				return
			default:
				s.refuse(err) // what it asks for is impossible
			}
		default:
			s.refuse(wire.Errorf(wire.CodeBadRequest, "cannot take a frame of %s from a client", kind))
			return
		}
	}
}

func (s *stream) control(c wire.Control) {
	var err error
	switch c.Type {
	case "close_stdin":
		s.input.end()
	case "signal":
		if sig := core.SignalNumber(c.Signal); sig == 0 {
			err = errors.New("unknown signal " + strconv.Quote(c.Signal))
		} else {
			err = s.run.box.SignalJob(s.run.process, sig)
		}
	case "resize":
		if t := s.run.stdio.Terminal; t != nil {
			err = spawn.Resize(t, wire.TTY{Rows: c.Rows, Cols: c.Cols})
		}
	default:
		err = wire.Errorf(wire.CodeBadRequest, "unknown control %q", c.Type)
	}
	if err != nil {
		s.refuse(wire.Errorf(wire.CodeBadRequest, "cannot do %s: %v", c.Type, err))
	}
}

// refuse tells the client about a frame that nothing could be made of. An
// error of the connection has nobody to be told to.
func (s *stream) refuse(err error) {
	var werr *wire.Error
	if errors.As(err, &werr) {
		_ = s.tell(wire.Control{Type: "error", Error: werr})
	}
}

// frameSink sends one output as frames, at most limit bytes of it where limit
// is not 0, and counts the rest.
type frameSink struct {
	out       *wire.FrameWriter
	stream    wire.Stream
	limit     int64
	total     int64
	truncated bool
}

// Write sends p. After the client has gone it only counts.
func (f *frameSink) Write(p []byte) (int, error) {
	n := len(p)
	if f.limit > 0 && f.total+int64(n) > f.limit {
		f.truncated = true
		p = p[:max(0, f.limit-f.total)]
	}
	f.total += int64(n)
	if len(p) > 0 {
		_ = f.out.WriteFrame(f.stream, p)
	}
	return n, nil
}

// endOfTransmission is what a terminal takes as the end of its input (^D).
const endOfTransmission = 0x04

// input carries standard input from frames to the command. It holds at most
// a window of bytes, so that a command that does not read never keeps the
// client's controls from being heard.
type input struct {
	dst      io.WriteCloser
	terminal bool
	tell     func(wire.Control) error

	mu     sync.Mutex
	wake   *sync.Cond
	queue  [][]byte
	held   int
	ended  bool // the client has no more
	closed bool // the command has ended
}

func newInput(x *run, tell func(wire.Control) error) *input {
	i := &input{dst: x.stdio.Stdin, terminal: x.stdio.Terminal != nil, tell: tell}
	i.wake = sync.NewCond(&i.mu)
	return i
}

// put queues bytes. Its error is a client's that does not keep to the protocol.
func (i *input) put(p []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.ended:
		return wire.Errorf(wire.CodeBadRequest, "cannot take standard input: it was closed")
	case i.held+len(p) > wire.StdinWindow:
		return wire.Errorf(wire.CodeTooLarge, "cannot take standard input: more than %d bytes are under way", wire.StdinWindow)
	case len(p) == 0:
		return nil
	}
	i.queue = append(i.queue, p)
	i.held += len(p)
	i.wake.Signal()
	return nil
}

func (i *input) end() {
	i.mu.Lock()
	i.ended = true
	i.mu.Unlock()
	i.wake.Signal()
}

func (i *input) close() {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	i.wake.Signal()
}

// take waits for queued bytes; nil says there are no more.
func (i *input) take() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.queue) == 0 && !i.ended && !i.closed {
		i.wake.Wait()
	}
	if i.closed || len(i.queue) == 0 {
		return nil
	}
	p := i.queue[0]
	i.queue = i.queue[1:]
	i.held -= len(p)
	return p
}

// run writes to the command and acknowledges what it took, also where the
// command has closed its standard input and the bytes go nowhere.
func (i *input) run() {
	for p := i.take(); p != nil; p = i.take() {
		_, _ = i.dst.Write(p)
		if i.tell(wire.Control{Type: "stdin_ack", Bytes: len(p)}) != nil {
			break
		}
	}
	if i.terminal { // its descriptor is also where output comes from
		_, _ = i.dst.Write([]byte{endOfTransmission})
		return
	}
	_ = i.dst.Close()
}
