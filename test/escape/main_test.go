//go:build linux

// Package escape attacks sandboxes from inside, as a grid: each attack is a
// row, tried without the wall, where it has to succeed, and behind it, where
// it has to fail in a way that is written down here. Columns are who starts the
// sandbox, and its level. The attacks themselves are functions of one program,
// in directory attacker, which runs on both sides.
package escape

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
)

// Who starts sandboxes.
const (
	asRoot = "root"
	asUser = "user"

	// ordinaryID is a user that root becomes for a part of the grid.
	ordinaryID = 65531
)

// Root runs these tests once more as an ordinary user, with the programs that
// it has built; what came of them is written to a file.
const (
	binEnv   = "PADDOCK_ESCAPE_BIN"
	cellsEnv = "PADDOCK_ESCAPE_CELLS"
)

// Where the programs of the tests are, built once.
var binDir string

// serial tells apart what is made for several tests.
var serial atomic.Int64

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if binDir = os.Getenv(binEnv); binDir == "" {
		if err := build(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(binDir)
		defer os.RemoveAll(usualDir())
	}
	boxtest.LookForWalls(linux.New())
	status := m.Run()
	if template.dir != "" {
		_ = os.RemoveAll(template.dir)
	}
	if text := report(); text != "" { // told whole by "make test", which looks for these marks
		fmt.Printf("--- report: ways out that were tried\n%s--- end of report\n", text)
	}
	return status
}

// build fills binDir, which everybody may read.
func build() (err error) {
	if binDir, err = os.MkdirTemp("", "paddock-escape-bin-"); err != nil {
		return err
	}
	if err := os.Chmod(binDir, 0o755); err != nil {
		return err
	}
	usual = boxtest.Usual(usualDir())
	if err := goBuild("-o", binDir+"/", "./cmd/paddock", "./cmd/paddock-agent", "./test/escape/attacker"); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	program, err := os.ReadFile(filepath.Join(binDir, "attacker"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(suidProgram(), program, 0o755); err != nil {
		return err
	}
	return os.Chmod(suidProgram(), 0o755|os.ModeSetuid)
}

// goBuild builds programs of this module.
func goBuild(args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-buildvcs=false", usual}, args...)...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the programs: %w\n%s", err, out)
	}
	return nil
}

// buildServer builds paddock-server, once, for tests that need it.
var buildServer = sync.OnceValue(func() error {
	return goBuild("-o", binDir+"/", "./cmd/paddock-server")
})

// buildKeeper builds what persistent sandboxes need, once, for tests that have some.
var buildKeeper = sync.OnceValue(func() error {
	return goBuild("-o", binDir+"/", "./cmd/paddock-keeper")
})

// usual is the flag that makes usualDir the place of state of programs.
var usual string

// usualDir holds what starts keep in the usual place of state.
func usualDir() string { return binDir + "-usual" }

// suidProgram is the attacker with root's identity for everybody. Only root
// can make it.
func suidProgram() string { return filepath.Join(binDir, "set-id-attacker") }

func requireWalls(t *testing.T, level string) {
	t.Helper()
	if level == policy.LevelLandlock {
		if abi := confine.LandlockABI(); abi < confine.LandlockScopesABI {
			t.Skipf("the kernel's Landlock ABI is %d", abi)
		}
		return
	}
	boxtest.RequireWalls(t)
}

// who runs the tests.
func who() string {
	if os.Geteuid() == 0 {
		return asRoot
	}
	return asUser
}

// onLevels runs a test at each level.
func onLevels(t *testing.T, test func(t *testing.T, c column)) {
	t.Helper()
	for _, level := range []string{policy.LevelFull, policy.LevelLandlock} {
		t.Run(level, func(t *testing.T) {
			requireWalls(t, level)
			test(t, column{who(), level})
		})
	}
}

// TestAsOrdinaryUser fills the grid's columns of an ordinary user where root
// runs the tests.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can become another user")
	}
	requireWalls(t, policy.LevelFull)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := hostDir(t)
	program, cells := filepath.Join(dir, "escape.test"), filepath.Join(dir, "tmp", "cells")
	testkit.Write(t, program, string(self), 0o755)
	mkdir(t, filepath.Dir(cells), 0o755)
	if err := os.Chown(filepath.Dir(cells), ordinaryID, ordinaryID); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestGrid", "-test.timeout=4m")
	cmd.Dir = filepath.Dir(cells)
	cmd.Env = append(os.Environ(), binEnv+"="+binDir, cellsEnv+"="+cells, "TMPDIR="+cmd.Dir, "HOME="+cmd.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(cells)
	if err == nil {
		err = merge(text)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
