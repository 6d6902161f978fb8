package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// fakeExec is the agent's half of one streamed exec, as a test plays it.
type fakeExec struct {
	conn   net.Conn
	frames *FrameReader
	out    *FrameWriter
}

// streamed serves a connection: it reads the request line, answers that the
// command runs, and lets script do the rest.
func streamed(window int, script func(*fakeExec)) func(net.Conn) {
	return func(conn net.Conn) {
		br := bufio.NewReader(conn)
		if _, err := ReadLine(br, MaxLine); err != nil {
			return
		}
		_ = WriteLine(conn, ExecStarted{ID: "e1", Streaming: true, StdinWindow: window})
		script(&fakeExec{conn: conn, frames: NewFrameReader(br, MaxFrame), out: NewFrameWriter(conn)})
	}
}

// next reads a frame; its stream is StreamControl + 1 at the end.
func (f *fakeExec) next() (Stream, []byte) {
	s, _, err := f.frames.Next()
	if err != nil {
		return StreamControl + 1, nil
	}
	p, _ := f.frames.ReadPayload(nil)
	return s, p
}

// nextControl reads frames up to a control frame.
func (f *fakeExec) nextControl() Control {
	for {
		switch s, p := f.next(); s {
		case StreamControl:
			c, _ := DecodeControl(p)
			return c
		case StreamControl + 1:
			return Control{}
		}
	}
}

func (f *fakeExec) print(s Stream, text string) { _ = f.out.WriteFrame(s, []byte(text)) }

func (f *fakeExec) exit(code int) {
	_ = f.out.WriteControl(Control{Type: "exit", Result: &ExecResult{ExitCode: code}})
}

// drain reads what the client sends, so that it never waits for a reader.
func (f *fakeExec) drain() { _, _ = io.Copy(io.Discard, f.conn) }

func TestStart(t *testing.T) {
	big := strings.Repeat("0123456789", 100_000)
	serve := streamed(StdinWindow, func(f *fakeExec) {
		go f.drain()
		f.print(StreamStdout, "out")
		f.print(StreamStderr, "err")
		f.print(StreamStdout, "")
		f.print(StreamStdout, big)
		_ = f.out.WriteControl(Control{Type: "from a later version"})
		f.exit(7)
	})
	overEach(t, serve, func(t *testing.T, c *Client) {
		var stdout, stderr bytes.Buffer
		p, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{Stdout: &stdout, Stderr: &stderr})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if r, err := p.Wait(); r.ExitCode != 7 || err != nil {
				t.Fatalf("Wait = %+v, %v", r, err)
			}
		}
		if p.ID() != "e1" || stdout.String() != "out"+big || stderr.String() != "err" {
			t.Errorf("id %q, stdout of %d bytes, stderr %q", p.ID(), stdout.Len(), stderr.String())
		}
		if err := p.Close(); err != nil {
			t.Errorf("Close after the end: %v", err)
		}
		wantError(t, p.Signal("TERM"), CodeGone, "cannot send signal to the command: it has ended")
	})
}

// file is standard input that takes bytes back.
type file struct {
	*bytes.Reader
	failure error
}

func (f file) Unread(n int64) error {
	if f.failure == nil {
		_, f.failure = f.Seek(-n, io.SeekCurrent)
	}
	return f.failure
}

// Of a file as standard input, what the command has not read is given back.
func TestUnread(t *testing.T) {
	const size = 3*StdinWindow + 17
	for _, tt := range []struct {
		read, left int64
		failure    error
		code       Code
	}{
		{read: 0, left: size}, {read: 1000, left: size - 1000}, {read: StdinWindow, left: size - StdinWindow},
		{read: size + 1, code: CodeInternal}, {read: -1, code: CodeInternal}, {read: 5, failure: errors.New("it is a tape")},
	} {
		serve := streamed(StdinWindow, func(f *fakeExec) {
			for got := 0; got < StdinWindow; {
				_, data := f.next()
				got += len(data)
			}
			_ = f.out.WriteControl(Control{Type: "exit", Result: &ExecResult{}, Read: tt.read})
		})
		overEach(t, serve, func(t *testing.T, c *Client) {
			input := file{bytes.NewReader(make([]byte, size)), tt.failure}
			p, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{Stdin: input})
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Wait()
			switch {
			case tt.code != "":
				if werr := (*Error)(nil); !errors.As(err, &werr) || werr.Code != tt.code || int64(input.Len()) > size-StdinWindow {
					t.Errorf("%d read: %v, and %d bytes are left", tt.read, err, input.Len())
				}
			case tt.failure != nil:
				if err == nil || err.Error() != "cannot give back what the command has not read of its standard input: it is a tape" {
					t.Errorf("Wait: %v", err)
				}
			case err != nil || int64(input.Len()) != tt.left:
				t.Errorf("%d read: %d bytes are left, want %d, %v", tt.read, input.Len(), tt.left, err)
			}
		})
	}
}

func TestStartAsksForAStream(t *testing.T) {
	asked := make(chan string, 1)
	serve := func(conn net.Conn) {
		line, _ := ReadLine(bufio.NewReader(conn), MaxLine)
		asked <- string(line)
		_ = WriteLine(conn, Errorf(CodeNotFound, "cannot start x: not found"))
	}
	overEach(t, serve, func(t *testing.T, c *Client) {
		_, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{})
		wantError(t, err, CodeNotFound, "cannot start x: not found")
		if got, want := <-asked, `{"action":"exec","command":"x","stream":true}`; got != want {
			t.Errorf("request %s, want %s", got, want)
		}
	})
}

func TestStartRefusesAnOddAnswer(t *testing.T) {
	for _, answer := range []string{
		`{}`,
		`{"streaming":false,"stdin_window":5}`,
		`{"streaming":true,"stdin_window":0}`,
		`{"streaming":true,"stdin_window":-1}`,
		`{"exit_code":0,"stdout":""}`,
	} {
		overEach(t, answerWith(answer+"\n"), func(t *testing.T, c *Client) {
			_, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{})
			wantError(t, err, CodeInternal, "announces no frames")
		})
	}
}

func TestHostileFrames(t *testing.T) {
	tests := []struct {
		name, send string
		code       Code
		text       string
	}{
		{"nothing", "", CodeGone, "cannot follow the command: the connection ended"},
		{"half a header", "\x01\x00", CodeGone, "the connection ended"},
		{"half a payload", frame(StreamStdout, "abc")[:9], CodeGone, "the connection ended"},
		{"half a discarded payload", frame(StreamStderr, "abc")[:9], CodeGone, "the connection ended"},
		{"not a frame", "hello, world\n", CodeInternal, "unknown stream 104"},
		{"a pad that is not zero", "\x01\x00\x00\x01\x00\x00\x00\x00", CodeInternal, "header"},
		{"a frame over the bound", "\x01\x00\x00\x00\x00\x10\x00\x01", CodeInternal, "more than 1048576"},
		{"a stdin frame", frame(StreamStdin, "x"), CodeInternal, "the agent sent a stdin frame"},
		{"a control that is text", frame(StreamControl, "exit"), CodeInternal, "not a JSON object"},
		{"an exit without result", frame(StreamControl, `{"type":"exit"}`), CodeInternal, "no result"},
		{"an exit with a null", frame(StreamControl, `{"type":"exit","result":null}`), CodeInternal, "no result"},
		{"an impossible result", frame(StreamControl, `{"type":"exit","result":{"exit_code":1000}}`), CodeInternal, "out of range"},
		{"a negative acknowledgement", frame(StreamControl, `{"type":"stdin_ack","bytes":-1}`), CodeInternal, "acknowledges -1 bytes"},
		{"an acknowledgement of nothing", frame(StreamControl, `{"type":"stdin_ack","bytes":1}`), CodeInternal, "acknowledges 1 bytes of standard input, and 0 are"},
		{"a huge acknowledgement", frame(StreamControl, `{"type":"stdin_ack","bytes":9223372036854775807}`), CodeInternal, "acknowledges"},
		{"an acknowledgement too large", frame(StreamControl, `{"type":"stdin_ack","bytes":9223372036854775808}`), CodeInternal, "control frame"},
		{"an error and the end", frame(StreamControl, `{"type":"error","error":{"error":"cannot go on","code":"busy"}}`), CodeBusy, "cannot go on"},
		{"an error without one", frame(StreamControl, `{"type":"error"}`), CodeInternal, "does not say which"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			serve := streamed(StdinWindow, func(f *fakeExec) {
				f.nextControl() // close_stdin
				_, _ = io.WriteString(f.conn, tt.send)
			})
			overEach(t, serve, func(t *testing.T, c *Client) {
				p, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{Stdout: io.Discard})
				if err != nil {
					t.Fatal(err)
				}
				_, err = p.Wait()
				wantError(t, err, tt.code, tt.text)
			})
		})
	}
}

func TestRefusalDoesNotLoseTheExit(t *testing.T) {
	serve := streamed(StdinWindow, func(f *fakeExec) {
		go f.drain()
		for _, text := range []string{"no signal XYZZY", "second"} {
			_ = f.out.WriteControl(Control{Type: "error", Error: Errorf(CodeBadRequest, "%s", text)})
		}
		f.exit(3)
	})
	overEach(t, serve, func(t *testing.T, c *Client) {
		p, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := p.Wait(); r.ExitCode != 3 || err != nil {
			t.Errorf("Wait = %+v, %v; want the result alone", r, err)
		}
		wantError(t, p.Refused(), CodeBadRequest, "no signal XYZZY")
	})
}

func TestSignalAndResize(t *testing.T) {
	serve := streamed(StdinWindow, func(f *fakeExec) {
		var got []Control
		for len(got) < 2 {
			if c := f.nextControl(); c.Type != "close_stdin" {
				got = append(got, c)
			}
		}
		if got[0] == (Control{Type: "signal", Signal: "INT"}) && got[1] == (Control{Type: "resize", Rows: 24, Cols: 80}) {
			f.exit(42)
		}
	})
	overEach(t, serve, func(t *testing.T, c *Client) {
		p, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(p.Signal("INT"), p.Resize(24, 80)); err != nil {
			t.Fatal(err)
		}
		if r, err := p.Wait(); r.ExitCode != 42 || err != nil {
			t.Fatalf("Wait = %+v, %v", r, err)
		}
	})
}

func TestClosedSinkIsAClosedPipe(t *testing.T) {
	broken := errors.New("broken pipe")
	serve := streamed(StdinWindow, func(f *fakeExec) {
		signals := make(chan string)
		go func() {
			defer close(signals)
			for {
				switch c := f.nextControl(); c.Type {
				case "signal":
					signals <- c.Signal
				case "":
					return
				}
			}
		}()
		f.print(StreamStdout, "lost")
		name := <-signals
		f.print(StreamStdout, "lost too")
		f.print(StreamStderr, "kept")
		if name == "PIPE" {
			_ = f.out.WriteControl(Control{Type: "exit", Result: &ExecResult{ExitCode: -13, Signal: "SIGPIPE"}})
		}
		if name, more := <-signals; more {
			panic("a second signal: " + name)
		}
	})
	overEach(t, serve, func(t *testing.T, c *Client) {
		sink := &writes{err: broken}
		var stderr bytes.Buffer
		p, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{Stdout: sink, Stderr: &stderr})
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Wait()
		if r.ExitCode != -13 || err != broken {
			t.Errorf("Wait = %+v, %v; want the result and %v", r, err, broken)
		}
		if len(sink.got) != 1 || stderr.String() != "kept" {
			t.Errorf("stdout %q, stderr %q", sink.got, stderr.String())
		}
	})
}

func TestCancelledProcess(t *testing.T) {
	vanished := make(chan struct{}, 1)
	serve := streamed(StdinWindow, func(f *fakeExec) {
		f.print(StreamStdout, "running")
		f.drain()
		vanished <- struct{}{}
	})
	overEach(t, serve, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		// The first output arrives, and its sink cancels the context.
		p, err := c.Start(ctx, ExecRequest{Command: "x"}, Streams{Stdout: writerFunc(func([]byte) { cancel() })})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(); err != context.Canceled {
			t.Errorf("error %v, want context.Canceled", err)
		}
		<-vanished
	})
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func TestClose(t *testing.T) {
	serve := streamed(StdinWindow, (*fakeExec).drain)
	overEach(t, serve, func(t *testing.T, c *Client) {
		p, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = p.Wait()
		wantError(t, err, CodeGone, "cannot follow the command: the connection was closed")
	})
}

// readStdin is an agent that takes standard input, acknowledges it as it
// comes, and exits with the status ok when it was want, else with 1.
func readStdin(window, ok int, want string) func(*fakeExec) {
	return func(f *fakeExec) {
		var got []byte
		for {
			s, p := f.next()
			switch s {
			case StreamStdin:
				if len(p) > window {
					f.exit(2)
				}
				got = append(got, p...)
				_ = f.out.WriteControl(Control{Type: "stdin_ack", Bytes: len(p)})
				continue
			case StreamControl:
				if c, _ := DecodeControl(p); c.Type == "close_stdin" && string(got) == want {
					f.exit(ok)
				}
			}
			f.exit(1)
			return
		}
	}
}

func TestStdin(t *testing.T) {
	big := strings.Repeat("0123456789", 200_000)
	tests := []struct {
		name   string
		window int
		stdin  io.Reader
		want   string
	}{
		{"none", StdinWindow, nil, ""},
		{"empty", StdinWindow, strings.NewReader(""), ""},
		{"small", StdinWindow, strings.NewReader("hello"), "hello"},
		{"larger than the window", StdinWindow, strings.NewReader(big), big},
		{"a small window", 1000, strings.NewReader(big), big},
		{"a window of one byte", 1, strings.NewReader("hello"), "hello"},
		{"data with its end", StdinWindow, iotest.DataErrReader(strings.NewReader("hello")), "hello"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := unixClient(t, streamed(tt.window, readStdin(tt.window, 42, tt.want)))
			p, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{Stdin: tt.stdin})
			if err != nil {
				t.Fatal(err)
			}
			if r, err := p.Wait(); r.ExitCode != 42 || err != nil {
				t.Fatalf("Wait = %+v, %v", r, err)
			}
		})
	}
}

func TestStdinThatFailsIsClosed(t *testing.T) {
	broken := errors.New("broken")
	serve := streamed(StdinWindow, readStdin(StdinWindow, 42, "half"))
	overEach(t, serve, func(t *testing.T, c *Client) {
		stdin := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))
		p, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{Stdin: stdin})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := p.Wait(); r.ExitCode != 42 || err != broken {
			t.Fatalf("Wait = %+v, %v; want the result and %v", r, err, broken)
		}
	})
}

// The agent announces a window, acknowledges nothing, and gets a signal all
// the same, with no more input before it than the window allows.
func TestSignalDoesNotQueueBehindStdin(t *testing.T) {
	for name, announced := range map[string]int{"small": 1000, "larger than the protocol's": 10 * StdinWindow} {
		t.Run(name, func(t *testing.T) {
			window := min(announced, StdinWindow)
			full := make(chan struct{}, 1)
			serve := streamed(announced, func(f *fakeExec) {
				got := 0
				for {
					s, p := f.next()
					if s == StreamControl {
						break
					}
					if got += len(p); got == window {
						full <- struct{}{}
					}
				}
				if got == window {
					f.exit(42)
				}
			})
			c := unixClient(t, serve)
			p, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{Stdin: &endless{}})
			if err != nil {
				t.Fatal(err)
			}
			<-full
			if err := p.Signal("INT"); err != nil {
				t.Fatal(err)
			}
			if r, err := p.Wait(); r.ExitCode != 42 || err != nil {
				t.Fatalf("Wait = %+v, %v", r, err)
			}
		})
	}
}

func TestBlockedStdinDoesNotHoldWait(t *testing.T) {
	serve := streamed(StdinWindow, func(f *fakeExec) { f.exit(42) })
	overEach(t, serve, func(t *testing.T, c *Client) {
		stdin, end := io.Pipe()
		p, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{Stdin: stdin})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := p.Wait(); r.ExitCode != 42 || err != nil {
			t.Fatalf("Wait = %+v, %v", r, err)
		}
		end.Close() // lets the goroutine that reads it go
	})
}

func TestInputAndOutputAtOnce(t *testing.T) {
	big := strings.Repeat("0123456789", 500_000)
	serve := streamed(StdinWindow, func(f *fakeExec) {
		for {
			s, p := f.next()
			if s != StreamStdin {
				f.exit(0)
				return
			}
			f.print(StreamStdout, string(p))
			_ = f.out.WriteControl(Control{Type: "stdin_ack", Bytes: len(p)})
		}
	})
	overEach(t, serve, func(t *testing.T, c *Client) {
		var out bytes.Buffer
		p, err := c.Start(testContext(t), ExecRequest{Argv: []string{"cat"}}, Streams{Stdin: strings.NewReader(big), Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(); err != nil || out.String() != big {
			t.Fatalf("Wait: %v, and %d bytes of %d came back", err, out.Len(), len(big))
		}
	})
}
