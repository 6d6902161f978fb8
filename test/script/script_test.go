// Package script tests the paddock program as people use it: one txtar script
// in testdata for each topic, and Go tests for what needs a terminal or a
// process to signal.
//
// Beside testscript's own commands the scripts have
//
//	exits STATUS PROGRAM [ARG]...
//
// which runs a program, keeps its output for stdout and stderr, and compares
// its exit status. The condition [root] is true for root. The environment has
// MARK, a text that occurs nowhere else on the host.
package script

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// The programs under test, built once, and where they keep state.
var binDir, stateDir string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "paddock-script-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binDir, stateDir = filepath.Join(dir, "bin"), filepath.Join(dir, "state")
	usual := boxtest.Usual(filepath.Join(dir, "usual"))
	build := exec.Command("go", "build", usual, "-o", binDir+"/", "./cmd/paddock", "./cmd/paddock-server", "./cmd/paddock-agent", "./cmd/paddock-egress", "./cmd/paddock-keeper")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build paddock: %v\n%s", err, out)
		return 1
	}
	boxtest.LookForWalls(linux.New())
	if signal.Ignored(syscall.SIGHUP) { // under nohup; what is started here would ignore it, too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	return m.Run()
}

var marks atomic.Int64

// newMark is a text that no other process of the host carries.
func newMark() string {
	return "paddock-mark-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(marks.Add(1), 10)
}

func TestScripts(t *testing.T) {
	boxtest.RequireWalls(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", binDir+":"+os.Getenv("PATH"))
			env.Setenv("PADDOCK_STATE_DIR", stateDir)
			env.Setenv("XDG_STATE_HOME", os.Getenv("XDG_STATE_HOME"))
			env.Setenv("PADDOCK_CACHE_DIR", os.Getenv("PADDOCK_CACHE_DIR"))
			env.Setenv("MARK", newMark())
			env.Setenv("BIN", binDir)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits,
			"alive": cmdAlive,
		},
	})
}

// cmdExits is "exits STATUS PROGRAM [ARG]...".
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("cannot run %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("%s exited with status %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// cmdAlive is "[!] alive TEXT": does any process of the host carry TEXT?
func cmdAlive(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] alive TEXT")
	}
	pids := carrying(args[0])
	if neg == (len(pids) > 0) {
		ts.Fatalf("processes that carry %q: %v", args[0], pids)
	}
}

// carrying lists the processes of the host with text in their command line.
func carrying(text string) []string {
	var pids []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file) // a process may be gone by now
		if err == nil && strings.Contains(string(line), text) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
