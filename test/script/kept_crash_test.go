package script

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// keptList is what paddock list --all --json says.
type keptList struct {
	Sandboxes []struct{ ID, Name, State, Ended string }
}

func (l keptList) state(name string) string {
	for _, s := range l.Sandboxes {
		if s.Name == name {
			return s.State
		}
	}
	return ""
}

func listKept(t *testing.T, state string) keptList {
	t.Helper()
	var l keptList
	if err := json.Unmarshal([]byte(outputOf(t, inState(t, state, "list", "--all", "--json"))), &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// killedSoon runs paddock and kills it after a random time, if it has not ended before.
func killedSoon(t *testing.T, state string, most time.Duration, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), filepath.Join(binDir, "paddock"), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PADDOCK_STATE_DIR="+state)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(rand.N(most)) // this is what is tried
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// However early the process that acts on a sandbox is killed, nothing runs that is not listed,
// nothing that is listed is half made, and the next action works.
func TestKeptSurvivesKills(t *testing.T) {
	boxtest.RequireWalls(t)
	state, workspace, mark := t.TempDir(), t.TempDir(), newMark()
	create := []string{"create", "c", "--cache", "none", "-w", workspace, "--workspace-mode", "overlay", "-e", "MARK=" + mark}
	for i := range testkit.Rounds(150, 20) {
		now := ""
		testkit.Eventually(t, "what was begun by a killed process has ended", func() bool {
			now = listKept(t, state).state("c")
			return now != "starting" && now != "ending"
		})
		switch now {
		case "":
			killedSoon(t, state, 60*time.Millisecond, create...)
		case "stopped":
			verb := [][]string{{"start", "c", "-e", "MARK=" + mark}, {"rm", "c"}}[rand.N(2)]
			killedSoon(t, state, 60*time.Millisecond, verb...)
		case "running", "silent":
			out, err := inState(t, state, "exec", "c", "--", "sh", "-c", "echo $MARK").CombinedOutput()
			if err != nil && listKept(t, state).state("c") != "running" {
				continue // the killed process had asked for its end
			}
			if err != nil || strings.TrimSpace(string(out)) != mark {
				t.Fatalf("round %d: a command in it printed %q: %v", i, out, err)
			}
			verb := [][]string{{"stop", "c"}, {"rm", "--force", "c"}, {"pause", "c"}}[rand.N(3)]
			killedSoon(t, state, 30*time.Millisecond, verb...)
		case "paused":
			killedSoon(t, state, 30*time.Millisecond, "resume", "c")
			outputOf(t, inState(t, state, "resume", "c"))
		default:
			t.Fatalf("round %d: the sandbox is %s", i, now)
		}
	}
	if listKept(t, state).state("c") != "" {
		outputOf(t, inState(t, state, "rm", "--force", "c"))
	}
	if l := listKept(t, state); len(l.Sandboxes) > 0 {
		t.Errorf("after it was removed: %+v", l)
	}
	testkit.Eventually(t, "nothing of any is left", func() bool {
		outputOf(t, inState(t, state, "create", "last", "--cache", "none", "-w", workspace)) // it cleans up
		outputOf(t, inState(t, state, "rm", "--force", "last"))
		left, _ := filepath.Glob(state + "/sandboxes/*")
		half, _ := filepath.Glob(state + "/kept/pd-*")
		names, _ := filepath.Glob(state + "/names/*")
		layers, _ := filepath.Glob(state + "/layers/pd-*")
		if len(left)+len(half)+len(names)+len(layers) > 0 {
			t.Log(len(left), len(half), names, layers)
			time.Sleep(time.Second)
		}
		return len(left)+len(half)+len(names)+len(layers) == 0
	})
}
