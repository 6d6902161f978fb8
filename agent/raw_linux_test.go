package agent_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// raw is a connection on which a test says what it likes.
type raw struct {
	t    *testing.T
	conn *net.UnixConn
	br   *bufio.Reader
}

func (b *box) raw() *raw {
	b.t.Helper()
	conn, err := b.sandbox.Dial(b.context())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &raw{b.t, conn.(*net.UnixConn), bufio.NewReader(conn)}
}

// send sends a request line.
func (r *raw) send(q wire.ExecRequest) {
	r.t.Helper()
	q.Action = "exec"
	if err := wire.WriteLine(r.conn, q); err != nil {
		r.t.Fatal(err)
	}
}

func (r *raw) write(text string) {
	r.t.Helper()
	if _, err := io.WriteString(r.conn, text); err != nil {
		r.t.Fatal(err)
	}
}

// answer reads an answer line that is no error.
func (r *raw) answer(into any) {
	r.t.Helper()
	line, err := wire.ReadLine(r.br, wire.MaxLine)
	if err == nil {
		err = wire.DecodeAnswer(line, into)
	}
	if err != nil {
		r.t.Fatalf("the answer: %v", err)
	}
}

// refused reads an answer line that is an error.
func (r *raw) refused(code wire.Code) {
	r.t.Helper()
	line, err := wire.ReadLine(r.br, wire.MaxLine)
	if err != nil {
		r.t.Fatal(err)
	}
	var e *wire.Error
	if err := wire.DecodeAnswer(line, new(wire.ExecResult)); !errors.As(err, &e) || e.Code != code {
		r.t.Errorf("got %.200q, want an error %s", line, code)
	}
}

// ended fails unless nothing follows.
func (r *raw) ended() {
	r.t.Helper()
	rest, err := io.ReadAll(r.br)
	if len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		r.t.Errorf("after the end: %.200q, %v", rest, err)
	}
}

// stream is a streamed command.
type stream struct {
	*raw
	id             string
	frames         *wire.FrameReader
	out            *wire.FrameWriter
	stdout, stderr bytes.Buffer
	acked          int
	errors         []*wire.Error
}

func (b *box) stream(q wire.ExecRequest) *stream {
	b.t.Helper()
	q.Stream = true
	r := b.raw()
	r.send(q)
	var started wire.ExecStarted
	r.answer(&started)
	if !started.Streaming || started.StdinWindow != wire.StdinWindow || started.ID == "" {
		b.t.Errorf("the answer is %+v", started)
	}
	return &stream{raw: r, id: started.ID, frames: wire.NewFrameReader(r.br, wire.MaxFrame), out: wire.NewFrameWriter(r.conn)}
}

func (s *stream) stdin(p string) {
	s.t.Helper()
	if err := s.out.WriteFrame(wire.StreamStdin, []byte(p)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stream) control(c wire.Control) {
	s.t.Helper()
	if err := s.out.WriteControl(c); err != nil {
		s.t.Fatal(err)
	}
}

// next takes a frame in, and gives the result where it is the last.
func (s *stream) next() *wire.ExecResult {
	s.t.Helper()
	kind, _, err := s.frames.Next()
	if err != nil {
		s.t.Fatalf("no exit frame came: %v", err)
	}
	switch kind {
	case wire.StreamStdout:
		_, err = s.stdout.ReadFrom(s.frames.Payload())
	case wire.StreamStderr:
		_, err = s.stderr.ReadFrom(s.frames.Payload())
	case wire.StreamControl:
		var c wire.Control
		if c, err = s.frames.ReadControl(wire.MaxFrame); err == nil {
			switch c.Type {
			case "exit":
				return c.Result
			case "stdin_ack":
				s.acked += c.Bytes
			case "error":
				s.errors = append(s.errors, c.Error)
			default:
				s.t.Errorf("control %+v", c)
			}
		}
	default:
		s.t.Errorf("a frame of %s", kind)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return nil
}

// until takes frames in until done says so.
func (s *stream) until(done func() bool) {
	s.t.Helper()
	for !done() {
		if res := s.next(); res != nil {
			s.t.Fatalf("the command has ended: %+v, stdout %.200q, stderr %.200q", res, s.stdout.String(), s.stderr.String())
		}
	}
}

// says waits until the command has printed text.
func (s *stream) says(text string) {
	s.t.Helper()
	s.until(func() bool { return strings.Contains(s.stdout.String(), text) })
}

// exit takes frames in to the last, and makes sure that it is the last.
func (s *stream) exit() *wire.ExecResult {
	s.t.Helper()
	for {
		if res := s.next(); res != nil {
			if res.ID != s.id || res.Stdout != "" || res.Stderr != "" {
				s.t.Errorf("the result is %+v", res)
			}
			s.ended()
			return res
		}
	}
}

// The server goes on after every line that is no request.
func TestRefusedLines(t *testing.T) {
	b := start(t)
	tests := map[string]struct {
		line string
		code wire.Code
	}{
		"no JSON":        {"hello\n", wire.CodeBadRequest},
		"empty":          {"\n", wire.CodeBadRequest},
		"a list":         {"[]\n", wire.CodeBadRequest},
		"unknown action": {`{"action":"fly"}` + "\n", wire.CodeUnknownAction},
		"no newline":     {`{"action":`, wire.CodeBadRequest},
	}
	b.leaksNothing(func() {
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				r := b.raw()
				r.t = t
				r.write(tt.line)
				_ = r.conn.CloseWrite()
				r.refused(tt.code)
				r.ended()
			})
		}
	})
}

// A request line has a bound, and what a client still sends is not awaited.
func TestEndlessRequestLine(t *testing.T) {
	b := start(t)
	b.leaksNothing(func() {
		r := b.raw()
		sent := make(chan int, 1)
		go func() {
			chunk := bytes.Repeat([]byte("x"), 1<<20)
			n := 0
			for {
				if _, err := r.conn.Write(chunk); err != nil {
					sent <- n
					return
				}
				n++
			}
		}()
		r.refused(wire.CodeTooLarge)
		r.ended()
		if n := <-sent; n < 15 || n > 18 {
			t.Errorf("the agent took %d MiB", n)
		}
	})
	q := wire.ExecRequest{Argv: []string{"wc", "-c"}, Stdin: strings.Repeat("x", wire.MaxLine-1000)}
	if res := b.run(q); strings.TrimSpace(res.Stdout) != fmt.Sprint(len(q.Stdin)) {
		t.Errorf("a line just below the bound: %+v", res)
	}
}

func TestKeepAlive(t *testing.T) {
	b := start(t)
	r := b.raw()
	q := wire.ExecRequest{Argv: []string{"echo", "x"}, KeepAlive: true}
	ids := map[string]bool{}
	for range 3 {
		var res wire.ExecResult
		r.send(q)
		r.answer(&res)
		if ids[res.ID] = true; res.Stdout != "x\n" {
			t.Errorf("got %+v", res)
		}
	}
	if len(ids) != 3 {
		t.Errorf("ids %v", ids)
	}
	var hello wire.HelloResult
	r.write(`{"action":"hello","keep_alive":true}` + "\n")
	r.answer(&hello)
	if hello.Version != wire.Version || hello.Limits.MaxOutput != 8<<20 || len(hello.Features) == 0 {
		t.Errorf("hello: %+v", hello)
	}
	r.send(wire.ExecRequest{Argv: []string{"nonesuch"}, KeepAlive: true})
	r.refused(wire.CodeNotFound)
	q.KeepAlive = false
	var res wire.ExecResult
	r.send(q)
	r.answer(&res)
	r.ended()
}

// keep_alive is without effect where the command is streamed, also where it
// cannot be started: what follows may be frames.
func TestKeepAliveDoesNotReachFrames(t *testing.T) {
	b := start(t)
	r := b.raw()
	r.send(wire.ExecRequest{Argv: []string{"nonesuch"}, KeepAlive: true, Stream: true})
	r.refused(wire.CodeNotFound)
	r.ended()
}

// A refused upload's client sees the end before it has sent all of the body.
func TestRefusedUploadEndsAtOnce(t *testing.T) {
	b := start(t)
	r := b.raw()
	r.write(`{"action":"extract_archive","archive_size":100000,"destination":"/etc"}` + "\nabc")
	r.refused(wire.CodeBadRequest)
	r.ended()
}

func TestHalfClosedClientGetsItsAnswer(t *testing.T) {
	b := start(t)
	r := b.raw()
	r.send(wire.ExecRequest{Argv: []string{"sh", "-c", "while ! test -e go; do sleep 0.1; done; echo x"}, KeepAlive: true})
	_ = r.conn.CloseWrite()
	// The agent looks at half-closed connections now and then: it has had to
	// look at this one once the same has been done and undone to another.
	mark := newMark()
	other := b.raw()
	other.send(wire.ExecRequest{Argv: []string{helper, "wait", mark}})
	_ = other.conn.CloseWrite()
	eventually(t, "the other command runs", func() bool { return len(carrying(mark)) > 0 })
	other.conn.Close()
	eventually(t, "the other command is killed", func() bool { return len(carrying(mark)) == 0 })
	if err := os.WriteFile(filepath.Join(b.workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var res wire.ExecResult
	r.answer(&res)
	if res.Stdout != "x\n" || res.ExitCode != 0 {
		t.Errorf("got %+v", res)
	}
	r.ended()
}
