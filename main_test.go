package paddock

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

// wallless says why no sandbox can be made here, empty where one can.
var wallless string

// TestMain builds the programs for the tests that need real walls.
func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if what := os.Getenv(attachEnv); what != "" {
		hostpath.RootState = filepath.Join(os.Getenv("XDG_STATE_HOME"), "paddock")
		return attachChild(what)
	}
	dir, err := os.MkdirTemp("", "paddock-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Others must be able to reach it: inside, everyone is someone else.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	agent := filepath.Join(dir, "paddock-agent")
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/paddock-agent", "./cmd/paddock-keeper", "./cmd/paddock")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the programs: %v\n%s", err, out)
		return 1
	}
	_ = os.Setenv(AgentEnv, agent)
	_ = os.Setenv(EgressEnv, agent) // backends of tests start none
	_ = os.Setenv(StateDirEnv, filepath.Join(dir, "state"))
	hostpath.RootState = filepath.Join(dir, "usual", "paddock")
	_ = os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "usual"))
	_ = os.Setenv(CacheDirEnv, filepath.Join(dir, "caches"))
	if wallless = probe(); wallless != "" {
		flag.Parse()
		fmt.Fprintln(os.Stderr, "SKIP: all examples: "+wallless)
		_ = flag.Set("test.skip", "^Example") // an example cannot skip itself
	}
	return m.Run()
}

// probe looks for user namespaces alone: whatever else is missing must fail.
func probe() string {
	report, err := Probe(context.Background(), Options{})
	if err != nil {
		return err.Error()
	}
	for _, f := range report.Features {
		if f.Name == "user namespaces" && !f.OK {
			return "user namespaces are forbidden here: " + f.Detail
		}
	}
	return ""
}

// requireWalls skips, loudly, where no sandbox can be made.
func requireWalls(t *testing.T) {
	t.Helper()
	if wallless != "" {
		t.Skip(wallless)
	}
}
