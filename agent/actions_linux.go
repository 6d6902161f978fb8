package agent

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/files"
	"github.com/paddock-dev/paddock/agent/internal/search"
	"github.com/paddock-dev/paddock/wire"
)

// handler serves one request and reports whether the connection stays open.
type handler func(a *Agent, c *conversation) bool

// table returns the table of actions: every request is one of these.
func (a *Agent) table() map[string]handler {
	return map[string]handler{
		wire.Hello.Name: plain(a.hello),
		wire.Exec.Name:  (*Agent).answerExec,

		wire.ExtractArchive.Name: upload("archive", a.files.Extract),
		wire.InstallSecrets.Name: upload("archive", a.secrets.Install),
		wire.ExportArchive.Name:  download(a.files.Export),

		wire.ListWorkspace.Name:       plain(a.files.List),
		wire.ReadWorkspaceFile.Name:   plain(a.files.ReadText),
		wire.WriteWorkspaceFile.Name:  plain(a.files.WriteText),
		wire.DeleteWorkspacePath.Name: plain(a.files.Delete),
		wire.ReadFile.Name:            download(a.files.Read),
		wire.WriteFile.Name:           upload("content", a.files.Write),
		wire.Stat.Name:                plain(a.files.Stat),
		wire.Mkdir.Name:               plain(a.files.Mkdir),
		wire.Move.Name:                plain(a.files.Move),
		wire.SearchFiles.Name: waiting(func(ctx context.Context, q *wire.SearchRequest) (*wire.SearchResult, error) {
			return search.Files(ctx, a.files, q)
		}),

		wire.OpenShell.Name:   plain(a.shells.Open),
		wire.ReadShell.Name:   waiting(a.shells.Read),
		wire.WriteShell.Name:  plain(a.shells.Write),
		wire.SignalShell.Name: plain(a.shells.Signal),
		wire.ResizeShell.Name: plain(a.shells.Resize),
		wire.CloseShell.Name:  plain(a.shells.Close),
		wire.ListShells.Name:  plain(a.shells.List),

		wire.OpenSession.Name:      waiting(a.sessions.Open),
		wire.RunSession.Name:       waiting(a.sessions.Run),
		wire.InterruptSession.Name: plain(a.sessions.Interrupt),
		wire.RestartSession.Name:   waiting(a.sessions.Restart),
		wire.CloseSession.Name:     waiting(a.sessions.Close),
		wire.ListSessions.Name:     plain(a.sessions.List),

		wire.StartService.Name:  plain(a.services.Start),
		wire.StatusService.Name: plain(a.services.Status),
		wire.LogsService.Name:   plain(a.services.Logs),
		wire.StopService.Name:   plain(a.services.Stop),
		wire.ListServices.Name:  plain(a.services.List),

		wire.Usage.Name:    plain(a.usage),
		wire.Signal.Name:   plain(a.SignalByID),
		wire.Kill.Name:     plain(a.KillByID),
		wire.Shutdown.Name: plain(a.shutdown),
	}
}

// conversation is one connection and the request that is being served on it.
type conversation struct {
	conn    net.Conn
	in      *bufio.Reader
	line    []byte // the request
	head    wire.Head
	prints  bool     // the request starts something that prints: rules apply to its errors
	hide    []string // what the request names that its errors must not tell
	rules   wire.RedactRules
	brought *passed
}

// stallTimeout is how long a body, in either direction, may make no progress.
const stallTimeout = 60 * time.Second

// maxDrain is how much of a refused body is read, so that a client which
// sends before it reads gets its answer. In bytes.
const maxDrain = 1 << 30

// plain serves an action of one line in and one out.
func plain[Q, R any](do func(*Q) (*R, error)) handler {
	return func(a *Agent, c *conversation) bool {
		q := new(Q)
		if err := a.decode(c, q); err != nil {
			return a.refuse(c, err)
		}
		r, err := do(q)
		return a.reply(c, r, err)
	}
}

// watchAfter is when a client is watched for its end: most requests are
// answered before, and a watch costs as much as they do.
const watchAfter = time.Millisecond

// waiting is plain for an action that may take long: its context ends when
// the client has gone.
func waiting[Q, R any](do func(context.Context, *Q) (*R, error)) handler {
	return func(a *Agent, c *conversation) bool {
		q := new(Q)
		if err := a.decode(c, q); err != nil {
			return a.refuse(c, err)
		}
		ctx, gone := context.WithCancel(context.Background())
		defer gone()
		watched := make(chan func() bool, 1)
		later := time.AfterFunc(watchAfter, func() { watched <- watch(c.conn, c.in, gone) })
		r, err := do(ctx, q)
		alive := later.Stop() || (<-watched)()
		return a.reply(c, r, err) && alive
	}
}

// upload serves an action whose request is followed by a body, named for the
// two errors that are about it: NAME_size and "NAME payload".
func upload[Q, R any, P interface {
	*Q
	BodySize() int64
}](name string, do func(*Q, io.Reader) (*R, error)) handler {
	return func(a *Agent, c *conversation) bool {
		q := P(new(Q))
		if err := a.decode(c, q); err != nil {
			return a.refuse(c, err)
		}
		if q.BodySize() < 0 {
			return a.refuse(c, &wire.Error{Code: wire.CodeBadRequest, Object: name + "_size", Message: name + "_size must not be negative"})
		}
		body := &bodyReader{c: c, name: name, left: q.BodySize()}
		r, err := do((*Q)(q), body)
		again := a.reply(c, r, err)
		if half, ok := c.conn.(interface{ CloseWrite() error }); ok && !again {
			_ = half.CloseWrite() // a client that waits for the end gets it, whatever it leaves unsent
		}
		return body.drain() && again
	}
}

// bodyReader reads a body of a known size.
type bodyReader struct {
	c    *conversation
	name string
	left int64
	wait time.Duration // for each piece, stallTimeout where it is 0
	err  error         // why no more can be read
}

// Read reads from the body. A connection that ends before the body does is an
// error of its own, never io.EOF.
func (b *bodyReader) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case b.left == 0:
		return 0, io.EOF
	}
	_ = b.c.conn.SetReadDeadline(time.Now().Add(cmp.Or(b.wait, stallTimeout)))
	n, err := b.c.in.Read(p[:min(int64(len(p)), b.left)])
	_ = b.c.conn.SetReadDeadline(time.Time{})
	b.left -= int64(n)
	if err != nil && (b.left > 0 || !errors.Is(err, io.EOF)) {
		b.err = &wire.Error{Code: wire.CodeBadRequest, Object: b.name, Message: "unexpected EOF while reading " + b.name + " payload"}
		return n, b.err
	}
	return n, nil
}

// drain reads what is left, in bounds, and reports whether all of it came. The
// answer is out: what a client does not send without a pause is not awaited.
func (b *bodyReader) drain() bool {
	if b.left == 0 {
		return true
	}
	b.wait = refusedTimeout
	buf := core.Buffers.Get().(*[]byte)
	defer core.Buffers.Put(buf)
	deadline := time.Now().Add(stallTimeout)
	for read := 0; b.left > 0 && b.err == nil && read < maxDrain && time.Now().Before(deadline); {
		n, _ := b.Read(*buf)
		read += n
	}
	return b.left == 0
}

// download serves an action whose answer is followed by a body. What makes it
// answers with the header, or an error and nothing else; then send writes
// exactly the announced bytes, or fails. A client that gets fewer bytes than
// were announced knows by this that it has not got it all.
func download[Q, R any, P interface {
	*R
	BodySize() int64
}](do func(*Q) (P, files.Body, error)) handler {
	return func(a *Agent, c *conversation) bool {
		q := new(Q)
		if err := a.decode(c, q); err != nil {
			return a.refuse(c, err)
		}
		r, body, err := do(q)
		if err != nil {
			return a.reply(c, r, err)
		}
		defer body.Close()
		if say(c.conn, r) != nil {
			return false
		}
		out := &bodyWriter{conn: c.conn, left: r.BodySize()}
		err = body.Send(out)
		return err == nil && out.left == 0 && c.head.KeepAlive
	}
}

var errBodyTooLong = errors.New("the body is longer than its header says")

// bodyWriter writes a body of a known size and never more than that.
type bodyWriter struct {
	conn net.Conn
	left int64
}

// Write fails where the client takes nothing for stallTimeout.
func (b *bodyWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		return 0, errBodyTooLong
	}
	_ = b.conn.SetWriteDeadline(time.Now().Add(stallTimeout))
	n, err := b.conn.Write(p)
	b.left -= int64(n)
	return n, err
}

// refuse answers an invalid request, after which nothing on the
// connection can be relied on.
func (a *Agent) refuse(c *conversation, err error) bool {
	_ = say(c.conn, a.typed(c, err))
	return false
}

// reply answers a request with its result or its error.
func (a *Agent) reply(c *conversation, result any, err error) bool {
	if err != nil {
		result = a.typed(c, err)
	}
	return say(c.conn, result) == nil && c.head.KeepAlive
}

// typed returns the error as it crosses the wire, without what is to be hidden.
func (a *Agent) typed(c *conversation, err error) *wire.Error {
	var werr *wire.Error
	if !errors.As(err, &werr) {
		werr = wire.Errorf(wire.CodeInternal, "%v", err)
	}
	var bad *wire.Error
	hidden := a.OnlySecrets()
	if c.prints {
		if hidden, bad = a.Redactor(c.hide, c.rules); bad != nil {
			return bad // and nothing of what cannot be hidden
		}
	}
	return hidden.Error(werr)
}
