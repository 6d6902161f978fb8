package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/policy"
)

type fields = map[string]any

// A model begins with exec at once; what it prints, and how it ends, is told.
func TestExec(t *testing.T) {
	env := lasting(t)
	tests := []struct {
		name         string
		in           fields
		status       int
		out, err     string
		first, other string // of the text
	}{
		{"shell text", fields{"command": "echo out; echo err >&2; echo kept > file; exit 3"}, 3, "out\n", "err\n", "exit status 3 after ", "\nout\n[stderr]\nerr\n"},
		{"a list", fields{"argv": []string{"cat", "file", "-"}, "stdin": "in\n"}, 0, "kept\nin\n", "", "exit status 0 after ", "\nkept\nin\n"},
		{"a directory and a variable", fields{"command": `cd ..; pwd; echo "$A"`, "cwd": "/usr/bin", "env": fields{"A": "b c"}}, 0, "/usr\nb c\n", "", "exit status 0", ""},
		{"its time is up", fields{"command": "echo before; sleep 600", "timeout": "3s"}, 124, "before\n", "", "timed out and was ended after ", ""},
		{"a signal", fields{"command": "kill -9 $$"}, 137, "", "", "ended by SIGKILL after ", ""},
		{"control sequences", fields{"command": `printf 'a\033[31mb\033[0m\r\nc\007'`}, 0, "ab\nc", "", "", ""},
		{"something is left behind", fields{"command": "sleep 600 >/dev/null 2>&1 & setsid sleep 600 >/dev/null 2>&1 & echo x"}, 0, "x\n", "", "", "it left processes running, which were ended: 2\n"},
		{"one is left behind", fields{"command": "sleep 600 >/dev/null 2>&1 & echo x"}, 0, "x\n", "", "", "; it left processes running, which were ended: 1\n"},
		{"a denial", fields{"command": "touch /usr/x"}, 1, "", "touch: cannot touch '/usr/x': Read-only file system\n", "", "denied by the sandbox: mount: read-only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := well[exec.ExecAnswer](t, env, "exec", tt.in)
			if out.ExitStatus() != tt.status || out.Stdout != tt.out || out.Stderr != tt.err || out.State != "exited" || !out.DeathProved {
				t.Errorf("%+v", out)
			}
			var b strings.Builder
			if err := out.Tell(&b); err != nil || !strings.HasPrefix(b.String(), tt.first) || !strings.Contains(b.String(), tt.other) {
				t.Errorf("%q, %v", b.String(), err)
			}
			if out.TimedOut && (strings.Contains(b.String(), "left processes") || strings.Contains(b.String(), "denied")) {
				t.Errorf("the end is told twice: %q", b.String())
			}
			read := well[output.OutputReadOutput](t, env, "output_read", fields{"output": out.Exec, "stream": "stderr"})
			if read.Text != tt.err || !read.EOF || !read.Ended {
				t.Errorf("%+v", read)
			}
		})
	}
}

func TestExecIsRefused(t *testing.T) {
	env := lasting(t)
	single := *env
	single.Sandboxes = nil
	tests := []struct {
		env     *op.Env
		op      string
		in      fields
		wantErr string
	}{
		{env, "exec", fields{}, `cannot use command: no command was given`},
		{env, "exec", fields{"command": "true", "argv": []string{"true"}}, "cannot use argv: command is given, too"},
		{env, "exec", fields{"argv": []string{""}}, "cannot use argv[0]: it is empty"},
		{env, "exec", fields{"command": "true", "timeout": "0s"}, `cannot use timeout "0s": it must be above 0`},
		{env, "exec", fields{"command": "true", "background": true, "yield_after": "1s"}, `cannot use yield_after "1s": it must be at least 0, and not be combined with background`},
		{env, "exec", fields{"command": "true", "env": []string{"secret"}}, "cannot use env[0]: it is not NAME=VALUE"},
		{env, "exec", fields{"command": "true", "env": fields{"OK": "1", "B AD": "2"}}, `cannot use env."B AD": a name has 1 to 64 letters, digits and underscores`},
		{env, "exec", fields{"command": "true", "env": []string{"1X=2"}}, "cannot use env.1X: a name has"},
		{env, "exec", fields{"command": "true", "env": fields{"A=B": "c"}}, `cannot use env."A=B": a name has`},
		{env, "exec", fields{"command": "true", "env": fields{"": "x"}}, `cannot use env."": a name has`},
		{env, "exec", fields{"command": "true", "env": fields{"A": "x\x00"}}, "cannot use env.A: the value holds a NUL byte"},
		{env, "exec", fields{"command": "true", "env": fields{strings.Repeat("A", 65): "x"}}, "cannot use env.AAA"},
		{env, "execute", fields{"command": "true", "env": fields{"A=B": "c"}}, `cannot use env."A=B": a name has`},
		{env, "service_start", fields{"name": "x", "command": "true", "env": fields{"B AD": "c"}}, `cannot use env."B AD": a name has`},
		{env, "exec", fields{"command": "a\x00b"}, "NUL byte"},
		{env, "exec", fields{"command": "true", "sandbox": "other"}, `cannot find sandbox "other"`},
		{env, "exec", fields{"argv": []string{"nonesuch"}}, "cannot run nonesuch: not found"},
		{&single, "exec", fields{"command": "true"}, "cannot use sandbox: no sandbox is named"},
		{&single, "exec", fields{"command": "true", "sandbox": "x", "background": true}, "cannot use background: only a server keeps what runs on"},
		{&single, "exec", fields{"command": "true", "sandbox": "x"}, `cannot attach to sandbox "x"`},
		{env, "exec_kill", fields{"exec": "x"}, `cannot find exec "x"`},
		{env, "output_read", fields{"output": "x"}, `cannot find output "x"`},
		{env, "output_read", fields{"output": "x", "cursor": 1, "tail": 1}, `cannot use tail: a cursor is given, too`},
		{env, "output_read", fields{"output": "x", "wait": "11m"}, `cannot use wait "11m0s": it must be from 0s to 10m`},
		{env, "sandbox_create", fields{"name": "a b"}, `cannot use name "a b": a name has`},
		{env, "sandbox_create", fields{"name": "default"}, `cannot use name "default": the default sandbox is made at its first use`},
		{env, "sandbox_delete", fields{"sandbox": "x"}, `cannot find sandbox "x"`},
		{&single, "sandbox_list", nil, "cannot keep a sandbox"},
		{env, "session_open", fields{"sandbox": "default", "network": "none"}, "cannot use sandbox"},
	}
	for _, tt := range tests {
		_, err := try[any](t.Context(), t, tt.env, tt.op, tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
			t.Errorf("%s %v: %v, want %s", tt.op, tt.in, err, tt.wantErr)
		}
	}
}

// follow reads an output to its end, waiting for what comes.
func followed(t *testing.T, env *op.Env, id string) (text string) {
	t.Helper()
	for cursor := int64(0); ; {
		part := well[output.OutputReadOutput](t, env, "output_read", fields{"output": id, "cursor": cursor, "wait": "1m"})
		text += part.Text
		cursor = part.NextCursor
		if part.EOF {
			return text
		}
	}
}

func TestExecInTheBackground(t *testing.T) {
	env := lasting(t)
	out := well[exec.ExecAnswer](t, env, "exec", fields{"command": "echo one; while [ ! -e go ]; do sleep 0.1; done; echo two; exit 4", "background": true})
	if out.State != "running" || out.ExitCode != nil || out.Next == nil {
		t.Fatalf("%+v", out)
	}
	part := well[output.OutputReadOutput](t, env, "output_read", fields{"output": out.Exec, "wait": "1m"})
	if part.Text != "one\n" || part.Ended {
		t.Errorf("%+v", part)
	}
	well[exec.ExecAnswer](t, env, "exec", fields{"command": "touch go"})
	if text := followed(t, env, out.Exec); text != "one\ntwo\n" {
		t.Errorf("%q", text)
	}
	end := well[output.OutputReadOutput](t, env, "output_read", fields{"output": out.Exec, "tail": 1})
	if end.State != "exit status 4" || end.Text != "two\n" {
		t.Errorf("%+v", end)
	}
	killed := well[exec.ExecKillOutput](t, env, "exec_kill", fields{"exec": out.Exec})
	if killed.Killed || killed.State != "exited" || *killed.ExitCode != 4 {
		t.Errorf("one that has ended: %+v", killed)
	}
}

func TestExecKill(t *testing.T) {
	env := lasting(t)
	out := well[exec.ExecAnswer](t, env, "exec", fields{"command": "trap '' TERM INT; setsid sleep 600 & sleep 600 & wait; wait", "yield_after": "0s"})
	if out.State != "running" {
		t.Fatalf("%+v", out)
	}
	sent := well[exec.ExecKillOutput](t, env, "exec_kill", fields{"exec": out.Exec, "signal": "TERM"})
	if sent.State != "running" && sent.Signal != "SIGTERM" { // the shell may not have set its trap yet
		t.Errorf("%+v", sent)
	}
	killed := well[exec.ExecKillOutput](t, env, "exec_kill", fields{"exec": out.Exec})
	if killed.State != "exited" || !killed.DeathProved || killed.ExitCode == nil {
		t.Errorf("%+v", killed)
	}
	status := well[sandbox.SandboxStatusOutput](t, env, "sandbox_status", nil)
	if status.Running != 0 || status.Processes != 0 || len(status.Execs) != 1 || status.Execs[0].State != "exited" {
		t.Errorf("%+v", status)
	}
	var text strings.Builder
	if err := operation(t, "sandbox_status").Render(&text, status); err != nil || !strings.Contains(text.String(), "\n0 commands running, 0 shells") {
		t.Errorf("%v: %s", err, &text)
	}
	if _, err := try[any](t.Context(), t, env, "exec_kill", fields{"exec": out.Exec, "signal": "NONE"}); err == nil {
		t.Error("a signal that there is not was sent")
	}
}

// Who does not wait any more ends what was started, with all its processes.
func TestExecIsCancelled(t *testing.T) {
	env := lasting(t)
	well[exec.ExecAnswer](t, env, "exec", fields{"command": "true"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := try[exec.ExecAnswer](ctx, t, env, "exec", fields{"command": "setsid sleep 600 & touch started; sleep 600"})
		ended <- err
	}()
	testkit.AwaitFile(t, filepath.Join(env.Default.Workspace.Source, "started"))
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	status := well[sandbox.SandboxStatusOutput](t, env, "sandbox_status", nil)
	if status.Processes != 0 || status.Running != 0 {
		t.Errorf("%+v", status)
	}
}

// One principal never sees another's sandboxes, commands and outputs.
func TestPrincipalsAreApart(t *testing.T) {
	ann := lasting(t)
	bob := as(ann, "bob")
	bob.Default = &policy.Spec{Workspace: policy.Workspace{Source: t.TempDir()}}
	well[sandbox.SandboxCreateOutput](t, ann, "sandbox_create", fields{"name": "lab"})
	out := well[exec.ExecAnswer](t, ann, "exec", fields{"sandbox": "lab", "command": "echo secret > /tmp/x; echo secret; sleep 600", "background": true})
	id := well[sandbox.SandboxListOutput](t, ann, "sandbox_list", nil).Sandboxes[0].ID
	for _, tt := range []struct {
		op string
		in fields
	}{
		{"exec", fields{"command": "true", "sandbox": "lab"}},
		{"exec", fields{"command": "true", "sandbox": id}},
		{"exec_kill", fields{"exec": out.Exec}},
		{"output_read", fields{"output": out.Exec}},
		{"sandbox_status", fields{"sandbox": "lab"}},
		{"sandbox_status", fields{"sandbox": id}},
		{"sandbox_delete", fields{"sandbox": "lab"}},
		{"sandbox_delete", fields{"sandbox": id}},
		{"session_open", fields{"sandbox": "lab"}},
	} {
		if _, err := try[any](t.Context(), t, bob, tt.op, tt.in); err == nil || !strings.HasPrefix(err.Error(), "cannot find ") {
			t.Errorf("%s %v: %v", tt.op, tt.in, err)
		}
	}
	if list := well[sandbox.SandboxListOutput](t, bob, "sandbox_list", nil); len(list.Sandboxes) != 0 {
		t.Errorf("%+v", list)
	}
	well[sandbox.SandboxCreateOutput](t, bob, "sandbox_create", fields{"name": "lab"})
	if out := well[exec.ExecAnswer](t, bob, "exec", fields{"sandbox": "lab", "command": "cat /tmp/x"}); out.ExitStatus() != 1 {
		t.Errorf("%+v", out)
	}
	well[sandbox.SandboxDeleteOutput](t, bob, "sandbox_delete", fields{"sandbox": "lab"})
	if status := well[sandbox.SandboxStatusOutput](t, ann, "sandbox_status", fields{"sandbox": "lab"}); status.Running != 1 {
		t.Errorf("%+v", status)
	}
}

// First calls that come together share one default sandbox.
func TestDefaultSandboxIsOpenedOnce(t *testing.T) {
	env := lasting(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			out, err := try[exec.ExecAnswer](t.Context(), t, env, "exec", fields{"command": fmt.Sprintf("echo %d >> /tmp/log; cat /tmp/log | wc -l", i)})
			if err != nil || out.ExitStatus() != 0 {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
	all.Wait()
	if out := well[exec.ExecAnswer](t, env, "exec", fields{"command": "wc -l < /tmp/log"}); strings.TrimSpace(out.Stdout) != "8" {
		t.Errorf("%+v", out)
	}
	if list := well[sandbox.SandboxListOutput](t, env, "sandbox_list", nil); len(list.Sandboxes) != 1 || !list.Sandboxes[0].Default {
		t.Errorf("%+v", list)
	}
}

// What a model is told beside the answers: what holds, once, and that a default
// sandbox which died was made anew. Another sandbox that died says so.
func TestSandboxThatDies(t *testing.T) {
	env := lasting(t)
	var notes []string
	call := func(name, input string) (any, error) {
		return operation(t, name).Call(t.Context(), env, []byte(input), &op.Stream{Note: func(text string) { notes = append(notes, text) }})
	}
	for range 2 {
		if _, err := call("exec", `{"command": "echo x > kept; echo x > /tmp/lost"}`); err != nil {
			t.Fatal(err)
		}
	}
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "sandbox default: linux, level ") {
		t.Errorf("%q", notes)
	}
	running := well[exec.ExecAnswer](t, env, "exec", fields{"command": "sleep 600", "background": true})
	killAgents(t)
	part := well[output.OutputReadOutput](t, env, "output_read", fields{"output": running.Exec, "wait": "1m"})
	if !part.Ended || part.State != "the sandbox has ended" {
		t.Errorf("%+v", part)
	}
	awaitEnd(t, env, "ended")
	notes = nil
	out, err := call("exec", `{"command": "cat kept /tmp/lost"}`)
	if a, _ := out.(exec.ExecAnswer); err != nil || a.Stdout != "x\n" || a.ExitStatus() != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	if len(notes) != 2 || !strings.HasPrefix(notes[0], "the default sandbox had ended by itself and was made anew") {
		t.Errorf("%q", notes)
	}
	well[sandbox.SandboxDeleteOutput](t, env, "sandbox_delete", fields{"sandbox": "default"})
	made := well[sandbox.SandboxCreateOutput](t, env, "sandbox_create", fields{"name": "lab"})
	var agent struct{ PID int }
	if text, err := os.ReadFile(filepath.Join(env.Options.StateDir, "sandboxes", made.ID, "state.json")); err != nil || json.Unmarshal(text, &agent) != nil || agent.PID < 2 {
		t.Fatalf("%s, %v", text, err)
	}
	if err := syscall.Kill(agent.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, env, "stopped")
	_, err = call("exec", `{"command": "true", "sandbox": "lab"}`)
	if !errors.Is(err, paddock.ErrClosed) || err.Error() != "cannot use sandbox lab: it is stopped: its agent ended by itself" || !strings.Contains(op.HintOf(err), "sandbox_delete") {
		t.Errorf("%v (%s)", err, op.HintOf(err))
	}
	if _, err := call("sandbox_delete", `{"sandbox": "lab"}`); err != nil {
		t.Error(err)
	}
}

// awaitEnd waits until the one sandbox is listed as ended.
func awaitEnd(t *testing.T, env *op.Env, state string) {
	t.Helper()
	testkit.Eventually(t, "the sandbox is known to have ended", func() bool {
		return well[sandbox.SandboxListOutput](t, env, "sandbox_list", nil).Sandboxes[0].State == state
	})
}

// killAgents kills the agents that this process has started.
func killAgents(t *testing.T) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, file := range tasks {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has gone
		}
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := os.ReadFile("/proc/" + word + "/comm")
			if strings.HasPrefix(string(name), "paddock-agent") && syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
	}
	if killed == 0 {
		t.Fatal("no agent was found")
	}
}

// Rules of the sandbox are kept.
func TestExecUnderRules(t *testing.T) {
	env := lasting(t)
	env.Default.Commands = &policy.Commands{Allow: []string{"echo", "cat", "sh"}}
	for _, tt := range []struct {
		in      fields
		wantErr string
	}{
		{fields{"command": "echo a | cat"}, ""},
		{fields{"argv": []string{"echo", "a"}}, ""},
		{fields{"command": "echo a; ls"}, "cannot run: "},
		{fields{"command": "echo $(ls)"}, "cannot run: "},
		{fields{"argv": []string{"ls"}}, "cannot run: "},
		{fields{"argv": []string{"/workspace/echo"}}, "cannot run: "},
		{fields{"command": "echo a", "env": fields{"LD_PRELOAD": "/workspace/x"}}, "cannot use env.LD_PRELOAD: "},
		{fields{"command": "cat", "stdin": "x"}, "cannot use stdin: "},
	} {
		out, err := try[exec.ExecAnswer](t.Context(), t, env, "exec", tt.in)
		if tt.wantErr == "" && (err != nil || out.Stdout != "a\n") || tt.wantErr != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.wantErr)) {
			t.Errorf("%v: %+v, %v", tt.in, out, err)
		}
	}
	if _, err := try[any](t.Context(), t, env, "session_open", nil); err == nil || !strings.HasPrefix(err.Error(), "cannot open a session under rules for commands") {
		t.Errorf("a session: %v", err)
	}
}

// BenchmarkExec is a command in a sandbox that runs, from the input to the answer.
func BenchmarkExec(b *testing.B) {
	env := lasting(b)
	env.Budget = 40000
	o := operation(b, "exec")
	for b.Loop() {
		if out, err := o.Call(b.Context(), env, []byte(`{"argv": ["true"]}`), nil); err != nil || out.(op.Statuser).ExitStatus() != 0 {
			b.Fatal(out, err)
		}
	}
}

// What a model is told of an output says how the command ended, and how to read on.
func TestOutputReadIsTold(t *testing.T) {
	env := lasting(t)
	begun := well[exec.ExecAnswer](t, env, "exec", fields{"command": "echo one; exit 3", "background": true})
	out := well[output.OutputReadOutput](t, env, "output_read", fields{"output": begun.Exec, "wait": "1m"})
	for !out.Ended {
		out = well[output.OutputReadOutput](t, env, "output_read", fields{"output": begun.Exec, "wait": "1m"})
	}
	if told := tell(t, out); told != "stdout, bytes 0 to 4 of 4 (ended: exit status 3); the end\none\n" {
		t.Errorf("%q", told)
	}
}
