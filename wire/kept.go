package wire

import (
	"context"
	"errors"
	"io"
	"reflect"
	"time"
)

// keptFor is how long a connection that nobody uses is used again: much less
// than an agent keeps one open.
const keptFor = time.Minute

// Kept asks one thing after the other over one connection, which saves making
// one each time. It is not safe for concurrent use. The zero value with a Client
// is ready; Close gives the connection back.
type Kept struct {
	Client *Client
	conn   *connection // nil where there is none
	last   time.Time
}

// CallKept is [Call] over a kept connection. One that the agent has given up
// meanwhile is made anew: an agent reads no request from a connection that it
// closes.
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

// exchange sends a line and reads one.
func (k *Kept) exchange(ctx context.Context, line []byte, r any) error {
	if k.conn == nil {
		conn, err := k.Client.connect(ctx)
		if err != nil {
			return err
		}
		k.conn = conn
	} else {
		k.conn.ctx = ctx
		k.conn.unhook = context.AfterFunc(ctx, func(c *connection) func() { return func() { _ = c.Conn.Close() } }(k.conn))
	}
	c := k.conn
	c.sent = writeAll(c.Conn, line)
	if _, err := c.br.Peek(1); err != nil && (c.sent != nil || errors.Is(err, io.EOF)) && ctx.Err() == nil {
		return errors.Join(errUnread, Errorf(CodeGone, "cannot read the agent's answer: the connection ended"))
	}
	err := c.answer(r, MaxLine)
	if !c.unhook() && err == nil {
		k.conn = nil // ctx has ended, and closed it
	}
	k.last = time.Now()
	return err
}

// Close gives the connection back. Kept can be used again after it.
func (k *Kept) Close() {
	if k.conn != nil {
		k.conn.close()
		k.conn = nil
	}
}
