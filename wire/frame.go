package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
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

// String gives the stream's name, for messages.
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
	// readBuffer holds many small frames, and is small beside a large one:
	// what does not fit goes straight into the caller's memory.
	readBuffer = 8 << 10
	// firstAlloc is what ReadPayload allocates on a peer's word alone.
	firstAlloc = 32 << 10
)

// FrameReader reads frames. It is not safe for concurrent use.
type FrameReader struct {
	br   *bufio.Reader
	max  int
	left int // bytes of the current payload that were not read yet
}

// NewFrameReader returns a reader of frames whose payloads have at most max
// bytes. It reads ahead; where r is a *bufio.Reader, it reads through that
// buffer, so that a line before the frames may be read through it too.
func NewFrameReader(r io.Reader, max int) *FrameReader {
	br, ok := r.(*bufio.Reader)
	if !ok {
		br = bufio.NewReaderSize(r, readBuffer)
	}
	return &FrameReader{br: br, max: max}
}

// Next discards what was left unread of the current frame, reads the next
// header, and returns its stream and the length of its payload. At the end of
// the stream it returns io.EOF, within a frame io.ErrUnexpectedEOF. A header
// that is none is an *Error with CodeBadRequest, a payload over the bound one
// with CodeTooLarge; nothing can be read after either.
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
	stream, size, err := parseHeader([frameHeader]byte(head), f.max)
	if err != nil {
		return 0, 0, err
	}
	// Peek has shown that the bytes are there, so this cannot fail.
	_, _ = f.br.Discard(frameHeader)
	f.left = size
	return stream, size, nil
}

func parseHeader(head [frameHeader]byte, max int) (Stream, int, error) {
	stream := Stream(head[0])
	if stream > StreamControl {
		return 0, 0, Errorf(CodeBadRequest, "cannot read the frame: there is no stream %d", head[0])
	}
	if head[1]|head[2]|head[3] != 0 {
		return 0, 0, Errorf(CodeBadRequest, "cannot read the frame: its header is not one")
	}
	size := binary.BigEndian.Uint32(head[4:])
	if uint64(size) > uint64(max) {
		return 0, 0, Errorf(CodeTooLarge, "cannot read the frame: its %d bytes are more than %d", size, max)
	}
	return stream, int(size), nil
}

// Payload is a reader of what is left of the current frame's payload. It is
// the same reader for every frame and moves on with Next.
func (f *FrameReader) Payload() io.Reader { return (*payload)(f) }

// payload is a FrameReader as the reader of its current frame.
type payload FrameReader

// Read reads from the current frame, io.EOF at its end. Where the buffer is
// empty and p larger than it, bytes go from the connection into p.
func (f *payload) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n, err := f.br.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, truncated(err)
}

// ReadPayload reads what is left of the current frame into buf, replacing its
// content, and returns it. A buf that is too small is replaced by one that
// grows as bytes arrive.
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

// truncated turns the end of the stream into what it is within a frame.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
