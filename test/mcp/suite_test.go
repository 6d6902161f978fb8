//go:build linux

package mcp

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// all is set where nothing may be left out.
var all = os.Getenv("PADDOCK_TEST_MCP") != ""

// suites is where npm has put the programs of the official suites and of clients; the
// newest of them where PADDOCK_TEST_MCP is newest.
var suites = filepath.Join("..", "..", ".cache", map[bool]string{false: "mcp", true: "mcp-newest"}[os.Getenv("PADDOCK_TEST_MCP") == "newest"], "node_modules", ".bin")

// requireSuites skips where they are not installed.
func requireSuites(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(suites, "node")); err != nil && !all {
		t.Skip("SKIPPED ALOUD: the official MCP suites are not installed here: make mcp-deps")
	}
}

// requireTime skips what takes minutes, but where all is asked for.
func requireTime(t *testing.T) {
	t.Helper()
	if !all {
		t.Skip("it takes long: make test-mcp runs it")
	}
}

// node runs a program of the suites, and gives what it printed.
func node(ctx context.Context, t *testing.T, env []string, program string, args ...string) (out, errOut string, status int) {
	t.Helper()
	bin, err := filepath.Abs(suites)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, program), args...)
	cmd.Env = append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "MCP_INSPECTOR_SECRET_STORE=memory", "NODE_COMPILE_CACHE="+filepath.Join(binDir, "compiled")), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", program, err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}
