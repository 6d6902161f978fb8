package script

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// Nobody waits for a startup or a shutdown command that hangs: a signal ends it,
// with all it has started, and the temporary workspace goes.
func TestSignalsEndASessionThatHangs(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, tt := range []struct {
		flag   string
		number syscall.Signal
		status int
	}{
		{"--startup", syscall.SIGINT, 130},
		{"--startup", syscall.SIGTERM, 143},
		{"--shutdown", syscall.SIGINT, 0}, // the last command's
		{"--shutdown", syscall.SIGTERM, 0},
	} {
		t.Run(tt.flag+" "+tt.number.String(), func(t *testing.T) {
			seen := t.TempDir()
			cmd := paddockCommand(t, "session", "--rw", seen+":/mnt/seen", tt.flag, "touch /mnt/seen/begun; sleep 1000", "--command-timeout", "1h", "--startup-timeout", "1h")
			scratch := t.TempDir()
			cmd.Env = append(cmd.Env, "TMPDIR="+scratch)
			input, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stderr = io.Discard
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if tt.flag == "--shutdown" {
				_ = input.Close()
			}
			testkit.AwaitFile(t, filepath.Join(seen, "begun"))
			from := time.Now()
			if err := cmd.Process.Signal(tt.number); err != nil {
				t.Fatal(err)
			}
			if status := waitStatus(t, cmd); status != tt.status || time.Since(from) > time.Minute {
				t.Errorf("exit status %d after %v", status, time.Since(from))
			}
			if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// A program that asks has its answer, whenever it ends the session.
func TestTermAnswersTheRequestThatRuns(t *testing.T) {
	boxtest.RequireWalls(t)
	cmd := paddockCommand(t, "session", "--json", "-w", ".")
	input, output := startPiped(t, cmd)
	if _, err := io.WriteString(input, `{"id":1,"command":"sh -c 'touch begun; exec sleep 1000'"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	testkit.AwaitFile(t, filepath.Join(cmd.Dir, "begun"))
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(output)
	want := `{"id":1,"status":"error","text":"cannot continue: the session is ending","error":"cannot continue: the session is ending"}` + "\n"
	if err != nil || string(said) != want {
		t.Errorf("the answer is %q, %v", said, err)
	}
	if status := waitStatus(t, cmd); status != 143 {
		t.Errorf("exit status %d", status)
	}
}

// An interrupt is for the command that runs, in whichever session.
func TestInterruptReachesTheSessionThatRuns(t *testing.T) {
	boxtest.RequireWalls(t)
	cmd := paddockCommand(t, "session", "--json")
	seen := t.TempDir()
	input, output := startPiped(t, cmd)
	request := `{"op":"session_open","session_id":"other","workspace":"` + seen + `"}` + "\n" +
		`{"session_id":"other","command":"sh -c 'touch begun; exec sleep 1000'"}` + "\n"
	if _, err := io.WriteString(input, request); err != nil {
		t.Fatal(err)
	}
	testkit.AwaitFile(t, filepath.Join(seen, "begun"))
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = input.Close()
	said, err := io.ReadAll(output)
	if err != nil || !strings.Contains(string(said), `"exit_code":130`) || !strings.Contains(string(said), `"interrupted":true`) {
		t.Errorf("the answers are %q, %v", said, err)
	}
	if status := waitStatus(t, cmd); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// startPiped starts a program with a pipe at either end.
func startPiped(t *testing.T, cmd *exec.Cmd) (input io.WriteCloser, output io.ReadCloser) {
	t.Helper()
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if output, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return input, output
}
