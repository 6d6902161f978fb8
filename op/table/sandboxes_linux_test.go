package table

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/op/internal/session"
	"github.com/paddock-dev/paddock/policy"
)

// A sandbox is what it was asked to be, until it is deleted.
func TestSandboxCreate(t *testing.T) {
	env := lasting(t)
	own := t.TempDir()
	for _, tt := range []struct {
		name string
		in   fields
		want func(sandbox.SandboxCreateOutput) bool
	}{
		{"the default one's workspace", fields{}, func(o sandbox.SandboxCreateOutput) bool {
			return string(o.Source) == env.Default.Workspace.Source && !o.Temporary
		}},
		{"a name and limits", fields{"name": "lab.1", "open_files": 99, "timeout": "5s"}, func(o sandbox.SandboxCreateOutput) bool {
			return o.Name == "lab.1" && o.Limits.OpenFiles == 99 && o.Limits.Timeout == policy.Duration(5e9)
		}},
		{"another workspace", fields{"workspace": own}, func(o sandbox.SandboxCreateOutput) bool { return string(o.Source) == own }},
	} {
		out := well[sandbox.SandboxCreateOutput](t, env, "sandbox_create", tt.in)
		if !tt.want(out) || out.Name == "" || out.ID == "" || out.Workspace != "/workspace" || out.Isolation.Level == "" || out.State != "running" {
			t.Errorf("%s: %+v", tt.name, out)
		}
	}
	if out := well[exec.ExecAnswer](t, env, "exec", fields{"sandbox": "lab.1", "command": "ulimit -n"}); out.Stdout != "99\n" {
		t.Errorf("%+v", out)
	}
	if _, err := try[any](t.Context(), t, env, "sandbox_create", fields{"name": "lab.1"}); err == nil || !strings.Contains(err.Error(), "the name is taken") {
		t.Error(err)
	}
	if _, err := try[any](t.Context(), t, env, "sandbox_create", fields{"name": "x", "workspace": "/nonesuch"}); err == nil {
		t.Error("a sandbox has a workspace that there is not")
	}
	if n := len(well[sandbox.SandboxListOutput](t, env, "sandbox_list", nil).Sandboxes); n != 3 {
		t.Errorf("%d are listed", n)
	}
	under := *env
	under.Ceiling = &policy.Ceiling{Workspace: []policy.Place{{Source: env.Default.Workspace.Source, Mode: "rw"}}}
	if _, err := try[any](t.Context(), t, &under, "sandbox_create", fields{"workspace": own}); err == nil {
		t.Error("a ceiling is passed")
	}
	if out := well[sandbox.SandboxCreateOutput](t, &under, "sandbox_create", nil); out.Source != "" {
		t.Errorf("the host's path is told: %+v", out)
	}
}

// Without a default sandbox a workspace is made, which ends with its sandbox.
func TestSandboxWithAWorkspaceOfItsOwn(t *testing.T) {
	env := lasting(t)
	env.Default = nil
	out := well[sandbox.SandboxCreateOutput](t, env, "sandbox_create", nil)
	well[exec.ExecAnswer](t, env, "exec", fields{"sandbox": out.ID, "command": "echo x > file; sleep 600 & echo x", "background": true})
	if _, err := os.Stat(string(out.Source)); err != nil || !out.Temporary {
		t.Errorf("%+v, %v", out, err)
	}
	under := *env
	under.Ceiling = &policy.Ceiling{}
	well[sandbox.SandboxCreateOutput](t, &under, "sandbox_create", fields{"name": "below"}) // no other workspace could be asked for
	gone := well[sandbox.SandboxDeleteOutput](t, env, "sandbox_delete", fields{"sandbox": out.Name})
	if _, err := os.Stat(string(out.Source)); err == nil || !gone.DeathProved {
		t.Errorf("%+v: its workspace is still there", gone)
	}
	if _, err := try[any](t.Context(), t, env, "sandbox_status", fields{"sandbox": out.Name}); err == nil {
		t.Error("it is still there")
	}
}

// A workspace that was made for a sandbox lives as long as that, whatever becomes of servers.
func TestScratchOutlivesServers(t *testing.T) {
	env := lasting(t)
	env.Default = nil
	env.Ceiling = &policy.Ceiling{}
	made := well[sandbox.SandboxCreateOutput](t, env, "sandbox_create", fields{"name": "lab"})
	well[exec.ExecAnswer](t, env, "exec", fields{"sandbox": "lab", "command": "echo x > file"})
	if err := env.Sandboxes.Close(); err != nil {
		t.Fatal(err)
	}
	env.Sandboxes = &registry.Sandboxes{}
	if out := well[exec.ExecAnswer](t, env, "exec", fields{"sandbox": "lab", "command": "cat file"}); out.Stdout != "x\n" {
		t.Errorf("%+v", out)
	}
	place := filepath.Join(env.Options.StateDir, "kept", made.ID)
	if _, err := os.Stat(filepath.Join(place, "scratch", "file")); err != nil || !made.Temporary {
		t.Errorf("%+v, %v", made, err)
	}
	// Nobody else may have it as a workspace: it is Paddock's own state.
	if _, err := try[any](t.Context(), t, as(&op.Env{Options: env.Options, Sandboxes: &registry.Sandboxes{}}, "bob"), "sandbox_create", fields{"workspace": filepath.Join(place, "scratch")}); err == nil || !strings.Contains(err.Error(), "Paddock's own state") {
		t.Errorf("another principal: %v", err)
	}
	well[exec.ExecAnswer](t, env, "exec", fields{"sandbox": "lab", "command": "mkdir -m 0 closed"})
	well[sandbox.SandboxDeleteOutput](t, env, "sandbox_delete", fields{"sandbox": "lab"})
	if _, err := os.Stat(place); err == nil {
		t.Error("its workspace is still there")
	}
}

// A deleted sandbox takes its commands, outputs and sessions along; the default
// one is made anew.
func TestSandboxDelete(t *testing.T) {
	env := lasting(t)
	x := well[exec.ExecAnswer](t, env, "exec", fields{"command": "mkdir -p .git/hooks; echo x > .git/hooks/post-checkout; exec sleep 600", "background": true})
	well[session.SessionOpenOutput](t, env, "session_open", fields{"session_id": "s"})
	testkit.AwaitFile(t, filepath.Join(env.Default.Workspace.Source, ".git", "hooks", "post-checkout"))
	waiting := make(chan error)
	go func() {
		_, err := try[exec.ExecAnswer](t.Context(), t, env, "exec", fields{"command": "touch waiting; sleep 600"})
		waiting <- err
	}()
	testkit.AwaitFile(t, filepath.Join(env.Default.Workspace.Source, "waiting"))
	out := well[sandbox.SandboxDeleteOutput](t, env, "sandbox_delete", fields{"sandbox": "default"})
	if !out.DeathProved || len(out.Planted) == 0 || !strings.Contains(out.Note, "created again") {
		t.Errorf("%+v", out)
	}
	if err := <-waiting; err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("who waited: %v", err)
	}
	if _, err := try[any](t.Context(), t, env, "output_read", fields{"output": x.Exec}); err == nil {
		t.Error("its output is still there")
	}
	if list := well[session.SessionListOutput](t, env, "session_list", nil); len(list.Sessions) != 0 {
		t.Errorf("%+v", list)
	}
	if out := well[exec.ExecAnswer](t, env, "exec", fields{"command": "echo again"}); out.Stdout != "again\n" {
		t.Errorf("%+v", out)
	}
}

// Nobody keeps too many sandboxes, and a closed door keeps none.
func TestSandboxesAreBounded(t *testing.T) {
	s := &registry.Sandboxes{}
	for range 16 {
		if _, err := s.Create("ann", "", false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Create("ann", "", false); err == nil {
		t.Error("ann has one too many")
	}
	if _, mine, err := s.Claim("bob", registry.DefaultName); err != nil || !mine {
		t.Error(mine, err)
	}
	for _, who := range []string{"cy", "di", "ed", "flo"} {
		for range 16 {
			_, _ = s.Create(who, "", false)
		}
	}
	if _, err := s.Create("gil", "", false); err == nil { // 64 in all
		t.Error("there is one too many")
	}
	env := lasting(t)
	well[exec.ExecAnswer](t, env, "exec", fields{"command": "sleep 600", "background": true})
	if err := env.Sandboxes.Close(); err != nil {
		t.Error(err)
	}
	if _, err := try[any](t.Context(), t, env, "exec", fields{"command": "true"}); err == nil || !strings.Contains(err.Error(), "the server is ending") {
		t.Error(err)
	}
}

// 100 MiB of output cost neither memory nor the answer its bounds, and what is
// kept can be read.
func TestMuchOutput(t *testing.T) {
	env := lasting(t)
	env.Budget = 40000
	well[exec.ExecAnswer](t, env, "exec", fields{"command": "true"})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	out := well[exec.ExecAnswer](t, env, "exec", fields{"command": "yes 'a line of output' | head -c 104857600"})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("it keeps %d bytes of memory", grown)
	}
	encoded, err := json.Marshal(out)
	if err != nil || len(encoded) > env.Budget/2 {
		t.Errorf("an answer of %d characters, %v", len(encoded), err)
	}
	if out.StdoutBytes != 100<<20 || out.StdoutCut == nil || out.ExitStatus() != 0 || !strings.HasPrefix(out.Stdout, "a line of output\n") {
		t.Fatalf("%+v", out)
	}
	env.Budget = 0
	var lost, read int64
	for cursor := int64(0); ; {
		part := well[output.OutputReadOutput](t, env, "output_read", fields{"output": out.Exec, "cursor": cursor, "limit": 1 << 20})
		if begin := strings.Repeat("a line of output\n", 2)[part.Cursor%17:]; len(part.Text) > 20 && !strings.HasPrefix(part.Text, begin[:17]) {
			t.Fatalf("at %d: %q", part.Cursor, part.Text[:20])
		}
		lost, read, cursor = lost+part.LostBytes, read+int64(len(part.Text)), part.NextCursor
		if part.EOF {
			break
		}
	}
	if read != output.SpoolHead+output.SpoolTail || lost != 100<<20-read {
		t.Errorf("%d bytes are read, %d are lost", read, lost)
	}
}

// Answers keep to their budget, and say how the rest is read.
func TestBudget(t *testing.T) {
	env := lasting(t)
	env.Budget = 10000
	const noisy = `for i in $(seq 3000); do echo "line $i <&>"; echo "error $i" >&2; done`
	for _, tt := range []struct {
		op string
		in fields
	}{
		{"exec", fields{"command": noisy}},
		{"run", fields{"argv": []string{"sh", "-c", noisy}, "workspace": t.TempDir()}},
		{"session_run", fields{"command": noisy, "session_id": "s", "max_output_lines": 9000}},
		{"execute", fields{"command": "awk 'BEGIN { for (i = 0; i < 20000; i++) print i }'", "workspace": t.TempDir()}},
	} {
		if tt.op == "session_run" {
			well[session.SessionOpenOutput](t, env, "session_open", fields{"session_id": "s"})
		}
		out := well[any](t, env, tt.op, tt.in)
		encoded, err := json.Marshal(out)
		if err != nil || len(encoded) > env.Budget/2 {
			t.Errorf("%s answers with %d characters, %v", tt.op, len(encoded), err)
		}
		var b strings.Builder
		told, ok := out.(op.Teller)
		if !ok {
			t.Fatalf("%T tells nothing", out)
		}
		if err := told.Tell(&b); err != nil {
			t.Error(err)
		}
		_, after, _ := strings.Cut(b.String(), `output_read {"output": "`)
		id, _, found := strings.Cut(after, `"`)
		if !found {
			t.Fatalf("%s does not say how to go on: %s", tt.op, b.String())
		}
		text, lost := readKept(t, env, id)
		if lost != 0 || !bytes.Contains(text, []byte("2999")) {
			t.Errorf("%s has kept %d bytes, %d are lost", tt.op, len(text), lost)
		}
	}
}

// readKept reads a kept output to its end, as a model does.
func readKept(t *testing.T, env *op.Env, id string) (kept []byte, lost int64) {
	t.Helper()
	for cursor := int64(0); ; {
		part := well[output.OutputReadOutput](t, env, "output_read", fields{"output": id, "cursor": cursor, "limit": 20000})
		kept, lost = append(kept, part.Text...), lost+part.LostBytes
		if part.EOF {
			return kept, lost
		}
		if part.NextCursor == cursor {
			t.Fatalf("it does not go on at %d of %d", cursor, part.TotalBytes)
		}
		cursor = part.NextCursor
	}
}

// A session is in the sandbox that is named, in the default one, or in its own.
func TestSessionInASandbox(t *testing.T) {
	env := lasting(t)
	well[sandbox.SandboxCreateOutput](t, env, "sandbox_create", fields{"name": "lab"})
	well[exec.ExecAnswer](t, env, "exec", fields{"command": "echo default > /tmp/where"})
	well[exec.ExecAnswer](t, env, "exec", fields{"command": "echo lab > /tmp/where", "sandbox": "lab"})
	for _, tt := range []struct {
		in   fields
		want string
	}{
		{fields{"session_id": "a"}, "default\n"},
		{fields{"session_id": "b", "sandbox": "default"}, "default\n"},
		{fields{"session_id": "c", "sandbox": "lab"}, "lab\n"},
		{fields{"session_id": "d", "network": "none"}, "its own\n"},
	} {
		open := well[session.SessionOpenOutput](t, env, "session_open", tt.in)
		out := well[session.SessionRunOutput](t, env, "session_run", fields{"session_id": open.SessionID, "command": "cat /tmp/where || echo its own"})
		if out.Stdout != tt.want {
			t.Errorf("%v: %+v", tt.in, out)
		}
		well[session.SessionCloseOutput](t, env, "session_close", fields{"session_id": open.SessionID})
	}
	status := well[sandbox.SandboxStatusOutput](t, env, "sandbox_status", fields{"sandbox": "lab"})
	if status.State != "running" || status.Sessions != 0 || status.Processes != 0 {
		t.Errorf("%+v", status)
	}
	if _, err := try[any](t.Context(), t, env, "session_open", fields{"session_id": "e", "startup_commands": "exit 1"}); err == nil {
		t.Error("a session is open whose start has failed")
	}
	well[session.SessionOpenOutput](t, env, "session_open", fields{"session_id": "e"})
}

// Another process of the same user's finds a sandbox by its id, without a ceiling.
func TestExecInAnothersSandbox(t *testing.T) {
	env := lasting(t)
	id := well[sandbox.SandboxCreateOutput](t, env, "sandbox_create", nil).ID
	single := &op.Env{Options: env.Options, Principal: env.Principal}
	out := well[exec.ExecAnswer](t, single, "exec", fields{"sandbox": id, "command": "echo captured; seq 100000"})
	if !strings.HasPrefix(out.Stdout, "captured\n") || !strings.HasSuffix(out.Stdout, "\n100000\n") || out.StdoutCut != nil {
		t.Errorf("%d bytes: %+v", len(out.Stdout), out.StdoutCut)
	}
	var stdout, stderr bytes.Buffer
	input := []byte(`{"sandbox": "` + id + `", "argv": ["sh", "-c", "cat; echo err >&2; exit 5"]}`)
	answer, err := operation(t, "exec").Call(t.Context(), single, input, &op.Stream{Stdin: strings.NewReader("in"), Stdout: &stdout, Stderr: &stderr})
	if s, ok := answer.(op.Statuser); err != nil || !ok || s.ExitStatus() != 5 || stdout.String() != "in" || stderr.String() != "err\n" {
		t.Errorf("%+v, %v, %q, %q", answer, err, stdout.String(), stderr.String())
	}
	single.Ceiling = &policy.Ceiling{}
	if _, err := try[any](t.Context(), t, single, "exec", fields{"sandbox": id, "command": "true"}); err == nil || !strings.Contains(err.Error(), "under a ceiling") {
		t.Error(err)
	}
}

// Sixteen calls at a time, in two sandboxes of two principals, do not disturb
// each other.
func TestManyAtOnce(t *testing.T) {
	env := lasting(t)
	bob := as(env, "bob")
	var all sync.WaitGroup
	for i := range 16 {
		who := env
		if i%2 == 1 {
			who = bob
		}
		all.Go(func() {
			for range 4 {
				out, err := try[exec.ExecAnswer](t.Context(), t, who, "exec", fields{"command": "cat; seq 5000", "stdin": "in\n"})
				if err != nil || out.ExitStatus() != 0 || out.StdoutBytes != 23896 {
					t.Errorf("%+v, %v", out.StdoutBytes, err)
				}
				if _, err := try[output.OutputReadOutput](t.Context(), t, who, "output_read", fields{"output": out.Exec, "tail": 3}); err != nil {
					t.Error(err)
				}
				if _, err := try[sandbox.SandboxStatusOutput](t.Context(), t, who, "sandbox_status", nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestSandboxTexts(t *testing.T) {
	env := lasting(t)
	well[exec.ExecAnswer](t, env, "exec", fields{"command": "echo 'a  b'"})
	for _, tt := range [][2]string{
		{"sandbox_status", "echo 'a b'\n"}, {"sandbox_list", "default  running  linux  0 commands\n"}, {"sandbox_create", " is ready; its workspace is at /workspace\n"},
	} {
		name, want := tt[0], tt[1]
		var b strings.Builder
		o := operation(t, name)
		out, err := o.Call(context.Background(), env, []byte("{}"), nil)
		if err != nil || o.Render(io.Writer(&b), out) != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %q, %v", name, b.String(), err)
		}
	}
}
