package script

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// hello is the first message of a model's client.
const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

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
			in, out := startPiped(t, cmd)
			mark := newMark()
			_, err := fmt.Fprintln(in, hello+`
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"command":"setsid sh -c 'sleep 1000; :' `+mark+` & sh -c 'sleep 1000; :' `+mark+`"}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"exec","arguments":{"argv":["sh","-c","sleep 1000; :","`+mark+`"],"background":true}}}`)
			if err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "all three commands run", func() bool { return len(carrying(mark)) >= 3 })
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
