package patch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func forest() memory {
	return memory{
		"f":      {[]byte(numbered(20)), 0o640},
		"crlf":   {[]byte("a\r\nb\r\nc\r\n"), 0o644},
		"spaces": {[]byte("if x {\n\treturn\n}\n"), 0o644},
		"d/e":    {[]byte("e\n"), 0o755},
		"twice":  {[]byte("a\nb\nx\na\nb\ny\n"), 0o644},
	}
}

const edit = "@@ -3,3 +3,3 @@\n line 3\n-line 4\n+line four\n line 5\n"

// TestApplies: what people and models write is applied, if it can mean one thing.
func TestApplies(t *testing.T) {
	tests := []struct {
		name, patch string
		o           Options
		file, want  string // the file, and a text that is in it then
		kind        string
		offset      int
	}{
		{"git's", "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n" + edit, Options{}, "f", "line four\n", Modified, 0},
		{"diff -u with times", "--- a/f\t2024-01-01 00:00:00.0 +0000\n+++ b/f\t2024-01-02 00:00:00.0 +0000\n" + edit, Options{}, "f", "line four\n", Modified, 0},
		{"diff -ru", "--- old/f\n+++ new/f\n" + edit, Options{}, "f", "line four\n", Modified, 0},
		{"no prefixes", "--- f\n+++ f\n" + edit, Options{}, "f", "line four\n", Modified, 0},
		{"no prefixes in a directory", "--- d/e\n+++ d/e\n@@ -1 +1 @@\n-e\n+E\n", Options{}, "d/e", "E\n", Modified, 0},
		{"no end of the last line", strings.TrimSuffix("--- a/f\n+++ b/f\n"+edit, "\n"), Options{}, "f", "line four\n", Modified, 0},
		{"words around it", "Here is it:\n\n```diff\n--- a/f\n+++ b/f\n" + edit + "```\nDone.\n", Options{}, "f", "line four\n", Modified, 0},
		{"a mail", "From 1 Mon\nSubject: x\n\n---\n f | 2 +-\n\n--- a/f\n+++ b/f\n" + edit + "-- \n2.39.5\n\n", Options{}, "f", "line four\n", Modified, 0},
		{"wrong line", "--- a/f\n+++ b/f\n" + strings.ReplaceAll(edit, "3,3", "9,3"), Options{}, "f", "line four\n", Modified, -6},
		{"wrong counts", "--- a/f\n+++ b/f\n" + strings.ReplaceAll(edit, "3,3", "3,9"), Options{Recount: true}, "f", "line four\n", Modified, 0},
		{"empty lines between hunks", "--- a/f\n+++ b/f\n" + edit + "\n\n@@ -12,3 +12,2 @@\n line 12\n-line 13\n line 14\n", Options{}, "f", "line 12\nline 14\n", Modified, 0},
		{"no context behind", "--- a/f\n+++ b/f\n@@ -3,2 +3,2 @@\n line 3\n-line 4\n+line four\n", Options{}, "f", "line four\n", Modified, 0},
		{"a creation", "--- /dev/null\n+++ b/new/x\n@@ -0,0 +1 @@\n+x\n", Options{}, "new/x", "x\n", Created, 0},
		{"a creation written as a change", "--- a/new/x\n+++ b/new/x\n@@ -0,0 +1 @@\n+x\n", Options{}, "new/x", "x\n", Created, 0},
		{"CRLF throughout", strings.ReplaceAll("--- a/crlf\n+++ b/crlf\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "\n", "\r\n"), Options{}, "crlf", "B\r\n", Modified, 0},
		{"two of one file", "--- a/f\n+++ b/f\n" + edit + "--- a/f\n+++ b/f\n@@ -4 +4 @@\n-line four\n+line IV\n", Options{}, "f", "line IV\n", Modified, -0},
		{"git's without names behind it", "diff --git a/d/e b/d/e\n@@ -1 +1 @@\n-e\n+E\n", Options{}, "d/e", "E\n", Modified, 0},
		{"git's with one name alone", "diff --git a/new/x b/new/x\nnew file mode 100644\n+++ b/new/x\n@@ -0,0 +1 @@\n+x\n", Options{}, "new/x", "x\n", Created, 0},
		{"a line within git's header", "diff --git a/f b/f\nindex 1..2 100644\n\n--- a/f\n+++ b/f\n" + edit, Options{}, "f", "line four\n", Modified, 0},
		{"git's with a quoted name", "diff --git \"a/\\144/e\" \"b/\\144/e\"\n--- \"a/\\144/e\"\n+++ \"b/\\144/e\"\n@@ -1 +1 @@\n-e\n+E\n", Options{}, "d/e", "E\n", Modified, 0},
		{"strip 2", "--- x/y/f\n+++ x/y/f\n" + edit, Options{Strip: new(int(2))}, "f", "line four\n", Modified, 0},
		{"reverse", "--- a/f\n+++ b/f\n@@ -3,3 +3,3 @@\n line 3\n-line four\n+line 4\n line 5\n", Options{Reverse: true}, "f", "line four\n", Modified, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, r, err := applied(forest(), tt.patch, tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if text := string(got[tt.file].Content); !strings.Contains(text, tt.want) {
				t.Errorf("%s holds %q", tt.file, text)
			}
			if r.Changes[0].Kind != tt.kind || tt.offset != 0 && r.Changes[0].Hunks[0].Offset != tt.offset {
				t.Errorf("it is told as %+v", r.Changes[0])
			}
		})
	}
}

// TestRefuses: what is wrong is told with its place, and what to do.
func TestRefuses(t *testing.T) {
	tests := []struct{ name, patch, want, hint string }{
		{"nothing", "", "cannot read the patch: it changes no file", "unified diff"},
		{"no patch", "*** Begin Patch\n*** Update File: f\n", "it changes no file", "--- a/PATH"},
		{"no numbers", "--- a/f\n+++ b/f\n@@ func x @@\n-a\n", `line 3: "@@ func x @@" is not the header of a hunk`, "@@ -START,COUNT"},
		{"no header", edit, "line 1: a hunk follows neither the header of a file nor a hunk", "--- a/PATH"},
		{"no hunk", "--- a/f\n+++ b/f\nx\n", "no hunk follows the names of the files", ""},
		{"too long a count", "--- a/f\n+++ b/f\n" + strings.ReplaceAll(edit, "3,3", "3,4"), "line 3: the header says that the hunk has 4 old and 4 new lines, and it has 3 and 3", "write @@ -3,3 +3,3 @@, or set recount"},
		{"too short a count", "--- a/f\n+++ b/f\n" + strings.ReplaceAll(edit, "3,3", "3,2"), "has 2 old and 2 new lines, and it has 3 and 3", "recount"},
		{"no change", "--- a/f\n+++ b/f\n@@ -3,1 +3,1 @@\n line 3\n", "fragment contains no changes", ""},
		{"absolute", "--- /etc/passwd\n+++ /etc/passwd\n" + edit, "a path is absolute", "from the workspace"},
		{"absolute for git", "diff --git /etc/passwd /etc/passwd\n--- /etc/passwd\n+++ /etc/passwd\n" + edit, "a path is absolute", ""},
		{"absolute behind a prefix", "--- a//etc/passwd\n+++ b//etc/passwd\n" + edit, "etc/passwd: etc/passwd does not exist", ""},
		{"two names for one file", "diff --git a/f b/x\nrename from f\nrename to x\n--- a/f\n+++ b/y\n" + edit, "lines of the header name different files", ""},
		{"upwards", "--- a/../f\n+++ b/../f\n" + edit, `cannot use the file "../f": its path leads up with ..`, ""},
		{"upwards by a rename", "diff --git a/f b/../x\nsimilarity index 100%\nrename from f\nrename to ../x\n", "its path leads up with ..", ""},
		{"git's own", "--- a/.git/config\n+++ b/.git/config\n" + edit, "its path is within .git", ""},
		{"git's own, written otherwise", "--- a/x/.GIT/hooks/y\n+++ b/x/.GIT/hooks/y\n" + edit, "its path is within .git", ""},
		{"a link", "diff --git a/l b/l\nnew file mode 120000\nindex 0000000..1111111\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n", "l is a symbolic link", "ln -s"},
		{"a submodule", "diff --git a/m b/m\nindex 1111111..2222222 160000\n--- a/m\n+++ b/m\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n", "m is neither a regular file nor a link", "git submodule"},
		{"binary without data", "diff --git a/f b/f\nindex 1111111..2222222 100644\nBinary files a/f and b/f differ\n", "no data for the binary file f", "git diff --binary"},
		{"missing", "--- a/g\n+++ b/g\n" + edit, "g: g does not exist", ""},
		{"there already", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", "f: it exists already", ""},
		{"moved over another", "diff --git a/f b/twice\nsimilarity index 100%\nrename from f\nrename to twice\n", "twice: it exists already", ""},
		{"below a file", "--- /dev/null\n+++ b/f/g\n@@ -0,0 +1 @@\n+x\n", "f/g: f is not a directory", ""},
		{"another line", "--- a/f\n+++ b/f\n" + strings.ReplaceAll(edit, "line 5", "line V"), `f: hunk 1 (@@ -3,3 +3,3 @@): line 5 should be "line V\n", and is "line 5\n"`, "read the file again"},
		{"beyond the end", "--- a/d/e\n+++ b/d/e\n" + edit, `line 2 should be "line 3\n", and the file has 1 lines`, ""},
		{"white space", "--- a/spaces\n+++ b/spaces\n@@ -1,3 +1,3 @@\n if x {\n-  return\n+  return 1\n }\n", `line 2 should be "  return\n", and is "\treturn\n"`, "at line 1 its lines differ in white space alone"},
		{"line ends", "--- a/crlf\n+++ b/crlf\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", `line 1 should be "a\n", and is "a\r\n"`, "the file's end in CRLF"},
		{"done already", "--- a/f\n+++ b/f\n@@ -3,3 +3,3 @@\n line 3\n-line for\n+line 4\n line 5\n", "", "it seems to be applied already, at line 3"},
		{"at two places", "--- a/twice\n+++ b/twice\n@@ -3,2 +3,2 @@\n a\n-b\n+c\n", "hunk 1", "more than once"},
		{"only added", "--- a/f\n+++ b/f\n@@ -3,0 +4,1 @@\n+x\n", "it only adds lines, without context", "context"},
		{"not deleted whole", "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-line 1\n", "does not remove all", ""},
		{"all that is wrong", "--- a/f\n+++ b/f\n@@ -3,1 +3,1 @@\n-line x\n+y\n@@ -5,1 +5,1 @@\n-line z\n+y\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", "hunk 2", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := applied(forest(), tt.patch, Options{})
			if err == nil {
				t.Fatal("it is applied")
			}
			text := err.Error()
			var syntax *SyntaxError
			if errors.As(err, &syntax) {
				text += " " + syntax.Hint
			}
			if !strings.Contains(text, tt.want) || !strings.Contains(text, tt.hint) {
				t.Errorf("the error is %q, want %q and %q", text, tt.want, tt.hint)
			}
		})
	}
}

// TestSwap: files that take each other's names.
func TestSwap(t *testing.T) {
	before := memory{"a": {[]byte("a\n"), 0o644}, "b": {[]byte("b\n"), 0o755}}
	got, _, err := applied(before, "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\ndiff --git a/b b/a\nsimilarity index 100%\nrename from b\nrename to a\n", Options{})
	if err != nil || string(got["a"].Content) != "b\n" || string(got["b"].Content) != "a\n" || got["a"].Perm != 0o755 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestWorkIsBounded: patches made to take long do not.
func TestWorkIsBounded(t *testing.T) {
	defer func(before int) { maxWork = before }(maxWork)
	maxWork >>= 4 // the race detector takes 40 times as long
	same := strings.Repeat("a\n", 400_000)
	var hunk strings.Builder
	fmt.Fprintf(&hunk, "--- a/f\n+++ b/f\n@@ -100,%d +100,%d @@\n", 100_001, 100_001)
	hunk.WriteString(strings.Repeat(" a\n", 100_000) + "-b\n+c\n")
	spaces := "diff --git a" + strings.Repeat(" x", maxHeader) + "\n"
	for name, text := range map[string]string{
		"a long search":      hunk.String(),
		"a long header":      spaces,
		"many files":         strings.Repeat("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\n", MaxFiles+1),
		"many hunks":         "--- a/f\n+++ b/f\n" + strings.Repeat("@@ -1 +1 @@\n-a\n+b\n", MaxHunks+1),
		"a long text":        strings.Repeat("a\n", MaxText),
		"too much of a file": "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..1111111\nGIT binary patch\nliteral 999999999\nA00000\n\n",
	} {
		begun := time.Now()
		_, _, err := applied(memory{"f": {[]byte(same), 0o644}}, text, Options{})
		if took := time.Since(begun); err == nil || took > time.Minute {
			t.Errorf("%s: %v after %v", name, err, took)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := Parse([]byte(hunk.String()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(ctx, memory{"f": {[]byte(same), 0o644}}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// FuzzApply: whatever the patch, it is refused or leads to files whose paths
// are clean, and the tree that it was applied to is as it was.
func FuzzApply(f *testing.F) {
	f.Add([]byte("--- a/f\n+++ b/f\n"+edit), false)
	f.Add([]byte("diff --git a/f b/../x\nsimilarity index 100%\nrename from f\nrename to ../x\n"), true)
	f.Add([]byte("diff --git a/x b/x\nnew file mode 100755\nindex 0000000..1111111\nGIT binary patch\nliteral 1\nIcmZ\n\nliteral 0\nHcmV?d00001\n\n"), false)
	f.Add([]byte("--- \"a/f\\303\"\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n\\ No newline at end of file\n"), true)
	f.Fuzz(func(t *testing.T, text []byte, reverse bool) {
		before := forest()
		was := before.String()
		_, r, err := applied(before, string(text), Options{Reverse: reverse, Recount: len(text)%2 == 0})
		if before.String() != was {
			t.Fatal("the tree is another")
		}
		if err != nil {
			return
		}
		for _, s := range r.Steps {
			if clean, reason := cleanPath(s.Path); clean != s.Path || reason != "" {
				t.Errorf("it leads to %q", s.Path)
			}
			if s.New != nil && s.New.Perm&^0o777 != 0 {
				t.Errorf("%s gets the mode %o", s.Path, s.New.Perm)
			}
		}
	})
}
