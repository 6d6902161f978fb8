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
		{"session_run", fields{"session_id": "s"}, "command", "restart"},
		{"session_run", fields{"session_id": "s", "command": "true", "restart": true}, "restart", "one of the two"},
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
	// The door of one session keeps to the words of the contract.
	alone := *env
	alone.Sandboxes = nil
	if _, err := operationTried(t, &alone, "session_run", fields{"session_id": "s"}); err == nil || err.Error() != "Shell tool requires either 'command' or 'restart'." {
		t.Error(err)
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
