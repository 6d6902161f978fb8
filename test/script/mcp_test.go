package script

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// TestModelsServerEnds ends a server for models in the middle of its work: it
// exits in order, with nothing left of what it has started.
func TestModelsServerEnds(t *testing.T) {
	boxtest.RequireWalls(t)
	signal := func(s syscall.Signal) func(*os.Process, io.Closer, io.Closer) {
		return func(p *os.Process, _, _ io.Closer) { _ = p.Signal(s) }
	}
	for how, end := range map[string]func(server *os.Process, in, out io.Closer){
		"TERM":   signal(syscall.SIGTERM),
		"INT":    signal(syscall.SIGINT),
		"HUP":    signal(syscall.SIGHUP),
		"input":  func(_ *os.Process, in, _ io.Closer) { _ = in.Close() },
		"client": func(_ *os.Process, in, out io.Closer) { _, _ = in.Close(), out.Close() },
	} {
		t.Run(how, func(t *testing.T) {
			cmd := paddockCommand(t, "mcp")
			var said bytes.Buffer
			cmd.Stderr = &said
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			mark := newMark()
			_, err = fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"command":"setsid sh -c 'sleep 1000; :' `+mark+` & sh -c 'sleep 1000; :' `+mark+`"}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"exec","arguments":{"argv":["sh","-c","sleep 1000; :","`+mark+`"],"background":true}}}`)
			if err != nil {
				t.Fatal(err)
			}
			for limit := time.Now().Add(patience); len(carrying(mark)) < 3; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatalf("not all is started: %q", carrying(mark))
				}
			}
			end(cmd.Process, in, out)
			if status := waitStatus(t, cmd); status != 0 {
				t.Errorf("exit status %d: %s", status, &said)
			}
			if left := carrying(mark); len(left) > 0 {
				t.Errorf("processes are left: %q", left)
			}
		})
	}
}
