package command

import (
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

func TestPaths(t *testing.T) {
	r := testRules(t)
	p := Paths{Workspace: "/workspace", Visible: []string{"/tmp", "/usr", "/bin", "/home/agent", "/data"}}
	for _, l := range table(t, "paths.txt") {
		v := r.Shell(l.text)
		if !v.Allowed {
			t.Errorf("line %d: %q is refused by the rules: %s", l.number, l.text, v.Reason)
			continue
		}
		after := p.Check(v)
		if after.Allowed != (l.want == "+") {
			t.Errorf("line %d: %q: got %v %s, want %s", l.number, l.text, after.Allowed, after.Reason, l.want)
		}
		if !after.Allowed && (after.Rule != RulePath || after.Position == nil || after.Script != "" || !strings.HasPrefix(after.Reason, "Path traversal attempt detected")) {
			t.Errorf("line %d: %q: the refusal is not whole: %+v", l.number, l.text, after)
		}
	}
}

func TestPathRefusals(t *testing.T) {
	r := testRules(t)
	p := Paths{Workspace: "/workspace", Cwd: "/workspace/src/deep"}
	tests := []struct {
		argv []string
		want string
		at   int
	}{
		{[]string{"cat", "-n", "/etc/passwd"}, "Path traversal attempt detected: /etc/passwd would access files outside workspace", 2},
		{[]string{"touch", "x", "/etc/x"}, "Path traversal attempt detected in command argument: /etc/x", 2},
		{[]string{"python3", "x.py", "--out=/etc/x"}, "Path traversal attempt detected in command argument: --out=/etc/x", 2},
		{[]string{"cat", "../../x"}, "", 0},
		{[]string{"cat", "../../../x"}, "Path traversal attempt detected: ../../../x would access files outside workspace", 1},
		{[]string{"cat", "/workspace10/x"}, "Path traversal attempt detected: /workspace10/x would access files outside workspace", 1},
	}
	for _, tt := range tests {
		v := p.Check(r.Argv(tt.argv))
		if v.Reason != tt.want || v.Position != nil && v.Position.Argument != tt.at {
			t.Errorf("%q: got %q at %+v, want %q at %d", tt.argv, v.Reason, v.Position, tt.want, tt.at)
		}
	}
}

func TestPathsIn(t *testing.T) {
	p := PathsIn(policy.Spec{Mounts: []policy.Mount{{Source: "/a", Target: "/data"}, {Source: "/b"}, {Source: "rel"}}})
	r := testRules(t)
	for text, want := range map[string]bool{
		"cat /data/x": true, "cat /b/x": true, "cat /tmp/x": true, "ls /usr/bin": true, "cat /a/x": false, "cat /etc/passwd": false, "cat ./x": true,
	} {
		if got := p.Check(r.Shell(text)); got.Allowed != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
