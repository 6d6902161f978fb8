package paddock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// openWalled opens a real sandbox with a workspace of its own.
func openWalled(t *testing.T, spec Spec) *Sandbox {
	t.Helper()
	requireWalls(t)
	spec.Workspace.Source = t.TempDir()
	s, err := Open(t.Context(), spec, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestWalledIsolationIsVerified(t *testing.T) {
	s := openWalled(t, Spec{})
	if iso := s.Isolation(); !iso.Verified || iso.Network != "none" || iso.UIDHost == 0 || !iso.NoNewPrivs {
		t.Errorf("isolation is %+v", iso)
	}
}

func TestWalledCommandsRunAtTheSameTime(t *testing.T) {
	s := openWalled(t, Spec{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			out, err := s.Command(t.Context(), "sh", "-c", "cat; echo $0", fmt.Sprint(i)).Output()
			if want := fmt.Sprintln(i); err != nil || string(out) != want {
				t.Errorf("command %d said %q, %v", i, out, err)
			}
		})
	}
	wg.Wait()
}

func TestWalledEnvIsWhole(t *testing.T) {
	s := openWalled(t, Spec{Env: map[string]string{"FROM": "spec"}})
	out, err := s.Command(t.Context(), "sh", "-c", "echo $FROM $HOME").Output()
	if err != nil || string(out) != "spec /home/agent\n" {
		t.Errorf("without Env: %q, %v", out, err)
	}
	cmd := s.Command(t.Context(), "/usr/bin/env")
	cmd.Env = []string{"ONE=1"}
	if out, err := cmd.Output(); err != nil || string(out) != "ONE=1\n" {
		t.Errorf("with Env: %q, %v", out, err)
	}
}

func TestWalledStartErrors(t *testing.T) {
	s := openWalled(t, Spec{})
	tests := []struct {
		name string
		cmd  *Cmd
		is   error
	}{
		{"not found", s.Command(t.Context(), "no-such-command"), ErrNotFound},
		{"not found by path", s.Command(t.Context(), "./no-such-command"), ErrNotFound},
		{"a directory", s.Command(t.Context(), "/usr"), ErrNotExecutable},
	}
	for _, tt := range tests {
		if err := tt.cmd.Run(); !errors.Is(err, tt.is) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	cmd := s.Command(t.Context(), "true")
	cmd.Dir = "/nowhere"
	if err := cmd.Run(); err == nil || !strings.HasPrefix(err.Error(), "cannot ") {
		t.Errorf("a directory that does not exist: %v", err)
	}
	many := make([]string, 32)
	for i := range many {
		many[i] = strings.Repeat("a", 100_000)
	}
	if err := s.Command(t.Context(), "true", many...).Run(); err == nil || !strings.Contains(err.Error(), "larger than the kernel allows") {
		t.Errorf("three megabytes of arguments: %v", err)
	}
	if err := s.Command(t.Context(), "true").Run(); err != nil {
		t.Errorf("after these errors: %v", err)
	}
}

func TestWalledTimeoutKillsTheTree(t *testing.T) {
	s := openWalled(t, Spec{Limits: Limits{Timeout: Duration(200 * time.Millisecond)}})
	cmd := s.Command(t.Context(), "sh", "-c", "(setsid sleep 1000 &); echo before; sleep 1000")
	out, err := cmd.Output()
	if !errors.Is(err, ErrTimeout) || string(out) != "before\n" {
		t.Errorf("Output() = %q, %v", out, err)
	}
	if r := cmd.Result(); r == nil || !r.DeathProved || r.SurvivorsKilled == 0 {
		t.Errorf("Result() = %+v", r)
	}
	expectAlone(t, s)
}

func TestWalledCancelKillsTheTree(t *testing.T) {
	s := openWalled(t, Spec{})
	ctx, cancel := context.WithCancel(t.Context())
	cmd := s.Command(ctx, "sh", "-c", "(setsid sleep 1000 &); echo up; sleep 1000")
	cmd.Stdout = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	if err := cmd.Run(); !errors.Is(err, context.Canceled) || !cmd.Result().DeathProved {
		t.Errorf("Run() = %v, %+v", err, cmd.Result())
	}
	expectAlone(t, s)
}

// expectAlone looks for processes besides init and the command that looks. What is
// dead, and was not reaped yet, does not count.
func expectAlone(t *testing.T, s *Sandbox) {
	t.Helper()
	cmd := s.Command(t.Context(), "sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null; true")
	cmd.Timeout = 0 // the sandbox's own may be short
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "(sleep) ") && !strings.Contains(line, "(sleep) Z") {
			t.Errorf("processes are left:\n%s", out)
		}
	}
}

func TestWalledDetachLeavesProcessesAlone(t *testing.T) {
	s := openWalled(t, Spec{})
	cmd := s.Command(t.Context(), "sh", "-c", "sleep 1000 & echo $! > pid")
	cmd.Detach = true
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := s.Command(t.Context(), "sh", "-c", "kill -0 $(cat pid)").Run(); err != nil {
		t.Errorf("the detached process is gone: %v", err)
	}
}

func TestWalledSandboxSurvivesItsCommands(t *testing.T) {
	s := openWalled(t, Spec{})
	for _, attack := range []string{"kill -9 1; true", "kill -9 -1"} {
		_ = s.Command(t.Context(), "sh", "-c", attack).Run() // however it ends
		if err := s.Command(t.Context(), "true").Run(); err != nil {
			t.Errorf("after %q: %v", attack, err)
		}
	}
}

func TestWalledTerminal(t *testing.T) {
	s := openWalled(t, Spec{})
	var out bytes.Buffer
	cmd := s.Command(t.Context(), "sh", "-c", "test -t 0 && stty size; read line; stty size; echo $line")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan struct{})
	var once sync.Once
	cmd.TTY = &TTY{Rows: 20, Cols: 70}
	cmd.Stdout = writerFunc(func(p []byte) (int, error) {
		out.Write(p)
		if strings.Contains(out.String(), "20 70\r\n") {
			once.Do(func() { close(first) })
		}
		return len(p), nil
	})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-first
	if err := cmd.Resize(21, 71); err != nil {
		t.Error(err)
	}
	if _, err := io.WriteString(stdin, "typed\n"); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if want := "20 70\r\ntyped\r\n21 71\r\ntyped\r\n"; out.String() != want {
		t.Errorf("the terminal showed %q, want %q", out.String(), want)
	}
}

func TestWalledCloseEndsCommands(t *testing.T) {
	s := openWalled(t, Spec{})
	cmd := s.Command(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait() = %v, want ErrClosed", err)
	}
	if err := s.Command(t.Context(), "true").Run(); !errors.Is(err, ErrClosed) {
		t.Errorf("Run() after Close = %v, want ErrClosed", err)
	}
	<-s.Done()
}
