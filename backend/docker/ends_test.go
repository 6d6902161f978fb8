//go:build linux

package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/engines"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// ownerEnv makes the test program the owner of a sandbox, which it describes.
const ownerEnv = "PADDOCK_TEST_DOCKER_OWNER"

// ownSandbox starts a sandbox with a command that runs for long, says which
// container it is, and waits to be killed.
func ownSandbox(text string) int {
	var req backend.Request
	err := json.Unmarshal([]byte(text), &req)
	var s backend.Sandbox
	if err == nil {
		s, err = New().Start(context.Background(), req)
	}
	if err == nil {
		client := wire.Client{Dial: s.Dial}
		_, err = client.Start(context.Background(), wire.ExecRequest{Argv: []string{"/bin/sh", "-c", "trap '' TERM HUP INT; setsid sleep 1000 & sleep 1000"}}, wire.Streams{})
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(s.(*sandbox).build.name(), s.ID())
	<-s.Done()
	fmt.Println("done")
	select {}
}

// owned is a sandbox that another process owns.
type owned struct {
	cmd      *exec.Cmd
	name, id string
	out      *bufio.Reader
	req      backend.Request
}

func startOwner(t *testing.T, req backend.Request) *owned {
	t.Helper()
	text, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	o := &owned{cmd: exec.Command(os.Args[0]), req: req}
	o.cmd.Env = append(os.Environ(), ownerEnv+"="+string(text))
	o.cmd.Stderr = os.Stderr
	out, err := o.cmd.StdoutPipe()
	if err == nil {
		err = o.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.cmd.Process.Kill(); _ = o.cmd.Wait() })
	o.out = bufio.NewReader(out)
	line, _ := o.out.ReadString('\n')
	if n, _ := fmt.Sscan(line, &o.name, &o.id); n != 2 || strings.HasPrefix(line, "error") {
		t.Fatalf("the owner says %q", line)
	}
	return o
}

// keeper is the pid of the process that owns the pipe.
func (o *owned) keeper(t *testing.T) int {
	t.Helper()
	r, err := state.Read(filepath.Join(o.req.StateDir, "sandboxes", o.id))
	if err != nil {
		t.Fatal(err)
	}
	return r.PID
}

// client is the pid of the engine's attached client.
func (o *owned) client(t *testing.T) int {
	t.Helper()
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range found {
		text, _ := os.ReadFile(file)
		if bytes.Contains(text, []byte("run\x00-i\x00")) && bytes.Contains(text, []byte(o.name+"\x00")) && !bytes.HasPrefix(text, []byte("/bin/sh\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	t.Fatal("there is no client")
	return 0
}

// Whoever is killed, the container ends, with all that runs in it.
func TestKilled(t *testing.T) {
	for victim, kill := range map[string]func(*testing.T, *owned){
		"owner":  func(_ *testing.T, o *owned) { _ = o.cmd.Process.Kill() },
		"keeper": func(t *testing.T, o *owned) { _ = syscall.Kill(o.keeper(t), syscall.SIGKILL) },
		"client": func(t *testing.T, o *owned) { _ = syscall.Kill(o.client(t), syscall.SIGKILL) },
		"owner and keeper": func(t *testing.T, o *owned) {
			keeper := o.keeper(t)
			_ = o.cmd.Process.Kill()
			_ = syscall.Kill(keeper, syscall.SIGKILL)
		},
	} {
		t.Run(strings.ReplaceAll(victim, " ", "-"), func(t *testing.T) {
			eachEngine(t, func(t *testing.T, e *engines.Engine) {
				o := startOwner(t, request(t, e))
				if containers(t, e, o.name) == "" {
					t.Fatal("the container is not there while it runs")
				}
				kill(t, o)
				testkit.Eventually(t, "the container is gone", func() bool { return containers(t, e, o.name) == "" })
			})
		})
	}
}

// An engine that dies proves nothing, and everybody is told at once.
func TestEngineDies(t *testing.T) {
	e, err := engines.OwnDocker(t.Context())
	if err == nil {
		t.Cleanup(e.Close)
	}
	use(t, e, err)
	b := start(t, request(t, e))
	name := b.name()
	running := make(chan error, 1)
	go func() {
		_, err := b.Exec(context.Background(), wire.ExecRequest{Argv: []string{"/bin/sleep", "1000"}})
		running <- err
	}()
	b.want("echo alive", "alive\n")
	e.Kill()
	select {
	case err := <-running:
		if err == nil {
			t.Error("a command ended well without its engine")
		}
	case <-time.After(time.Minute):
		t.Fatal("a command waits for an engine that is dead")
	}
	began := time.Now()
	if _, err := b.Exec(t.Context(), wire.ExecRequest{Argv: []string{"/bin/true"}}); err == nil || time.Since(began) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	d, err := b.Stop(context.Background(), time.Second)
	if d.Proved {
		t.Errorf("%+v, %v: death is proved by an engine that is dead", d, err)
	}
	if text := fmt.Sprint(d.Log, err); !strings.Contains(text, name) {
		t.Errorf("which container may still run is not said: %s", text)
	}
	if err := e.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the container does not run", func() bool {
		out, err := e.Run(t.Context(), nil, "ps", "--quiet", "--filter", "name="+name)
		return err == nil && strings.TrimSpace(out) == ""
	})
}

// A remote engine gets the agent and the workspace through its own interface.
func TestRemote(t *testing.T) {
	e, err := engineOf["docker"]()
	use(t, e, err)
	socket := strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if socket == "" {
		socket = "/var/run/docker.sock"
	}
	t.Setenv("DOCKER_HOST", "tcp://"+forward(t, socket))
	if _, err := New().Start(t.Context(), request(t, e)); err == nil || !strings.Contains(err.Error(), "another machine") {
		t.Errorf("a bind workspace: %v", err)
	}
	req := request(t, e, func(s *policy.Spec) {
		s.Workspace.Mode = policy.ModeCopy
		s.Docker.ReadOnlyRootFS = true
	})
	if err := os.WriteFile(req.Spec.Workspace.Source+"/f", []byte("there\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := start(t, req)
	b.want("cat f", "there\n")
	b.refuses("echo x >/.paddock/agent", "Read-only")
	name := b.name()
	b.stop()
	for _, kind := range []string{"container", "volume"} {
		if out, err := e.Run(t.Context(), nil, kind, "ls", "--quiet", "--filter", "name="+name); err != nil || out != "" {
			t.Errorf("a %s is left: %q, %v", kind, out, err)
		}
	}
}

// forward makes a socket reachable by TCP.
func forward(t *testing.T, socket string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("unix", socket)
			if err != nil {
				_ = c.Close()
				continue
			}
			go pipe(c, d)
			go pipe(d, c)
		}
	}()
	return l.Addr().String()
}
