package script

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// keptIn makes a persistent sandbox, named c, and returns the pids of its agent and its keeper.
func keptIn(t *testing.T, state, workspace string, flags ...string) (agent, keeper int) {
	t.Helper()
	outputOf(t, inState(t, state, append([]string{"create", "c", "--cache", "none", "-w", workspace}, flags...)...))
	t.Cleanup(func() { _ = inState(t, state, "rm", "--force", "c").Run() })
	return pidsOf(t, state)
}

// pidsOf returns the pids of the agent and the keeper of the only sandbox.
func pidsOf(t *testing.T, state string) (agent, keeper int) {
	t.Helper()
	files, _ := filepath.Glob(state + "/sandboxes/*/state.json")
	if len(files) != 1 {
		t.Fatalf("records: %q", files)
	}
	text, err := os.ReadFile(files[0])
	var r struct{ PID int }
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(r.PID) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	keeper, err = strconv.Atoi(strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[1])
	if err != nil {
		t.Fatal(err)
	}
	if name, _ := os.ReadFile("/proc/" + strconv.Itoa(keeper) + "/comm"); string(name) != "paddock-keeper\n" {
		t.Fatalf("the parent of the agent is %q", name)
	}
	return r.PID, keeper
}

// alive reports whether a process lives, other than as a zombie.
func isAlive(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// A keeper that was stopped by a signal delays nothing but the end of its sandbox, and that only for a
// while: then the kernel ends both.
func TestKeptStoppedKeeper(t *testing.T) {
	t.Parallel()
	boxtest.RequireWalls(t)
	for _, end := range [][]string{{"stop", "c"}, {"rm", "--force", "c"}} {
		t.Run(end[0], func(t *testing.T) {
			state := t.TempDir()
			agent, keeper := keptIn(t, state, t.TempDir())
			if err := syscall.Kill(keeper, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Kill(keeper, syscall.SIGKILL) })
			for _, args := range [][]string{{"list"}, {"status", "c"}, {"exec", "c", "--", "true"}, {"pause", "c"}, {"resume", "c"}} {
				outputOf(t, inState(t, state, args...))
			}
			if out := outputOf(t, inState(t, state, end...)); !strings.Contains(out, "its keeper was killed; nothing runs in it any more") {
				t.Errorf("the end is told as %q", out)
			}
			testkit.Eventually(t, "agent and keeper have ended", func() bool { return !isAlive(agent) && !isAlive(keeper) })
		})
	}
}

// A keeper or an agent that is killed ends its sandbox: nothing of it runs, lists say why, what
// its commands left is reported, and it starts again.
func TestKeptEndsWithItsProcesses(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, victim := range []string{"keeper", "agent"} {
		t.Run(victim, func(t *testing.T) {
			state, workspace, mark := t.TempDir(), t.TempDir(), newMark()
			agent, keeper := keptIn(t, state, workspace)
			run := inState(t, state, "exec", "c", "--", "sh", "-c", "echo all: > Makefile; sh -c 'sleep 1000; :' "+mark+" & sleep 1000; : "+mark)
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "the commands run", func() bool {
				_, err := os.Stat(workspace + "/Makefile")
				return err == nil && len(carrying(mark)) > 1
			})
			why := "its keeper was killed"
			pid := keeper
			if victim == "agent" {
				pid, why = agent, "its agent ended by itself"
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = run.Wait() // also ends
			testkit.Eventually(t, "all of it has ended", func() bool { return !isAlive(agent) && !isAlive(keeper) && len(carrying(mark)) == 0 })
			testkit.Eventually(t, "lists say why", func() bool {
				l := listKept(t, state)
				return l.state("c") == "stopped" && l.Sandboxes[0].Ended == why
			})
			out, err := inState(t, state, "start", "c").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "made or changed Makefile") {
				t.Errorf("the start after it: %v\n%s", err, out)
			}
			if out := outputOf(t, inState(t, state, "exec", "c", "--", "cat", "Makefile")); out != "all:\n" {
				t.Errorf("a command in it printed %q", out)
			}
		})
	}
}

// No process of Paddock's but the agent and the keeper matters to a persistent sandbox.
func TestKeptNeedsNobodyElse(t *testing.T) {
	boxtest.RequireWalls(t)
	state, workspace, mark := t.TempDir(), t.TempDir(), newMark()
	keptIn(t, state, workspace)
	run := inState(t, state, "exec", "c", "--", "sh", "-c", "sleep 1000; :", mark)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the command runs", func() bool { return len(carrying(mark)) > 1 })
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	testkit.Eventually(t, "the command ends with who asked for it", func() bool { return len(carrying(mark)) == 0 })
	if out := outputOf(t, inState(t, state, "exec", "c", "--", "echo", "still")); out != "still\n" {
		t.Errorf("a command after it printed %q", out)
	}
}

// Several processes act on a sandbox at once: each either does it or says why not, and in the end
// it is in one state.
func TestKeptActedOnAtOnce(t *testing.T) {
	boxtest.RequireWalls(t)
	state, workspace := t.TempDir(), t.TempDir()
	keptIn(t, state, workspace)
	allowed := []string{"it runs", "it was removed meanwhile", "no such sandbox", "it is stopped", "the name is taken", "its keeper did not end it",
		"another process", "has ended", "it is being started", "has started it meanwhile", "cannot reach the agent", "connection ended", "it is paused", "cannot read the agent's answer"}
	for range 4 {
		var wait sync.WaitGroup
		for _, args := range [][]string{{"stop", "c"}, {"start", "c"}, {"stop", "c"}, {"start", "c"}, {"rm", "--force", "c"},
			{"create", "c", "--cache", "none", "-w", workspace}, {"exec", "c", "--", "true"}, {"pause", "c"}, {"resume", "c"}} {
			cmd := inState(t, state, args...)
			wait.Go(func() {
				out, err := cmd.CombinedOutput()
				if err == nil {
					return
				}
				for _, text := range allowed {
					if strings.Contains(string(out), text) {
						return
					}
				}
				t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
			})
		}
		wait.Wait()
	}
	_ = inState(t, state, "create", "c", "--cache", "none", "-w", workspace).Run() // unless it is there
	_ = inState(t, state, "resume", "c").Run()
	_ = inState(t, state, "start", "c").Run()
	if out := outputOf(t, inState(t, state, "exec", "c", "--", "echo", "fine")); out != "fine\n" {
		t.Errorf("a command in the end printed %q", out)
	}
	agent, keeper := pidsOf(t, state)
	outputOf(t, inState(t, state, "rm", "--force", "c"))
	testkit.Eventually(t, "agent and keeper have ended", func() bool { return !isAlive(agent) && !isAlive(keeper) }) // the kernel closes their files first
	if out, err := exec.Command("sh", "-c", "ls "+state+"/sandboxes "+state+"/names").CombinedOutput(); err != nil || strings.Contains(string(out), "pd-") {
		t.Errorf("what is left: %v\n%s", err, out)
	}
}

// Whatever somebody has removed or damaged of a sandbox's state, rm --force ends and removes it.
func TestKeptDamaged(t *testing.T) {
	t.Parallel()
	boxtest.RequireWalls(t)
	for _, tt := range []struct {
		name   string
		damage string // of files in the state directory, by their patterns
		text   string // what the file is then; "": it is removed
		flags  []string
	}{
		{"record removed", "kept/pd-*/record.json", "", nil},
		{"record damaged", "kept/pd-*/record.json", "{", nil},
		{"directory removed", "sandboxes/pd-*", "", nil},
		{"socket removed", "sandboxes/pd-*/keeper.sock", "", nil},
		{"state damaged", "sandboxes/pd-*/state.json", "{", nil},
		{"layer's record damaged", "layers/pd-*/record.json", "{", []string{"--workspace-mode", "overlay"}},
		{"layer removed", "layers/pd-*", "", []string{"--workspace-mode", "overlay"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state, workspace := t.TempDir(), t.TempDir()
			agent, keeper := keptIn(t, state, workspace, tt.flags...)
			outputOf(t, inState(t, state, "exec", "-d", "c", "--", "sleep", "1000"))
			found, _ := filepath.Glob(state + "/" + tt.damage)
			ids, _ := filepath.Glob(state + "/kept/pd-*")
			if len(found) != 1 || len(ids) != 1 {
				t.Fatalf("%q, %q", found, ids)
			}
			err := os.RemoveAll(found[0])
			if tt.text != "" {
				err = os.WriteFile(found[0], []byte(tt.text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if out, err := inState(t, state, "rm", "--force", filepath.Base(ids[0])).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			testkit.Eventually(t, "agent and keeper have ended", func() bool { return !isAlive(agent) && !isAlive(keeper) })
			outputOf(t, inState(t, state, append([]string{"create", "c", "--cache", "none", "-w", workspace}, tt.flags...)...)) // its name is free
			outputOf(t, inState(t, state, "rm", "--force", "c"))
			for _, pattern := range []string{"kept/pd-*", "sandboxes/pd-*", "layers/pd-*", "names/*"} {
				if left, _ := filepath.Glob(state + "/" + pattern); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
			}
		})
	}
}

// After the host has restarted, no process of before is looked at: the sandbox is a stopped one,
// and starts again.
func TestKeptAfterRestart(t *testing.T) {
	boxtest.RequireWalls(t)
	state, workspace := t.TempDir(), t.TempDir()
	keptIn(t, state, workspace)
	outputOf(t, inState(t, state, "stop", "c"))
	files, _ := filepath.Glob(state + "/kept/*/record.json")
	if len(files) != 1 {
		t.Fatalf("records: %q", files)
	}
	text, err := os.ReadFile(files[0])
	var record map[string]any
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	if err != nil {
		t.Fatal(err)
	}
	record["status"], record["boot"] = "running", "00000000-0000-0000-0000-000000000000"
	if text, err = json.Marshal(record); err == nil {
		err = os.WriteFile(files[0], text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if l := listKept(t, state); l.state("c") != "stopped" || l.Sandboxes[0].Ended != "the host was restarted" {
		t.Errorf("listed: %+v", l)
	}
	outputOf(t, inState(t, state, "start", "c"))
	if out := outputOf(t, inState(t, state, "exec", "c", "--", "echo", "again")); out != "again\n" {
		t.Errorf("a command in it printed %q", out)
	}
}
