package op

import (
	"strings"
	"testing"
)

type fields = map[string]any

// A model begins with exec at once; what it prints, and how it ends, is told.
func TestExec(t *testing.T) {
	env := lasting(t)
	out := well[ExecAnswer](t, env, "exec", fields{"command": "echo out; echo err >&2; echo kept > file; exit 3"})
	if out.ExitStatus() != 3 || out.Stdout != "out\n" || out.Stderr != "err\n" || out.State != "exited" || !out.DeathProved {
		t.Errorf("%+v", out)
	}
	var b strings.Builder
	if err := out.Tell(&b); err != nil || !strings.HasPrefix(b.String(), "exit status 3 after ") || !strings.HasSuffix(b.String(), "\nout\n[stderr]\nerr\n") {
		t.Errorf("%q, %v", b.String(), err)
	}
	out = well[ExecAnswer](t, env, "exec", fields{"argv": []string{"cat", "file", "-"}, "stdin": "in\n", "env": fields{"A": "b"}})
	if out.ExitStatus() != 0 || out.Stdout != "kept\nin\n" {
		t.Errorf("%+v", out)
	}
}
