package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spec.yaml")
	clock := time.Now().Add(-time.Hour)
	write := func(text string) {
		t.Helper()
		clock = clock.Add(time.Second) // a version of its own, however fast this is
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, clock, clock); err != nil {
			t.Fatal(err)
		}
	}
	live, err := Open(file)
	if err == nil || live == nil {
		t.Fatalf("a file that is not there: %v, %v", live, err)
	}
	check := func(step, wantErr, allowed, denied string) {
		t.Helper()
		rules, err := live.Rules()
		if wantErr == "" && err != nil || wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)) {
			t.Errorf("%s: error %v, want %q", step, err, wantErr)
		}
		if allowed != "" && !rules.Shell(allowed).Allowed || rules.Shell(denied).Allowed {
			t.Errorf("%s: not %q, or %q, is allowed", step, allowed, denied)
		}
	}
	check("no file", "cannot read the rules for commands", "", "ls")
	check("still none", "cannot read the rules for commands", "", "git status")
	write("commands: {allow: [ls]}")
	check("the first", "", "ls", "git status")
	write("commands: {allow: [git]}")
	check("another", "", "git status", "ls")
	write("commands: {allow: [git, a b]}")
	check("a bad name", "spec.yaml:1: cannot use commands.allow[1]", "git status", "ls")
	check("still bad", "spec.yaml:1: cannot use commands.allow[1]", "git status", "ls")
	write("commands: {allow: [git")
	check("broken", "spec.yaml", "git status", "ls")
	write("network: none")
	check("no section", "the file has no such section", "git status", "ls")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("gone", "cannot read the rules for commands", "git status", "ls")
	write("commands: {}")
	check("empty", "", "", "git status")
	write("commands: {allow: [ls]}")
	check("mended", "", "ls", "git status")
}
