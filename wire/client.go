package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"syscall"
	"time"
)

// maxHello bounds the answer to hello, in bytes: its isolation has no fixed
// type, and may take many times its length when decoded.
const maxHello = 256 << 10

// Client speaks to one agent. It opens a connection for each request, keeps
// nothing between them, and is safe for concurrent use.
//
// If a connection breaks before its answer is complete, the error is an *Error
// with CodeGone; for an answer that makes no sense it is one with CodeInternal.
type Client struct {
	// Dial opens a connection to the agent.
	Dial func(context.Context) (net.Conn, error)
	// Framed requests all output in frames. It is for an agent that reads all output
	// anyway, to redact it: with a passed pipe, a command would only notice later that
	// its reader has closed.
	Framed bool
}

// Call sends a request for a and returns the answer. It sets q's field Action.
// It is for actions with BodyNone; Upload, Download and Start are for others.
// When ctx ends, the connection is closed and Call returns ctx's error.
func Call[Q, R any](ctx context.Context, c *Client, a Action[Q, R], q Q) (R, error) {
	var r R
	if a.Body != BodyNone {
		return r, fmt.Errorf("cannot ask for %s: more than a line follows its lines", a.Name)
	}
	if err := call(ctx, c, a, q, &r, MaxLine); err != nil {
		var none R
		return none, err
	}
	return r, nil
}

func call[Q, R any](ctx context.Context, c *Client, a Action[Q, R], q Q, r *R, max int) error {
	conn, err := open(ctx, c, a, q)
	if err != nil {
		return err
	}
	defer conn.close()
	return conn.answer(r, max)
}

// Hello asks the agent for its version and abilities. If the agent has another
// protocol version, or both sides have a build and these differ, the error is
// an *Error with CodeUnsupported; the result is valid then, too.
func (c *Client) Hello(ctx context.Context) (HelloResult, error) {
	var r HelloResult
	if err := call(ctx, c, Hello, HelloRequest{Version: Version, Build: Build}, &r, maxHello); err != nil {
		return HelloResult{}, err
	}
	r.Build = printable(r.Build)
	if r.Version != Version {
		return r, Errorf(CodeUnsupported,
			"cannot use the agent: it speaks version %d of the protocol, and this client version %d", r.Version, Version)
	}
	if r.Build != Build && r.Build != "" && Build != "" {
		return r, Errorf(CodeUnsupported,
			"cannot use the agent: it is of build %s, and this client of build %s", r.Build, Build)
	}
	return r, nil
}

// Exec runs a command to its end and returns how it ended, with its captured
// output. It ignores q.Stream; Start runs a command and follows its output.
// When ctx ends, the command's whole tree is killed.
func (c *Client) Exec(ctx context.Context, q ExecRequest) (ExecResult, error) {
	q.Stream = false
	if err := checkUTF8("stdin", q.Stdin); err != nil {
		return ExecResult{}, err
	}
	r, err := Call(ctx, c, Exec, q)
	if err != nil {
		return ExecResult{}, err
	}
	if err := r.fromPeer(); err != nil {
		return ExecResult{}, err
	}
	return r, nil
}

// connection is a connection on which a request is sent.
type connection struct {
	net.Conn
	br     *bufio.Reader
	ctx    context.Context
	unhook func() bool
	sent   error // why the request could not be written; nil if it was
}

// open dials and sends the request. It stores the error of a failed write in the connection.
func open[Q, R any](ctx context.Context, c *Client, a Action[Q, R], q Q) (*connection, error) {
	line, err := requestLine(a.Name, &q)
	if err != nil {
		return nil, err
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	conn.sent = writeAll(conn, line)
	return conn, nil
}

// requestLine sets the field Action of the request that q points to, and
// returns the request as a line.
func requestLine(action string, q any) ([]byte, error) {
	v := reflect.ValueOf(q).Elem()
	var f reflect.Value
	if v.Kind() == reflect.Struct {
		f = v.FieldByName("Action")
	}
	if !f.IsValid() || f.Kind() != reflect.String {
		return nil, fmt.Errorf("cannot ask for %s: %T has no field Action", action, q)
	}
	f.SetString(action)
	return encodeLine(q)
}

// connect dials, and closes the connection when ctx ends.
func (c *Client) connect(ctx context.Context) (*connection, error) {
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the agent: %w", err)
	}
	oc := &connection{Conn: conn, br: bufio.NewReaderSize(conn, readBuffer), ctx: ctx}
	oc.unhook = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return oc, nil
}

// answer reads the answer line into r. It does so even if the request could
// not be written: an agent may refuse a request before it has read it all.
func (c *connection) answer(r any, max int) error {
	line, err := ReadLine(c.br, max)
	if err == nil {
		err = DecodeAnswer(line, r)
		var refused *Error
		if c.sent == nil || errors.As(err, &refused) {
			return err
		}
	}
	if c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	if c.sent != nil {
		return Errorf(CodeGone, "cannot send the request: %v", c.sent)
	}
	var own *Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, io.EOF):
		return Errorf(CodeGone, "cannot read the agent's answer: the connection ended")
	default:
		return Errorf(CodeGone, "cannot read the agent's answer: %v", err)
	}
}

// close ends the connection, and with it what the agent does for it.
func (c *connection) close() {
	c.unhook()
	_ = c.Close()
}

// Sized is a request or an answer that announces how many raw bytes follow it.
type Sized interface{ BodySize() int64 }

// Upload sends a request that is followed by a body, and returns the answer.
// It reads exactly q.BodySize() bytes of body; fewer are an error. It sets q's
// field Action. When ctx ends, the connection is closed and Upload returns
// ctx's error.
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
	// The agent may refuse the request before it has read it all. Its answer
	// says why, so a failed write does not end the call.
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

// sourceReader stores the error of a body's source, to distinguish it from an error of
// the connection.
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

// Download sends a request whose answer is followed by a body, and returns the
// answer and its body, which must be closed. The body has as many bytes as the
// answer announced: if the connection ends before, reading fails with an
// *Error with CodeGone. When ctx ends, the connection is closed.
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

// keptFor is how long an idle connection is kept for the next request: much
// less than an agent keeps it open.
const keptFor = time.Minute

// Kept sends one request after the other over one connection, which saves
// making one each time. It is not safe for concurrent use. The zero value with
// a Client is ready to use; Close closes the connection.
type Kept struct {
	Client *Client
	conn   *connection // nil if none is open
	last   time.Time
}

// CallKept is [Call] over a kept connection. If the agent has closed the
// connection meanwhile, CallKept makes another one and sends the request again.
// That is safe: an agent reads no request from a connection that it closes.
func CallKept[Q, R any](ctx context.Context, k *Kept, a Action[Q, R], q Q) (R, error) {
	var r R
	if f := reflect.ValueOf(&q).Elem().FieldByName("KeepAlive"); f.IsValid() && f.Kind() == reflect.Bool {
		f.SetBool(true)
	}
	line, err := requestLine(a.Name, &q)
	if err != nil {
		return r, err
	}
	if time.Since(k.last) > keptFor {
		k.Close()
	}
	for again := k.conn != nil; ; again = false {
		err := k.exchange(ctx, line, &r)
		var own *Error
		if err == nil || errors.As(err, &own) && own.Code != CodeGone && own.Code != CodeInternal {
			return r, err
		}
		k.Close()
		if !again || !errors.Is(err, errUnread) || ctx.Err() != nil {
			return r, err
		}
	}
}

// errUnread marks a connection that ended before a byte of the answer.
var errUnread = errors.New("the connection ended before an answer")

// exchange sends a line and reads the answer into r.
func (k *Kept) exchange(ctx context.Context, line []byte, r any) error {
	if k.conn == nil {
		conn, err := k.Client.connect(ctx)
		if err != nil {
			return err
		}
		k.conn = conn
	} else {
		k.conn.ctx = ctx
		conn := k.conn.Conn
		k.conn.unhook = context.AfterFunc(ctx, func() { _ = conn.Close() })
	}
	c := k.conn
	c.sent = writeAll(c.Conn, line)
	if _, err := c.br.Peek(1); err != nil && (c.sent != nil || ended(err)) && ctx.Err() == nil {
		return errors.Join(errUnread, Errorf(CodeGone, "cannot read the agent's answer: the connection ended"))
	}
	err := c.answer(r, MaxLine)
	if !c.unhook() && err == nil {
		k.conn = nil // the end of ctx has closed it
	}
	k.last = time.Now()
	return err
}

// ended reports whether an error of a read means that the other side has closed the
// connection: with a reset, where it or a relay before it had left something unread.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Close closes the connection. Kept can be used again after it.
func (k *Kept) Close() {
	if k.conn != nil {
		k.conn.close()
		k.conn = nil
	}
}
