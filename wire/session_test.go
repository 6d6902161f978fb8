package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// answering is a client of an agent that answers every request with a line.
func answering(t *testing.T, line string) *Client {
	t.Helper()
	return &Client{Dial: func(context.Context) (net.Conn, error) {
		own, peer := net.Pipe()
		go func() {
			defer peer.Close()
			buf := make([]byte, 4096)
			_, _ = peer.Read(buf)
			_, _ = peer.Write([]byte(line + "\n"))
		}()
		return own, nil
	}}
}

// What a hostile agent says of a session is refused, or made harmless.
func TestHostileSessionResults(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{`{"output":[],"exit_code":0}`, ""},
		{`{"output":[{"stream":"stdout","data":"x"}],"exit_code":124}`, ""},
		{`{"exit_code":4000}`, "cannot use the agent's result: exit_code 4000 is out of range"},
		{`{"total_bytes":-1}`, "cannot use the agent's result: total_bytes is negative"},
		{`{"jobs":-1}`, "cannot use the agent's result: jobs is negative"},
		{`{"output":[{"stream":"stdin","data":"x"}]}`, `cannot use the agent's result: unknown stream "stdin"`},
		{`{"late":[{"stream":"","data":"x"}]}`, `cannot use the agent's result: unknown stream ""`},
		{`{"encoding":"base64"}`, "cannot use the agent's result: it has another encoding than was requested"},
		{`{"output":{}}`, "cannot read the agent's answer: pieces of output must be a list"},
		{`{"output":[` + strings.Repeat(`{},`, MaxSessionChunks) + `{}]}`, "cannot read the agent's answer: more than 8192 pieces of output"},
	} {
		_, err := answering(t, tt.line).RunSession(testContext(t), RunSessionRequest{SessionID: "s"})
		if got := fmt.Sprint(err); got != tt.want && (err != nil || tt.want != "") {
			t.Errorf("%.80s: %q, want %q", tt.line, got, tt.want)
		}
	}
	r, err := answering(t, `{"note":"a\u001b[31mb","cwd":"/x\ny"}`).RunSession(testContext(t), RunSessionRequest{})
	if err != nil || r.Note != "a\uFFFD[31mb" || r.Cwd != "/x\uFFFDy" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := answering(t, `{"output":[{"stream":"stdout","data":"!"}],"encoding":"base64"}`).RunSession(testContext(t), RunSessionRequest{Encoding: "base64"}); err == nil {
		t.Error("what is not base64 was taken for it")
	}
	if _, err := answering(t, `{"sessions":[`+strings.Repeat(`{},`, MaxSessions)+`{}]}`).ListSessions(testContext(t)); err == nil {
		t.Error("a list of any length was taken")
	}
	var bad *Error
	if _, err := answering(t, `{}`).RunSession(testContext(t), RunSessionRequest{Stdin: "\xff"}); !errors.As(err, &bad) || bad.Object != "stdin" {
		t.Errorf("standard input that is no text: %v", err)
	}
}

// telling is a connection that tells of each write.
type telling struct {
	net.Conn
	wrote chan<- bool
}

func (c telling) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.wrote <- true
	return n, err
}

// What the agent has not read is sent again, over another connection, however the kept one ended.
func TestKeptConnectionIsMadeAgain(t *testing.T) {
	const calls = 5
	for _, unread := range []bool{false, true} { // unread: it ends by a reset, as where a relay closes with a request in it
		t.Run(fmt.Sprintf("unread=%v", unread), func(t *testing.T) {
			l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			wrote := make(chan bool, 2*calls)
			over := make(chan int)
			go func() {
				served := 0
				defer func() { over <- served }()
				for served < calls {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
						return
					}
					<-wrote
					served++
					_, _ = conn.Write([]byte(`{"exit_code":7}` + "\n"))
					if unread && served < calls {
						<-wrote // the next request, in this connection
					}
					_ = conn.Close()
				}
			}()
			kept := &Kept{Client: &Client{Dial: func(context.Context) (net.Conn, error) {
				conn, err := net.Dial("unix", l.Addr().String())
				return telling{conn, wrote}, err
			}}}
			defer kept.Close()
			for i := range calls {
				if r, err := kept.RunSession(testContext(t), RunSessionRequest{SessionID: "s"}); err != nil || r.ExitCode != 7 {
					t.Fatalf("call %d: %+v, %v", i, r, err)
				}
			}
			if served := <-over; served != calls {
				t.Errorf("%d were served", served)
			}
		})
	}
}
