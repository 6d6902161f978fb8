package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Stream says what a frame carries.
type Stream byte

// The streams. A client sends StreamStdin and StreamControl, an agent
// StreamStdout, StreamStderr and StreamControl.
const (
	StreamStdin Stream = iota
	StreamStdout
	StreamStderr
	StreamControl
)

// String returns the stream's name, for messages.
func (s Stream) String() string {
	switch s {
	case StreamStdin:
		return "stdin"
	case StreamStdout:
		return "stdout"
	case StreamStderr:
		return "stderr"
	case StreamControl:
		return "control"
	default:
		return "unknown"
	}
}

const (
	// frameHeader is the length of a frame's header, in bytes.
	frameHeader = 8
	// readBuffer holds many small frames. It is small compared to a large
	// frame: what does not fit is read straight into the caller's memory.
	readBuffer = 8 << 10
	// firstAlloc is the most that ReadPayload allocates before any byte of a
	// payload has arrived.
	firstAlloc = 32 << 10
	// scratchSize is how much of a frame is copied together in memory for a
	// writer that cannot gather, so that a header is never sent alone.
	scratchSize = 64 << 10
)

// FrameReader reads frames. It is not safe for concurrent use.
type FrameReader struct {
	br   *bufio.Reader
	max  int
	left int // bytes of the current payload that were not read yet
}

// NewFrameReader returns a reader of frames whose payloads have at most max
// bytes. It reads ahead. If r is a *bufio.Reader, it reads through that
// buffer, so that a line before the frames may be read through it too.
func NewFrameReader(r io.Reader, max int) *FrameReader {
	br, ok := r.(*bufio.Reader)
	if !ok {
		br = bufio.NewReaderSize(r, readBuffer)
	}
	return &FrameReader{br: br, max: max}
}

// Next discards the unread rest of the current frame, reads the next header,
// and returns its stream and the length of its payload. At the end of the
// stream it returns io.EOF, within a frame io.ErrUnexpectedEOF. An invalid
// header is an *Error with CodeBadRequest, a payload over the bound one with
// CodeTooLarge; nothing can be read after either.
func (f *FrameReader) Next() (Stream, int, error) {
	if f.left > 0 {
		n, err := f.br.Discard(f.left)
		f.left -= n
		if err != nil {
			return 0, 0, truncated(err)
		}
	}
	head, err := f.br.Peek(frameHeader)
	if err != nil {
		if len(head) > 0 {
			err = truncated(err)
		}
		return 0, 0, err
	}
	stream, size := Stream(head[0]), binary.BigEndian.Uint32(head[4:])
	switch {
	case stream > StreamControl:
		return 0, 0, Errorf(CodeBadRequest, "cannot read the frame: unknown stream %d", head[0])
	case head[1]|head[2]|head[3] != 0:
		return 0, 0, Errorf(CodeBadRequest, "cannot read the frame: bytes 1 to 3 of its header must be zero")
	case uint64(size) > uint64(f.max):
		return 0, 0, Errorf(CodeTooLarge, "cannot read the frame: its %d bytes are more than %d", size, f.max)
	}
	// Peek has shown that the bytes are there, so this cannot fail.
	_, _ = f.br.Discard(frameHeader)
	f.left = int(size)
	return stream, f.left, nil
}

// Payload returns a reader of the unread rest of the current frame's payload.
// It is the same reader for every frame and moves on with Next.
func (f *FrameReader) Payload() io.Reader { return (*payload)(f) }

// payload is a FrameReader as the reader of its current frame.
type payload FrameReader

// Read reads from the current frame, io.EOF at its end. If the buffer is
// empty and p larger than it, bytes go from the connection straight into p.
func (f *payload) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n, err := f.br.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, truncated(err)
}

// ReadPayload reads the rest of the current frame into buf, replacing its
// content, and returns it. If buf is too small, ReadPayload returns another
// one, which grows as bytes arrive.
func (f *FrameReader) ReadPayload(buf []byte) ([]byte, error) {
	buf = buf[:0]
	size := f.left
	for len(buf) < size {
		room := min(size, max(cap(buf), 2*len(buf), firstAlloc))
		if room > cap(buf) {
			grown := make([]byte, len(buf), room)
			copy(grown, buf)
			buf = grown
		}
		n, err := io.ReadFull(f.Payload(), buf[len(buf):room])
		buf = buf[:len(buf)+n]
		if err != nil {
			return buf, err
		}
	}
	return buf, nil
}

// ReadControl reads the current frame as a control of at most max bytes. Its
// errors are those of DecodeControl and of reading.
func (f *FrameReader) ReadControl(max int) (Control, error) {
	if f.left > max {
		return Control{}, Errorf(CodeTooLarge, "cannot read the control frame: its %d bytes are more than %d", f.left, max)
	}
	text, err := f.ReadPayload(nil)
	if err != nil {
		return Control{}, err
	}
	return DecodeControl(text)
}

// truncated turns io.EOF into io.ErrUnexpectedEOF, for an end within a frame.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// FrameWriter writes frames. It is safe for concurrent use: the frames of one
// call stay together. After a failed write every later one fails with the
// same error, because the peer may have seen half a frame.
type FrameWriter struct {
	mu      sync.Mutex
	w       io.Writer
	gathers bool // w turns net.Buffers into one system call
	err     error

	// The buffers of a write are fields, so that it allocates nothing.
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

// WriteFrame writes p on stream s, as one frame or, if it is longer than
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
	if f.gathers { // the header and p in one system call
		f.pieces = [2][]byte{f.head[:], p}
		f.vec = f.pieces[:]
		_, err := f.vec.WriteTo(f.w)
		f.pieces[1] = nil // after an error it would keep the caller's memory
		return err
	}
	// The header goes with as much of p as fits beside it, in one Write, and
	// the rest of a large p straight from the caller's memory.
	n := min(len(p), scratchSize-frameHeader)
	f.scratch = append(append(f.scratch[:0], f.head[:]...), p[:n]...)
	if err := writeAll(f.w, f.scratch); err != nil || n == len(p) {
		return err
	}
	return writeAll(f.w, p[n:])
}
