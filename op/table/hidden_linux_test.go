package table

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op/internal/files"
)

// TestShownIsTakenBack: what a model reads of a file, by any tool that shows it, it can
// write back as it is.
func TestShownIsTakenBack(t *testing.T) {
	env := lasting(t)
	env.Budget = 20_000
	const text = "\ufeffred \x1b[31m\nthe text ⟦U+001B⟧\nover\rwritten\u2060\n"
	put(t, env, "a", text)
	read := tell(t, well[files.FileReadOutput](t, env, "file_read", fields{"path": "a"}))
	var lines strings.Builder
	for line := range strings.Lines(read) {
		if _, text, ok := strings.Cut(line, "\t"); ok {
			lines.WriteString(text)
		}
	}
	well[files.FileWriteOutput](t, env, "file_write", fields{"path": "b", "content": lines.String()})
	if got := get(t, env, "b"); got != text {
		t.Errorf("%q is written back as %q", lines.String(), got)
	}
	well[files.FileWriteOutput](t, env, "file_write", fields{"path": "c", "content": base64.StdEncoding.EncodeToString([]byte("⟦U+001B⟧")), "encoding": "base64"})
	if got := get(t, env, "c"); got != "⟦U+001B⟧" {
		t.Errorf("the bytes are %q", got)
	}
	found := searched(t, env, fields{"pattern": "written", "path": "a"}).Files[0].Lines[0].Text
	out := well[files.FileEditOutput](t, env, "file_edit", fields{"path": "a", "edits": []fields{{"old": found, "new": "⟦U+001B⟧"}, {"old": "⟦U+001B⟧[31m", "new": "⟦U+001B⟧[32m"}}})
	if got := get(t, env, "a"); got != "\ufeffred \x1b[32m\nthe text ⟦U+001B⟧\n\x1b\n" {
		t.Errorf("%q was edited to %q", found, got)
	}
	well[files.PatchApplyOutput](t, env, "patch_apply", fields{"patch": "--- a/a\n+++ b/a\n" + out.Diff, "reverse": true})
	if got := get(t, env, "a"); got != text {
		t.Errorf("the diff, taken back, gives %q:\n%s", got, out.Diff)
	}
}
