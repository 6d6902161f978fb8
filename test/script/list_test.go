package script

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// listing is what paddock list --json says.
type listing struct {
	Sandboxes []struct {
		ID, State, Workspace string
		Running              []struct{ Kind, Name string }
	}
}

// inState is paddock with a directory of state of its own.
func inState(t *testing.T, state string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := paddockCommand(t, args...)
	cmd.Env = append(cmd.Env, "PADDOCK_STATE_DIR="+state)
	return cmd
}

func outputOf(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, &stderr)
	}
	return string(out)
}

func TestListShowsWhatRuns(t *testing.T) {
	boxtest.RequireWalls(t)
	state := t.TempDir()
	if got := outputOf(t, inState(t, state, "list")); got != "no sandbox runs\n" {
		t.Errorf("before anything runs: %q", got)
	}
	cmd := inState(t, state, "run", "--json", "--", "sh", "-c", "touch started; cat; exit 4")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var now listing
	testkit.Eventually(t, "the sandbox is listed, with its command", func() bool {
		if err := json.Unmarshal([]byte(outputOf(t, inState(t, state, "ps", "--json"))), &now); err != nil {
			t.Fatal(err)
		}
		return len(now.Sandboxes) > 0 && len(now.Sandboxes[0].Running) > 0
	})
	one := now.Sandboxes[0]
	if len(now.Sandboxes) != 1 || one.State != "running" || one.Workspace != cmd.Dir || one.Running[0].Kind != "exec" || one.Running[0].Name != "sh" {
		t.Errorf("listed: %+v", now)
	}
	text := outputOf(t, inState(t, state, "list"))
	if !strings.HasPrefix(text, "ID ") || !strings.Contains(text, "\n"+one.ID+" ") || !strings.HasSuffix(text, " "+cmd.Dir+"  sh\n") {
		t.Errorf("listed for people: %q", text)
	}
	if got := outputOf(t, inState(t, state, "exec", "--sandbox", one.ID, "--", "sh", "-c", "until test -e started; do sleep 0.1; done; ls")); got != "started\n" {
		t.Errorf("a command in the sandbox that is listed finds %q", got)
	}
	var begin, ended struct{ Op, Kind, Sandbox string }
	record := func(into any) {
		t.Helper()
		for line := range strings.Lines(outputOf(t, inState(t, state, "audit", "--raw", "--op", "run"))) {
			if err := json.Unmarshal([]byte(line), into); err != nil {
				t.Fatal(err)
			}
		}
	}
	if record(&begin); begin.Kind != "begin" || begin.Sandbox != one.ID {
		t.Errorf("the record of what runs is %+v, want one with sandbox %s", begin, one.ID)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	var result struct{ Sandbox string }
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), &result)
	}
	if err != nil || result.Sandbox != one.ID {
		t.Errorf("the result names sandbox %q (%v), want %s", result.Sandbox, err, one.ID)
	}
	if status := waitStatus(t, cmd); status != 4 {
		t.Errorf("exit status %d", status)
	}
	if record(&ended); ended.Kind != "end" || ended.Sandbox != one.ID {
		t.Errorf("the record of its end is %+v", ended)
	}
	if got := outputOf(t, inState(t, state, "list")); got != "no sandbox runs\n" {
		t.Errorf("afterwards: %q", got)
	}
}
