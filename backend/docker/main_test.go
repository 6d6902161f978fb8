//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/testkit/engines"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// agentPath and egressPath are the programs, built once.
var agentPath, egressPath string

func TestMain(m *testing.M) {
	if spec := os.Getenv(ownerEnv); spec != "" {
		os.Exit(ownSandbox(spec))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "paddock-docker-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // inside, everyone is someone else
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	agentPath, egressPath = filepath.Join(dir, "paddock-agent"), filepath.Join(dir, "paddock-egress")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir+"/", "./cmd/paddock-agent", "./cmd/paddock-egress")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the programs: %v\n%s", err, out)
		return 1
	}
	defer func() {
		for _, e := range started {
			e.Close()
		}
	}()
	return m.Run()
}

// engineOf starts each engine once, when a test first asks for it.
var engineOf = map[string]func() (*engines.Engine, error){
	"docker": sync.OnceValues(func() (*engines.Engine, error) { return keep(engines.Docker(context.Background())) }),
	"podman": sync.OnceValues(func() (*engines.Engine, error) { return keep(engines.Podman(context.Background())) }),
}

var started []*engines.Engine

func keep(e *engines.Engine, err error) (*engines.Engine, error) {
	if err == nil {
		started = append(started, e)
	}
	return e, err
}

// eachEngine runs a test on a real docker and on a real podman.
func eachEngine(t *testing.T, test func(*testing.T, *engines.Engine)) {
	t.Helper()
	for _, name := range []string{"docker", "podman"} {
		t.Run(name, func(t *testing.T) {
			e, err := engineOf[name]()
			use(t, e, err)
			test(t, e)
		})
	}
}

// use makes an engine the one that clients of this test find.
func use(t *testing.T, e *engines.Engine, err error) {
	t.Helper()
	var none *engines.UnavailableError
	if errors.As(err, &none) {
		t.Skip("SKIPPED ALOUD: " + none.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range e.Env {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
}

// request is for a sandbox of an image, over a new workspace.
func request(t *testing.T, e *engines.Engine, change ...func(*policy.Spec)) backend.Request {
	t.Helper()
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	spec := policy.Spec{Backend: policy.BackendDocker, Workspace: policy.Workspace{Source: ws},
		Docker: &policy.Docker{Binary: e.Binary, Image: engines.Shell, ExtraRunArgs: e.RunArgs}}
	for _, c := range change {
		c(&spec)
	}
	spec, err := spec.Resolve(policy.Base{Dir: "/", Home: "/nonexistent"})
	if err != nil {
		t.Fatal(err)
	}
	return backend.Request{Spec: spec, Agent: agentPath, Egress: egressPath, StateDir: filepath.Join(dir, "state")}
}

// box is a sandbox of a test.
type box struct {
	backend.Sandbox
	wire.Client
	t   *testing.T
	req backend.Request
}

func start(t *testing.T, req backend.Request) *box {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := New().Start(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Stop(context.Background(), time.Second) })
	return &box{Sandbox: s, Client: wire.Client{Dial: s.Dial}, t: t, req: req}
}

// name is the container's.
func (b *box) name() string { return b.Sandbox.(*sandbox).build.name() }

// sh runs a command by the image's shell and returns what it printed.
func (b *box) sh(command string) (string, int) {
	b.t.Helper()
	r := b.exec(wire.ExecRequest{Argv: []string{"/bin/sh", "-c", command}})
	return r.Stdout + r.Stderr, r.ExitCode
}

func (b *box) exec(q wire.ExecRequest) wire.ExecResult {
	b.t.Helper()
	r, err := b.Exec(b.t.Context(), q)
	if err != nil {
		b.t.Fatalf("%q: %v", q.Argv, err)
	}
	return r
}

// want runs a command that must print this and succeed.
func (b *box) want(command, out string) {
	b.t.Helper()
	if got, code := b.sh(command); got != out || code != 0 {
		b.t.Errorf("%s: %q, status %d, want %q", command, got, code, out)
	}
}

// refuses runs a command that must fail.
func (b *box) refuses(command, why string) {
	b.t.Helper()
	if got, code := b.sh(command); code == 0 || !strings.Contains(got, why) {
		b.t.Errorf("%s: %q, status %d, want %q", command, got, code, why)
	}
}

// stop ends the sandbox, which must be proved.
func (b *box) stop() backend.Death {
	b.t.Helper()
	d, err := b.Stop(context.Background(), time.Second)
	if err != nil || !d.Proved {
		b.t.Errorf("ended with %+v, %v", d, err)
	}
	return d
}

// containers lists the containers of a name, in any state.
func containers(t *testing.T, e *engines.Engine, name string) string {
	t.Helper()
	out, err := e.Run(context.Background(), nil, "ps", "--all", "--quiet", "--filter", "name="+name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}
