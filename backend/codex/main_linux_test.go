package codex

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// agentPath is the agent's program, built once.
var agentPath string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "paddock-codex-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	boxtest.Usual(filepath.Join(dir, "usual")) // sandboxes may have had this tree, with the CLI in it, as their workspace
	agentPath = filepath.Join(dir, "paddock-agent")
	build := exec.Command("go", "build", "-o", agentPath, "../../cmd/paddock-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the agent: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// realCLI is where test/engines/codex.sh installs the CLI.
const realCLI = "../../.cache/engines/codex/node_modules/.bin/codex"

// needCLI gives the path of the real CLI, or skips.
func needCLI(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(realCLI)
	if err == nil {
		_, err = exec.LookPath(path)
	}
	if err != nil {
		t.Skip("codex is not installed here")
	}
	return path
}

// fake makes a CLI that behaves in a manner that testdata/fake.sh knows.
func fake(t *testing.T, manner string) string {
	t.Helper()
	script, err := os.ReadFile("testdata/fake.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "codex")
	for name, data := range map[string][]byte{path: script, filepath.Join(dir, "manner"): []byte(manner + "\n")} {
		if err := os.WriteFile(name, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return path
}
