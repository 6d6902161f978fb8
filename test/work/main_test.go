//go:build linux

// Package work does real work inside: builds, tests and programs in the
// languages that people use. Each job is a directory of testdata with a
// script, job.sh, that is run twice from copies of it: as it is, and by
// paddock run. What it prints, how it ends and which files it leaves have to
// be the same.
package work

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// Where the programs under test are, built once.
var binDir string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "paddock-work-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-buildvcs=false", boxtest.Usual(filepath.Join(dir, "usual")), "-o", dir+"/", "./cmd/paddock", "./cmd/paddock-agent")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the programs: %v\n%s", err, out)
		return 1
	}
	binDir = dir
	boxtest.LookForWalls(linux.New())
	return m.Run()
}
