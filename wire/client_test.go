package wire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

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
	for object, q := range map[string]ExecRequest{
		"argv":    {Argv: []string{"ls", "\xff"}},
		"command": {Command: "\xff"},
		"cwd":     {Cwd: "\xff"},
		"env":     {Env: map[string]string{"A": "\xff"}},
		"stdin":   {Stdin: "\xff"},
	} {
		_, err := c.Exec(t.Context(), q)
		wantError(t, err, CodeBadRequest, object+" is not valid UTF-8")
		_, err = c.Start(t.Context(), q, Streams{})
		wantError(t, err, CodeBadRequest, object+" is not valid UTF-8")
	}
	_, err := c.Exec(t.Context(), ExecRequest{Stdin: strings.Repeat("x", MaxLine)})
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
