//go:build linux

// Package mcp tests the MCP server as its clients meet it: the protocol's
// official conformance suite and inspector, an agent's work from the first
// command to the export, several principals, much load, clients that vanish,
// and arguments that make no sense. What comes from npm is installed by
// "make mcp-deps"; "make test-mcp" runs all of it.
//
// The tools are tried by one table (tools_test.go), which must name each of
// them: a new tool is one line there.
package mcp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// Where the programs under test are, built once; with-fixtures is a server with those
// of the conformance suite.
var binDir string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "paddock-model-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binDir = dir
	boxtest.LookForWalls(linux.New())
	status := m.Run()
	if len(paid.lines) > 0 {
		slices.Sort(paid.lines)
		report("the characters that models were given, by client", paid.lines)
	}
	fmt.Print(reports.String())
	return status
}

// build makes the programs in dir.
func build(dir string) error {
	usual := boxtest.Usual(filepath.Join(dir, "usual"))
	for _, args := range [][]string{
		{"-o", dir + "/", "./cmd/paddock", "./cmd/paddock-server", "./cmd/paddock-agent", "./cmd/paddock-egress", "./cmd/paddock-keeper"},
		{"-o", filepath.Join(dir, "with-fixtures"), "./test/mcp/fixtures/server"},
	} {
		build := exec.Command("go", append([]string{"build", "-buildvcs=false", usual}, args...)...)
		build.Dir = filepath.Join("..", "..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build the programs: %w\n%s", err, out)
		}
	}
	return nil
}
