package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
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

// bareAgent is an agent that no backend started, as a process of its own.
type bareAgent struct {
	workspace, shells, services, secrets, socket string

	pid    int
	client *wire.Client
	exited chan struct{} // closed once it has ended
	status *os.ProcessState
	stderr bytes.Buffer // to be read once it has ended
}

// bare starts an agent without walls, with roots of its own and more flags,
// and waits until it serves. At its end nothing of it may be left.
func bare(t *testing.T, args ...string) *bareAgent {
	t.Helper()
	return bareCommand(t, nil, args...)
}

// bareCommand is bare for an agent whose process needs more than flags.
func bareCommand(t *testing.T, change func(cmd *exec.Cmd, dir string), args ...string) *bareAgent {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bare-") //nolint:usetesting // a socket's path has no room for more
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &bareAgent{
		workspace: filepath.Join(dir, "workspace"),
		shells:    filepath.Join(dir, "shells"),
		services:  filepath.Join(dir, "services"),
		secrets:   filepath.Join(dir, "secrets"),
		socket:    filepath.Join(dir, "s"),
		exited:    make(chan struct{}),
	}
	cmd := exec.Command(agentPath, append([]string{
		"--listen", "unix://" + b.socket, "--workspace", b.workspace,
		"--shell-root", b.shells, "--service-root", b.services, "--secret-root", b.secrets,
	}, args...)...)
	cmd.Stderr = &b.stderr
	if change != nil {
		change(cmd, dir)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait()
		b.status = cmd.ProcessState
		close(b.exited)
	}()
	t.Cleanup(b.end)
	b.client = &wire.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.socket)
	}}
	eventually(t, "the agent serves", func() bool {
		select {
		case <-b.exited:
			t.Fatalf("the agent has ended: %v\n%s", b.status, &b.stderr)
		default:
		}
		return answers(b.socket)
	})
	return b
}

// answers says whether an agent serves at a socket. One that only listens there
// may not have opened its other listeners yet.
func answers(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = conn.Write([]byte(`{"action":"hello"}` + "\n"))
	n, _ := conn.Read(make([]byte, 1))
	return n == 1
}

// end asks the agent to end, so that it ends all that it has started, too.
func (b *bareAgent) end() {
	select {
	case <-b.exited:
		return
	default:
	}
	_ = syscall.Kill(b.pid, syscall.SIGTERM)
	select {
	case <-b.exited:
	case <-time.After(patience):
		_ = syscall.Kill(b.pid, syscall.SIGKILL)
		<-b.exited
	}
}

// dial opens a connection on which a test says what it likes.
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

// raw sends bytes and gives all that comes back until the agent closes.
func (b *bareAgent) raw(t *testing.T, request []byte) []byte {
	t.Helper()
	conn := b.dial(t)
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("after %.200q: %v", answer, err)
	}
	return answer
}

// ask sends a request as one line and gives the one line that is its answer.
func (b *bareAgent) ask(t *testing.T, request any) map[string]any {
	t.Helper()
	line, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	answer := b.raw(t, append(line, '\n'))
	var fields map[string]any
	if err := json.Unmarshal(answer, &fields); err != nil || bytes.IndexByte(answer, '\n') != len(answer)-1 {
		t.Fatalf("the answer is no line of JSON: %.200q, %v", answer, err)
	}
	return fields
}
