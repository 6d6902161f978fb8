package table

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/files"
	"github.com/paddock-dev/paddock/policy"
)

// searched calls file_search, which must succeed.
func searched(t *testing.T, env *op.Env, in fields) files.FileSearchOutput {
	t.Helper()
	out, err := operationTried(t, env, "file_search", in)
	if err != nil {
		t.Fatal(withHint(err))
	}
	return out.(files.FileSearchOutput)
}

func TestFileSearch(t *testing.T) {
	env := lasting(t)
	put(t, env, "src/a.go", "package a\n\nfunc Open() {}\n\nfunc Close() {}\n")
	put(t, env, "src/b_test.go", "package a\n\nfunc TestOpen() { Open() }\n")
	put(t, env, "dist/a.js", "function Open() {}")
	put(t, env, ".gitignore", "dist\n")
	put(t, env, ".env.example", "OPEN=1\x1b[31m"+strings.Repeat("x", 400)+"\n")
	put(t, env, "logo.png", "\x89PNG\x00Open")
	for _, tt := range []struct {
		name   string
		in     fields
		told   string
		people string
	}{
		{"content", fields{"pattern": `\bOpen\(`, "context": 1, "glob": []string{"*.go"}},
			"src/a.go\n2-\n3:func Open() {}\n4-\n\nsrc/b_test.go\n2-\n3:func TestOpen() { Open() }\n\n[2 matching lines in 2 files, of 2 searched; 1 ignored by .gitignore (no_ignore searches them)]\n",
			"src/a.go-2-\nsrc/a.go:3:func Open() {}\nsrc/a.go-4-\n--\nsrc/b_test.go-2-\nsrc/b_test.go:3:func TestOpen() { Open() }\n"},
		{"files", fields{"pattern": "Open", "output": "files"},
			"src/a.go\nsrc/b_test.go\n\n[2 files with a match, of 4 searched; 1 ignored by .gitignore (no_ignore searches them); 1 no text]\n", "src/a.go\nsrc/b_test.go\n"},
		{"count", fields{"pattern": "func", "output": "count", "path": "src"},
			"src/a.go:2\nsrc/b_test.go:1\n\n[3 matching lines in 2 files, of 2 searched]\n", "src/a.go:2\nsrc/b_test.go:1\n"},
		{"names", fields{"glob": []string{"*_test.go"}}, "src/b_test.go\n\n[1 file; 1 ignored by .gitignore (no_ignore searches them)]\n", "src/b_test.go\n"},
		{"per file", fields{"pattern": "func", "per_file": 1, "path": "/workspace/src/a.go"},
			"src/a.go (1 more lines match)\n3:func Open() {}\n\n[2 matching lines in 1 file, of 1 searched]\n", "src/a.go:3:func Open() {}\n"},
		{"ignored", fields{"pattern": "function", "no_ignore": true}, "dist/a.js\n1:function Open() {}\n\n[1 matching line in 1 file, of 5 searched; 1 no text]\n", "dist/a.js:1:function Open() {}\n"},
		{"nothing", fields{"pattern": "nowhere", "glob": []string{"src"}}, "[0 matching lines in 0 files, of 2 searched; 1 ignored by .gitignore (no_ignore searches them)]\n", ""},
		{"cut, with control", fields{"pattern": "open", "ignore_case": true, "line_bytes": 20, "glob": []string{".env*"}},
			".env.example\n1:OPEN=1⟦U+001B⟧[31mxxxxxxxxx…\n\n[1 matching line in 1 file, of 1 searched; 1 ignored by .gitignore (no_ignore searches them)]\n", ".env.example:1:OPEN=1⟦U+001B⟧[31mxxxxxxxxx…\n"},
	} {
		out := searched(t, env, tt.in)
		if got := tell(t, out); got != tt.told {
			t.Errorf("%s:\n%q, want\n%q", tt.name, got, tt.told)
		}
		var b strings.Builder
		if err := operation(t, "file_search").Render(&b, out); err != nil || b.String() != tt.people {
			t.Errorf("%s: %v\n%q, want\n%q", tt.name, err, b.String(), tt.people)
		}
	}
	// Commands see the same files, so what they make is found at once.
	if _, err := operationTried(t, env, "exec", fields{"command": "mkdir -p made && echo 'made inside' > made/f"}); err != nil {
		t.Fatal(err)
	}
	if out := searched(t, env, fields{"pattern": "made inside"}); len(out.Files) != 1 || out.Files[0].Path != "made/f" || out.Files[0].Lines[0].Column != 1 {
		t.Errorf("%+v", out)
	}
}

func TestFileSearchRefuses(t *testing.T) {
	env := lasting(t)
	put(t, env, "f", "x")
	if err := os.Symlink("/etc", filepath.Join(env.Default.Workspace.Source, "etc")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		in   fields
		want string
	}{
		{fields{}, "cannot use pattern"},
		{fields{"pattern": "(a"}, `cannot use pattern "(a": missing closing )`},
		{fields{"pattern": "a(b**)"}, `cannot use pattern "a(b**)": invalid nested repetition operator: **, at byte 4`},
		{fields{"pattern": strings.Repeat("a", 1025)}, "pattern must have at most 1024 bytes"},
		{fields{"pattern": "a\nb", "fixed": true}, "it has a line feed, and lines are searched one by one, at byte 2"},
		{fields{"glob": []string{"a", "[b"}}, `cannot use glob[1] "[b": a [ is not closed`},
		{fields{"pattern": "a", "exclude": []string{"{a,b"}, "glob": []string{""}}, `cannot use glob[0]`},
		{fields{"pattern": "a", "exclude": []string{`\`}}, `cannot use exclude[0] "\\": nothing follows the \ at its end`},
		{fields{"pattern": "a", "output": "lines"}, `cannot use output "lines": it must be "content", "files" or "count"`},
		{fields{"pattern": "a", "context": 51}, "context must be 50 at most"},
		{fields{"pattern": "a", "limit": 0}, "limit must be 1 at least"},
		{fields{"pattern": "a", "timeout": "6m"}, `cannot use timeout "6m0s": it must be above 0 and at most 5m`},
		{fields{"pattern": "a", "cursor": "nonsense"}, `cannot use cursor "nonsense": it is not next_cursor of an answer to this search`},
		{fields{"pattern": "a", "path": "../x"}, `cannot use path "../x"`},
		{fields{"pattern": "a", "path": "/etc"}, `cannot use path "/etc"`},
		{fields{"pattern": "a", "path": "none"}, "cannot search none: it does not exist"},
		{fields{"pattern": "a", "path": "etc"}, "cannot search etc: workspace search does not follow links"},
		{fields{"pattern": "a", "path": "etc/passwd"}, "cannot search etc/passwd: a parent of it is a symbolic link"},
	} {
		_, err := operationTried(t, env, "file_search", tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.80v: %v, want %q", tt.in, err, tt.want)
		}
	}
	if _, err := operationTried(t, &op.Env{}, "file_search", fields{"pattern": "("}); len(policy.FieldErrors(err)) != 1 {
		t.Errorf("no FieldError, before any sandbox is made: %v", err)
	}
}

// An answer keeps to the budget, in all its forms, and its cursor leads through
// everything.
func TestFileSearchInABudget(t *testing.T) {
	env := lasting(t)
	env.Budget = 8000
	const files, lines = 30, 50
	for i := range files {
		put(t, env, fmt.Sprintf("d/%02d.txt", i), strings.Repeat("\"needle\"\tis \\here\\ é\x01\xff\n", lines))
	}
	n, cursor := 0, ""
	for pages := 0; ; pages++ {
		out := searched(t, env, fields{"pattern": "needle", "limit": 10000, "cursor": cursor})
		for _, f := range out.Files {
			n += len(f.Lines)
		}
		if size := len(mustJSON(t, out)); size > env.Budget/2 {
			t.Fatalf("%d bytes of JSON", size)
		}
		if text := tell(t, out); len(text) > env.Budget/2 || out.Truncated != "" && !strings.Contains(text, "Go on with cursor "+out.NextCursor) {
			t.Fatalf("%d bytes: %s", len(text), text)
		}
		if out.Truncated == "" {
			break
		}
		if cursor = out.NextCursor; pages > files*lines {
			t.Fatal("it does not end")
		}
	}
	if n != files*lines {
		t.Errorf("%d lines", n)
	}
}
