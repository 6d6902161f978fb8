package exec

import (
	"errors"
	"io"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// stream is the client's side of a streamed exec.
type stream struct {
	run   *Command
	out   *wire.FrameWriter
	stdin *stdin

	mu    sync.Mutex
	ended bool // the exit was sent
}

var errEnded = errors.New("the command has ended")

// send sends a control frame. None follows the exit.
func (s *stream) send(c wire.Control) error {
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
			s.sendError(err)
			return
		}
		switch kind {
		case wire.StreamStdin:
			payload, err := frames.ReadPayload(nil)
			if err == nil {
				err = s.stdin.put(payload)
			}
			if err != nil {
				s.sendError(err)
				return
			}
		case wire.StreamControl:
			c, err := frames.ReadControl(wire.MaxControl)
			switch {
			case err == nil:
				s.control(c)
			case c.Type == "":
				s.sendError(err)
				return
			default:
				s.sendError(err) // a control that is known, with invalid fields
			}
		default:
			s.sendError(wire.Errorf(wire.CodeBadRequest, "cannot take a frame of %s from a client", kind))
			return
		}
	}
}

// control does what a control frame asks for.
func (s *stream) control(c wire.Control) {
	var err error
	switch c.Type {
	case "close_stdin":
		s.stdin.endInput()
	case "signal":
		switch sig := core.SignalNumber(c.Signal); {
		case sig == 0:
			err = errors.New("unknown signal " + strconv.Quote(c.Signal))
		case c.Group || s.run.stdio.Terminal != nil:
			err = s.run.box.SignalJob(s.run.process, sig)
		default:
			err = s.run.box.Reaper.SignalOne(s.run.process, sig)
		}
	case "resize":
		if t := s.run.stdio.Terminal; t != nil {
			err = spawn.Resize(t, wire.TTY{Rows: c.Rows, Cols: c.Cols})
		}
	default:
		err = wire.Errorf(wire.CodeBadRequest, "unknown control %q", c.Type)
	}
	if err != nil {
		s.sendError(wire.Errorf(wire.CodeBadRequest, "cannot do %s: %v", c.Type, err))
	}
}

// sendError reports an invalid frame to the client. It drops errors of the connection,
// since no client is left to receive them.
func (s *stream) sendError(err error) {
	var werr *wire.Error
	if errors.As(err, &werr) {
		_ = s.send(wire.Control{Type: "error", Error: werr})
	}
}

// frameSink sends one output as frames, at most limit bytes of it if limit
// is not 0, and counts the rest.
type frameSink struct {
	out       *wire.FrameWriter
	stream    wire.Stream
	limit     int64
	total     int64
	truncated bool
}

// Write sends p. After the client has disconnected it only counts.
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

// stdin carries standard input from frames to the command. Its queue holds at most
// a window of bytes, so that a command that does not read never delays the
// client's control frames.
type stdin struct {
	dst      io.WriteCloser
	terminal bool
	send     func(wire.Control) error
	over     chan struct{} // closed when nothing more is written

	mu     sync.Mutex
	wake   *sync.Cond
	queue  [][]byte
	queued int  // bytes
	ended  bool // the client has no more
	closed bool // the command has ended

	written int64 // valid once over is closed
}

func newStdin(s *spawn.Stdio, send func(wire.Control) error) *stdin {
	i := &stdin{dst: s.Stdin, terminal: s.Terminal != nil, send: send, over: make(chan struct{})}
	i.wake = sync.NewCond(&i.mu)
	return i
}

// put queues bytes. It fails if the client breaks the protocol.
func (i *stdin) put(p []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.ended:
		return wire.Errorf(wire.CodeBadRequest, "cannot take standard input: it was closed")
	case i.queued+len(p) > wire.StdinWindow:
		return wire.Errorf(wire.CodeTooLarge, "cannot take standard input: more than %d bytes are under way", wire.StdinWindow)
	case len(p) == 0:
		return nil
	}
	i.queue = append(i.queue, p)
	i.queued += len(p)
	i.wake.Signal()
	return nil
}

// endInput notes that the client has no more bytes.
func (i *stdin) endInput() {
	i.mu.Lock()
	i.ended = true
	i.mu.Unlock()
	i.wake.Signal()
}

// close drops queued input, since the command has ended.
func (i *stdin) close() {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	i.wake.Signal()
}

// next waits for queued bytes; it returns nil if no more will come.
func (i *stdin) next() []byte {
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
	i.queued -= len(p)
	return p
}

// read returns how much of standard input commands have read, once they and it have ended. unread is
// the reading end of the pipe.
func (i *stdin) read(unread int) int64 {
	<-i.over
	left, err := unix.IoctlGetInt(unread, unix.TIOCINQ)
	if err != nil {
		return i.written
	}
	return max(0, i.written-int64(left)) // commands can write into their own pipe, through /dev/stdin
}

// run writes to the command and acknowledges every piece, even if the
// command has closed its standard input and the bytes are lost.
func (i *stdin) run() {
	defer close(i.over)
	for p := i.next(); p != nil; p = i.next() {
		n, _ := i.dst.Write(p)
		i.written += int64(n)
		if i.send(wire.Control{Type: "stdin_ack", Bytes: len(p)}) != nil {
			break
		}
	}
	if i.terminal { // its descriptor is also where output comes from
		_, _ = i.dst.Write([]byte{endOfTransmission})
		return
	}
	_ = i.dst.Close()
}
