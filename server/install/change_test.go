package install

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPutAndDrop: what is put into a file stands where a person would write it, and
// taking it back leaves what was there.
func TestPutAndDrop(t *testing.T) {
	type edit struct{ put, drop func([]byte) ([]byte, error) }
	allow := jsonList{[]string{"permissions", "allow"}, []string{"a", "b"}}
	list := edit{allow.put, allow.drop}
	settings := tomlLines{{"features", "shell_tool", "false"}, {"", "sandbox_mode", `"read-only"`}}
	lines := edit{settings.put, settings.drop}
	server := jsonFormat{path: []string{"projects", "/p", "mcpServers"}}
	one := Server{Name: "box", Command: "x", Args: []string{}}
	deep := edit{
		func(old []byte) ([]byte, error) { return server.edit(old, one, false) },
		func(old []byte) ([]byte, error) { return server.remove(old, "box") },
	}
	const same = "\x00"
	for name, tt := range map[string]struct {
		edit
		old, want, back, err string
	}{
		"nothing":                 {list, "", "{\n  \"permissions\": {\n    \"allow\": [\n      \"a\",\n      \"b\"\n    ]\n  }\n}\n", "{}\n", ""},
		"an empty list":           {list, "{\n  \"permissions\": {\"allow\": []}\n}\n", "{\n  \"permissions\": {\"allow\": [\n    \"a\",\n    \"b\"\n  ]}\n}\n", "{}\n", ""},
		"a list in a line":        {list, "{\n  \"permissions\": {\"allow\": [\"x\"]}\n}\n", "{\n  \"permissions\": {\"allow\": [\"x\", \"a\", \"b\"]}\n}\n", same, ""},
		"a list over lines":       {list, "{\n  \"permissions\": {\n    \"allow\": [\n      \"x\" // mine\n    ]\n  }\n}\n", "{\n  \"permissions\": {\n    \"allow\": [\n      \"x\", // mine\n      \"a\",\n      \"b\"\n    ]\n  }\n}\n", same, ""},
		"one of the words before": {list, "{\"permissions\":{\"allow\":[\"b\",\"a\"]}}", "{\"permissions\":{\"allow\":[\"b\",\"a\",\"a\",\"b\"]}}", same, ""},
		"a trailing comma":        {list, "{\n  \"permissions\": {\n    \"allow\": [\n      \"x\",\n    ],\n  },\n}\n", "{\n  \"permissions\": {\n    \"allow\": [\n      \"x\",\n      \"a\",\n      \"b\",\n    ],\n  },\n}\n", same, ""},
		"a comma in a line":       {list, `{"permissions": {"allow": ["x",]}}`, `{"permissions": {"allow": ["x","a","b",]}}`, same, ""},
		"a comment in a line":     {list, `{"permissions": { /* none */ }}`, `{"permissions": { /* none */"allow":["a","b"]}}`, `{}`, ""},
		"a comment at the end":    {list, "{\n  \"permissions\": {\"allow\": [\"x\"]}\n} // end", "{\n  \"permissions\": {\"allow\": [\"x\", \"a\", \"b\"]}\n} // end", same, ""},
		"nested too deep":         {list, "{\n\"a\": " + strings.Repeat("[", 1<<20), "", "", "line 2: nested deeper than 200 levels"},
		"no list":                 {list, `{"permissions": {"allow": "all"}}`, "", "", "allow is not a list"},
		"no object":               {list, `{"permissions": []}`, "", "", "permissions is not an object"},
		"a name twice":            {list, `{"permissions": {}, "permissions": {}}`, "", "", "permissions appears twice"},
		"deep in nothing":         {deep, "", "{\n  \"projects\": {\n    \"/p\": {\n      \"mcpServers\": {\n        \"box\": {\n          \"command\": \"x\",\n          \"args\": []\n        }\n      }\n    }\n  }\n}\n", "{}\n", ""},
		"deep beside others":      {deep, "{\n  \"n\": 1e400,\n  \"projects\": {\n    \"/q\": {\"a\": 1}\n  }\n}\n", "{\n  \"n\": 1e400,\n  \"projects\": {\n    \"/q\": {\"a\": 1},\n    \"/p\": {\n      \"mcpServers\": {\n        \"box\": {\n          \"command\": \"x\",\n          \"args\": []\n        }\n      }\n    }\n  }\n}\n", same, ""},
		"no setting":              {lines, "", "sandbox_mode = \"read-only\"" + tomlMark + "\nfeatures.shell_tool = false" + tomlMark + "\n", same, ""},
		"settings and a table":    {lines, "# mine\nmodel = \"x\"\n\n[features] # these\nother = true\n", "sandbox_mode = \"read-only\"" + tomlMark + "\n# mine\nmodel = \"x\"\n\n[features] # these\nshell_tool = false" + tomlMark + "\nother = true\n", same, ""},
		"one that is there":       {lines, "sandbox_mode = \"read-only\"\n", "features.shell_tool = false" + tomlMark + "\nsandbox_mode = \"read-only\"\n", same, ""},
		"another value":           {lines, "sandbox_mode = \"workspace-write\"\n", "", "", "sandbox_mode is already set to a value other than \"read-only\""},
		"a table in a line":       {lines, "features = {other = true}\n", "", "", "not written in a way"},
		"other lines' ends":       {lines, "model = \"x\"\r\n", "sandbox_mode = \"read-only\"" + tomlMark + "\r\nfeatures.shell_tool = false" + tomlMark + "\r\nmodel = \"x\"\r\n", same, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.put([]byte(tt.old))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("%v, want %s\n%s", err, tt.err, got)
				}
				return
			}
			if diff := cmp.Diff(tt.want, string(got)); err != nil || diff != "" {
				t.Fatalf("%v (-want +got)\n%s", err, diff)
			}
			if again, err := tt.put(got); err != nil || string(again) != string(got) {
				t.Errorf("again: %v\n%s", err, again)
			}
			back, err := tt.drop(got)
			if want := strings.ReplaceAll(tt.back, same, tt.old); err != nil || string(back) != want {
				t.Errorf("taken back: %v\n%s", err, cmp.Diff(want, string(back)))
			}
			if nothing, err := tt.drop(back); err != nil || string(nothing) != string(back) {
				t.Errorf("taken back again: %v\n%s", err, nothing)
			}
		})
	}
}

// TestRemoveBesideComments: comments and lines around what is taken out stay.
func TestRemoveBesideComments(t *testing.T) {
	f := jsonFormat{path: []string{"s"}}
	for name, tt := range map[string]struct{ old, want string }{
		"between others":      {"{\"s\": {\n  // a's\n  \"a\": 1,\n  // ours\n  \"box\": {}, // tail\n  // b's\n  \"b\": 2\n}}", "{\"s\": {\n  // a's\n  \"a\": 1,\n  // ours\n  // tail\n  // b's\n  \"b\": 2\n}}"},
		"the first":           {"{\"s\": {\n  \"box\": {},\n  \"b\": 2\n}}", "{\"s\": {\n  \"b\": 2\n}}"},
		"the first of a line": {"{\"s\": {\n  // ours\n  \"box\": {}, \"b\": 2\n}}", "{\"s\": {\n  // ours\n  \"b\": 2\n}}"},
		"the last of a line":  {`{"s": {"a": 1, "box": {} }}`, `{"s": {"a": 1 }}`},
		"the last":            {"{\"s\": {\n  \"a\": 1 /* a's */,\n  // ours\n  \"box\": {} // tail\n}}", "{\"s\": {\n  \"a\": 1 /* a's */\n  // ours\n  // tail\n}}"},
		"before a bracket":    {"{\"s\": {\"a\": 1, // a's\n \"box\": {}}}", "{\"s\": {\"a\": 1 // a's\n }}"},
		"a trailing comma":    {"{\"s\": {\n  \"a\": 1,\n  \"box\": {},\n}}", "{\"s\": {\n  \"a\": 1,\n}}"},
		"the only one":        {"{\"s\": {\n  // ours\n  \"box\": {}\n}, \"z\": 1}", "{\"z\": 1}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := f.remove([]byte(tt.old), "box")
			if diff := cmp.Diff(tt.want, string(got)); err != nil || diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
}

// TestUndo: a file that says nothing any more is removed, one that is not there is
// no error, and one that is a link is left alone.
func TestUndo(t *testing.T) {
	dir := t.TempDir()
	target, err := Find("cursor", Project, dir)
	if err != nil {
		t.Fatal(err)
	}
	c := target.Server(paddock, false)
	if changed, err := c.Undo(); err != nil || changed {
		t.Errorf("nothing is there: %v, %v", changed, err)
	}
	if _, err := c.Do(); err != nil {
		t.Fatal(err)
	}
	if changed, err := c.Undo(); err != nil || !changed {
		t.Errorf("%v, %v", changed, err)
	}
	if _, err := os.Lstat(target.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file: %v", err)
	}
	outside := filepath.Join(t.TempDir(), "x.json")
	text := target.Server(paddock, false).Text
	if err := errors.Join(os.WriteFile(outside, []byte(text), 0o600), os.Symlink(outside, target.Path)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Undo(); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("over a link: %v", err)
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != text {
		t.Errorf("%s, %v", data, err)
	}
}

// TestUndoUnwritten: what cannot be written is an error, and is not said to be taken
// back.
func TestUndoUnwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 250)) // with a name that has room for no second file
	allow := jsonList{[]string{"permissions", "allow"}, []string{"mcp__paddock"}}
	c := Change{Path: path, mode: 0o600}.list(allow)
	text := `{"permissions": {"allow": ["mcp__paddock", "x"]}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	unsafe := (*UnsafeError)(nil)
	if changed, err := c.Undo(); changed || !errors.As(err, &unsafe) {
		t.Errorf("%v, %v", changed, err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != text {
		t.Errorf("%s, %v", data, err)
	}
}

// TestChangedMeanwhile: a file that somebody saves at the same moment stays as they left it.
func TestChangedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	c := Change{Path: path, mode: 0o600, put: func([]byte) ([]byte, error) {
		return []byte("ours"), os.WriteFile(path, []byte("theirs"), 0o600)
	}}
	if changed, err := c.Do(); changed || !errors.Is(err, ErrChanged) {
		t.Errorf("%v, %v", changed, err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "theirs" {
		t.Errorf("%s, %v", data, err)
	}
}

// TestClaudeProject: a project is the root of its repository, and of the main one
// for a worktree.
func TestClaudeProject(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"main/.git/worktrees/w", "main/sub", "w/sub", "odd", "plain"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"w/.git": "gitdir: " + dir + "/main/.git/worktrees/w\n", "odd/.git": "gitdir: ../../etc\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range map[string]string{"main": "main", "main/sub": "main", "w/sub": "main", "odd": "odd", "plain": "plain"} {
		if got := claudeProject(filepath.Join(dir, at)); got != filepath.Join(dir, want) {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}
