package table

import (
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/files"
)

func TestNameText(t *testing.T) {
	for name, want := range map[string]string{
		"src/main.go":           "src/main.go",
		"ein Wort, größer 日本 🙂": "ein Wort, größer 日本 🙂",
		"a\n           5  fake": `"a\n           5  fake"`,
		"red\x1b[31m":           `"red\x1b[31m"`,
		"a\u202eb":              `"a\u202eb"`,
		"a\U000e0041":           `"a\U000e0041"`,
		"a\xff":                 `"a\xff"`,
		"a\ufffd":               "\"a\ufffd\"",
		`"a"`:                   `"\"a\""`,
		"a ":                    `"a "`,
		"\t":                    `"\t"`,
		`a"b\c`:                 `a"b\c`,
	} {
		if got := text.QuoteName(name); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

// What no terminal shows is in no text but by its number, and names that would be taken
// for others are quoted; a file is read exactly as it is, so that it can be edited.
func TestWhatIsOddIsShown(t *testing.T) {
	env := lasting(t)
	const name, line = "a\n           5  fake", "x\x1b[31mred\x1b]0;title\a\u202e\U000e0041 y"
	const shown = "x⟦U+001B⟧[31mred⟦U+001B⟧]0;title⟦U+0007⟧⟦U+202E⟧⟦U+E0041⟧ y"
	well[files.FileWriteOutput](t, env, "file_write", fields{"path": name, "content": "1\n" + line + "\n"})
	list := well[files.FileListOutput](t, env, "file_list", nil)
	if len(list.Entries) != 1 || list.Entries[0].Path != name {
		t.Errorf("%+v", list)
	}
	rendered := func(op string, out any) string {
		var b strings.Builder
		if err := operation(t, op).Render(&b, out); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if text := rendered("file_list", list); !strings.Contains(text, `"a\n           5  fake"`) || strings.Count(text, "\n") != 1 {
		t.Error(text)
	}
	found := well[files.FileSearchOutput](t, env, "file_search", fields{"pattern": "red"})
	if len(found.Files) != 1 || found.Files[0].Path != name || found.Files[0].Lines[0].Text != shown {
		t.Errorf("%+v", found)
	}
	if text := rendered("file_search", found); text != `"a\n           5  fake":2:`+shown+"\n" {
		t.Error(text)
	}
	read := well[files.FileReadOutput](t, env, "file_read", fields{"path": name, "start_line": 2})
	if read.Text != line+"\n" {
		t.Errorf("%q", read.Text)
	}
	edited := well[files.FileEditOutput](t, env, "file_edit", fields{"path": name, "edits": []fields{{"old": read.Text, "new": "z\x1b[1m\n"}}})
	if !strings.Contains(edited.Diff, "-"+shown+"\n+z⟦U+001B⟧[1m\n") {
		t.Errorf("%q", edited.Diff)
	}
	if out := well[exec.ExecAnswer](t, env, "exec", fields{"argv": []string{"printf", line}}); out.Stdout != "xred y" {
		t.Errorf("%q", out.Stdout)
	}
	_, err := try[any](t.Context(), t, env, "file_read", fields{"path": "b\n\x1b[31m"})
	if err == nil || err.Error() != `cannot read "b\n\x1b[31m": it does not exist` {
		t.Error(err)
	}
}
