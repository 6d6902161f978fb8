package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
)

// maxHello bounds the answer to hello, in bytes: what it says of isolation has
// no fixed type, and decoded it may take many times its length.
const maxHello = 256 << 10

// Client speaks to one agent. It opens a connection for each request, keeps
// nothing between them, and is safe for concurrent use.
//
// A connection that breaks before its answer is complete is an *Error with
// CodeGone; an answer that makes no sense is one with CodeInternal.
type Client struct {
	// Dial opens a connection to the agent.
	Dial func(context.Context) (net.Conn, error)
	// Framed has all output come in frames. It is for an agent that reads all of it
	// anyway, to redact it: a passed pipe would only tell a command later that
	// nobody reads any more.
	Framed bool
}

// Call asks a and returns the answer. It sets q's field Action itself. An
// action with another body than BodyNone has a method of its own. When ctx
// ends, the connection is closed and Call returns ctx's error.
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

// Hello asks the agent what it is. An agent of another protocol version, or
// of another build where both sides have one, is an *Error with
// CodeUnsupported; the result is then valid too.
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
// output. q.Stream is ignored; Start runs a command whose output is followed.
// When ctx ends, so does the command's tree.
func (c *Client) Exec(ctx context.Context, q ExecRequest) (ExecResult, error) {
	q.Stream = false
	if err := q.checkText(); err != nil {
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

// connection is a connection on which a request was sent.
type connection struct {
	net.Conn
	br     *bufio.Reader
	ctx    context.Context
	unhook func() bool
	sent   error // why the request could not be written, if it could not
}

// open dials and sends the request.
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

// requestLine gives the request q points to as a line, its action set.
func requestLine(action string, q any) ([]byte, error) {
	if err := setAction(q, action); err != nil {
		return nil, err
	}
	return encodeLine(q)
}

// connect dials. From then on the end of ctx closes the connection.
func (c *Client) connect(ctx context.Context) (*connection, error) {
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the agent: %w", err)
	}
	oc := &connection{Conn: conn, br: bufio.NewReaderSize(conn, readBuffer), ctx: ctx}
	oc.unhook = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return oc, nil
}

// answer reads the answer line into r. It does so where the request could not
// be written, too: an agent may refuse a request before it has read it all.
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

// close ends the connection, and with it what the agent does on its behalf.
func (c *connection) close() {
	c.unhook()
	_ = c.Close()
}

// setAction sets the field Action of the request q points to.
func setAction(q any, name string) error {
	if v := reflect.ValueOf(q).Elem(); v.Kind() == reflect.Struct {
		if f := v.FieldByName("Action"); f.IsValid() && f.Kind() == reflect.String {
			f.SetString(name)
			return nil
		}
	}
	return fmt.Errorf("cannot ask for %s: %T has no field Action", name, q)
}
