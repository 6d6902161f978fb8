package agent

import (
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
type handler func(a *Agent, req *request) bool

// table returns the handlers of all actions.
func (a *Agent) table() map[string]handler {
	return map[string]handler{
		wire.Hello.Name: plain(a.hello),
		wire.Exec.Name:  (*Agent).answerExec,

		wire.StartExec.Name:  plain(a.jobs.Start),
		wire.ListExecs.Name:  plain(a.jobs.List),
		wire.ReadExec.Name:   waiting(a.jobs.Read),
		wire.SignalExec.Name: plain(a.jobs.Signal),
		wire.KillExec.Name:   plain(a.jobs.Kill),

		wire.ExtractArchive.Name: upload("archive", a.files.Extract),
		wire.InstallSecrets.Name: upload("archive", a.secrets.Install),
		wire.SetSecrets.Name:     plain(a.secrets.Set),
		wire.ListSecrets.Name:    plain(a.secrets.List),
		wire.DeleteSecrets.Name:  plain(a.secrets.Delete),
		wire.RedactTexts.Name:    plain(a.redactTexts),
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
		wire.ReadService.Name:   waiting(a.services.Read),
		wire.StopService.Name:   plain(a.services.Stop),
		wire.ListServices.Name:  plain(a.services.List),

		wire.Connect.Name: (*Agent).answerConnect,

		wire.Usage.Name:    plain(a.usage),
		wire.Signal.Name:   plain(a.SignalByID),
		wire.Kill.Name:     plain(a.KillByID),
		wire.Shutdown.Name: plain(a.shutdown),
	}
}

// maxDrain is how much of a refused body is read, so that a client which
// sends before it reads gets its answer. In bytes.
const maxDrain = 1 << 30

// plain serves an action with one line in and one out.
func plain[Q, R any](do func(*Q) (*R, error)) handler {
	return func(a *Agent, req *request) bool {
		q := new(Q)
		if err := a.decode(req, q); err != nil {
			return a.refuse(req, err)
		}
		r, err := do(q)
		return a.reply(req, r, err)
	}
}

// watchAfter is how long a request runs before its client is watched: most requests
// are answered earlier, and a watch costs as much as they do.
const watchAfter = time.Millisecond

// waiting is plain for an action that may take long: its context is cancelled when
// the client closes the connection.
func waiting[Q, R any](do func(context.Context, *Q) (*R, error)) handler {
	return func(a *Agent, req *request) bool {
		q := new(Q)
		if err := a.decode(req, q); err != nil {
			return a.refuse(req, err)
		}
		ctx, gone := context.WithCancel(context.Background())
		defer gone()
		watched := make(chan func() bool, 1)
		later := time.AfterFunc(watchAfter, func() { watched <- watch(req.conn, req.in, gone) })
		r, err := do(ctx, q)
		alive := later.Stop() || (<-watched)()
		return a.reply(req, r, err) && alive
	}
}

// upload serves an action whose request is followed by a body. The name of the body
// appears in two errors: NAME_size and "NAME payload".
func upload[Q, R any, P interface {
	*Q
	BodySize() int64
}](name string, do func(*Q, io.Reader) (*R, error)) handler {
	return func(a *Agent, req *request) bool {
		q := P(new(Q))
		if err := a.decode(req, q); err != nil {
			return a.refuse(req, err)
		}
		if q.BodySize() < 0 {
			return a.refuse(req, &wire.Error{Code: wire.CodeBadRequest, Object: name + "_size", Message: name + "_size must not be negative"})
		}
		body := &bodyReader{req: req, name: name, left: q.BodySize()}
		r, err := do((*Q)(q), body)
		again := a.reply(req, r, err)
		if half, ok := req.conn.(interface{ CloseWrite() error }); ok && !again {
			_ = half.CloseWrite() // so that a client that waits for the end gets it, even if it sends no more
		}
		return body.drain() && again
	}
}

// bodyReader reads a body of a known size.
type bodyReader struct {
	req  *request
	name string
	left int64
	wait time.Duration // for each piece, 0 means stallTimeout
	err  error         // why no more can be read
}

// Read reads from the body. If the connection ends before the body does, it returns a
// separate error, never io.EOF.
func (b *bodyReader) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case b.left == 0:
		return 0, io.EOF
	}
	_ = b.req.conn.SetReadDeadline(time.Now().Add(cmp.Or(b.wait, stallTimeout)))
	n, err := b.req.in.Read(p[:min(int64(len(p)), b.left)])
	_ = b.req.conn.SetReadDeadline(time.Time{})
	b.left -= int64(n)
	if err != nil && (b.left > 0 || !errors.Is(err, io.EOF)) {
		b.err = &wire.Error{Code: wire.CodeBadRequest, Object: b.name, Message: "unexpected EOF while reading " + b.name + " payload"}
		return n, b.err
	}
	return n, nil
}

// drain reads the rest of the body, within bounds, and reports whether all of it came.
// It does not wait long for any piece, since the answer has been written already.
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

// download serves an action whose answer is followed by a body. do returns the header
// and the body, or an error; then Send writes exactly the announced bytes, or fails. A
// client that gets fewer bytes than were announced knows that the body is incomplete.
func download[Q, R any, P interface {
	*R
	BodySize() int64
}](do func(*Q) (P, files.Body, error)) handler {
	return func(a *Agent, req *request) bool {
		q := new(Q)
		if err := a.decode(req, q); err != nil {
			return a.refuse(req, err)
		}
		r, body, err := do(q)
		if err != nil {
			return a.reply(req, r, err)
		}
		defer body.Close()
		if say(req.conn, r) != nil {
			return false
		}
		out := &bodyWriter{conn: req.conn, left: r.BodySize()}
		err = body.Send(out)
		return err == nil && out.left == 0 && req.head.KeepAlive
	}
}

var errBodyTooLong = errors.New("the body is longer than its header says")

// bodyWriter writes a body of a known size and never more than that.
type bodyWriter struct {
	conn net.Conn
	left int64
}

// Write fails if the client reads nothing for stallTimeout.
func (b *bodyWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		return 0, errBodyTooLong
	}
	_ = b.conn.SetWriteDeadline(time.Now().Add(stallTimeout))
	n, err := b.conn.Write(p)
	b.left -= int64(n)
	return n, err
}
