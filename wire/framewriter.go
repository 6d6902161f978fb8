package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// scratchSize is how much of a frame is joined in memory for a writer that
// cannot gather, so that a header never travels alone.
const scratchSize = 64 << 10

// FrameWriter writes frames. It is safe for concurrent use: the frames of one
// call stay together. After a failed write every later one fails with the
// same error, because the peer may have seen half a frame.
type FrameWriter struct {
	mu      sync.Mutex
	w       io.Writer
	gathers bool // w turns net.Buffers into one system call
	err     error

	// All that a write needs lives here, so that it allocates nothing.
	head    [frameHeader]byte
	pieces  [2][]byte
	vec     net.Buffers
	scratch []byte
}

// NewFrameWriter returns a writer of frames to w.
func NewFrameWriter(w io.Writer) *FrameWriter {
	f := &FrameWriter{w: w}
	switch w.(type) {
	case *net.UnixConn, *net.TCPConn:
		f.gathers = true
	}
	return f
}

// WriteFrame writes p on stream s, as one frame or, where it is longer than
// MaxFrame, as several. An empty p makes an empty frame. A control frame is
// never split: a longer one is an *Error with CodeTooLarge, and nothing is
// written.
func (f *FrameWriter) WriteFrame(s Stream, p []byte) error {
	if s == StreamControl && len(p) > MaxFrame {
		return Errorf(CodeTooLarge, "cannot write the control frame: its %d bytes are more than %d", len(p), MaxFrame)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		n := min(len(p), MaxFrame)
		if f.err == nil {
			f.err = f.write(s, p[:n])
		}
		if p = p[n:]; len(p) == 0 || f.err != nil {
			return f.err
		}
	}
}

// WriteControl writes c as a control frame.
func (f *FrameWriter) WriteControl(c Control) error {
	text, err := encode(c)
	if err != nil {
		return fmt.Errorf("cannot encode the control frame: %w", err)
	}
	return f.WriteFrame(StreamControl, text[:len(text)-1])
}

// write sends one frame. f.mu is held.
func (f *FrameWriter) write(s Stream, p []byte) error {
	f.head = [frameHeader]byte{byte(s)}
	binary.BigEndian.PutUint32(f.head[4:], uint32(len(p)))
	if f.gathers {
		return f.gather(p)
	}
	return f.join(p)
}

// gather sends the header and p in one system call.
func (f *FrameWriter) gather(p []byte) error {
	f.pieces = [2][]byte{f.head[:], p}
	f.vec = f.pieces[:]
	_, err := f.vec.WriteTo(f.w)
	f.pieces[1] = nil // after an error it would keep the caller's memory
	return err
}

// join sends the header with as much of p as fits beside it in one Write, and
// the rest of a large p straight from the caller's memory.
func (f *FrameWriter) join(p []byte) error {
	n := min(len(p), scratchSize-frameHeader)
	f.scratch = append(append(f.scratch[:0], f.head[:]...), p[:n]...)
	if err := writeAll(f.w, f.scratch); err != nil || n == len(p) {
		return err
	}
	return writeAll(f.w, p[n:])
}

// writeAll writes p and holds w to its contract. Nothing is written as nothing:
// a socket whose peer has read all and gone would fail even that.
func writeAll(w io.Writer, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	n, err := w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}
