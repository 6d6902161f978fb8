package agent

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/exec"
	"github.com/paddock-dev/paddock/agent/internal/listen"
	"github.com/paddock-dev/paddock/agent/internal/ports"
	"github.com/paddock-dev/paddock/internal/relay"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/wire"
)

const (
	// requestTimeout is how long a client may take to send a request line.
	requestTimeout = 30 * time.Second
	// idleTimeout is how long a kept-alive connection may stay silent.
	idleTimeout = 5 * time.Minute
	// refusedTimeout is how long the agent reads on after a refused line, and how
	// long it waits for each piece of a refused body.
	refusedTimeout = 2 * time.Second
	// stallTimeout is how long a body or an answer may make no progress.
	stallTimeout = 60 * time.Second
	// maxUnproved is how many bytes of a line are read before its token must have
	// come, if one is required.
	maxUnproved = 8 << 10
	// maxErrorText bounds the text of an error, in bytes.
	maxErrorText = 64 << 10
)

var (
	errBusy      = &wire.Error{Code: wire.CodeBusy, Message: "cannot serve the connection: too many are open"}
	errLateToken = &wire.Error{Code: wire.CodeUnauthorized, Object: "token", Message: "cannot serve the request: its token is missing or wrong",
		Hint: fmt.Sprintf("the token must be within the first %d bytes of the request", maxUnproved)}
	errNoRoom = &wire.Error{Code: wire.CodeBusy, Message: "cannot read the request: there is no room for a line of its size",
		Hint: "try again later, or send less at a time"}
)

// temporary lists the errors of accept(2) after which another call may succeed.
var temporary = []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ECONNABORTED,
	unix.EINTR, unix.EAGAIN, unix.EPROTO, unix.EPERM, unix.ENETDOWN, unix.EHOSTUNREACH, unix.ENETUNREACH}

// serve accepts connections until the listener ends. It returns nil if the listener
// was closed.
func (a *Agent) serve(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF):
			return nil
		case slices.ContainsFunc(temporary, func(errno unix.Errno) bool { return errors.Is(err, errno) }):
			time.Sleep(10 * time.Millisecond) // out of descriptors: some will be freed
			continue
		default:
			return err
		}
		if l, ok := ln.(*listen.Listener); ok && l.Check != nil {
			if err := l.Check(conn); err != nil {
				go refuseConn(conn, &wire.Error{Code: wire.CodeUnauthorized, Message: "cannot serve the connection: " + err.Error()})
				continue
			}
		}
		refused := a.connections.admit(conn)
		if refused != nil {
			go refuseConn(refused, errBusy)
		}
		if refused == conn {
			continue
		}
		go func() {
			defer a.connections.leave(conn)
			a.serveConn(conn)
		}()
	}
}

func refuseConn(conn net.Conn, why *wire.Error) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_ = wire.WriteLine(conn, why)
}

// request is a request that is being served, and its connection.
type request struct {
	conn   net.Conn
	in     *bufio.Reader
	line   []byte // nil once it is decoded
	head   wire.Head
	prints bool     // it starts something that prints: rules apply to its errors
	hide   []string // values that its errors must not contain
	rules  wire.RedactRules
	files  *passedFiles
}

// serveConn serves one connection: one request, or several if the client keeps it
// alive.
func (a *Agent) serveConn(conn net.Conn) {
	unixConn, _ := conn.(*net.UnixConn)
	receiver := &fileReceiver{Conn: conn, unix: unixConn}
	defer receiver.Close()
	in := bufio.NewReader(receiver)
	wait := requestTimeout
	for {
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		line, room, err := a.readRequest(in)
		_ = conn.SetReadDeadline(time.Time{})
		if err != nil {
			if wait == idleTimeout && errors.Is(err, io.EOF) {
				return // the client has no more requests
			}
			rejectLine(conn, in, err)
			return
		}
		if !a.connections.begin(conn) {
			a.lines.release(room)
			return
		}
		files := receiver.take()
		again := a.answer(&request{conn: conn, in: in, line: line, files: files})
		files.close()
		a.lines.release(room)
		a.connections.done(conn)
		if !again {
			return
		}
		wait = idleTimeout
	}
}

// readRequest reads a request line, and returns how much of the common memory it
// holds: a client gets little before it has proved its token, and all clients
// together never get more than there is.
func (a *Agent) readRequest(in *bufio.Reader) (line []byte, room int, err error) {
	proved := a.token == nil
	line, err = wire.ReadLineFunc(in, wire.MaxLine, func(begun []byte, size int) error {
		if !proved && size > maxUnproved {
			token, _ := wire.TokenOf(begun)
			if proved = a.authorized(token); !proved {
				return errLateToken
			}
		}
		if size <= freeLine {
			return nil
		}
		if !a.lines.acquire(size - room) {
			return errNoRoom
		}
		room = size
		return nil
	})
	if err != nil {
		a.lines.release(room)
		return nil, 0, err
	}
	return line, room, nil
}

// rejectLine answers a line that could not be read, if the client may still be there
// to read the answer.
func rejectLine(conn net.Conn, in *bufio.Reader, err error) {
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
	if wire.WriteLine(conn, werr) != nil || werr != errNoRoom && werr != errLateToken {
		return
	}
	// The line may have been a good one. Read the rest of it, within bounds, so that a
	// client which sends before it reads gets its answer.
	_ = conn.SetReadDeadline(time.Now().Add(refusedTimeout))
	rest := bufio.NewReader(io.LimitReader(in, wire.MaxLine))
	for {
		if _, err := rest.ReadSlice('\n'); err != bufio.ErrBufferFull { //nolint:errorlint // it is never wrapped
			return
		}
	}
}

// answer serves one request and reports whether the connection stays open.
func (a *Agent) answer(req *request) bool {
	err := a.inTurn(req.line, func() (err error) {
		req.head, err = wire.HeadOf(req.line)
		return err
	})
	if err != nil {
		return a.refuse(req, err)
	}
	if !a.authorized(req.head.Token) {
		return a.refuse(req, &wire.Error{Code: wire.CodeUnauthorized, Object: "token", Message: "cannot serve the request: its token is missing or wrong"})
	}
	serve, ok := a.actions[req.head.Action]
	if !ok {
		name := core.ShortName(req.head.Action)
		return a.refuse(req, &wire.Error{Code: wire.CodeUnknownAction, Object: name, Message: "unknown action: " + name})
	}
	if looks := req.head.Action == wire.Usage.Name || req.head.Action == wire.Hello.Name; !looks { // at the sandbox, without using it
		a.Running.Use.Begin()
		defer a.Running.Use.End()
	}
	return serve(a, req)
}

// authorized compares in constant time, which reveals nothing of the token but its length.
func (a *Agent) authorized(token string) bool {
	return a.token == nil || subtle.ConstantTimeCompare(a.token, []byte(token)) == 1
}

// inTurn calls decode. Long lines take turns, since decoding takes many times the
// memory of a line.
func (a *Agent) inTurn(line []byte, decode func() error) error {
	if len(line) > freeLine {
		a.decoding.Lock()
		defer a.decoding.Unlock()
	}
	return decode()
}

// decode decodes a request, and frees its line.
func (a *Agent) decode(req *request, into any) error {
	err := a.inTurn(req.line, func() error { return wire.DecodeRequest(req.line, into) })
	req.line = nil
	if r, ok := into.(interface {
		Redactions() ([]string, wire.RedactRules)
	}); ok {
		req.prints = true
		req.hide, req.rules = r.Redactions()
	}
	return err
}

// refuse answers an invalid request, after which the connection cannot be used any
// more.
func (a *Agent) refuse(req *request, err error) bool {
	_ = say(req.conn, a.typed(req, err))
	return false
}

// reply answers a request with its result or its error, and reports whether the
// connection stays open.
func (a *Agent) reply(req *request, result any, err error) bool {
	if err != nil {
		result = a.typed(req, err)
	}
	return say(req.conn, result) == nil && req.head.KeepAlive
}

// typed returns an error as the wire encodes it, redacted as the request asks.
func (a *Agent) typed(req *request, err error) *wire.Error {
	var werr *wire.Error
	if !errors.As(err, &werr) {
		werr = wire.Errorf(wire.CodeInternal, "%v", err)
	}
	hidden := a.OnlySecrets()
	if req.prints {
		var bad *wire.Error
		if hidden, bad = a.Redactor(req.hide, req.rules); bad != nil {
			return bad // without the text, which cannot be redacted
		}
	}
	return hidden.Error(werr)
}

// say writes an answer line. If the answer is too long for a line, an error goes out
// instead.
func say(conn net.Conn, v any) error {
	w := patient{conn}
	if e, ok := v.(*wire.Error); ok && max(len(e.Message), len(e.Object)) > maxErrorText {
		short := *e
		short.Message, short.Object = text.Truncate(e.Message, maxErrorText), text.Truncate(e.Object, maxErrorText)
		v = &short
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

// patient writes as long as the client reads something every stallTimeout. A client
// that reads nothing must not keep a goroutine for ever.
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

// answerExec serves the action exec.
func (a *Agent) answerExec(req *request) bool {
	var r wire.ExecRequest
	if err := a.decode(req, &r); err != nil {
		return a.refuse(req, err)
	}
	if werr := checkPassed(&r, req.files); werr != nil {
		return a.reply(req, nil, werr) && !r.Stream
	}
	if r.Stream {
		var outputs []*os.File
		if len(r.Pass) > 0 {
			outputs = req.files.files
		}
		if werr := exec.Stream(context.Background(), a.Sandbox, req.conn, req.in, &r, outputs); werr != nil {
			_ = say(req.conn, a.typed(req, werr))
		}
		return false // what follows may be frames
	}
	ctx, gone := context.WithCancel(context.Background())
	defer gone()
	stop := watch(req.conn, req.in, gone)
	res, werr := exec.Run(ctx, a.Sandbox, &r)
	alive := stop()
	if werr != nil {
		return a.reply(req, nil, werr) && alive
	}
	return a.reply(req, res, nil) && alive
}

// answerConnect serves the action connect. The connection then counts as one to a port, of
// which there are bounds of their own: requests find their place however many are open.
func (a *Agent) answerConnect(req *request) bool {
	var r wire.ConnectRequest
	if err := a.decode(req, &r); err != nil {
		return a.refuse(req, err)
	}
	if !a.connections.carry(req.conn) {
		return a.refuse(req, &wire.Error{Code: wire.CodeBusy, Message: fmt.Sprintf("cannot connect: %d connections to ports are open", maxCarried)})
	}
	defer a.connections.endCarry()
	inside, err := ports.Dial(r.Port)
	if err != nil {
		return a.refuse(req, err)
	}
	if say(req.conn, wire.ConnectResult{Address: inside.RemoteAddr().String(), Window: wire.ConnectWindow}) != nil {
		_ = inside.Close()
		return false
	}
	wire.AcceptConn(req.conn, req.in).Join(inside)
	return false
}

// checkPassed refuses passed descriptors that do not fit the request, or that a command
// should not have as its output.
func checkPassed(r *wire.ExecRequest, p *passedFiles) *wire.Error {
	bad := func(reason string) *wire.Error {
		return &wire.Error{Code: wire.CodeBadRequest, Object: "pass", Message: "cannot run the command: " + reason}
	}
	switch {
	case len(r.Pass) == 0:
		return nil
	case !slices.Equal(r.Pass, []string{"stdout"}) && !slices.Equal(r.Pass, []string{"stdout", "stderr"}):
		return bad(`pass must be ["stdout"] or ["stdout","stderr"]`)
	case !r.Stream || r.TTY != nil || r.MaxOutputBytes != 0 || len(r.RedactValues)+len(r.Redaction) > 0:
		return bad("pass needs stream, and neither tty, max_output_bytes, redact_values nor redaction")
	case p.excess || len(p.files) != len(r.Pass):
		return bad("other descriptors came with it than pass names")
	}
	for _, f := range p.files {
		if reason := unfit(f); reason != "" {
			return bad("the descriptor that was passed " + reason)
		}
	}
	return nil
}

// watch calls gone when the client closes the connection while its command
// runs. A client that has only finished sending, or continues to send, counts as
// connected until the socket reports that both of its halves are closed. The returned
// function ends the watch and reports whether another request may come;
// input that arrived meanwhile stays in the reader.
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
