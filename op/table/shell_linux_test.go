package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/op/internal/shell"
	"github.com/paddock-dev/paddock/wire"
)

// A shell stays, is typed into, and tells plain text.
func TestShell(t *testing.T) {
	env := lasting(t)
	out := well[shell.ShellOutput](t, env, "shell_open", fields{"shell_id": "one", "wait_for": "$ ", "rows": 20, "cols": 100, "env": fields{"GREETING": "hello"}})
	if out.State != "running" || out.ShellID != "one" || out.Rows != 20 || out.Cols != 100 || !out.Found {
		t.Fatalf("%+v", out)
	}
	write := func(more fields) shell.ShellOutput {
		t.Helper()
		in := fields{"shell_id": "one", "timeout": "60s"}
		for k, v := range more {
			in[k] = v
		}
		return well[shell.ShellOutput](t, env, "shell_write", in)
	}
	out = write(fields{"text": `cd /tmp; echo "$GREETING-$(tput cols)" | tr a-z A-Z; tput setaf 1; echo red; tput sgr0`, "wait_for": "red\n$ "})
	if !strings.Contains(out.Output, "HELLO-100\n") || strings.ContainsAny(out.Output, "\x1b\r") {
		t.Errorf("%q", out.Output)
	}
	out = write(fields{"text": "pwd", "wait_for": "/tmp\n$ "})
	if !out.Found {
		t.Errorf("%+v", out)
	}
	// What runs is interrupted by a key. It prints itself, so that it is in the
	// foreground by then.
	out = write(fields{"text": "sh -c 'echo begun; exec sleep 1000'", "wait_for": "begun\n"})
	if !out.Found {
		t.Errorf("%+v", out)
	}
	out = write(fields{"keys": []string{"ctrl-c"}, "wait_for": "^C\n$ "})
	if !out.Found || out.State != "running" {
		t.Errorf("%+v", out)
	}
	// Keys edit the line.
	write(fields{"text": "echo abX", "keys": []string{"backspace"}})
	out = write(fields{"text": "c", "wait_for": "\nabc\n"})
	if !out.Found {
		t.Errorf("%+v", out)
	}
	state := well[shell.ShellState](t, env, "shell_resize", fields{"shell_id": "one", "rows": 5, "cols": 50})
	if state.Rows != 5 || state.Cols != 50 {
		t.Errorf("%+v", state)
	}
	if out = write(fields{"text": "tput cols", "wait_for": "\n50\n"}); !out.Found {
		t.Errorf("%+v", out)
	}
	list := well[shell.ShellListOutput](t, env, "shell_list", fields{})
	if len(list.Shells) != 1 || list.Shells[0].ShellID != "one" {
		t.Errorf("%+v", list)
	}
	closed := well[shell.ShellCloseOutput](t, env, "shell_close", fields{"shell_id": "one"})
	if !closed.Closed || !closed.DeathProved {
		t.Errorf("%+v", closed)
	}
	if _, err := try[shell.ShellOutput](t.Context(), t, env, "shell_read", fields{"shell_id": "one"}); err == nil || err.Error() != "cannot read shell one: shell 'one' does not exist" {
		t.Error(err)
	}
}

// A shell whose program ends can be read, and says how it ended.
func TestShellThatEnds(t *testing.T) {
	env := lasting(t)
	id := well[shell.ShellOutput](t, env, "shell_open", fields{"command": "exec sh -c 'echo last; exit 7'", "wait_for": "never printed", "timeout": "60s"})
	if id.State != "stopped" || id.ExitCode == nil || *id.ExitCode != 7 || !strings.Contains(id.Output, "\nlast\n") || id.Found || id.TimedOut {
		t.Fatalf("%+v", id)
	}
	if _, err := try[shell.ShellOutput](t.Context(), t, env, "shell_write", fields{"shell_id": id.ShellID, "text": "x"}); err == nil || !strings.HasSuffix(err.Error(), "is not running") {
		t.Error(err)
	}
	again := well[shell.ShellOutput](t, env, "shell_read", fields{"shell_id": id.ShellID})
	if again.Output != id.Output || again.NextCursor != id.NextCursor || again.More {
		t.Errorf("%+v, want %+v", again, id)
	}
	var b strings.Builder
	if err := again.Tell(&b); err != nil || !strings.HasPrefix(b.String(), fmt.Sprintf("shell %s: stopped, exit status 7 (next_cursor %d)\n", id.ShellID, id.NextCursor)) {
		t.Errorf("%q %v", b.String(), err)
	}
}

// All that a shell prints can be read, part by part, within the budget.
func TestShellInParts(t *testing.T) {
	env := lasting(t)
	env.Budget = 8000
	first := well[shell.ShellOutput](t, env, "shell_open", fields{"command": `for i in $(seq 3000); do printf 'line "%d" \033[1m<bold>\033[0m\n' $i; done; exit 0`, "wait_for": "never", "limit": 65536, "timeout": "120s"})
	whole, cursor := first.Output, first.NextCursor
	for more := first.More || first.State == "running"; more; {
		out := well[shell.ShellOutput](t, env, "shell_read", fields{"shell_id": first.ShellID, "cursor": cursor, "limit": 65536, "wait_for_idle_ms": 1000})
		if n := text.JSONSize(out.Output); n > env.Budget/2 {
			t.Fatalf("%d characters are too many", n)
		}
		if out.Cursor != cursor || out.NextCursor == cursor {
			t.Fatalf("%+v", out)
		}
		whole, cursor, more = whole+out.Output, out.NextCursor, out.More
	}
	for i := range 3000 {
		if line := fmt.Sprintf("\nline \"%d\" <bold>\n", i+1); !strings.Contains(whole, line) {
			t.Fatalf("%q is missing", line)
		}
	}
	if strings.Contains(whole, "\x1b") {
		t.Error("a control sequence was told")
	}
}

// Who gives up opening a shell leaves nothing behind; who gives up reading is
// answered at once.
func TestShellCancelled(t *testing.T) {
	env := lasting(t)
	kept := well[shell.ShellOutput](t, env, "shell_open", fields{"shell_id": "kept"})
	for name, in := range map[string]fields{
		"shell_open":  {"shell_id": "gone", "command": "trap '' HUP TERM INT; touch /workspace/begun; sleep 1000", "wait_for": "never", "timeout": "10m"},
		"shell_read":  {"shell_id": "kept", "cursor": kept.NextCursor, "wait_for": "never", "timeout": "10m"},
		"shell_write": {"shell_id": "kept", "text": "true", "wait_for": "never", "timeout": "10m"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if name == "shell_open" {
			go func() {
				defer cancel()
				for ctx.Err() == nil {
					if _, err := os.Stat(filepath.Join(env.Default.Workspace.Source, "begun")); err == nil {
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			}()
		} else {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		if _, err := try[shell.ShellOutput](ctx, t, env, name, in); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	// Nor does it end one that has the name already.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := try[shell.ShellOutput](ctx, t, env, "shell_open", fields{"shell_id": "kept"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if list := well[shell.ShellListOutput](t, env, "shell_list", fields{}); len(list.Shells) != 1 || list.Shells[0].ShellID != "kept" || list.Shells[0].State != "running" {
		t.Errorf("%+v", list)
	}
	if left := trees(t, env, "shell"); len(left) != 1 {
		t.Errorf("%+v", left)
	}
}

// trees are those of a kind that run in the default sandbox.
func trees(t testing.TB, env *op.Env, kind string) (list []wire.TreeUsage) {
	t.Helper()
	err := env.WithSandbox(t.Context(), op.InSandbox{}, func(ctx context.Context, s *registry.Sandbox) error {
		now, err := wire.Call(ctx, s.Client(), wire.Usage, wire.UsageRequest{})
		for _, tree := range now.Trees {
			if tree.Kind == kind {
				list = append(list, tree)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestShellErrors(t *testing.T) {
	env := lasting(t)
	well[shell.ShellOutput](t, env, "shell_open", fields{"shell_id": "taken"})
	for _, tt := range []struct {
		op   string
		in   fields
		want string
	}{
		{"shell_open", fields{"shell_id": "taken"}, "cannot open a shell: shell 'taken' already exists"},
		{"shell_open", fields{"shell_id": "../x"}, `cannot use shell_id "../x": a name has 1 to 64 letters`},
		{"shell_open", fields{"cwd": "/etc"}, `cannot use cwd "/etc": it is outside the workspace`},
		{"shell_open", fields{"cwd": "missing"}, "cannot open a shell: workspace path does not exist: /workspace/missing"},
		{"shell_open", fields{"env": fields{"A-B": "secret"}}, "cannot use env.A-B: a name has 1 to 64 letters"},
		{"shell_open", fields{"secret_env": []string{"NONE"}}, `cannot use secret "NONE": unknown name`},
		{"shell_open", fields{"rows": 0}, "cannot read the input of shell_open: rows must be 1 at least"},
		{"shell_open", fields{"timeout": "11m"}, `cannot use timeout "11m0s": it must be above 0 and at most 10m0s`},
		{"shell_open", fields{"wait_for_idle_ms": 60001}, "cannot read the input of shell_open: wait_for_idle_ms must be 60000 at most"},
		{"shell_read", fields{}, "cannot use shell_id: it is missing: calls find it by its name"},
		{"shell_read", fields{"shell_id": "none"}, "cannot read shell none: shell 'none' does not exist"},
		{"shell_write", fields{"shell_id": "none", "text": "x"}, "cannot type into shell none: shell 'none' does not exist"},
		{"shell_write", fields{"shell_id": "taken"}, "cannot use text: there is nothing to type"},
		{"shell_write", fields{"shell_id": "taken", "keys": []string{"enter", "hyper-x"}}, `cannot use keys[1] "hyper-x": unknown key`},
		{"shell_signal", fields{"shell_id": "taken", "signal": "STOP"}, `cannot use signal "STOP": it must be "HUP", "INT", "TERM" or "KILL"`},
		{"shell_resize", fields{"shell_id": "taken", "rows": 3}, "cannot use cols: it must be 1 at least"},
		{"shell_close", fields{"shell_id": "none"}, "cannot close shell none: shell 'none' does not exist"},
	} {
		_, err := operationTried(t, env, tt.op, tt.in)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s %v: %v, want %s", tt.op, tt.in, err, tt.want)
		}
	}
	if _, err := operationTried(t, as(env, "bob"), "shell_read", fields{"shell_id": "taken"}); err == nil {
		t.Error("bob reads ann's shell")
	}
}

// operationTried is try for whatever the answer is.
func operationTried(t testing.TB, env *op.Env, name string, in fields) (any, error) {
	t.Helper()
	out, err := operation(t, name).Call(t.Context(), env, mustJSON(t, in), nil)
	fits(t, name, out)
	emptyBeside(t, name, out, err)
	return out, err
}

// fits holds an answer against the operation's own schema, as a client does.
func fits(t testing.TB, name string, out any) {
	t.Helper()
	if out == nil {
		return
	}
	var value any
	var schema node
	o := operation(t, name)
	if err := errors.Join(json.Unmarshal(mustJSON(t, out), &value), json.Unmarshal(o.OutputSchema(), &schema)); err != nil {
		t.Fatal(err)
	}
	if wrong := schema.check(value, name); len(wrong) > 0 {
		t.Errorf("%s answers %s: %q", name, mustJSON(t, out), wrong)
	}
}
