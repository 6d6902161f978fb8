package script

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// interruptedOnce runs paddock, interrupts it once it watches signals, and returns its status and
// what it said.
func interruptedOnce(t *testing.T, state string, args ...string) (status int, said string) {
	t.Helper()
	for wait := 50 * time.Millisecond; ; wait = wait * 3 / 2 {
		var errOut bytes.Buffer
		cmd := inState(t, state, args...)
		cmd.Stderr = &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(wait)
		_ = cmd.Process.Signal(syscall.SIGINT)
		status := waitStatus(t, cmd)
		if how, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); how.Signaled() && wait < patience/4 {
			continue // signals were not watched yet
		}
		return status, errOut.String()
	}
}

// Ctrl-c ends in order what runs no command: it says what became of it, and has an end in the audit
// log.
func TestInterrupted(t *testing.T) {
	boxtest.RequireWalls(t)
	state, ws := t.TempDir(), t.TempDir()
	_, keeper := keptIn(t, state, ws, "--workspace-mode", "overlay")
	outputOf(t, inState(t, state, "exec", "c", "--", "sh", "-c", "seq -f f%.0f 20000 | xargs touch"))

	if err := syscall.Kill(keeper, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	status, said := interruptedOnce(t, state, "stop", "c")
	if err := syscall.Kill(keeper, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if status != 130 || !strings.Contains(said, "paddock: interrupted by SIGINT\n") {
		t.Errorf("stop: status %d, %q", status, said)
	}
	testkit.Eventually(t, "it is stopped", func() bool { return inState(t, state, "stop", "c").Run() == nil })

	status, said = interruptedOnce(t, state, "commit", "c")
	if names, _ := os.ReadDir(ws); status != 130 || !strings.HasSuffix(said, "paddock: interrupted by SIGINT: nothing has landed\n") || len(names) > 0 {
		t.Errorf("commit: status %d, %q, and %d files", status, said, len(names))
	}
	status, said = interruptedOnce(t, state, "diff", "c")
	if status != 130 || !strings.HasSuffix(said, "paddock: interrupted by SIGINT\n") {
		t.Errorf("diff: status %d, %q", status, said)
	}
}
