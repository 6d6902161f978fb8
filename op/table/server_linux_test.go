package table

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/op/internal/session"
	"github.com/paddock-dev/paddock/policy"
)

// What a model asks a server wrongly is answered with the field's name, or with
// where the right names are.
func TestServerErrors(t *testing.T) {
	env := lasting(t)
	well[session.SessionOpenOutput](t, env, "session_open", fields{"session_id": "s"})
	for _, tt := range []struct {
		op          string
		in          fields
		field, hint string
	}{
		{"run", fields{"argv": []string{"true"}, "timeout": "0s"}, "timeout", "leave it out"},
		{"service_status", fields{"name": "none"}, "", "paddock service list"},
		{"service_stop", fields{"name": "none"}, "", "paddock service list"},
		{"service_logs", fields{"name": "none"}, "", "paddock service list"},
		{"shell_read", fields{"shell_id": "none"}, "", "paddock shell list"},
		{"shell_write", fields{"shell_id": "none", "text": "x"}, "", "paddock shell list"},
		{"shell_signal", fields{"shell_id": "none"}, "", "paddock shell list"},
		{"shell_close", fields{"shell_id": "none"}, "", "paddock shell list"},
	} {
		_, err := operationTried(t, env, tt.op, tt.in)
		own := policy.FieldErrors(err)
		if err == nil || !strings.Contains(op.HintOf(err), tt.hint) || tt.field != "" && (len(own) != 1 || own[0].Field != tt.field) {
			t.Errorf("%s %v: %v, hint %q", tt.op, tt.in, err, op.HintOf(err))
		}
	}
}

// Where a contract fixes the words about a command in a session, a server has them, as the door of
// one session has. What is null is absent.
func TestSessionRunKeepsToTheContract(t *testing.T) {
	env := lasting(t)
	well[session.SessionOpenOutput](t, env, "session_open", fields{"session_id": "s", "policy": nil, "startup_commands": nil, "cwd": nil, "env": nil})
	for _, tt := range []struct {
		in   fields
		want string
	}{
		{fields{}, "Shell tool requires either 'command' or 'restart'."},
		{fields{"command": nil}, "Shell tool requires either 'command' or 'restart'."},
		{fields{"command": nil, "restart": false}, "Shell tool requires either 'command' or 'restart'."},
		{fields{"command": "true", "restart": true}, "Specify only one of 'command' or 'restart'."},
		{fields{"command": 5, "restart": true}, "Specify only one of 'command' or 'restart'."},
		{fields{"command": 5}, "Shell tool expects a 'command' string when restart is not requested."},
		{fields{"command": []string{"ls"}, "restart": nil}, "Shell tool expects a 'command' string when restart is not requested."},
	} {
		tt.in["session_id"] = "s"
		if _, err := operationTried(t, env, "session_run", tt.in); err == nil || err.Error() != tt.want {
			t.Errorf("%v: %v, want %s", tt.in, err, tt.want)
		}
	}
	for _, tt := range []struct {
		in   fields
		want string
	}{
		{fields{"command": nil, "restart": true}, "Shell session restarted."},
		{fields{"command": "true", "restart": nil, "stdin": nil, "timeout": nil, "max_output_lines": nil, "max_output_bytes": nil}, "Exit code: 0\n<no output>"},
		{fields{"command": "echo a; (exit 4)"}, "Exit code: 4\na"},
		{fields{"command": "seq 9", "max_output_lines": 2}, "Exit code: 0; ... Output truncated at 2 lines (observed 9).\n1\n2"},
		{fields{"command": "echo a; exec sleep 1000", "timeout": "100ms"}, "Error: Command timed out after 0.1 seconds. (100ms, "},
	} {
		tt.in["session_id"] = "s"
		out := well[session.SessionRunOutput](t, env, "session_run", tt.in)
		var b strings.Builder
		if err := out.Tell(&b); err != nil || !strings.HasPrefix(b.String(), tt.want) {
			t.Errorf("%v: %q, %v, want %q", tt.in, b.String(), err, tt.want)
		}
	}
}

// A session says where it is as other answers do.
func TestSessionSaysWhereItIs(t *testing.T) {
	env := lasting(t)
	open := well[session.SessionOpenOutput](t, env, "session_open", fields{"session_id": "s"})
	list := well[session.SessionListOutput](t, env, "session_list", nil).Sessions
	if open.Sandbox != "default" || open.Workspace != policy.WorkspacePath || len(list) != 1 || list[0].Sandbox != "default" || list[0].Workspace != policy.WorkspacePath {
		t.Errorf("%+v, %+v", open, list)
	}
	own := well[session.SessionOpenOutput](t, env, "session_open", fields{"session_id": "own", "network": "none"})
	if own.Sandbox == "default" || own.Workspace != policy.WorkspacePath {
		t.Errorf("%+v", own)
	}
}

// Without a bound of its own a command of run has a server's.
func TestRunIsBoundedInAServer(t *testing.T) {
	env := lasting(t)
	for _, tt := range []struct {
		sandboxes *registry.Sandboxes
		timeout   string
		want      string
	}{{env.Sandboxes, "", "2m0s"}, {env.Sandboxes, "5s", "5s"}, {nil, "", "0s"}} {
		own, in := *env, fields{"argv": []string{"sh", "-c", "sleep 2.5"}}
		own.Sandboxes = tt.sandboxes
		if tt.timeout != "" {
			in["timeout"] = tt.timeout
		}
		total := time.Duration(-1)
		stream := &op.Stream{Progress: func(_, most float64, _ string) { total = time.Duration(most * float64(time.Second)) }}
		if _, err := operation(t, "run").Call(context.Background(), &own, mustJSON(t, in), stream); err != nil {
			t.Fatal(err)
		}
		if total.String() != tt.want {
			t.Errorf("%v: it may take %s, not %s", tt, total, tt.want)
		}
	}
}
