package script

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// sessionProcess is `paddock session --json`.
type sessionProcess struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

func startSession(t *testing.T) *sessionProcess {
	t.Helper()
	boxtest.RequireWalls(t)
	cmd := exec.CommandContext(context.Background(), filepath.Join(binDir, "paddock"), "session", "--json")
	cmd.Env = append(os.Environ(), "PADDOCK_STATE_DIR="+stateDir, "TMPDIR="+t.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &sessionProcess{cmd, in, bufio.NewReader(out)}
}

func (s *sessionProcess) say(t *testing.T, request string) {
	t.Helper()
	if _, err := io.WriteString(s.in, request+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (s *sessionProcess) answer(t *testing.T) map[string]any {
	t.Helper()
	line, err := s.lines.ReadBytes('\n')
	var a map[string]any
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return a
}

// awaitMark waits until processes of a command run, or none does.
func awaitMark(t *testing.T, mark string, there bool) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("processes that carry %s: %v", mark, there), func() bool { return len(carrying(mark)) > 0 == there })
}

// However often SIGINT comes, it interrupts the command and not the session.
func TestSessionSignals(t *testing.T) {
	s := startSession(t)
	s.say(t, `{"command": "x=1"}`)
	s.answer(t)
	for range 5 {
		mark := newMark()
		s.say(t, `{"command": "sh -c 'sleep 1000; :' `+mark+`"}`)
		awaitMark(t, mark, true)
		if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if a := s.answer(t); a["interrupted"] != true || a["state_kept"] != true || a["exit_code"] != 130.0 {
			t.Errorf("%v", a)
		}
	}
	s.say(t, `{"command": "echo $x"}`)
	if a := s.answer(t); a["stdout"] != "1\n" {
		t.Errorf("%v", a)
	}
	_ = s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// When the program is killed, nothing of the session goes on.
func TestSessionKilled(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		s := startSession(t)
		mark := newMark()
		s.say(t, `{"command": "setsid sh -c 'sleep 1000; :' `+mark+` & sh -c 'sleep 1000; :' `+mark+`"}`)
		awaitMark(t, mark, true)
		if err := s.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = s.cmd.Wait()
		awaitMark(t, mark, false)
	}
}
