package table

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/files"
)

const patchOfMany = `diff --git a/f b/f
--- a/f
+++ b/f
@@ -13,3 +13,4 @@
 line 3
-line 4
+line four
+line four and a half
 line 5
diff --git a/old.sh b/new/name.sh
old mode 100644
new mode 100755
similarity index 50%
rename from old.sh
rename to new/name.sh
--- a/old.sh
+++ b/new/name.sh
@@ -1 +1 @@
-old
+new
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/made b/made
new file mode 100644
--- /dev/null
+++ b/made
@@ -0,0 +1 @@
+made
\ No newline at end of file
`

func orchard(t *testing.T) *op.Env {
	env := lasting(t)
	put(t, env, "f", numberedLines(20))
	put(t, env, "old.sh", "old\n")
	put(t, env, "gone", "gone\n")
	return env
}

func TestPatchApply(t *testing.T) {
	env := orchard(t)
	ws := env.Default.Workspace.Source
	for _, step := range []struct {
		in      fields
		applied bool
	}{{fields{"check": true}, false}, {fields{}, true}, {fields{"reverse": true}, true}, {fields{"patch_file": "p"}, true}} {
		put(t, env, "p", patchOfMany)
		if step.in["patch_file"] == nil {
			step.in["patch"] = patchOfMany
		}
		out := well[files.PatchApplyOutput](t, env, "patch_apply", step.in)
		if out.Applied != step.applied || len(out.Files) != 4 {
			t.Fatalf("%v: %+v", step.in, out)
		}
		var b strings.Builder
		if err := operation(t, "patch_apply").Render(&b, out); err != nil {
			t.Fatal(err)
		}
		_, made := os.Stat(filepath.Join(ws, "made"))
		if changed := made == nil; changed != (step.applied && step.in["reverse"] == nil) {
			t.Errorf("%v: changed: %v", step.in, changed)
		}
		if want := "modified f +2 -1\n  hunk 1 was applied at line 3, -10 lines from where its header says\nrenamed new/name.sh from old.sh +1 -1\ndeleted gone +0 -1\ncreated made +1 -0\n"; step.in["reverse"] == nil && !strings.HasPrefix(b.String(), want) {
			t.Errorf("%v is told as %q", step.in, b.String())
		}
		if step.in["reverse"] != nil && (get(t, env, "f") != numberedLines(20) || get(t, env, "old.sh") != "old\n" || get(t, env, "gone") != "gone\n") {
			t.Error("it was not taken back")
		}
	}
	info, err := os.Stat(filepath.Join(ws, "new", "name.sh"))
	if err != nil || info.Mode().Perm() != 0o755 || get(t, env, "new/name.sh") != "new\n" || get(t, env, "made") != "made" {
		t.Errorf("%v, %v", info, err)
	}
	if text := get(t, env, "f"); !strings.Contains(text, "line 3\nline four\nline four and a half\nline 5\n") {
		t.Errorf("%q", text)
	}
	if _, err := os.Stat(filepath.Join(ws, "gone")); err == nil {
		t.Error("gone is there")
	}
}

// TestPatchIsWhole: a patch of which one part does not fit changes nothing, and
// all that does not fit is told.
func TestPatchIsWhole(t *testing.T) {
	env := orchard(t)
	put(t, env, "made", "already\n")
	put(t, env, "gone", "other\n")
	_, err := try[any](t.Context(), t, env, "patch_apply", fields{"patch": patchOfMany})
	want := []string{`gone: hunk 1 (@@ -1,1 +0,0 @@): line 1 should be "gone\n", and is "other\n"`, "made: it exists already", "nothing was changed"}
	for _, text := range want {
		if err == nil || !strings.Contains(withHint(err), text) {
			t.Errorf("the error is %q, want %q", withHint(err), text)
		}
	}
	if get(t, env, "f") != numberedLines(20) || get(t, env, "old.sh") != "old\n" {
		t.Error("something was changed")
	}
}

// TestPatchIsTakenBack: where writing fails in the middle, what was written
// before is taken back, and the error says so. What is protected fails so.
func TestPatchIsTakenBack(t *testing.T) {
	env := orchard(t)
	put(t, env, ".vscode/settings.json", "{}\n")
	text := patchOfMany + "--- a/.vscode/settings.json\n+++ b/.vscode/settings.json\n@@ -1 +1 @@\n-{}\n+[]\n"
	_, err := try[any](t.Context(), t, env, "patch_apply", fields{"patch": text})
	if err == nil || !strings.Contains(err.Error(), "cannot patch .vscode/settings.json: it is read-only in this sandbox; what was written before is taken back: no file is changed") {
		t.Errorf("%v", err)
	}
	if get(t, env, "f") != numberedLines(20) || get(t, env, "old.sh") != "old\n" || get(t, env, "gone") != "gone\n" {
		t.Error("something is changed")
	}
	for _, name := range []string{"made", "new/name.sh"} {
		if _, err := os.Stat(filepath.Join(env.Default.Workspace.Source, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// TestPatchIsCancelled: the caller goes in the middle, and nothing is changed.
func TestPatchIsCancelled(t *testing.T) {
	env := orchard(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	input, err := json.Marshal(fields{"patch": patchOfMany})
	if err != nil {
		t.Fatal(err)
	}
	_, err = operation(t, "patch_apply").Call(ctx, env, input, &op.Stream{Progress: func(done, _ float64, _ string) {
		if done == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "no file is changed") {
		t.Errorf("%v", err)
	}
	if get(t, env, "f") != numberedLines(20) || get(t, env, "old.sh") != "old\n" || get(t, env, "gone") != "gone\n" {
		t.Error("something is changed")
	}
}

func TestFileEdit(t *testing.T) {
	env := lasting(t)
	put(t, env, "f", "a\r\nb\r\nc")
	if err := os.Chmod(filepath.Join(env.Default.Workspace.Source, "f"), 0o755); err != nil {
		t.Fatal(err)
	}
	out := well[files.FileEditOutput](t, env, "file_edit", fields{"path": "f", "edits": []fields{{"old": "a\nb\n", "new": "x\n"}, {"old": "c", "new": "d"}}})
	if got := get(t, env, "f"); got != "x\r\nd" || out.Replacements != 2 || out.SHA256 != sumOf(got) {
		t.Errorf("%q %+v", got, out)
	}
	if want := "@@ -1,3 +1,2 @@\n-a\r\n-b\r\n-c\n\\ No newline at end of file\n+x\r\n+d\n\\ No newline at end of file\n"; out.Diff != want {
		t.Errorf("the diff is %q", out.Diff)
	}
	info, err := os.Stat(filepath.Join(env.Default.Workspace.Source, "f"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	out = well[files.FileEditOutput](t, env, "file_edit", fields{"path": "new/f", "edits": []fields{{"old": "", "new": "x\n"}}})
	if !out.Created || get(t, env, "new/f") != "x\n" {
		t.Errorf("%+v", out)
	}
	put(t, env, "big", numberedLines(3000))
	out = well[files.FileEditOutput](t, env, "file_edit", fields{"path": "big", "edits": []fields{{"old": "line", "new": "text", "all": true}}})
	if out.Replacements != 3000 || len(out.Diff) > 8100 || !strings.HasSuffix(out.Diff, "more lines ...\n") {
		t.Errorf("%d replacements, a diff of %d characters", out.Replacements, len(out.Diff))
	}
}
