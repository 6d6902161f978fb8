package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
)

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "note.md")
	if err := os.WriteFile(file, []byte("---\ntitle: hello\n---\n*body*\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{file}, "<h1>Hello</h1>\n<p><em>body</em></p>\n"},
		{[]string{"--list", file}, "Hello" + strings.Repeat(" ", 52) + "7 B\n"},
	} {
		var out bytes.Buffer
		if err := run(tt.args, &out); err != nil {
			t.Errorf("%q: %v", tt.args, err)
		}
		diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: difflib.SplitLines(tt.want), B: difflib.SplitLines(out.String()), FromFile: "want", ToFile: "got", Context: 1})
		if diff != "" || err != nil {
			t.Errorf("%q prints\n%s%v", tt.args, diff, err)
		}
	}
}

func TestErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"no such file": {"/no/such/file"},
		"required":     nil,
		"unknown flag": {"--table"},
		"Usage:":       {"--help"},
	} {
		if err := run(args, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", args, err, want)
		}
	}
}
