package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// bareAgent is an agent that no backend started: it has no walls.
type bareAgent struct {
	workspace, shells, services, secrets, socket string

	pid    int
	client *wire.Client
}

// bare starts an agent with roots of its own, and more flags where a test has
// some.
func bare(t *testing.T, args ...string) *bareAgent {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bare-") // the path of a socket has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &bareAgent{
		workspace: filepath.Join(dir, "workspace"),
		shells:    filepath.Join(dir, "shells"),
		services:  filepath.Join(dir, "services"),
		secrets:   filepath.Join(dir, "secrets"),
		socket:    filepath.Join(dir, "socket"),
	}
	var log bytes.Buffer
	cmd := exec.Command(agentPath, append([]string{
		"--listen", "unix://" + b.socket, "--workspace", b.workspace, "--shell-root", b.shells,
		"--service-root", b.services, "--secret-root", b.secrets}, args...)...)
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.pid = cmd.Process.Pid
	b.client = &wire.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", b.socket)
	}}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-ended
			t.Error("the agent does not end on SIGTERM")
		}
		if t.Failed() && log.Len() > 0 {
			t.Logf("the agent said:\n%s", &log)
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if conn, err := net.Dial("unix", b.socket); err == nil {
			conn.Close()
			return b
		}
		select {
		case <-ended:
			t.Fatalf("the agent ended:\n%s", &log)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("the agent does not listen")
		}
	}
}

// dial opens a connection that ends with the test.
func (b *bareAgent) dial(t *testing.T) *net.UnixConn {
	t.Helper()
	conn, err := net.Dial("unix", b.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn.(*net.UnixConn)
}

// ask sends one request and reads its answer, which must be one line.
func (b *bareAgent) ask(t *testing.T, request any) map[string]any {
	t.Helper()
	line, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return answerOf(t, b.raw(t, append(line, '\n')))
}

// raw sends bytes and reads all that comes back until the agent closes.
func (b *bareAgent) raw(t *testing.T, sent []byte) []byte {
	t.Helper()
	conn := b.dial(t)
	defer conn.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = conn.Write(sent) // an agent that has answered may close early
	}()
	got, err := io.ReadAll(conn)
	if err != nil && (len(got) == 0 || !errors.Is(err, syscall.ECONNRESET)) {
		t.Fatalf("cannot read the answer: %v", err)
	}
	conn.Close()
	<-done
	return got
}

// answerOf reads what must be exactly one line of JSON.
func answerOf(t *testing.T, got []byte) map[string]any {
	t.Helper()
	var answer map[string]any
	line, rest, ok := bytes.Cut(got, []byte("\n"))
	if err := json.Unmarshal(line, &answer); err != nil || !ok || len(rest) > 0 {
		t.Fatalf("the answer is not one line of JSON: %.300q, %v", got, err)
	}
	return answer
}
