package run

import (
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

func TestWhatShellsSayOfAProgramThatTheyDoNotFind(t *testing.T) {
	for text, want := range map[string]string{
		"bash: line 1: tool: command not found\n":                  "tool",
		"sh: 1: tool-2.x: not found":                               "tool-2.x",
		"noise\n/bin/sh: tool: not found\nmore":                    "tool",
		"zsh:1: command not found: tool\n":                         "tool",
		"env: ‘tool’: No such file or directory":                   "tool",
		"env: 'tool': No such file or directory":                   "tool",
		"page: not found on this server":                           "",
		"sh: 1: /opt/tool: not found":                              "",
		"bash: line 1: " + strings.Repeat("a", 65) + ": not found": "",
		"": "",
	} {
		got := ""
		if found := unfound().FindStringSubmatch(text); found != nil {
			got = strings.Join(found[1:], "")
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A socket of the host that is covered is named where a program could not connect or listen.
func TestCoveredSocketsInHints(t *testing.T) {
	h := Hints{Spec: policy.Spec{Backend: policy.BackendLinux, Workspace: policy.Workspace{Source: "/home/me/app"}}, Covered: []string{"/home/me/app/tmp/puma.sock", "/srv/db/.s.PGSQL.5432"}}
	for _, tt := range []struct{ said, rule, object, hint string }{
		{"unlink: Device or resource busy - /workspace/tmp/puma.sock (Errno::EBUSY)", "covered", "/workspace/tmp/puma.sock", "`workspace.mode` overlay"},
		{`connection to server on socket "/srv/db/.s.PGSQL.5432" failed: Connection refused`, "covered", "/srv/db/.s.PGSQL.5432", "`host_sockets` /srv/db/.s.PGSQL.5432"},
		{`could not bind Unix address "/workspace/tmp/puma.sock": Address already in use`, "covered", "/workspace/tmp/puma.sock", "use another path inside"},
		{"rm: cannot remove '.git/hooks': Device or resource busy", "protected", "", ""},
		{"/workspace/tmp/puma.sock: no such route", "", "", ""},
		{"connect: Connection refused", "", "", ""},
	} {
		list := h.Denials(nil, 1, []byte(tt.said), "")
		switch {
		case tt.rule == "" && len(list) == 0:
		case len(list) != 1 || list[0].Rule != tt.rule || list[0].Object != tt.object || !strings.Contains(list[0].Hint, tt.hint) || !list[0].Guess:
			t.Errorf("%s: %+v", tt.said, list)
		}
	}
}
