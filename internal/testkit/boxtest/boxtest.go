//go:build linux

// Package boxtest is what tests of backends have in common: the agent, built
// once; a request; what still runs and what is left.
package boxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/cache"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Agent is the path of the agent, once [Main] has built it.
var Agent string

// Main builds the agent and runs the tests of a package two directories below
// the module's root. It leaves no goroutine.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "paddock-box-")
	if err != nil {
		panic(err)
	}
	_ = os.Chmod(dir, 0o755) // other identities execute it
	Agent = filepath.Join(dir, "paddock-agent")
	Usual(filepath.Join(dir, "usual"))
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", Agent, "../../cmd/paddock-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// Usual has the usual place of state, and the caches, be below a directory, for this process
// and what it starts, and gives the flag that builds programs which think so as root, too.
func Usual(dir string) (flag string) {
	hostpath.RootState = filepath.Join(dir, "paddock")
	_ = os.Setenv("XDG_STATE_HOME", dir)
	cache.RootStore = dir + "-caches"
	_ = os.Setenv(cache.DirEnv, cache.RootStore)
	const pkg = "-X=github.com/paddock-dev/paddock/backend/hostpath"
	return "-ldflags=" + pkg + ".RootState=" + hostpath.RootState + " " + pkg + "/cache.RootStore=" + cache.RootStore
}

// Wallless says why no sandbox with namespaces can be made here. It is empty
// where one can, and before [LookForWalls].
var Wallless string

// LookForWalls sets [Wallless], for TestMain. It looks for user namespaces
// alone: whatever else is missing must fail.
func LookForWalls(b backend.Backend) {
	for _, f := range b.Probe(context.Background()).Features {
		if f.Name == "user namespaces" && !f.OK {
			Wallless = "user namespaces are forbidden here: " + f.Detail
		}
	}
}

// RequireWalls skips the test where no sandbox with namespaces can be made.
func RequireWalls(t testing.TB) {
	t.Helper()
	if Wallless != "" {
		t.Skip(Wallless)
	}
}

// Token is an argument that nothing else has.
func Token() string { return "box-" + rand.Text() }

// Carriers lists the processes that have a text among their arguments.
func Carriers(token string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if text, _ := os.ReadFile(file); bytes.Contains(text, []byte(token)) {
			found = append(found, file+" "+string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// AwaitNone waits until nothing has the token.
func AwaitNone(t *testing.T, token string) {
	t.Helper()
	testkit.Eventually(t, "no process carries "+token, func() bool { return len(Carriers(token)) == 0 })
}

// Request is a resolved request with a workspace and a state of its own.
func Request(t *testing.T, spec policy.Spec) backend.Request {
	t.Helper()
	resolved, err := spec.Resolve(policy.Base{Dir: t.TempDir(), Home: "/"})
	if err != nil {
		t.Fatal(err)
	}
	return backend.Request{Spec: resolved, Agent: Agent, StateDir: filepath.Join(t.TempDir(), "state")}
}

// Open starts a sandbox that ends with the test, and leaves nothing.
func Open(t *testing.T, b backend.Backend, req backend.Request) backend.Sandbox {
	t.Helper()
	box, err := b.Start(t.Context(), req)
	if err != nil {
		var e *backend.StartError
		errors.As(err, &e)
		t.Fatalf("%v, %+v", err, e)
	}
	t.Cleanup(func() { Stop(t, req, box) })
	return box
}

// Stop ends a sandbox, which must be proved, and leave nothing.
func Stop(t *testing.T, req backend.Request, box backend.Sandbox) {
	t.Helper()
	death, err := box.Stop(context.Background(), 0)
	if err != nil || !death.Proved {
		t.Errorf("the end: %+v, %v", death, err)
	}
	if left, _ := filepath.Glob(filepath.Join(req.StateDir, "sandboxes", "*")); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}

// Sh runs a shell's text inside.
func Sh(t *testing.T, box backend.Sandbox, text string, args ...string) *wire.ExecResult {
	t.Helper()
	client := wire.Client{Dial: box.Dial}
	r, err := client.Exec(t.Context(), wire.ExecRequest{Argv: append([]string{"/bin/sh", "-c", text, "sh"}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

// Start starts a sandbox with the guards that the library gives it: what the
// host executes or obeys in the workspace and in mounts.
func Start(ctx context.Context, b backend.Backend, req backend.Request) (backend.Sandbox, error) {
	mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
	if err != nil {
		return nil, err
	}
	p, err := obeyed.Protect(ctx, req, mounts, nil)
	if err != nil {
		return nil, err
	}
	req.Guards = p.Guards
	return b.Start(ctx, req)
}
