//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// The agent and the fakes, built once.
var agentPath, otherAgent, fakesDir string

func TestMain(m *testing.M) {
	if spec := os.Getenv(ownerEnv); spec != "" {
		os.Exit(ownSandbox(spec))
	}
	if os.Getenv(connectEnv) != "" {
		os.Exit(connectAll(os.Args[1:]))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "paddock-linux-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // inside, everyone is someone else
	}
	if err == nil {
		defer os.RemoveAll(dir)
		boxtest.Usual(filepath.Join(dir, "usual"))
		err = buildAgents(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	boxtest.LookForWalls(New())
	status := m.Run()
	if aloneReport.Len() > 0 { // told whole by "make test", which looks for these marks
		fmt.Printf("--- report: each mechanism alone\n%s--- end of report\n", aloneReport.String())
	}
	return status
}

func buildAgents(dir string) error {
	agentPath, otherAgent = filepath.Join(dir, "paddock-agent"), filepath.Join(dir, "other-agent")
	fake := filepath.Join(dir, "fake")
	for _, args := range [][]string{
		{"-o", agentPath, "./cmd/paddock-agent"},
		{"-o", otherAgent, "-ldflags", "-X github.com/paddock-dev/paddock/wire.Build=another", "./cmd/paddock-agent"},
		{"-o", fake, "./backend/linux/testdata/fakeagent"},
	} {
		build := exec.Command("go", append([]string{"build", "-buildvcs=false"}, args...)...)
		build.Dir = filepath.Join("..", "..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build %s: %w\n%s", args[len(args)-1], err, out)
		}
	}
	fakesDir = filepath.Join(dir, "fakes")
	if err := os.Mkdir(fakesDir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"dead", "mute", "garbage", "flood", "empty", "liar"} {
		if err := os.Link(fake, filepath.Join(fakesDir, name)); err != nil {
			return err
		}
	}
	return nil
}

func requireRoot(t *testing.T) {
	t.Helper()
	boxtest.RequireWalls(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can make files of other owners")
	}
}

// request is for a sandbox over a new workspace, with a state directory of
// its own.
func request(t *testing.T, change ...func(*policy.Spec)) backend.Request {
	t.Helper()
	spec := policy.Spec{Workspace: policy.Workspace{Source: tempDir(t)}}
	for _, c := range change {
		c(&spec)
	}
	spec, err := spec.Resolve(policy.Base{Dir: "/", Home: "/nonexistent"})
	if err != nil {
		t.Fatal(err)
	}
	return backend.Request{Spec: spec, Agent: agentPath, StateDir: filepath.Join(tempDir(t), "state")}
}

// tempDir can be reached by other identities, unlike t.TempDir.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "paddock-linux-test-") //nolint:usetesting // others must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// guards are what the library would have the backend protect.
func guards(t *testing.T, req backend.Request) []backend.Guard {
	t.Helper()
	mounts, err := hostpath.Mounts(req, workspaceDir)
	if err != nil {
		return nil // which Start says
	}
	p, err := obeyed.Protect(t.Context(), req, mounts, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p.Guards
}

// launchBox starts a sandbox that ends with the test.
func launchBox(t *testing.T, req backend.Request) backend.Sandbox {
	t.Helper()
	boxtest.RequireWalls(t)
	req.Guards = guards(t, req)
	box, err := New().Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = box.Stop(context.Background(), 0) })
	return box
}

// sh runs a shell command inside and gives what it printed, errors included.
func sh(t *testing.T, box backend.Sandbox, text string) (string, int) {
	t.Helper()
	client := wire.Client{Dial: box.Dial}
	res, err := client.Exec(t.Context(), wire.ExecRequest{Argv: []string{"/bin/sh", "-c", "exec 2>&1; " + text}})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.TrimSpace(res.Stdout), res.ExitCode
}

var tokens atomic.Int64

// newToken is a text that no other process of the host carries.
func newToken() string {
	return "paddock-linux-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(tokens.Add(1), 10)
}

// carriers lists the processes of the host whose command line has a text.
func carriers(text string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file) // a process may be gone by now
		if err == nil && strings.Contains(string(line), text) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func startError(t *testing.T, err error) *backend.StartError {
	t.Helper()
	var e *backend.StartError
	if !errors.As(err, &e) {
		t.Fatalf("%v is no StartError", err)
	}
	return e
}
