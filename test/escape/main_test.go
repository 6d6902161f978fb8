//go:build linux

// Package escape attacks sandboxes from inside, as a grid: each attack is a
// row, tried without the wall, where it has to succeed, and behind it, where
// it has to fail in a way that is written down here. The attacks themselves
// are functions of one program, in directory attacker, which runs on both sides.
package escape

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/paddock-dev/paddock/backend/linux"
)

// Where the programs of the tests are, built once.
var binDir string

// wallless says why no sandbox can be made here, empty where one can.
var wallless string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "paddock-escape-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir+"/", "./cmd/paddock-agent", "./test/escape/attacker")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the programs: %v\n%s", err, out)
		return 1
	}
	binDir = dir
	wallless = probe()
	status := m.Run()
	if grids.Len() > 0 { // told whole by "make test", which looks for these marks
		fmt.Printf("--- report: ways out that were tried\n%s--- end of report\n", grids.String())
	}
	return status
}

// probe looks for user namespaces alone: whatever else is missing must fail.
func probe() string {
	for _, f := range linux.New().Probe(context.Background()).Features {
		if f.Name == "user namespaces" && !f.OK {
			return "user namespaces are forbidden here: " + f.Detail
		}
	}
	return ""
}

func requireWalls(t *testing.T) {
	t.Helper()
	if wallless != "" {
		t.Skip(wallless)
	}
}
