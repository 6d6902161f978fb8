package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock/wire"
)

// ordinary starts an agent that may make no namespaces: as an ordinary user.
func ordinary(t *testing.T, args ...string) *bareAgent {
	t.Helper()
	return ordinaryCommand(t, nil, args...)
}

// ordinaryCommand is ordinary, with a change of the command that starts it.
func ordinaryCommand(t *testing.T, change func(cmd *exec.Cmd, dir string), args ...string) *bareAgent {
	t.Helper()
	return bareCommand(t, func(cmd *exec.Cmd, dir string) {
		if change != nil {
			change(cmd, dir)
		}
		if os.Geteuid() != 0 {
			return
		}
		const uid = 1000
		for _, err := range []error{
			os.Chown(dir, uid, uid), os.Chmod(filepath.Dir(agentPath), 0o755), os.Chmod(helperDir, 0o755),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}, args...)
}

// eachKind runs a test with each means of knowing trees that can be had here.
func eachKind(t *testing.T, test func(t *testing.T, b *bareAgent)) {
	kinds := map[string]func(*testing.T, ...string) *bareAgent{wire.KillDescendants: ordinary}
	if os.Geteuid() == 0 {
		kinds[wire.KillMark] = bare
	}
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := start(t)
			if got := b.ask(t, map[string]any{"action": "hello"})["kill"]; got != kind && os.Geteuid() == 0 {
				t.Fatalf("trees are known by %v, want %s", got, kind)
			}
			test(t, b)
		})
	}
}

// sh runs a script with $0 the helper and $1 a mark, and gives the result.
func (b *bareAgent) sh(t *testing.T, script, mark string, more map[string]any) map[string]any {
	t.Helper()
	q := map[string]any{"argv": []string{"/bin/sh", "-c", script, helperDir + "/helper", mark}}
	for k, v := range more {
		q[k] = v
	}
	return b.ask(t, q)
}

// Whatever a command does to leave its tree, its end and its timeout end all
// of it, with proof.
func TestTreesWithoutWalls(t *testing.T) {
	tests := map[string]struct {
		script    string
		root      bool // only where namespaces may be made
		survivors float64
	}{
		"nothing left":        {`true`, false, 0},
		"in the background":   {`"$0" wait "$1" & true`, false, 1},
		"in another session":  {`setsid "$0" wait "$1" & true`, false, 1},
		"an orphan":           {`(setsid "$0" wait "$1" &)`, false, 1},
		"an orphan's orphan":  {`(setsid sh -c '(setsid "$0" wait "$1" &)' "$0" "$1" &)`, false, -1},
		"a hidden orphan":     {`(env -i setsid "$0" wait "$1" &)`, false, 1},
		"a hidden pair":       {`(env -i setsid sh -c '"$0" wait "$1" & "$0" wait "$1"' "$0" "$1" &)`, false, -1},
		"without its mark":    {`(env -i unshare --uts setsid setsid "$0" wait "$1" &)`, true, -1},
		"in a pid namespace":  {`(unshare --pid --fork --kill-child setsid "$0" wait "$1" &)`, true, -1},
		"a stopped orphan":    {`(setsid sh -c 'kill -STOP $$; true' "$1" &)`, false, -1},
		"deaf to termination": {`(setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' "$1" &)`, false, -1},
	}
	eachKind(t, func(t *testing.T, b *bareAgent) {
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				if tt.root && os.Geteuid() != 0 {
					t.Skip("only root may make namespaces everywhere")
				}
				for what, q := range map[string]struct {
					tail string
					more map[string]any
				}{
					"its end":     {``, nil},
					"its timeout": {`; "$0" wait "$1"`, map[string]any{"timeout_seconds": 0.15}},
				} {
					mark := newMark()
					res := b.sh(t, tt.script+q.tail, mark, q.more)
					if found := carrying(mark); len(found) > 0 {
						t.Errorf("after %s: processes %v are left", what, found)
					}
					if res["death_proved"] != true {
						t.Errorf("after %s: %v", what, res)
					}
					if what == "its end" && tt.survivors >= 0 && res["survivors"] != tt.survivors {
						t.Errorf("after %s: survivors %v, want %v", what, res["survivors"], tt.survivors)
					}
				}
			})
		}
	})
}

// The end of one tree is not the end of another, also where orphans of both
// are the agent's children.
func TestTreesKeepApart(t *testing.T) {
	eachKind(t, func(t *testing.T, b *bareAgent) {
		const orphan = `(setsid "$0" wait "$1" &); echo "$1" >&2`
		kept, detached, gone := newMark(), newMark(), newMark()
		done := make(chan map[string]any)
		go func() {
			done <- b.sh(t, orphan+`; "$0" wait "$1"`, kept, nil)
		}()
		eventually(t, "one command and its orphan run", func() bool { return len(carrying(kept)) == 2 || len(carrying(kept)) == 3 })
		if res := b.sh(t, orphan, detached, map[string]any{"detach": true}); res["survivors"] != 1.0 || res["death_proved"] != false {
			t.Errorf("a detached orphan: %v", res)
		}
		if res := b.sh(t, orphan, gone, nil); res["survivors_killed"] != 1.0 || res["death_proved"] != true {
			t.Errorf("an orphan among others: %v", res)
		}
		if len(carrying(gone)) > 0 || len(carrying(detached)) != 1 || len(carrying(kept)) < 2 {
			t.Errorf("left are %v, %v and %v", carrying(gone), carrying(detached), carrying(kept))
		}
		res := b.ask(t, map[string]any{"action": "kill", "id": b.runs(t)[0]["id"]})
		if n, _ := res["killed"].(float64); n < 2 || res["death_proved"] != true {
			t.Errorf("kill: %v", res)
		}
		if res := <-done; res["exit_code"] != -9.0 || res["death_proved"] != true {
			t.Errorf("the killed: %v", res)
		}
		if len(carrying(kept)) > 0 || len(carrying(detached)) != 1 {
			t.Errorf("left are %v and %v", carrying(detached), carrying(kept))
		}
		if res := b.sh(t, "true", "", nil); res["death_proved"] != true {
			t.Errorf("a later command: %v", res)
		}
		if res := b.ask(t, map[string]any{"action": "shutdown"}); res["death_proved"] != true || len(carrying(detached)) > 0 {
			t.Errorf("after the end %v are left, and the answer is %v", carrying(detached), res)
		}
	})
}

// A process that says it is of another tree is of its own all the same.
func TestForgedTrees(t *testing.T) {
	const orphan = ` setsid sh -c '"$0" wait "$1" & true' "$0" "$1" &); sleep 0.1`
	forgeries := map[string]struct {
		script string
		root   bool
	}{
		"its environment":       {`V=$(tr '\0' '\n' </proc/$OTHER/environ | grep ^PADDOCK); (env -i $V` + orphan, false},
		"no environment":        {`(env -i` + orphan, false},
		"no session":            {`(env -i setsid` + orphan, false},
		"its namespace":         {`(env -i nsenter -t $OTHER -u` + orphan, true},
		"the agent's namespace": {`(env -i nsenter -t $PPID -u` + orphan, true},
		"no namespace":          {`(env -i unshare -u` + orphan, true},
	}
	eachKind(t, func(t *testing.T, b *bareAgent) {
		if res := b.ask(t, map[string]any{"action": "open_shell", "shell_id": "other"}); res["error"] != nil {
			t.Fatal(res)
		}
		other := b.runs(t)[0]["pid"]
		for name, tt := range forgeries {
			t.Run(name, func(t *testing.T) {
				if tt.root && os.Geteuid() != 0 {
					t.Skip("only root may make namespaces everywhere")
				}
				if tt.root && b.ask(t, map[string]any{"action": "hello"})["kill"] == wire.KillDescendants {
					return // an ordinary user's agent
				}
				mark := newMark()
				res := b.sh(t, tt.script, mark, map[string]any{"env": map[string]any{"OTHER": other}})
				if left := carrying(mark); len(left) > 0 || res["death_proved"] != true || res["survivors_killed"] == 0.0 {
					t.Errorf("processes %v are left, and the result is %v", left, res)
				}
			})
		}
	})
}

// Where an orphan hides from every look and two trees could have made it,
// none of them is said to be dead.
func TestUnknownOrphanIsNoProof(t *testing.T) {
	b := ordinary(t)
	long, mark := newMark(), ""
	go b.sh(t, `"$0" wait "$1"`, long, nil)
	eventually(t, "another command runs", func() bool { return len(carrying(long)) > 0 })
	eventually(t, "an orphan has shed all marks in time", func() bool {
		mark = newMark()
		res := b.sh(t, `("$0" shed /usr/bin/env -i setsid sh -c 'env -i setsid "$0" wait "$1" & true' "$0" "$1" &); sleep 0.2`, mark, nil)
		left := carrying(mark)
		if (len(left) > 0) != (res["death_proved"] == false) {
			t.Errorf("of an orphan %v are left, and the result is %v", left, res)
		}
		return len(left) > 0
	})
	if res := b.sh(t, "true", "", nil); res["death_proved"] != true {
		t.Errorf("a later command: %v", res)
	}
	_ = b.ask(t, map[string]any{"action": "shutdown"})
	if len(carrying(mark)) > 0 {
		t.Error("it outlives the agent")
	}
}

// runs lists what usage says runs.
func (b *bareAgent) runs(t *testing.T) (trees []map[string]any) {
	t.Helper()
	list, _ := b.ask(t, map[string]any{"action": "usage"})["trees"].([]any)
	for _, tree := range list {
		trees = append(trees, tree.(map[string]any))
	}
	return trees
}

// An agent that is killed takes its commands with it.
func TestCommandsDieWithTheAgent(t *testing.T) {
	eachKind(t, func(t *testing.T, b *bareAgent) {
		mark := newMark()
		conn := b.dial(t)
		if err := wire.WriteLine(conn, map[string]any{"argv": []string{helperDir + "/helper", "wait", mark}}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the command runs", func() bool { return len(carrying(mark)) > 0 })
		_ = syscall.Kill(b.pid, syscall.SIGKILL)
		eventually(t, "it is dead", func() bool { return len(carrying(mark)) == 0 })
	})
}

// Commands get nothing of the agent's own environment, descriptors and signal
// dispositions.
func TestBareCommandsStartClean(t *testing.T) {
	t.Setenv("OF_THE_AGENT", "x")
	b := bare(t, "--env", "EXTRA=a=b")
	env, _ := b.ask(t, map[string]any{"argv": []string{"env"}})["stdout"].(string)
	if strings.Contains(env, "OF_THE_AGENT") || !strings.Contains(env, "\nEXTRA=a=b\n") && !strings.HasPrefix(env, "EXTRA=a=b\n") {
		t.Errorf("environment:\n%s", env)
	}
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG"} {
		if !strings.Contains("\n"+env, "\n"+name+"=") {
			t.Errorf("no %s in\n%s", name, env)
		}
	}
	out, _ := b.ask(t, map[string]any{"argv": []string{"sh", "-c", "readlink /proc/self/fd/0; ls /proc/$$/fd; pwd; exec cat /proc/self/status"}})["stdout"].(string)
	if !strings.HasPrefix(out, "/dev/null\n0\n1\n2\n"+b.workspace+"\n") {
		t.Errorf("it starts with %q", out)
	}
	for _, set := range []string{"SigIgn", "SigBlk"} {
		if status(out, set) != "0000000000000000" {
			t.Errorf("%s: %s", set, status(out, set))
		}
	}
}

// Children that the agent's process had before it was the agent's are left
// alone, at its end as well.
func TestOthersChildrenAreLeftAlone(t *testing.T) {
	mark := newMark()
	b := bareCommand(t, func(cmd *exec.Cmd, _ string) {
		argv := append([]string{"sh", "-c", `"$0" wait "$1" >/dev/null 2>&1 & shift; exec "$@"`, helperDir + "/helper", mark}, cmd.Args...)
		cmd.Path, cmd.Args = "/bin/sh", argv
	})
	t.Cleanup(func() {
		for _, pid := range carrying(mark) {
			if n, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
	})
	if res := b.sh(t, `(setsid "$0" wait "$1" &)`, newMark(), nil); res["survivors_killed"] != 1.0 || res["death_proved"] != true {
		t.Errorf("a command: %v", res)
	}
	if res := b.ask(t, map[string]any{"action": "shutdown"}); res["death_proved"] != true || res["killed"] != 0.0 {
		t.Errorf("shutdown: %v", res)
	}
	<-b.exited
	if len(carrying(mark)) != 1 {
		t.Errorf("of somebody else's child are left %v", carrying(mark))
	}
}
