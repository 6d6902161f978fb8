package agent

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// overPipe serves one connection of an agent that runs nothing, in a bubble
// whose clock stands still while anybody works.
func overPipe(t *testing.T, client func(t *testing.T, conn net.Conn, answers *bufio.Reader)) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			a := newAgent(&core.Sandbox{Trees: &spawn.Trees{}}, nil, nil, nil, nil)
			a.connections.admit(there)
			a.serveConn(there)
		}()
		client(t, here, bufio.NewReader(here))
		here.Close()
		<-done
	})
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// refusal reads one error line.
func refusal(t *testing.T, answers *bufio.Reader) wire.Error {
	t.Helper()
	line, err := answers.ReadBytes('\n')
	if err != nil {
		t.Fatalf("cannot read an answer: %q, %v", line, err)
	}
	var e wire.Error
	if err := json.Unmarshal(line, &e); err != nil || e.Message == "" {
		t.Fatalf("the answer is no error: %q", line)
	}
	return e
}

func wantEnd(t *testing.T, answers *bufio.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 {
		t.Errorf("the connection did not end: %q, %v", rest, err)
	}
}

func TestSilenceEnds(t *testing.T) {
	const hello = `{"action":"hello","keep_alive":true}` + "\n"
	tests := map[string]struct {
		text    string
		answers int
		after   time.Duration
	}{
		"no request":     {"", 0, requestTimeout},
		"half a request": {`{"action":`, 0, requestTimeout},
		"kept alive":     {hello, 1, idleTimeout},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			overPipe(t, func(t *testing.T, conn net.Conn, answers *bufio.Reader) {
				write(t, conn, tt.text)
				for range tt.answers {
					if _, err := answers.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				if e := refusal(t, answers); e.Code != wire.CodeTimeout {
					t.Errorf("error %+v, want a timeout", e)
				}
				if waited := time.Since(began); waited != tt.after {
					t.Errorf("it took %v, want %v", waited, tt.after)
				}
				wantEnd(t, answers)
			})
		})
	}
}

// A client that drips its request has no more time than one that is silent.
func TestDrippedRequestEnds(t *testing.T) {
	overPipe(t, func(t *testing.T, conn net.Conn, answers *bufio.Reader) {
		began := time.Now()
		go func() {
			for time.Since(began) < requestTimeout-time.Second {
				_, _ = conn.Write([]byte(" "))
				time.Sleep(time.Second)
			}
		}()
		if e := refusal(t, answers); e.Code != wire.CodeTimeout || time.Since(began) != requestTimeout {
			t.Errorf("error %+v after %v", e, time.Since(began))
		}
		wantEnd(t, answers)
	})
}

func TestMalformedRequests(t *testing.T) {
	tests := map[string]struct {
		line string
		code wire.Code
		text string
	}{
		"an empty line":        {"", wire.CodeBadRequest, "empty"},
		"no JSON":              {"hello", wire.CodeBadRequest, "cannot read the request"},
		"half an object":       {`{"action":"exec"`, wire.CodeBadRequest, "cannot read the request"},
		"two objects":          {`{} {}`, wire.CodeBadRequest, "cannot read the request"},
		"a list":               {`[]`, wire.CodeBadRequest, "request must be a JSON object"},
		"null":                 {`null`, wire.CodeBadRequest, "request must be a JSON object"},
		"a number":             {`1`, wire.CodeBadRequest, "request must be a JSON object"},
		"no UTF-8":             {"{\"a\":\"\xff\"}", wire.CodeBadRequest, "not valid UTF-8"},
		"a wrong type":         {`{"argv":"true"}`, wire.CodeBadRequest, "argv"},
		"an env of a list":     {`{"argv":["true"],"env":[]}`, wire.CodeBadRequest, "exec env must be a JSON object"},
		"a negative timeout":   {`{"argv":["true"],"timeout_seconds":-1}`, wire.CodeBadRequest, "timeout_seconds"},
		"an oversized number":  {`{"argv":["true"],"max_output_bytes":1e99}`, wire.CodeBadRequest, "max_output_bytes"},
		"stdin is not base64":  {`{"argv":["true"],"encoding":"base64","stdin":"?"}`, wire.CodeBadRequest, "stdin is not base64"},
		"a wrong hello":        {`{"action":"hello","version":"one"}`, wire.CodeBadRequest, "version"},
		"an unknown action":    {`{"action":"fly","keep_alive":true}`, wire.CodeUnknownAction, "unknown action: fly"},
		"an action of a shape": {`{"action":{}}`, wire.CodeBadRequest, "action"},
		"deep nesting":         {strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000), wire.CodeBadRequest, "cannot read the request"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			overPipe(t, func(t *testing.T, conn net.Conn, answers *bufio.Reader) {
				go func() { _, _ = io.WriteString(conn, tt.line+"\n") }()
				if e := refusal(t, answers); e.Code != tt.code || !strings.Contains(e.Message, tt.text) {
					t.Errorf("error %+v, want %s: %q", e, tt.code, tt.text)
				}
				wantEnd(t, answers)
			})
		})
	}
}

func TestAnswerTooLarge(t *testing.T) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		_ = say(there, wire.ExecResult{Stdout: strings.Repeat("x", wire.MaxLine)})
	}()
	answers := bufio.NewReader(here)
	if e := refusal(t, answers); e.Code != wire.CodeTooLarge || !strings.Contains(e.Hint, "max_output_bytes") {
		t.Errorf("error %+v", e)
	}
	wantEnd(t, answers)
}

func TestTooManyConnections(t *testing.T) {
	here, there := net.Pipe()
	go refuseConn(there, errBusy)
	answers := bufio.NewReader(here)
	if e := refusal(t, answers); e.Code != wire.CodeBusy {
		t.Errorf("error %+v", e)
	}
	wantEnd(t, answers)
}

// A client that never reads its answer holds nothing for ever.
func TestUnreadAnswerEnds(t *testing.T) {
	overPipe(t, func(t *testing.T, conn net.Conn, _ *bufio.Reader) {
		began := time.Now()
		write(t, conn, `{"action":"hello","keep_alive":true}`+"\n")
		time.Sleep(stallTimeout + time.Second) // until then the agent has given up
		if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
			t.Errorf("after %v the connection gave %q, %v", time.Since(began), rest, err)
		}
	})
}

// What a client does not send of a refused body is not awaited; what it sends is read.
func TestRefusedBodyEnds(t *testing.T) {
	for name, keep := range map[string]string{"once": "", "kept alive": `,"keep_alive":true`} {
		t.Run(name, func(t *testing.T) {
			overPipe(t, func(t *testing.T, conn net.Conn, answers *bufio.Reader) {
				write(t, conn, `{"action":"extract_archive","archive_size":100000,"destination":"/etc"`+keep+"}\n")
				refusal(t, answers)
				for range 10 { // for longer than one pause may last
					write(t, conn, strings.Repeat("x", 1000))
					time.Sleep(refusedTimeout / 2)
				}
				began := time.Now()
				wantEnd(t, answers)
				if took := time.Since(began); took > refusedTimeout {
					t.Errorf("it ended after %v", took)
				}
			})
		})
	}
}

// Room is made by who has waited longest, never by who is served.
func TestWhoMakesRoom(t *testing.T) {
	var c connections
	conns := make([]net.Conn, maxConnections+2)
	for i := range conns {
		conns[i], _ = net.Pipe()
	}
	for _, conn := range conns[:maxConnections] {
		if c.admit(conn) != nil {
			t.Fatal("there is no room")
		}
	}
	if !c.begin(conns[0]) {
		t.Fatal("the first is not there")
	}
	if got := c.admit(conns[maxConnections]); got != conns[1] {
		t.Error("the second was not the one to make room")
	}
	if c.begin(conns[1]) {
		t.Error("the second is served all the same")
	}
	c.leave(conns[1])
	for _, conn := range conns[2 : maxConnections+1] {
		if !c.begin(conn) {
			t.Fatal("it is not there")
		}
	}
	last := conns[maxConnections+1]
	if got := c.admit(last); got != last {
		t.Error("somebody who is served made room")
	}
	c.done(conns[5])
	if got := c.admit(last); got != conns[5] {
		t.Error("who was kept alive and is idle did not make room")
	}
}
