package wire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// answerWith serves a connection: it reads the request line and writes answer.
func answerWith(answer string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = ReadLine(bufio.NewReader(conn), MaxLine)
		_, _ = io.WriteString(conn, answer)
	}
}

func TestExec(t *testing.T) {
	asked := make(chan string, 1)
	serve := func(conn net.Conn) {
		line, _ := ReadLine(bufio.NewReader(conn), MaxLine)
		asked <- string(line)
		_ = WriteLine(conn, ExecResult{Stdout: "out", ExitCode: -9, Signal: "SIGKILL", DurationMS: 5})
	}
	overEach(t, serve, func(t *testing.T, c *Client) {
		got, err := c.Exec(testContext(t), ExecRequest{Argv: []string{"echo", "<é>"}, Stream: true})
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"action":"exec","argv":["echo","<é>"]}`; <-asked != want {
			t.Errorf("request line is not %s", want)
		}
		want := ExecResult{Stdout: "out", ExitCode: -9, Signal: "SIGKILL", DurationMS: 5}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestHello(t *testing.T) {
	Build = "ours"
	defer func() { Build = "" }()
	tests := []struct {
		name, answer string
		code         Code
		text         string
	}{
		{name: "same build", answer: `{"version":1,"build":"ours","isolation":{"x":[1]}}`},
		{name: "no build", answer: `{"version":1}`},
		{name: "other build", answer: `{"version":1,"build":"theirs"}`, code: CodeUnsupported, text: "of build theirs, and this client of build ours"},
		{name: "other version", answer: `{"version":7}`, code: CodeUnsupported, text: "version 7 of the protocol, and this client version 1"},
		{name: "an error", answer: `{"error":"no","code":"busy"}`, code: CodeBusy, text: "no"},
		{name: "too long", answer: `{"isolation":[` + strings.Repeat("[],", maxHello) + `]}`, code: CodeTooLarge, text: "longer than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			overEach(t, answerWith(tt.answer+"\n"), func(t *testing.T, c *Client) {
				r, err := c.Hello(testContext(t))
				if tt.code != "" {
					wantError(t, err, tt.code, tt.text)
				} else if err != nil || r.Version != 1 {
					t.Fatalf("Hello = %+v, %v", r, err)
				}
			})
		})
	}
}

func TestAnswerErrors(t *testing.T) {
	tests := []struct {
		name, answer string
		code         Code
		text         string
	}{
		{"nothing", "", CodeGone, "cannot read the agent's answer: the connection ended"},
		{"half a line", `{"exit_code":`, CodeInternal, "unexpected end"},
		{"an empty line", "\n", CodeInternal, "not a JSON object"},
		{"not JSON", "hello\n", CodeInternal, "not a JSON object"},
		{"an array", "[]\n", CodeInternal, "not a JSON object"},
		{"NUL bytes", "\x00\x00\n", CodeInternal, "not a JSON object"},
		{"a wrong type", `{"exit_code":"0"}` + "\n", CodeInternal, "exit_code"},
		{"an error", `{"error":"cannot x","code":"bad_cwd"}` + "\n", CodeBadCwd, "cannot x"},
		{"a negative count", `{"stdout_bytes":-1}` + "\n", CodeInternal, "stdout_bytes is negative"},
		{"more killed than survived", `{"survivors":1,"survivors_killed":2}` + "\n", CodeInternal, "not killed is negative"},
		{"an exit code too large", `{"exit_code":256}` + "\n", CodeInternal, "exit_code 256 is out of range"},
		{"a signal too large", `{"exit_code":-65}` + "\n", CodeInternal, "exit_code -65 is out of range"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			overEach(t, answerWith(tt.answer), func(t *testing.T, c *Client) {
				r, err := c.Exec(testContext(t), ExecRequest{Command: "x"})
				wantError(t, err, tt.code, tt.text)
				if diff := cmp.Diff(ExecResult{}, r); diff != "" {
					t.Errorf("a result beside the error: %s", diff)
				}
			})
		})
	}
}

// The agent sends without end; the client stops at the bound of a line.
func TestEndlessAnswer(t *testing.T) {
	serve := func(conn net.Conn) {
		_, _ = ReadLine(bufio.NewReader(conn), MaxLine)
		_, _ = io.Copy(conn, io.LimitReader(&endless{}, 1<<30))
	}
	overEach(t, serve, func(t *testing.T, c *Client) {
		used := allocated(func() {
			_, err := c.Exec(testContext(t), ExecRequest{Command: "x"})
			wantError(t, err, CodeTooLarge, "longer than 16777216 bytes")
		})
		if used > 4*MaxLine {
			t.Errorf("the answer took %d bytes of memory in all", used)
		}
	})
}

func TestResultTextIsPrintable(t *testing.T) {
	answer := `{"stdout":"\u001b[2J","signal":"\u001b","denials":[{"layer":"l","rule":"r","object":"a\nb"}]}` + "\n"
	r, err := unixClient(t, answerWith(answer)).Exec(testContext(t), ExecRequest{Command: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Stdout != "\x1b[2J" {
		t.Errorf("output %q, want it as the command printed it", r.Stdout)
	}
	if r.Signal != "\ufffd" || r.Denials[0].Object != "a\ufffdb" {
		t.Errorf("signal %q and object %q can steer a terminal", r.Signal, r.Denials[0].Object)
	}
}

func TestRequestThatCannotBeSent(t *testing.T) {
	dial := func(context.Context) (net.Conn, error) {
		t.Error("a request that cannot be sent was dialled for")
		return nil, io.EOF
	}
	c := &Client{Dial: dial}
	q := ExecRequest{Stdin: "\xff"}
	_, err := c.Exec(t.Context(), q)
	wantError(t, err, CodeBadRequest, "stdin is not valid UTF-8")
	_, err = c.Start(t.Context(), q, Streams{})
	wantError(t, err, CodeBadRequest, "stdin is not valid UTF-8")
	_, err = c.Exec(t.Context(), ExecRequest{Stdin: strings.Repeat("x", MaxLine)})
	wantError(t, err, CodeTooLarge, "more than 16777216")
	_, err = Call(t.Context(), c, ExecStream, ExecRequest{})
	if err == nil || !strings.Contains(err.Error(), "cannot ask for exec") {
		t.Errorf("error %v for an action with frames", err)
	}
	_, err = Call(t.Context(), c, Action[int, int]{Name: "odd"}, 1)
	if err == nil || !strings.Contains(err.Error(), "no field Action") {
		t.Errorf("error %v for a request without Action", err)
	}
}

func TestDialErrorIsKept(t *testing.T) {
	gone := errors.New("the sandbox has ended")
	c := &Client{Dial: func(context.Context) (net.Conn, error) { return nil, gone }}
	_, err := c.Hello(t.Context())
	if !errors.Is(err, gone) || err.Error() != "cannot reach the agent: the sandbox has ended" {
		t.Fatalf("error %v", err)
	}
}

// An agent that is busy may say so and hang up without reading the request.
func TestRefusalBeforeTheRequestIsRead(t *testing.T) {
	serve := func(conn net.Conn) {
		_, _ = io.WriteString(conn, `{"error":"too many connections","code":"busy"}`+"\n")
	}
	c := unixClient(t, serve)
	_, err := c.Exec(testContext(t), ExecRequest{Stdin: strings.Repeat("x", 8<<20)})
	wantError(t, err, CodeBusy, "too many connections")
}

func TestRequestThatIsNotTaken(t *testing.T) {
	overEach(t, func(net.Conn) {}, func(t *testing.T, c *Client) {
		_, err := c.Exec(testContext(t), ExecRequest{Stdin: strings.Repeat("x", 8<<20)})
		wantError(t, err, CodeGone, "cannot send the request: ")
	})
}

func TestCancelledCall(t *testing.T) {
	reached := make(chan struct{}, 1)
	vanished := make(chan error, 1)
	serve := func(conn net.Conn) {
		br := bufio.NewReader(conn)
		_, _ = ReadLine(br, MaxLine)
		reached <- struct{}{}
		_, err := br.ReadByte()
		vanished <- err
	}
	overEach(t, serve, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		go func() {
			<-reached
			cancel()
		}()
		if _, err := c.Exec(ctx, ExecRequest{Command: "sleep 1000"}); err != context.Canceled {
			t.Errorf("error %v, want context.Canceled", err)
		}
		if err := <-vanished; err != io.EOF {
			t.Errorf("the agent saw %v, want the end of the connection", err)
		}
	})
}

// peer gives a client whose connections serve answers.
func peer(t *testing.T, serve func(net.Conn, *bufio.Reader)) *Client {
	t.Helper()
	return &Client{Dial: func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			in := bufio.NewReader(there)
			if _, err := ReadLine(in, MaxLine); err == nil {
				serve(there, in)
			}
		}()
		return here, nil
	}}
}

func TestUpload(t *testing.T) {
	c := peer(t, func(conn net.Conn, in *bufio.Reader) {
		body := make([]byte, 5)
		_, _ = io.ReadFull(in, body)
		_ = WriteLine(conn, WriteFileResult{Path: OSString(body), BytesWritten: 5})
	})
	q := WriteFileRequest{Path: "x", ContentSize: 5}
	r, err := Upload(t.Context(), c, WriteFile, q, strings.NewReader("hello, and more"))
	if err != nil || r.Path != "hello" || r.BytesWritten != 5 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if _, err := Upload(t.Context(), c, WriteFile, q, strings.NewReader("hell")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short body: %v", err)
	}
	if _, err := Upload(t.Context(), c, WriteFile, q, iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a body that fails: %v", err)
	}
}

// An agent that refuses a body before it has read it is heard all the same.
func TestUploadThatIsRefused(t *testing.T) {
	c := peer(t, func(conn net.Conn, _ *bufio.Reader) {
		_ = WriteLine(conn, Errorf(CodeTooLarge, "archive is too large"))
	})
	// A pipe has no buffer: the refusal is read while the body cannot be sent.
	c.Dial = buffered(c.Dial)
	_, err := Upload(t.Context(), c, ExtractArchive, ExtractRequest{ArchiveSize: 1 << 30}, zeros{})
	wantError(t, err, CodeTooLarge, "archive is too large")
}

func TestDownload(t *testing.T) {
	size := int64(5)
	c := peer(t, func(conn net.Conn, _ *bufio.Reader) {
		_ = WriteLine(conn, ReadFileResult{Path: "x", ContentSize: size})
		_, _ = io.WriteString(conn, "hello, and more")
	})
	r, body, err := Download(t.Context(), c, ReadFile, ReadFileRequest{Path: "x"})
	if err != nil || r.ContentSize != size {
		t.Fatalf("got %+v, %v", r, err)
	}
	got, err := io.ReadAll(body)
	if string(got) != "hello" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	_ = body.Close()

	size = 100
	if _, body, err = Download(t.Context(), c, ReadFile, ReadFileRequest{}); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(body)
	wantError(t, err, CodeGone, "85 bytes before")
	_ = body.Close()

	size = -1
	_, _, err = Download(t.Context(), c, ReadFile, ReadFileRequest{})
	wantError(t, err, CodeInternal, "negative")
}

// A download ends with its context.
func TestDownloadEnds(t *testing.T) {
	c := peer(t, func(conn net.Conn, in *bufio.Reader) {
		_ = WriteLine(conn, ReadFileResult{ContentSize: 10})
		_, _ = in.ReadByte() // until the client has disconnected
	})
	ctx, cancel := context.WithCancel(t.Context())
	_, body, err := Download(ctx, c, ReadFile, ReadFileRequest{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(body); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	_ = body.Close()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// buffered dials TCP-like: over a socket pair that holds some bytes.
func buffered(dial func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		inner, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close()
		here, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			return nil, err
		}
		there, err := ln.Accept()
		if err != nil {
			return nil, err
		}
		go func() {
			line, _ := bufio.NewReader(there).ReadBytes('\n')
			_, _ = inner.Write(line)
			_, _ = io.Copy(there, inner)
			_ = there.(*net.TCPConn).CloseWrite()
			_, _ = io.CopyN(io.Discard, there, 1<<20)
			_ = there.Close()
		}()
		return here, nil
	}
}
