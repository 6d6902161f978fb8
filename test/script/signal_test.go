package script

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// startRunning runs a script in a sandbox and returns when it has said "ready".
func startRunning(t *testing.T, script string, args ...string) (cmd *exec.Cmd, out *bufio.Reader) {
	t.Helper()
	boxtest.RequireWalls(t)
	cmd = paddockCommand(t, append([]string{"run", "--", "sh", "-c", script}, args...)...)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	out = bufio.NewReader(pipe)
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the command said %q, %v", line, err)
	}
	return cmd, out
}

func TestSignalsAreHandedOn(t *testing.T) {
	for name, number := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
	} {
		t.Run(name, func(t *testing.T) {
			cmd, out := startRunning(t, "trap 'echo got "+name+"; exit 9' "+name+"; echo ready; while :; do sleep 0.1; done")
			if err := cmd.Process.Signal(number); err != nil {
				t.Fatal(err)
			}
			said, err := io.ReadAll(out)
			if err != nil || string(said) != "got "+name+"\n" {
				t.Errorf("the command said %q, %v", said, err)
			}
			if status := waitStatus(t, cmd); status != 9 {
				t.Errorf("exit status %d", status)
			}
		})
	}
}

// A signal is for the command, as without Paddock: what it has started gets none.
func TestSignalsAreForTheCommandAlone(t *testing.T) {
	const script = `sh -c 'trap "echo the helper got it" USR1 HUP TERM; echo ready; while :; do sleep 0.1; done' &
		trap 'echo the command got it; kill -KILL $!; exit 9' USR1 HUP TERM; while :; do sleep 0.1; done`
	for _, number := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGTERM} {
		cmd, out := startRunning(t, script)
		if err := cmd.Process.Signal(number); err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(out)
		if status := waitStatus(t, cmd); err != nil || string(said) != "the command got it\n" || status != 9 {
			t.Errorf("%v: status %d, %q, %v", number, status, said, err)
		}
	}
}

func TestASignalThatEndsTheCommandIsItsStatus(t *testing.T) {
	cmd, _ := startRunning(t, "echo ready; while :; do sleep 0.1; done")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := waitStatus(t, cmd); status != 128+15 {
		t.Errorf("exit status %d", status)
	}
}

// TestASignalEndsTheStart: who waits for a wall that does not answer need not wait for
// its time to be up.
func TestASignalEndsTheStart(t *testing.T) {
	boxtest.RequireWalls(t)
	for name, tt := range map[string]struct {
		number syscall.Signal
		status int
	}{"INT": {syscall.SIGINT, 130}, "TERM": {syscall.SIGTERM, 143}, "HUP": {syscall.SIGHUP, 129}, "QUIT": {syscall.SIGQUIT, 131}} {
		t.Run(name, func(t *testing.T) {
			mark := newMark()
			spec := filepath.Join(t.TempDir(), "silent.yaml")
			if err := os.WriteFile(spec, []byte("backend: wrapper\nwrapper: {command: [sh, -c, 'sleep 1000; : "+mark+"']}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := paddockCommand(t, "run", "--spec", spec, "--", "true")
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			awaitMark(t, mark, true)
			if err := cmd.Process.Signal(tt.number); err != nil {
				t.Fatal(err)
			}
			if status := waitStatus(t, cmd); status != tt.status {
				t.Errorf("exit status %d, want %d", status, tt.status)
			}
			if want := "await the agent behind sh: there was no answer: interrupted by SIG" + name; !strings.Contains(said.String(), want) {
				t.Errorf("it said %q, want %q", &said, want)
			}
			awaitMark(t, mark, false)
		})
	}
}

// signalThrice sends a signal, and waits between until the command that it is handed
// on to has said n times that it came: the kernel may merge two that come close
// together, and a fourth would end the program before its sandbox.
func signalThrice(t *testing.T, cmd *exec.Cmd, number syscall.Signal, said func(n int)) {
	t.Helper()
	for n := range 3 {
		if n > 0 {
			said(n)
		}
		if err := cmd.Process.Signal(number); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheThirdSignalEndsTheSandbox(t *testing.T) {
	for name, tt := range map[string]struct {
		number syscall.Signal
		status int
	}{"INT": {syscall.SIGINT, 130}, "TERM": {syscall.SIGTERM, 143}} {
		t.Run(name, func(t *testing.T) {
			mark := newMark()
			cmd, out := startRunning(t, "trap 'echo got' INT TERM; echo ready; while :; do sleep 0.1; done", mark)
			signalThrice(t, cmd, tt.number, func(int) {
				if line, err := out.ReadString('\n'); line != "got\n" {
					t.Fatalf("the command said %q, %v", line, err)
				}
			})
			if status := waitStatus(t, cmd); status != tt.status {
				t.Errorf("exit status %d, want %d", status, tt.status)
			}
			if pids := carrying(mark); len(pids) > 0 {
				t.Errorf("processes are left: %v", pids)
			}
		})
	}
}

func TestKillOfTheProgramEndsTheSandbox(t *testing.T) {
	mark := newMark()
	cmd, _ := startRunning(t, `(setsid sh -c "sleep 1000; :" "$0" &); echo ready; while :; do sleep 0.1; done`, mark)
	if len(carrying(mark)) == 0 {
		t.Fatal("the command cannot be found while it runs")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	deadline := time.Now().Add(time.Second) // as SPEC promises
	for len(carrying(mark)) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("processes are left after a second: %v", carrying(mark))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestNohupIsKept(t *testing.T) {
	boxtest.RequireWalls(t)
	cmd := paddockCommand(t)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap '' HUP; exec "$0" run -- sh -c 'echo ready; sleep 0.5; echo still here'`, binDir + "/paddock"}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(pipe)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(out)
	if status := waitStatus(t, cmd); status != 0 || !strings.Contains(string(rest), "still here") {
		t.Errorf("exit status %d after %q", status, rest)
	}
}
