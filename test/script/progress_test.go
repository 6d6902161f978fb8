package script

import (
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// stalled is paddock that writes an archive to a pipe which nobody reads yet, so that it takes as
// long as the test wants.
type stalled struct {
	session
	archive *os.File
}

// startStalled starts it with standard error on a terminal.
func startStalled(t *testing.T, args ...string) *stalled {
	t.Helper()
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := paddockCommand(t, args...)
	cmd.Env = append(cmd.Env, "TERM=xterm")
	cmd.Stdout, cmd.Stderr = w, tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = tty.Close(), w.Close()
	s := &stalled{session{t: t, cmd: cmd, ptmx: ptmx, grew: make(chan struct{}, 1)}, r}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = ptmx.Close(), r.Close()
	})
	go s.read()
	return s
}

// take takes the first bytes of the archive, once it takes long enough to be worth a line.
func (s *stalled) take(n int64) {
	s.t.Helper()
	if _, err := io.CopyN(io.Discard, s.archive, 1); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(600 * time.Millisecond)
	if _, err := io.CopyN(io.Discard, s.archive, n-1); err != nil {
		s.t.Fatal(err)
	}
}

// drain takes all of it.
func (s *stalled) drain() {
	s.t.Helper()
	s.take(4 << 20)
	if _, err := io.Copy(io.Discard, s.archive); err != nil {
		s.t.Fatal(err)
	}
}

// bigIn creates a sandbox with a file of 16 MiB.
func bigIn(t *testing.T) (name string) {
	t.Helper()
	boxtest.RequireWalls(t)
	name = strings.ToLower(t.Name())
	outputOf(t, paddockCommand(t, "create", name, "--cache", "none"))
	t.Cleanup(func() { _ = paddockCommand(t, "rm", "--force", name).Run() })
	outputOf(t, paddockCommand(t, "exec", name, "--", "truncate", "-s", "16M", "big"))
	return name
}

// How far a copy is, is one line on a terminal, and gone at the end. It is nowhere else.
func TestProgress(t *testing.T) {
	name := bigIn(t)
	for what, args := range map[string][]string{
		`cp: \d+%, `:         {"cp", name + ":big", "-"},
		`workspace export: `: {"workspace", "export", "--sandbox", name, "--format", "tar"},
	} {
		s := startStalled(t, args...)
		s.drain()
		s.exit(0)
		s.expect(`^(\r\x1b\[K` + what + `[^\r\n]* MiB[^\r\n]*)+\r\x1b\[K$`)
	}
	s := startStalled(t, "cp", "--quiet", name+":big", "-")
	s.drain()
	s.exit(0)
	if s.text() != "" {
		t.Errorf("with --quiet the terminal shows %q", s.text())
	}
	var errOut bytes.Buffer
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := paddockCommand(t, "cp", name+":big", "-")
	cmd.Stdout, cmd.Stderr = w, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	(&stalled{session{t: t}, r}).drain()
	if err := cmd.Wait(); err != nil || errOut.Len() > 0 {
		t.Errorf("%v, and a pipe gets %q", err, errOut.String())
	}
}

// An error takes the place of the line: here the sandbox ends in the middle of a copy.
func TestProgressEndsWithAnError(t *testing.T) {
	name := bigIn(t)
	s := startStalled(t, "cp", name+":big", "-")
	s.take(4 << 20)
	s.expect(`cp: \d+%`)
	outputOf(t, paddockCommand(t, "rm", "--force", name))
	_, _ = io.Copy(io.Discard, s.archive)
	s.exit(125)
	s.expect(`\r\x1b\[Kpaddock: cannot copy ` + name + `:big: sandbox ` + name + ` has ended(: [a-z ]+)?; `)
}

// Ctrl-c ends a copy that waits for its archive.
func TestCopyInterrupted(t *testing.T) {
	name := bigIn(t)
	for wait := 200 * time.Millisecond; ; wait *= 4 {
		status, said, early := interruptCopy(t, name, wait)
		if early && wait < patience/4 {
			continue // signals were not watched yet, and it was ended by this one
		}
		if status != 130 || said != "paddock: interrupted by SIGINT: nothing was copied\n" {
			t.Errorf("status %d, %q", status, said)
		}
		return
	}
}

// interruptCopy interrupts a copy that reads its archive, some time later. early means that the
// signal had its default effect.
func interruptCopy(t *testing.T, name string, wait time.Duration) (status int, said string, early bool) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var errOut bytes.Buffer
	cmd := paddockCommand(t, "cp", "-", name+":.")
	cmd.Stdin, cmd.Stderr = r, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	if _, err := w.Write(make([]byte, 1<<20)); err != nil { // more than a pipe takes: it is being read
		t.Fatal(err)
	}
	time.Sleep(wait)
	_ = cmd.Process.Signal(syscall.SIGINT)
	status = waitStatus(t, cmd)
	how, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status, errOut.String(), how.Signaled() && how.Signal() == syscall.SIGINT
}
