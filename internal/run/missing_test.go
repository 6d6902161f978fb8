package run

import (
	"strings"
	"testing"
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
