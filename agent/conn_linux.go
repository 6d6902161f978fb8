package agent

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/exec"
	"github.com/paddock-dev/paddock/agent/internal/listen"
	"github.com/paddock-dev/paddock/internal/relay"
	"github.com/paddock-dev/paddock/wire"
)

// serve accepts connections until the listener ends. It returns nil where it
// was closed.
func (a *Agent) serve(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
				return nil
			}
			if !passing(err) {
				return err
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors: some will be freed
			continue
		}
		if l, ok := ln.(*listen.Listener); ok && l.Check != nil {
			if err := l.Check(conn); err != nil {
				go refuseConn(conn, &wire.Error{Code: wire.CodeUnauthorized, Message: "cannot serve the connection: " + err.Error()})
				continue
			}
		}
		a.welcome(conn)
	}
}

// passing reports whether accept(2) may do better the next time.
func passing(err error) bool {
	for _, errno := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ECONNABORTED,
		unix.EINTR, unix.EAGAIN, unix.EPROTO, unix.EPERM, unix.ENETDOWN, unix.EHOSTUNREACH, unix.ENETUNREACH} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// welcome starts to serve a connection, in place of another if need be.
func (a *Agent) welcome(conn net.Conn) {
	refused := a.connections.admit(conn)
	if refused != nil {
		go refuseConn(refused, errBusy)
	}
	if refused == conn {
		return
	}
	go func() {
		defer a.connections.leave(conn)
		a.converse(conn)
	}()
}

// manyProcessors lets the agent run in parallel. It starts with one processor
// only, because threads that look for work delay a single short command.
var manyProcessors = sync.OnceFunc(func() { runtime.GOMAXPROCS(min(runtime.NumCPU(), maxProcessors)) })

var errBusy = &wire.Error{Code: wire.CodeBusy, Message: "cannot serve the connection: too many are open"}

func refuseConn(conn net.Conn, why *wire.Error) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_ = wire.WriteLine(conn, why)
}

// converse serves one connection: one request, or as many as ask to be kept
// alive.
func (a *Agent) converse(conn net.Conn) {
	files := newPassage(conn)
	defer files.Close()
	in := bufio.NewReader(files)
	wait := requestTimeout
	for {
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		line, held, err := a.readRequest(in)
		_ = conn.SetReadDeadline(time.Time{})
		if err != nil {
			if wait == idleTimeout && errors.Is(err, io.EOF) {
				return // nothing more is asked
			}
			a.rejectLine(conn, in, err)
			return
		}
		if !a.connections.begin(conn) {
			a.room.give(held)
			return
		}
		brought := files.take()
		again := a.answer(&conversation{conn: conn, in: in, line: line, brought: brought})
		brought.close()
		a.room.give(held)
		a.connections.done(conn)
		if !again {
			return
		}
		wait = idleTimeout
	}
}

// rejectLine answers a line that never became a request, where somebody may
// still be there to read it.
func (a *Agent) rejectLine(conn net.Conn, in *bufio.Reader, err error) {
	var werr *wire.Error
	switch {
	case errors.Is(err, io.EOF):
		werr = wire.Errorf(wire.CodeBadRequest, "cannot read the request: there is none")
	case errors.As(err, &werr):
	case errors.Is(err, os.ErrDeadlineExceeded):
		werr = wire.Errorf(wire.CodeTimeout, "cannot wait for the request any longer")
	default:
		return
	}
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	told := wire.WriteLine(conn, werr) == nil
	if told && (werr == errNoRoom || werr == errLateToken) {
		discardLine(conn, in)
	}
}

// answer serves one request and reports whether the connection stays open.
func (a *Agent) answer(c *conversation) bool {
	if err := a.readHead(c); err != nil {
		return a.refuse(c, err)
	}
	if !a.authorized(c.head.Token) {
		return a.refuse(c, &wire.Error{Code: wire.CodeUnauthorized, Object: "token", Message: "cannot serve the request: its token is missing or wrong"})
	}
	serve, ok := a.actions[c.head.Action]
	if !ok {
		name := core.ShortName(c.head.Action)
		return a.refuse(c, &wire.Error{Code: wire.CodeUnknownAction, Object: name, Message: "unknown action: " + name})
	}
	return serve(a, c)
}

// authorized compares in a time that tells nothing of the token but its length.
func (a *Agent) authorized(token string) bool {
	return a.token == nil || subtle.ConstantTimeCompare(a.token, []byte(token)) == 1
}

// say answers with one line. An answer that has no room in a line becomes an
// error that says so.
func say(conn net.Conn, v any) error {
	w := patient{conn}
	if e, ok := v.(*wire.Error); ok {
		v = clipped(e)
	}
	err := wire.WriteLine(w, v)
	var large *wire.Error
	if errors.As(err, &large) {
		large.Hint = "ask for less at a time (max_output_bytes, limit), or stream the output"
		err = wire.WriteLine(w, large)
	}
	_ = conn.SetWriteDeadline(time.Time{})
	return err
}

// maxErrorText bounds what an error tells of a request, in bytes.
const maxErrorText = 64 << 10

// clipped returns an error that is not much longer than what it is about.
func clipped(e *wire.Error) *wire.Error {
	if max(len(e.Message), len(e.Object)) <= maxErrorText {
		return e
	}
	short := *e
	short.Message, short.Object = core.Shorten(e.Message, maxErrorText), core.Shorten(e.Object, maxErrorText)
	return &short
}

// patient writes for as long as the client takes something every stallTimeout.
// One that takes nothing must not hold what serves it for ever.
type patient struct{ conn net.Conn }

// Write writes all of p, in pieces.
func (w patient) Write(p []byte) (written int, err error) {
	for len(p) > 0 && err == nil {
		var n int
		_ = w.conn.SetWriteDeadline(time.Now().Add(stallTimeout))
		n, err = w.conn.Write(p[:min(len(p), 64<<10)])
		written += n
		p = p[n:]
	}
	return written, err
}

func (a *Agent) hello(*wire.HelloRequest) (*wire.HelloResult, error) {
	r := &wire.HelloResult{
		Version:  wire.Version,
		Build:    wire.Build,
		Features: wire.Features(),
		Limits: wire.Bounds{MaxLine: wire.MaxLine, MaxFrame: wire.MaxFrame, StdinWindow: wire.StdinWindow,
			MaxOutput: exec.MaxOutput, MaxConnections: maxConnections},
		Redaction: a.Rules.Names(), Kill: a.Trees.Means(),
	}
	if a.life == nil { // there are walls
		r.Isolation = a.isolation
	}
	return r, nil
}

func (a *Agent) answerExec(c *conversation) bool {
	var r wire.ExecRequest
	if err := a.decode(c, &r); err != nil {
		return a.refuse(c, err)
	}
	if werr := c.brought.check(&r); werr != nil {
		return a.reply(c, nil, werr) && !r.Stream
	}
	if r.Stream {
		var outputs []*os.File
		if len(r.Pass) > 0 {
			outputs = c.brought.files
		}
		if werr := exec.Stream(context.Background(), a.Sandbox, c.conn, c.in, &r, outputs); werr != nil {
			_ = say(c.conn, a.typed(c, werr))
		}
		return false // what follows may be frames
	}
	ctx, gone := context.WithCancel(context.Background())
	defer gone()
	stop := watch(c.conn, c.in, gone)
	res, werr := exec.Run(ctx, a.Sandbox, &r)
	alive := stop()
	if werr != nil {
		return a.reply(c, nil, werr) && alive
	}
	return a.reply(c, res, nil) && alive
}

// watch calls gone when the peer closes the connection while its command
// runs. A peer that has only finished sending, or sends on, is still there,
// until the socket says that both of its halves are closed. The returned
// function ends the watch and reports whether another request may come;
// nothing that arrived meanwhile is lost.
func watch(conn net.Conn, in *bufio.Reader, gone func()) func() bool {
	stopped := make(chan struct{})
	result := make(chan bool, 1)
	go func() {
		_, err := in.Peek(1)
		ended := errors.Is(err, os.ErrDeadlineExceeded)
		if !ended && relay.AwaitHangup(conn, stopped) {
			gone()
		}
		result <- ended || err == nil
	}()
	return func() bool {
		close(stopped)
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		alive := <-result
		_ = conn.SetReadDeadline(time.Time{})
		return alive
	}
}
