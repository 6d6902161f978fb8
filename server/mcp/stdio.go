package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/op"
)

const (
	// maxLine bounds a message, in bytes: the largest input of a tool, and the rest of the message.
	maxLine = op.MaxInput + 1<<16
	// grace is how long to wait for answers after the end of the input, so that the input
	// can be a file of requests.
	grace = time.Second
)

// ServeStdio serves one client, one JSON message per line, until the input ends, the output
// is closed, or ctx ends. Then it ends everything that the client has started, and closes the
// server. It returns nil if all of that has ended.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	v, err := s.view("")
	if err != nil {
		return err
	}
	lines := &lines{in: bufio.NewReaderSize(in, 64<<10), out: out, next: make(chan line), over: make(chan struct{}), idle: make(chan struct{}, 1)}
	session, err := v.sdk.Connect(ctx, lines, nil)
	if err != nil {
		return errors.Join(fmt.Errorf("cannot serve: %w", err), s.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case <-ctx.Done():
	case <-lines.over:
	case err = <-ended:
	}
	v.end() // cancels calls in flight, whose answers are not written any more
	lines.stop()
	closed := s.Close()
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, errStopped) {
		err = nil
	}
	return errors.Join(err, closed)
}

var errStopped = errors.New("the server has stopped")

// lines is a connection over two streams. Unlike the SDK's it survives malformed lines,
// bounds the requests in flight, and answers requests that came before the end of the input.
type lines struct {
	in   *bufio.Reader
	next chan line
	over chan struct{} // closed when nothing more will be read or written
	once sync.Once

	pending pendingRequests // requests without an answer
	batches batches
	queue   []jsonrpc.Message // rest of an array
	idle    chan struct{}

	mu  sync.Mutex // of out
	out io.Writer
}

type line struct {
	text []byte
	err  error
}

// Connect starts to read. A read that blocks is abandoned at the end.
func (l *lines) Connect(context.Context) (sdk.Connection, error) {
	go func() {
		for {
			text, err := l.readLine()
			select {
			case l.next <- line{text, err}:
			case <-l.over:
				return
			}
			if err != nil && !errors.Is(err, errLong) {
				return
			}
		}
	}()
	return l, nil
}

var errLong = fmt.Errorf("it is longer than %d bytes", maxLine)

// readLine reads a line. If the line is too long, it returns only its beginning and its end.
func (l *lines) readLine() ([]byte, error) {
	var text []byte
	long := false
	for {
		part, err := l.in.ReadSlice('\n')
		text = append(text, part...)
		if long = long || len(text) > maxLine; long {
			text = ends(text)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long && err == nil:
			return text, errLong
		case err != nil && len(bytes.TrimSpace(text)) > 0 && errors.Is(err, io.EOF):
			return text, nil // the last line, without a newline
		}
		return text, err
	}
}

// Read returns the next message. Malformed messages get an error response and are skipped.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if len(l.queue) > 0 {
			next := l.queue[0]
			l.queue = l.queue[1:]
			return next, nil
		}
		var one line
		select {
		case <-l.over:
			return nil, io.EOF
		case one = <-l.next:
		}
		switch {
		case errors.Is(one.err, errLong):
			l.refuse(&refusal{id: idAtEnds(one.text), code: jsonrpc.CodeInvalidRequest, reason: one.err.Error()})
			continue
		case one.err != nil:
			l.drain()
			return nil, one.err
		case len(bytes.TrimSpace(one.text)) == 0:
			continue
		}
		if bytes.HasPrefix(bytes.TrimLeft(one.text, " \t\r\n"), []byte("[")) && json.Valid(one.text) {
			l.queue = l.readBatch(one.text)
		} else if msg, no := l.message(one.text); no != nil {
			l.refuse(no)
		} else {
			return msg, nil
		}
	}
}

// noJSON is the error for malformed messages.
const noJSON = "it is not JSON, or nested too deep"

// message parses a message, or returns why it is refused.
func (l *lines) message(text []byte) (jsonrpc.Message, *refusal) {
	if !json.Valid(text) {
		return nil, &refusal{id: idAtEnds(ends(text)), code: jsonrpc.CodeParseError, reason: noJSON}
	}
	id := idOf(text)
	msg, err := jsonrpc.DecodeMessage(text)
	if err == nil {
		err = checkID(id)
	}
	if err != nil {
		return nil, &refusal{id: id, code: jsonrpc.CodeInvalidRequest, reason: err.Error()}
	}
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		if req.Method == methodDiscover {
			return nil, &refusal{id: id, code: jsonrpc.CodeMethodNotFound, reason: noDiscover}
		}
		if no := checkInitialize(req.Method, req.Params); no != nil {
			no.id = id
			return nil, no
		}
		if err := l.pending.add(req.ID); err != nil {
			return nil, &refusal{id: id, code: jsonrpc.CodeInvalidRequest, reason: err.Error()}
		}
		if req.Method == methodInitialize && l.batches.revision == "" {
			var asked struct {
				Revision string `json:"protocolVersion"`
			}
			_ = json.Unmarshal(req.Params, &asked) // the SDK reports what is wrong
			l.batches.revision = negotiate(asked.Revision)
		}
	}
	return msg, nil
}

// refusal is why a message is refused.
type refusal struct {
	id     json.RawMessage // nil if it has none
	code   int64
	reason string
	data   any // for programs; nil without details
}

// answer returns the error response.
func (r *refusal) answer() []byte {
	type cause struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}
	text, _ := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"` // null if nil
		Error   cause           `json:"error"`
	}{"2.0", r.id, cause{r.code, "cannot take the message: " + r.reason, r.data}}) // of types that cannot fail
	return text
}

// refuse writes the error response.
func (l *lines) refuse(r *refusal) {
	_ = l.write(r.answer()) // the next write fails too, and returns the error
}

// drain waits for the missing answers, for at most grace.
func (l *lines) drain() {
	after := time.NewTimer(grace)
	defer after.Stop()
	for l.pending.count() > 0 {
		select {
		case <-l.idle:
		case <-l.over:
			return
		case <-after.C:
			return
		}
	}
}

// answered gives the error of a response a code. Errors without one are about requests before
// initialize.
func answered(err error) error {
	if err == nil || errors.As(err, new(*jsonrpc.Error)) || errors.Is(err, context.Canceled) {
		return coded("", err)
	}
	return coded(methodInitialize, err)
}

// Write sends a message.
func (l *lines) Write(_ context.Context, msg jsonrpc.Message) error {
	res, answers := msg.(*jsonrpc.Response)
	if answers {
		l.pending.free(res.ID)
		res.Error = answered(res.Error)
	}
	text, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("cannot encode a message: %w", err)
	}
	n := 0
	if answers {
		if text, n = l.batches.answer(res.ID, text); n == 0 {
			return nil // until the rest of its array is answered
		}
	}
	err = l.write(text)
	if answers && l.pending.answered(n) == 0 {
		select {
		case l.idle <- struct{}{}:
		default:
		}
	}
	return err
}

func (l *lines) write(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.over:
		return errStopped
	default:
	}
	if _, err := l.out.Write(append(text, '\n')); err != nil {
		l.stop() // the client has closed the output, which ends the session
		return err
	}
	return nil
}

// stop stops reading and writing.
func (l *lines) stop() { l.once.Do(func() { close(l.over) }) }

// Close stops the connection.
func (l *lines) Close() error {
	l.stop()
	return nil
}

// SessionID returns "", since there is only one session.
func (l *lines) SessionID() string { return "" }
