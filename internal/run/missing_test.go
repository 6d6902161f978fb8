package run

import (
	"errors"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
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

// A missing program costs one look inside, and a missing shell none.
func TestMissingProgramIsLookedForOnce(t *testing.T) {
	dir := t.TempDir()
	testkit.Write(t, dir+"/tool", "#!/bin/sh\n", 0o755)
	for _, tt := range []struct {
		name  string
		looks int
	}{{"tool", 1}, {"nosuch", 1}, {dir + "/tool", 1}, {"./tool", 1}, {"sh", 1}, {"/bin/sh", 0}} {
		for _, answer := range []string{"none\n/bin\n", "program\n/bin\n", "", "none\n/bin\n/elsewhere/tool\n"} {
			looks := 0
			h := Hints{Spec: policy.Spec{Backend: policy.BackendLinux, RootFS: policy.RootHost, Workspace: policy.Workspace{Source: "/home/me/app"}}, Search: dir,
				Shell: func(string, string, ...string) ([]byte, error) { looks++; return []byte(answer), nil }}
			h.MissingProgram(tt.name, "", false)
			if looks != tt.looks {
				t.Errorf("%s: it looks %d times", tt.name, looks)
			}
		}
	}
	looks := 0
	h := Hints{Spec: policy.Spec{Backend: policy.BackendLinux}, Search: dir, Shell: func(string, string, ...string) ([]byte, error) { looks++; return nil, errors.New("no shell") }}
	if list := h.Denials(nil, StatusNotFound, []byte("sh: 1: tool: not found"), ""); len(list) > 0 || looks != 1 {
		t.Errorf("%+v after %d looks", list, looks)
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
