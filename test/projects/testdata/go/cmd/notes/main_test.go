package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "note.md")
	if err := os.WriteFile(file, []byte("---\ntitle: hello\n---\n*body*\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{file}, "<h1>Hello</h1>\n<p><em>body</em></p>\n"},
		{[]string{"--table", file}, "Hello"},
		{[]string{file + "x"}, "no such file"},
		{nil, "requires at least 1 arg"},
	} {
		var out bytes.Buffer
		cmd := command()
		cmd.SetArgs(tt.args)
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		_ = cmd.Execute()
		if !strings.Contains(out.String(), tt.want) {
			t.Errorf("%q prints %q, want %q", tt.args, out.String(), tt.want)
		}
	}
}
