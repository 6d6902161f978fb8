package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

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
