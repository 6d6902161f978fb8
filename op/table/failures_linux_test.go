package table

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
)

// Whatever a model is offered by default fails without an answer: a text of what was
// made, sent or listed would follow the error, and be untrue.
func TestNothingIsAnsweredWhereNothingWasDone(t *testing.T) {
	env := lasting(t)
	if err := os.MkdirAll(filepath.Join(env.Default.Workspace.Source, ".git", "hooks"), 0o755); err != nil { // so that it is protected
		t.Fatal(err)
	}
	well[any](t, env, "exec", fields{"command": "mkdir d; echo a > f; ln -s d link"})
	running := well[exec.ExecAnswer](t, env, "exec", fields{"command": "sleep 600", "background": true}).Exec
	readOnly := fields{"path": ".git/hooks/pre-commit", "content": "x"}
	failing := map[string][]fields{
		"exec":          {{"command": ""}, {"command": "true", "cwd": "nowhere"}, {"command": "true", "secret_env": []string{"NONE"}}},
		"exec_kill":     {{"exec": "none"}, {"exec": running, "signal": "BOGUS"}},
		"output_read":   {{"output": "none"}, {"output": running, "cursor": 1 << 20}},
		"file_read":     {{"path": "none"}, {"path": "d"}, {"path": "f", "start_line": 5}, {"path": "../f"}, {"path": "none", "encoding": "base64"}},
		"file_write":    {readOnly, {"path": "d", "content": "x"}, {"path": "f/g", "content": "x"}, {"path": "f", "content": "x", "must_not_exist": true}, {"path": "n"}},
		"file_edit":     {{"path": "none", "edits": []fields{{"old": "a", "new": "b"}}}, {"path": "f", "edits": []fields{{"old": "z", "new": "b"}}}},
		"file_list":     {{"path": "none"}, {"path": "d", "cursor": "?"}, {"path": "link/x"}, {"path": "/etc"}},
		"file_search":   {{"pattern": "a", "path": "none"}, {"pattern": "("}, {"pattern": "a", "cursor": "x"}},
		"file_move":     {{"path": "none", "target": "x"}, {"path": "f", "target": "d"}, {"path": "f", "target": ".git/hooks/x"}},
		"file_delete":   {{"path": "none"}, {"path": ".git"}, {"path": ".git/hooks", "recursive": true}},
		"patch_apply":   {{"patch": "x"}, {"patch": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-b\n+c\n"}},
		"service_start": {{"name": "x"}, {"name": "a b", "command": "true"}},
		"service_stop":  {{"name": "none"}},
		"service_list":  {{"sandbox": "none"}},
		"service_logs":  {{"name": "none"}},
		"session_open":  {{"sandbox": "none"}, {"backend": "none"}},
		"session_run":   {{"session_id": "none", "command": "true"}},
		"session_close": {{"session_id": "none"}},
	}
	for _, o := range All() {
		if o.Profile&op.ProfileWorkspace == 0 {
			continue
		}
		if len(failing[o.Name]) == 0 && o.Name != "sandbox_status" {
			t.Errorf("nothing is tried of %s", o.Name)
		}
		for _, in := range append(slices.Clone(failing[o.Name]), fields{"no_such_field": 1}) {
			out, err := o.Call(t.Context(), env, mustJSON(t, in), &op.Stream{})
			if err == nil || out != nil && !reflect.ValueOf(out).IsZero() {
				t.Errorf("%s %v answers %+v beside %v", o.Name, in, out, err)
			}
		}
	}
}
