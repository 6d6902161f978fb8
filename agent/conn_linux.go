package agent

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// serve accepts connections until the listener fails, which it does at the
// sandbox's end only.
func (a *Agent) serve(ln net.Listener) {
	slots := make(chan struct{}, maxConnections)
	for {
		conn, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors: some will be freed
			continue
		}
		select {
		case slots <- struct{}{}:
			if len(slots) > 1 {
				manyProcessors()
			}
			go func() {
				defer func() { <-slots }()
				a.converse(conn)
			}()
		default:
			go refuseBusy(conn)
		}
	}
}

// manyProcessors lets the agent run in parallel. It starts with one processor
// only, because threads that look for work delay a single short command.
var manyProcessors = sync.OnceFunc(func() { runtime.GOMAXPROCS(min(runtime.NumCPU(), maxProcessors)) })

func refuseBusy(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_ = wire.WriteLine(conn, &wire.Error{Code: wire.CodeBusy, Message: "cannot serve the connection: too many are open"})
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
		line, err := wire.ReadLine(in, wire.MaxLine)
		_ = conn.SetReadDeadline(time.Time{})
		if err != nil {
			if wait == idleTimeout && errors.Is(err, io.EOF) {
				return // nothing more is asked
			}
			a.rejectLine(conn, err)
			return
		}
		brought := files.take()
		again := a.answer(&conversation{conn: conn, in: in, line: line, brought: brought})
		brought.close()
		if !again {
			return
		}
		wait = idleTimeout
	}
}

// rejectLine answers a line that never became a request, where somebody may
// still be there to read it.
func (a *Agent) rejectLine(conn net.Conn, err error) {
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
	_ = wire.WriteLine(conn, werr)
}

// answer serves one request and reports whether the connection stays open.
func (a *Agent) answer(c *conversation) bool {
	head, err := wire.HeadOf(c.line)
	if err != nil {
		return a.refuse(c, err)
	}
	c.head = head
	serve, ok := handlers[head.Action]
	if !ok {
		return a.refuse(c, &wire.Error{Code: wire.CodeUnknownAction, Object: head.Action, Message: "unknown action: " + head.Action})
	}
	return serve(a, c)
}

// say answers with one line. An answer that has no room in a line becomes an
// error that says so.
func say(conn net.Conn, v any) error {
	err := wire.WriteLine(conn, v)
	var large *wire.Error
	if errors.As(err, &large) {
		large.Hint = "ask for less at a time (max_output_bytes, limit), or stream the output"
		err = wire.WriteLine(conn, large)
	}
	return err
}

func (a *Agent) hello(*wire.HelloRequest) (*wire.HelloResult, error) {
	return &wire.HelloResult{
		Version:  wire.Version,
		Build:    wire.Build,
		Features: []string{"exec", "stream", "tty", "keep_alive", "pass"},
		Limits: wire.Bounds{MaxLine: wire.MaxLine, MaxFrame: wire.MaxFrame, StdinWindow: wire.StdinWindow,
			MaxOutput: maxOutput, MaxConnections: maxConnections},
		Isolation: a.isolation,
	}, nil
}

func (a *Agent) answerExec(c *conversation) bool {
	var r wire.ExecRequest
	if err := wire.DecodeRequest(c.line, &r); err != nil {
		return a.refuse(c, err)
	}
	if werr := c.brought.check(&r); werr != nil {
		return a.reply(c, nil, werr) && !r.Stream
	}
	if r.Stream {
		if werr := a.execStreamed(context.Background(), c.conn, c.in, &r, c.brought.outputs(&r)); werr != nil {
			_ = say(c.conn, a.hidden(r.RedactValues, werr))
		}
		return false // what follows may be frames
	}
	ctx, gone := context.WithCancel(context.Background())
	defer gone()
	stop := watch(c.conn, c.in, gone)
	res, werr := a.execCaptured(ctx, &r)
	alive := stop()
	if werr != nil {
		return a.reply(c, nil, a.hidden(r.RedactValues, werr)) && alive
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
		if !ended && awaitHangup(conn, stopped) {
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
