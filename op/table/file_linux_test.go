package table

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/files"
)

// put writes a file on the host's side of the default workspace.
func put(t *testing.T, env *op.Env, name, text string) {
	t.Helper()
	file := filepath.Join(env.Default.Workspace.Source, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// get reads one.
func get(t *testing.T, env *op.Env, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(env.Default.Workspace.Source, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tell is an answer as a model reads it.
func tell(t *testing.T, out op.Teller) string {
	t.Helper()
	var b strings.Builder
	if err := out.Tell(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// WithHint is an error with its hint.
func withHint(err error) string {
	text := fmt.Sprint(err)
	if e, ok := err.(*paddock.Error); ok { //nolint:errorlint // the very one
		text += " | " + e.Hint
	}
	return text
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// numberedLines are lines that tell their number.
func numberedLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func TestFileRead(t *testing.T) {
	env := lasting(t)
	put(t, env, "f", "one\ntwo\nthree")
	put(t, env, "crlf", "a\r\nb\r\n")
	put(t, env, "empty", "")
	put(t, env, "bin", "\x7fELF\x00\x01")
	put(t, env, "latin", "caf\xe9\n")
	out := well[files.FileReadOutput](t, env, "file_read", fields{"path": "f"})
	if out.Text != "one\ntwo\nthree" || out.TotalLines != 3 || out.StartLine != 1 || out.EndLine != 3 || out.NextLine != 0 || !out.NoFinalNewline ||
		out.Path != "/workspace/f" || out.SHA256 != sumOf("one\ntwo\nthree") || out.Mode != "0644" {
		t.Errorf("%+v", out)
	}
	if got, want := tell(t, out), "     1\tone\n     2\ttwo\n     3\tthree\n[no newline at the end of the file]\n"; got != want {
		t.Errorf("it is told as %q", got)
	}
	out = well[files.FileReadOutput](t, env, "file_read", fields{"path": "/workspace/f", "start_line": 2, "end_line": 2})
	if out.Text != "two\n" || out.NextLine != 3 || out.TotalLines != 3 || out.SHA256 != sumOf("one\ntwo\nthree") {
		t.Errorf("%+v", out)
	}
	if got := tell(t, out); got != "     2\ttwo\n[lines 2 to 2 of 3; read on with start_line 3]\n" {
		t.Errorf("it is told as %q", got)
	}
	if out = well[files.FileReadOutput](t, env, "file_read", fields{"path": "crlf"}); out.Text != "a\r\nb\r\n" || out.LineEnding != "crlf" {
		t.Errorf("%+v", out)
	}
	if out = well[files.FileReadOutput](t, env, "file_read", fields{"path": "empty"}); out.Text != "" || tell(t, out) != "/workspace/empty is empty\n" {
		t.Errorf("%+v", out)
	}
	out = well[files.FileReadOutput](t, env, "file_read", fields{"path": "bin"})
	if got := tell(t, out); !out.Binary || out.Text != "" || got != "/workspace/bin is a binary file (ELF program or library, 6 bytes): encoding base64 reads its bytes\n" {
		t.Errorf("%+v %q", out, got)
	}
	out = well[files.FileReadOutput](t, env, "file_read", fields{"path": "bin", "encoding": "base64", "offset": 1, "length": 3})
	if string(out.Content) != "ELF" || out.NextOffset != 4 {
		t.Errorf("%+v", out)
	}
	if out = well[files.FileReadOutput](t, env, "file_read", fields{"path": "latin"}); out.Text != "caf\uFFFD\n" || !out.InvalidUTF8 {
		t.Errorf("%+v", out)
	}
}

// Whatever the file, an answer has room for it: the rest is read on.
func TestFileReadIsBounded(t *testing.T) {
	env := lasting(t)
	env.Budget = 20_000
	text := numberedLines(5000)
	put(t, env, "long", text)
	put(t, env, "wide", strings.Repeat("x", 100_000)+"\nnext\n")
	var all strings.Builder
	for next := int64(1); next > 0; {
		out := well[files.FileReadOutput](t, env, "file_read", fields{"path": "long", "start_line": next})
		all.WriteString(out.Text)
		if n := len(tell(t, out)); n > env.Budget/2 || utf8.RuneCount(mustJSON(t, out.Text)) > env.Budget/2 || out.TotalLines != 5000 {
			t.Fatalf("%d characters, lines %d to %d of %d", n, out.StartLine, out.EndLine, out.TotalLines)
		}
		next = out.NextLine
	}
	if all.String() != text {
		t.Error("the parts are not the whole")
	}
	out := well[files.FileReadOutput](t, env, "file_read", fields{"path": "wide"})
	if out.CutBytes+int64(len(out.Text)) != 100_001 || out.NextLine != 2 || len(tell(t, out)) > env.Budget/2+500 {
		t.Errorf("%d cut of %d, next %d", out.CutBytes, len(out.Text), out.NextLine)
	}
	if out = well[files.FileReadOutput](t, env, "file_read", fields{"path": "wide", "start_line": 2}); out.Text != "next\n" {
		t.Errorf("%+v", out)
	}
	env.Budget = 0
	if out = well[files.FileReadOutput](t, env, "file_read", fields{"path": "long"}); out.EndLine != 2000 || out.NextLine != 2001 {
		t.Errorf("lines %d to %d", out.StartLine, out.EndLine)
	}
}

func TestFileWrite(t *testing.T) {
	env := lasting(t)
	out := well[files.FileWriteOutput](t, env, "file_write", fields{"path": "a/b/f.sh", "content": "one\n", "mode": "0755"})
	if !out.Created || out.Mode != "0755" || out.SizeBytes != 4 || out.SHA256 != sumOf("one\n") {
		t.Errorf("%+v", out)
	}
	out = well[files.FileWriteOutput](t, env, "file_write", fields{"path": "a/b/f.sh", "content": "two\n", "expected_sha256": sumOf("one\n")})
	if out.Created || out.Mode != "0755" || get(t, env, "a/b/f.sh") != "two\n" {
		t.Errorf("%+v", out)
	}
	well[files.FileWriteOutput](t, env, "file_write", fields{"path": "a/b/f.sh", "content": "three\n", "append": true})
	if got := get(t, env, "a/b/f.sh"); got != "two\nthree\n" {
		t.Errorf("%q", got)
	}
	well[files.FileWriteOutput](t, env, "file_write", fields{"path": "new", "content": "AAH/", "encoding": "base64", "must_not_exist": true})
	if got := get(t, env, "new"); got != "\x00\x01\xff" {
		t.Errorf("%q", got)
	}
	// What one wrote, commands can use.
	if ran := well[exec.ExecAnswer](t, env, "exec", fields{"command": "echo x >> new && ls -A . a/b"}); ran.ExitStatus() != 0 || strings.Contains(ran.Stdout, "paddock") {
		t.Errorf("%+v", ran)
	}
}

// TestFileErrors: what is wrong is told by its name, with what to do about it,
// and nothing is changed.
func TestFileErrors(t *testing.T) {
	env := lasting(t)
	ws := env.Default.Workspace.Source
	put(t, env, "f", "one\ntwo\none\n")
	put(t, env, "d/x", "x")
	for name, target := range map[string]string{"link": "f", "out": "/etc", "in": "d"} {
		if err := os.Symlink(target, filepath.Join(ws, name)); err != nil {
			t.Fatal(err)
		}
	}
	one := []fields{{"old": "one", "new": "1"}}
	tests := []struct {
		op   string
		in   fields
		want string
	}{
		{"file_read", fields{"path": "none"}, "cannot read none: it does not exist"},
		{"file_read", fields{"path": "d"}, "cannot read d: it is not a regular file"},
		{"file_read", fields{"path": "link"}, "cannot read link: it is not a regular file"},
		{"file_read", fields{"path": "out/passwd"}, "cannot read out/passwd: a parent of it is a symbolic link, and links are not followed"},
		{"file_read", fields{"path": "../x"}, `cannot use path "../x": it leads up with ..`},
		{"file_read", fields{"path": "/etc/passwd"}, `cannot use path "/etc/passwd": it is outside the workspace`},
		{"file_read", fields{"path": "/workspace2/x"}, "it is outside the workspace"},
		{"file_read", fields{"path": " "}, "it is empty"},
		{"file_read", fields{"path": "a\x00b"}, "it holds a NUL byte"},
		{"file_read", fields{"path": "f", "start_line": 9}, `cannot use start_line "9": the file has 3 lines`},
		{"file_read", fields{"path": "f", "start_line": 3, "end_line": 2}, `cannot use end_line "2": it is before start_line`},
		{"file_read", fields{"path": "f", "offset": 1}, "cannot use offset: it is for base64 alone"},
		{"file_read", fields{"path": "f", "encoding": "base64", "end_line": 1}, "cannot use start_line: base64 has no lines"},
		{"file_write", fields{"path": "f"}, "cannot use content: it is missing"},
		{"file_write", fields{"path": "f", "content": "x", "mode": "999"}, `cannot use mode "999": it is not an octal number from 0 to 777`},
		{"file_write", fields{"path": "f", "content": "!", "encoding": "base64"}, "cannot use content: it is not base64"},
		{"file_write", fields{"path": "f", "content": "x", "must_not_exist": true}, "cannot write f: something is there already"},
		{"file_write", fields{"path": "f", "content": "x", "expected_sha256": sumOf("")}, "it is not what expected_sha256 says: its SHA-256 is " + sumOf("one\ntwo\none\n")},
		{"file_write", fields{"path": "f", "content": "x", "expected_sha256": "1"}, "it does not have 64 hexadecimal digits"},
		{"file_write", fields{"path": "none", "content": "x", "expected_sha256": sumOf("")}, "cannot write none: it does not exist"},
		{"file_write", fields{"path": "d", "content": "x"}, "cannot write d: it is not a regular file"},
		{"file_write", fields{"path": "link", "content": "x"}, "cannot write link: it is not a regular file"},
		{"file_write", fields{"path": "f/x", "content": "x"}, "cannot write"},
		{"file_write", fields{"path": "out/x", "content": "x"}, "a parent of it is a symbolic link"},
		{"file_edit", fields{"path": "none", "edits": one}, "cannot edit none: it does not exist"},
		{"file_edit", fields{"path": "f", "edits": []fields{}}, "edits must have at least 1"},
		{"file_edit", fields{"path": "f", "edits": one}, "edits[0].old is there 2 times, at lines 1, 3; nothing was changed | give more of what is around it"},
		{"file_edit", fields{"path": "f", "edits": []fields{{"old": "two", "new": "2"}, {"old": "two", "new": "3"}}}, "edits[1].old is not there"},
		{"file_edit", fields{"path": "f", "edits": []fields{{"old": "", "new": "2"}}}, "edits[0].old is empty, and the file is not"},
		{"file_list", fields{"path": "none"}, "cannot list none: it does not exist"},
		{"file_list", fields{"cursor": "!"}, "it is not next_cursor of an answer"},
		{"file_list", fields{"limit": 0}, "limit must be 1 at least"},
		{"file_stat", fields{"path": "none"}, "cannot look at none: it does not exist"},
		{"file_mkdir", fields{"path": "f/d"}, "cannot make"},
		{"file_move", fields{"path": "none", "target": "x"}, "cannot move none: it does not exist"},
		{"file_move", fields{"path": "f", "target": "d/x"}, "cannot move f to d/x: something is there already | set replace"},
		{"file_move", fields{"path": "f", "target": "../x"}, `cannot use target "../x"`},
		{"file_move", fields{"path": "d", "target": "d/e"}, "a directory cannot be moved into itself"},
		{"file_move", fields{"path": "f", "target": "d", "replace": true}, "a directory is there"},
		{"file_delete", fields{"path": "none"}, "cannot delete none: it does not exist"},
		{"file_delete", fields{"path": "d"}, "cannot delete d: it is a directory | set recursive"},
		{"file_delete", fields{"path": ".", "recursive": true}, "cannot delete the workspace itself"},
		{"patch_apply", fields{}, "cannot use patch: it is missing"},
		{"patch_apply", fields{"patch": "x", "patch_file": "f"}, "patch is given, too"},
		{"patch_apply", fields{"patch": "x"}, "it changes no file | it must be a unified diff"},
		{"patch_apply", fields{"patch": "--- a/out/x\n+++ b/out/x\n@@ -1 +1 @@\n-a\n+b\n"}, "symbolic link"},
		{"patch_apply", fields{"patch": "--- /dev/null\n+++ b/out/x\n@@ -0,0 +1 @@\n+b\n"}, "symbolic link"},
		{"patch_apply", fields{"patch": "--- /dev/null\n+++ b/in/y\n@@ -0,0 +1 @@\n+b\n"}, "symbolic link"},
		{"patch_apply", fields{"patch": "--- a/link\n+++ b/link\n@@ -1 +1 @@\n-one\n+b\n"}, "it is not a regular file"},
		{"patch_apply", fields{"patch": "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\n-zwei\n+2\n"}, `line 2 should be "zwei\n", and is "two\n"`},
		{"patch_apply", fields{"patch": "--- /dev/null\n+++ b/.git/x\n@@ -0,0 +1 @@\n+b\n"}, "its path is within .git"},
	}
	for _, tt := range tests {
		t.Run(tt.op+" "+fmt.Sprint(tt.in), func(t *testing.T) {
			_, err := try[any](t.Context(), t, env, tt.op, tt.in)
			if err == nil || !strings.Contains(withHint(err), tt.want) {
				t.Errorf("the error is %q, want %q", withHint(err), tt.want)
			}
		})
	}
	if got := get(t, env, "f"); got != "one\ntwo\none\n" {
		t.Errorf("f is %q", got)
	}
}

func TestFileList(t *testing.T) {
	env := lasting(t)
	for _, name := range []string{"a/b/c", "a/z", ".git/objects/1", "top", "a.b/x", "deep/1/2/3/4"} {
		put(t, env, name, "12345")
	}
	if err := os.Symlink("top", filepath.Join(env.Default.Workspace.Source, "link")); err != nil {
		t.Fatal(err)
	}
	list := func(in fields) (paths []string) {
		for cursor := ""; ; {
			if cursor != "" {
				in["cursor"] = cursor
			}
			out := well[files.FileListOutput](t, env, "file_list", in)
			for _, e := range out.Entries {
				paths = append(paths, string(e.Path))
			}
			if cursor = out.NextCursor; !out.Truncated {
				return paths
			}
		}
	}
	all := []string{".git", "a", "a/b", "a/b/c", "a/z", "a.b", "a.b/x", "deep", "deep/1", "deep/1/2", "deep/1/2/3", "deep/1/2/3/4", "link", "top"}
	tests := []struct {
		in   fields
		want []string
	}{
		{fields{}, []string{".git", "a", "a.b", "deep", "link", "top"}},
		{fields{"recursive": true}, all},
		{fields{"recursive": true, "limit": 1}, all},
		{fields{"recursive": true, "limit": 5}, all},
		{fields{"depth": 2, "path": "/workspace/deep"}, []string{"1", "1/2"}},
		{fields{"path": "a", "recursive": true, "kinds": []string{"file"}, "limit": 1}, []string{"b/c", "z"}},
		{fields{"kinds": []string{"symlink"}}, []string{"link"}},
		{fields{"path": ".git", "recursive": true}, []string{"objects", "objects/1"}},
	}
	for _, tt := range tests {
		if got := list(tt.in); !slices.Equal(got, tt.want) {
			t.Errorf("%v lists %q, want %q", tt.in, got, tt.want)
		}
	}
	if got := list(fields{"recursive": true, "all": true}); len(got) != len(all)+2 {
		t.Errorf("with .git it lists %q", got)
	}
	env.Budget = 6000
	if got := list(fields{"recursive": true}); !slices.Equal(got, all) {
		t.Errorf("within a budget it lists %q", got)
	}
}

func TestFileOps(t *testing.T) {
	env := lasting(t)
	put(t, env, "f", "x\n")
	st := well[files.FileStatOutput](t, env, "file_stat", fields{"path": "f", "hash": true})
	if st.Kind != "file" || st.SizeBytes != 2 || st.SHA256 != sumOf("x\n") {
		t.Errorf("%+v", st)
	}
	if out := well[files.FileMkdirOutput](t, env, "file_mkdir", fields{"path": "d/e", "mode": "0700"}); !out.Created {
		t.Errorf("%+v", out)
	}
	if out := well[files.FileMkdirOutput](t, env, "file_mkdir", fields{"path": "d/e"}); out.Created {
		t.Errorf("%+v", out)
	}
	well[files.FileMoveOutput](t, env, "file_move", fields{"path": "f", "target": "d/e/g"})
	put(t, env, "h", "h")
	well[files.FileMoveOutput](t, env, "file_move", fields{"path": "h", "target": "d/e/g", "replace": true})
	if got := get(t, env, "d/e/g"); got != "h" {
		t.Errorf("%q", got)
	}
	if out := well[files.FileDeleteOutput](t, env, "file_delete", fields{"path": "d", "recursive": true}); out.Entries != 3 {
		t.Errorf("%+v", out)
	}
}

// TestProtectedFiles: what commands cannot change, the operations on files
// cannot either.
func TestProtectedFiles(t *testing.T) {
	env := lasting(t)
	ws := env.Default.Workspace.Source
	if out, err := osexec.Command("git", "init", "-q", ws).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(ws, ".git", "hooks"), 0o755); err != nil { // a git without templates makes none
		t.Fatal(err)
	}
	put(t, env, ".vscode/tasks.json", "{}\n")
	put(t, env, ".envrc", "x\n")
	config := get(t, env, ".git/config")
	edit := []fields{{"old": "x", "new": "y", "all": true}}
	tests := []struct {
		op string
		in fields
	}{
		{"file_write", fields{"path": ".git/hooks/pre-commit", "content": "x", "mode": "0755"}},
		{"file_write", fields{"path": ".git/hooks/pre-commit", "content": "x", "must_not_exist": true}},
		{"file_write", fields{"path": ".vscode/new.json", "content": "x"}},
		{"file_write", fields{"path": ".envrc", "content": "x"}},
		{"file_edit", fields{"path": ".envrc", "edits": edit}},
		{"file_edit", fields{"path": ".vscode/tasks.json", "edits": []fields{{"old": "{}", "new": "[]"}}}},
		{"file_mkdir", fields{"path": ".git/hooks/d"}},
		{"file_move", fields{"path": ".git", "target": "git"}},
		{"file_move", fields{"path": ".envrc", "target": "envrc"}},
		{"file_move", fields{"path": ".git/HEAD", "target": ".git/hooks/pre-commit"}},
		{"file_move", fields{"path": ".git/HEAD", "target": ".git/config", "replace": true}},
		{"file_delete", fields{"path": ".envrc"}},
		{"file_delete", fields{"path": ".vscode", "recursive": true}},
		{"patch_apply", fields{"patch": "--- a/.envrc\n+++ b/.envrc\n@@ -1 +1 @@\n-x\n+y\n"}},
		{"patch_apply", fields{"patch": "--- /dev/null\n+++ b/hooks/pre-commit\n@@ -0,0 +1 @@\n+y\n", "dir": ".git"}},
		{"patch_apply", fields{"patch": "diff --git a/.envrc b/.envrc\ndeleted file mode 100644\n--- a/.envrc\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"}},
	}
	for _, tt := range tests {
		_, err := try[any](t.Context(), t, env, tt.op, tt.in)
		if err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s %v: %v", tt.op, tt.in, err)
		}
	}
	// What commands have a copy of is read and written as they see it.
	well[exec.ExecAnswer](t, env, "exec", fields{"argv": []string{"git", "config", "user.name", "Ann"}})
	well[any](t, env, "patch_apply", fields{"patch": "--- a/config\n+++ b/config\n@@ -1 +1,3 @@\n+[user]\n+\temail = ann@example.com\n [core]\n", "dir": ".git"})
	if out := well[files.FileReadOutput](t, env, "file_read", fields{"path": ".git/config"}); !strings.Contains(out.Text, "name = Ann") {
		t.Errorf("%q", out.Text)
	}
	if out := well[exec.ExecAnswer](t, env, "exec", fields{"argv": []string{"git", "config", "user.email"}}); out.Stdout != "ann@example.com\n" {
		t.Errorf("%+v", out)
	}
	if get(t, env, ".git/config") != config || get(t, env, ".envrc") != "x\n" || get(t, env, ".vscode/tasks.json") != "{}\n" {
		t.Error("something protected was changed")
	}
	if left, _ := filepath.Glob(ws + "/.git/.paddock-*"); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// TestPathsOfSpecs: a workspace that is open for changes of protected paths is
// open here, too.
func TestUnprotectedFiles(t *testing.T) {
	env := lasting(t)
	put(t, env, ".envrc", "x\n")
	env.Default.Workspace.Unprotected = []string{".envrc"}
	well[files.FileWriteOutput](t, env, "file_write", fields{"path": ".envrc", "content": "y\n"})
	if got := get(t, env, ".envrc"); got != "y\n" {
		t.Errorf("%q", got)
	}
}

// TestEditsAtOnce: edits of one file that come together are all made.
func TestEditsAtOnce(t *testing.T) {
	env := lasting(t)
	const n = 24
	put(t, env, "f", numberedLines(n))
	well[files.FileStatOutput](t, env, "file_stat", fields{"path": "f"})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			line := fmt.Sprintf("line %d\n", i+1)
			if i%2 == 0 {
				_, err := try[any](context.Background(), t, env, "file_edit", fields{"path": "f", "edits": []fields{{"old": line, "new": "edited " + line, "all": true}}})
				if err != nil {
					t.Error(err)
				}
				return
			}
			text := fmt.Sprintf("--- a/f\n+++ b/f\n@@ -%d,1 +%d,1 @@\n-%s+edited %s", i+1, i+1, line, line)
			if _, err := try[any](context.Background(), t, env, "patch_apply", fields{"patch": text}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, want := get(t, env, "f"), strings.ReplaceAll(numberedLines(n), "line", "edited line"); got != want {
		t.Errorf("f is\n%s", got)
	}
}
