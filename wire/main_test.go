package wire

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// transports are the ways a client reaches the agent of a test.
var transports = map[string]func(testing.TB, func(net.Conn)) *Client{
	"pipe": pipeClient,
	"unix": unixClient,
}

// overEach runs test once over each transport against an agent that serves
// every connection with serve. The test ends when the agent has.
func overEach(t *testing.T, serve func(net.Conn), test func(*testing.T, *Client)) {
	t.Helper()
	for name, start := range transports {
		t.Run(name, func(t *testing.T) { test(t, start(t, serve)) })
	}
}

// pipeClient dials in memory, where each write waits for its reader.
func pipeClient(t testing.TB, serve func(net.Conn)) *Client {
	var agents sync.WaitGroup
	t.Cleanup(agents.Wait)
	return &Client{Dial: func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		agents.Go(func() {
			defer there.Close()
			serve(there)
		})
		return here, nil
	}}
}

// unixClient dials a Unix socket.
func unixClient(t testing.TB, serve func(net.Conn)) *Client {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var agents sync.WaitGroup
	agents.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			agents.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		agents.Wait()
	})
	return &Client{Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
}

// patience bounds how long a test waits; it passes only if a test fails.
const patience = 20 * time.Second

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// wantError fails unless err is an *Error with code whose message has text.
func wantError(t *testing.T, err error, code Code, text string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T), want one with code %s", err, err, code)
	}
	if e.Code != code || !strings.Contains(e.Message, text) {
		t.Fatalf("error %s: %q, want %s: %q", e.Code, e.Message, code, text)
	}
}
