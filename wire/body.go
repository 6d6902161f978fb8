package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Sized is a request or an answer that says how many raw bytes follow it.
type Sized interface{ BodySize() int64 }

// Upload asks a, whose request is followed by a body, and returns the answer.
// It reads exactly q.BodySize() bytes of body; fewer are an error. It sets q's
// field Action itself. When ctx ends, the connection is closed and Upload
// returns ctx's error.
func Upload[Q, R any](ctx context.Context, c *Client, a Action[Q, R], q Q, body io.Reader) (R, error) {
	var r R
	sized, ok := any(&q).(Sized)
	if a.Body != BodyUp || !ok {
		return r, fmt.Errorf("cannot ask for %s: no body follows its request", a.Name)
	}
	conn, err := open(ctx, c, a, q)
	if err != nil {
		return r, err
	}
	defer conn.close()
	// The agent may refuse the request before it has read it all, and then
	// says why: a write that fails is not the end.
	source := &sourceReader{r: io.LimitReader(body, sized.BodySize())}
	if conn.sent == nil {
		var n int64
		n, conn.sent = io.Copy(conn.Conn, source)
		if source.err != nil {
			return r, fmt.Errorf("cannot read the body: %w", source.err)
		}
		if conn.sent == nil && n < sized.BodySize() {
			return r, fmt.Errorf("cannot read the body: %w after %d of %d bytes", io.ErrUnexpectedEOF, n, sized.BodySize())
		}
	}
	var answer R
	if err := conn.answer(&answer, MaxLine); err != nil {
		return r, err
	}
	return answer, nil
}

// sourceReader tells errors of a body's source from those of the connection.
type sourceReader struct {
	r   io.Reader
	err error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// Download asks a, whose answer is followed by a body, and returns the answer
// and its body, which must be closed. The body gives as many bytes as the
// answer announced: where the connection ends before, it fails with an *Error
// with CodeGone. When ctx ends, the connection is closed.
func Download[Q, R any](ctx context.Context, c *Client, a Action[Q, R], q Q) (R, io.ReadCloser, error) {
	var r, none R
	sized, ok := any(&r).(Sized)
	if a.Body != BodyDown || !ok {
		return none, nil, fmt.Errorf("cannot ask for %s: no body follows its answer", a.Name)
	}
	conn, err := open(ctx, c, a, q)
	if err != nil {
		return none, nil, err
	}
	err = conn.answer(&r, MaxLine)
	if err == nil && sized.BodySize() < 0 {
		err = Errorf(CodeInternal, "cannot use the agent's answer: the size of its body is negative")
	}
	if err != nil {
		conn.close()
		return none, nil, err
	}
	return r, &bodyReader{conn: conn, left: sized.BodySize()}, nil
}

// bodyReader reads a body of a known size.
type bodyReader struct {
	conn *connection
	left int64
}

// Read reads from the body.
func (b *bodyReader) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.conn.br.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case err == nil || b.left == 0:
		return n, nil
	case b.conn.ctx.Err() != nil:
		return n, b.conn.ctx.Err()
	default:
		return n, Errorf(CodeGone, "cannot read the body: the connection ended %d bytes before it does", b.left)
	}
}

// Close ends the connection.
func (b *bodyReader) Close() error {
	b.conn.close()
	return nil
}
