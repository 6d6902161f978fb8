package op

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where a program of the host lies is told, but not to who is below a ceiling.
func TestMissingProgramIsLookedFor(t *testing.T) {
	env := lasting(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own-tool"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	env.Options.Path = dir
	bounded := *env
	ceiling, err := env.Default.Ceiling()
	if err != nil {
		t.Fatal(err)
	}
	bounded.Ceiling = ceiling
	for name, tt := range map[string]struct {
		env  *Env
		want string
	}{
		"the host's user": {env, "it is at " + dir + "/own-tool on this host, which the sandbox does not show: --ro " + dir},
		"a model":         {&bounded, "this host has it, in a directory that the sandbox does not show: --ro makes one visible"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := operationTried(t, tt.env, "exec", fields{"argv": []string{"own-tool"}})
			hints := []string{HintOf(err)}
			text := well[ExecAnswer](t, tt.env, "exec", fields{"command": "own-tool"})
			for _, d := range text.Denials {
				if d.Layer != "path" || d.Object != "own-tool" || !d.Guess {
					t.Errorf("%+v", d)
				}
				hints = append(hints, d.Hint)
			}
			if len(hints) != 2 || !strings.HasPrefix(hints[0], tt.want) || hints[1] != hints[0] {
				t.Errorf("%q, want %q twice", hints, tt.want)
			}
			if tt.env.Ceiling != nil && strings.Contains(strings.Join(hints, " "), dir) {
				t.Errorf("it is told %q", hints)
			}
		})
	}
	if text := well[ExecAnswer](t, env, "exec", fields{"command": "echo own-tool: not found >&2; exit 126"}); len(text.Denials) > 0 {
		t.Errorf("another status: %+v", text.Denials)
	}
	if _, err := operationTried(t, env, "exec", fields{"argv": []string{"paddock-no-such"}}); HintOf(err) != "this host has no program of that name in PATH either" {
		t.Errorf("%v, %q", err, HintOf(err))
	}
}

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
		if found := unfound.FindStringSubmatch(text); found != nil {
			got = strings.Join(found[1:], "")
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
