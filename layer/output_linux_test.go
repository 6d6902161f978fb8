package layer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWriteStatus(t *testing.T) {
	var b bytes.Buffer
	err := WriteStatus(&b, []Change{
		{Path: "a b", Kind: Added}, {Path: "c\nd", Kind: Modified}, {Path: "d", Kind: Deleted},
		{Path: "e", Kind: Deleted}, {Path: "e", Kind: Renamed, From: "d"}, {Path: "f", Kind: Retyped},
	})
	const want = "A\ta b\nM\t\"c\\nd\"\nD\te\nR\td\te\nT\tf\n"
	if err != nil || b.String() != want {
		t.Errorf("got %v and\n%swant\n%s", err, b.String(), want)
	}
}

func TestWritePatch(t *testing.T) {
	o := newOverlay(t, TrustedMarks)
	o.below(t, `umask 022
		mkdir -p dir/.git moved gone; for i in 1 2 3 4 5 6 7 8 9; do echo $i; done >text; printf a >tail; echo a >run; echo a >closed
		ln -s old link; echo 1 >moved/same; echo 2 >moved/changed; echo a >dir/.git/config; printf 'a\000' >bin; mkfifo pipe; echo a >gone/f`)
	o.change(t, `umask 022
		sed -i 5d text; printf b >tail; chmod 755 run; chmod 600 closed; ln -sfn new link; mv moved here; echo 3 >here/changed
		echo b >dir/.git/config; printf 'b\000' >bin; rm pipe; rm -r gone; echo new >"sp ace"; mkdir empty; touch nothing; ln -s x .gitmodules; mkfifo fifo`)
	var b bytes.Buffer
	if err := o.layer(t).WritePatch(t.Context(), &b, o.changes(t), PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	const want = `# .gitmodules is not in this patch: git takes no link of this name
# Binary files a/bin and b/bin differ
# closed is not in this patch: git knows no such change of a mode, -rw-r--r-- to -rw-------
# empty is not in this patch: an empty directory
# fifo is not in this patch: a special file, p---------
diff --git a/gone/f b/gone/f
deleted file mode 100644
--- a/gone/f
+++ /dev/null
@@ -1,1 +0,0 @@
-a
diff --git a/moved/changed b/here/changed
rename from moved/changed
rename to here/changed
--- a/moved/changed
+++ b/here/changed
@@ -1,1 +1,1 @@
-2
+3
diff --git a/moved/same b/here/same
similarity index 100%
rename from moved/same
rename to here/same
diff --git a/link b/link
--- a/link
+++ b/link
@@ -1,1 +1,1 @@
-old
\ No newline at end of file
+new
\ No newline at end of file
diff --git a/nothing b/nothing
new file mode 100644
# pipe is not in this patch: a special file, p---------
diff --git a/run b/run
old mode 100644
new mode 100755
diff --git a/sp ace b/sp ace
new file mode 100644
--- /dev/null
+++ b/sp ace` + "\t" + `
@@ -0,0 +1,1 @@
+new
diff --git a/tail b/tail
--- a/tail
+++ b/tail
@@ -1,1 +1,1 @@
-a
\ No newline at end of file
+b
\ No newline at end of file
diff --git a/text b/text
--- a/text
+++ b/text
@@ -2,7 +2,6 @@
 2
 3
 4
-5
 6
 7
 8
# dir/.git is not in this patch: git takes no patch of its own directory (changes: 1)
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s", got)
	}
	gitApply(t, copyTree(t, o.source()), b.Bytes())
}

func TestWriteStat(t *testing.T) {
	o := newOverlay(t, TrustedMarks)
	o.below(t, `printf 'a\nb\nc\n' >text; printf 'a\000' >bin; mkdir d; echo 1 >d/f; echo 1 >d/g; echo a >"old
name"; ln -s x type; echo a >run; chmod 644 run`)
	o.change(t, `printf 'a\nx\ny\nc\n' >text; printf 'bb\000' >bin; mv d e; echo 2 >e/f; rm "old
name"; rm type; echo a >type; mkfifo pipe; chmod 755 run; seq 1000 >many
		mkdir -p long/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/bbbbbbbbbbbbbbbbbbbbbb; echo 1 >long/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/bbbbbbbbbbbbbbbbbbbbbb/f`)
	var b bytes.Buffer
	if err := o.layer(t).WriteStat(t.Context(), &b, o.changes(t)); err != nil {
		t.Fatal(err)
	}
	const want = ` bin                                                | Bin 2 -> 3 bytes
 d/f => e/f                                         |    2 +-
 d/g => e/g                                         |    0
 .../bbbbbbbbbbbbbbbbbbbbbb/f                       |    1 +
 many                                               | 1000 +++++++++++++++++++++
 "old\nname"                                        |    1 -
 pipe                                               | special file
 run                                                |    0
 text                                               |    3 +-
 type                                               |    2 +-
 10 files changed, 1005 insertions(+), 4 deletions(-)
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s", got)
	}
	b.Reset()
	if err := o.layer(t).WriteStat(t.Context(), &b, nil); err != nil || b.Len() > 0 {
		t.Errorf("nothing is %q, %v", b.String(), err)
	}
}

func TestWriteTar(t *testing.T) {
	o := newOverlay(t, TrustedMarks)
	o.below(t, `mkdir d e; echo 1 >d/f; echo 1 >d/g; echo 1 >e/x; echo 1 >gone`)
	o.change(t, `umask 022; rm gone e/x; mv -T d e; rm e/g; echo new >n; ln n m; chmod 6755 n; ln -s /etc/passwd l; mkfifo p
		python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")' || perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0); bind(S,pack_sockaddr_un("sock"))' || mknod sock p`)
	var b bytes.Buffer
	left, err := o.layer(t).WriteTar(t.Context(), &b, o.changes(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range left {
		if c.Path != "sock" {
			t.Errorf("%q is left", c.Path)
		}
	}
	var got strings.Builder
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name != "sock" {
			fmt.Fprintf(&got, "%c %o %s %s\n", h.Typeflag, h.Mode, h.Name, h.Linkname)
		}
	}
	const want = `0 0 .wh.d ` + `
5 755 e/ ` + `
0 0 e/.wh..wh..opq ` + `
0 644 e/f ` + `
0 0 .wh.gone ` + `
2 777 l /etc/passwd
0 755 m ` + `
1 755 n m
6 644 p ` + `
`
	if got.String() != want {
		t.Errorf("got\n%s", got.String())
	}
}

func TestTarOfMarks(t *testing.T) {
	o := newOverlay(t, UserMarks)
	if err := os.WriteFile(filepath.Join(o.upper(), ".wh.x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := o.layer(t).WriteTar(t.Context(), io.Discard, o.changes(t))
	var name *NameError
	if !errors.As(err, &name) || name.Path != ".wh.x" {
		t.Errorf("got %v", err)
	}
}

// A sparse file of a tebibyte is shown by its size, and never read.
func TestOutputOfSparseLayer(t *testing.T) {
	o := newOverlay(t, UserMarks)
	path := filepath.Join(o.upper(), "large")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip("no overlay can be had here: ", err)
	}
	l, changes := o.layer(t), o.changes(t)
	var limit *LimitError
	if _, err := l.WriteTar(t.Context(), io.Discard, changes); !errors.As(err, &limit) || limit.Path != "large" {
		t.Errorf("the archive: %v", err)
	}
	for _, options := range []PatchOptions{{}, {Binary: true}} {
		var b bytes.Buffer
		if err := l.WritePatch(t.Context(), &b, changes, options); err != nil || !strings.HasPrefix(b.String(), "# ") || strings.Count(b.String(), "\n") != 1 {
			t.Errorf("the patch: %v %q", err, b.String())
		}
	}
	var b bytes.Buffer
	if err := l.WriteStat(t.Context(), &b, changes); err != nil || !strings.Contains(b.String(), "Bin 0 -> 1099511627776 bytes") {
		t.Errorf("the summary: %v %s", err, b.String())
	}
}

// What was replaced by a link, or by another file, since it was listed is not read.
func TestChangedSinceListed(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"link":    func(path string) error { return os.Symlink("/etc/passwd", path) },
		"another": func(path string) error { return os.WriteFile(path, []byte("secret\n"), 0o644) },
		"pipe":    func(path string) error { return unix.Mkfifo(path, 0o644) },
		"gone":    func(string) error { return nil },
		"directory": func(path string) error {
			return os.Mkdir(path, 0o755)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOverlay(t, UserMarks)
			path := filepath.Join(o.upper(), "f")
			if err := os.WriteFile(path, []byte("text\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			l, changes := o.layer(t), o.changes(t)
			if err := os.Rename(path, filepath.Join(o.dir, "old")); err != nil {
				t.Fatal(err)
			}
			if err := replace(path); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
			var b bytes.Buffer
			err := l.WritePatch(t.Context(), &b, changes, PatchOptions{Binary: true})
			var changed *ChangedError
			if !errors.As(err, &changed) || changed.Path != "f" || changed.Source || b.Len() > 0 {
				t.Errorf("the patch: %v %q", err, b.String())
			}
			if _, err := l.WriteTar(t.Context(), io.Discard, changes); !errors.As(err, &changed) {
				t.Errorf("the archive: %v", err)
			}
		})
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestEndOfOutput(t *testing.T) {
	o := newOverlay(t, UserMarks)
	if err := os.WriteFile(filepath.Join(o.upper(), "f"), bytes.Repeat([]byte("line\n"), 100_000), 0o644); err != nil {
		t.Fatal(err)
	}
	l, changes := o.layer(t), o.changes(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, write := range map[string]func(ctx context.Context, w io.Writer) error{
		"status": func(ctx context.Context, w io.Writer) error { return errors.Join(WriteStatus(w, changes), ctx.Err()) },
		"stat":   func(ctx context.Context, w io.Writer) error { return l.WriteStat(ctx, w, changes) },
		"patch":  func(ctx context.Context, w io.Writer) error { return l.WritePatch(ctx, w, changes, PatchOptions{}) },
		"tar":    func(ctx context.Context, w io.Writer) error { _, err := l.WriteTar(ctx, w, changes); return err },
	} {
		if err := write(t.Context(), failing{}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %v", name, err)
		}
		if err := write(ended, io.Discard); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", name, err)
		}
	}
}

// A deleted directory is one change, and may be any number of files.
func TestBoundsOfOutput(t *testing.T) {
	o := newOverlay(t, UserMarks)
	o.below(t, `mkdir -p gone/a/b; for i in 1 2 3 4 5 6 7 8; do echo a >gone/a/b/$i; done`)
	o.change(t, `rm -r gone`)
	l, changes := o.layer(t), o.changes(t)
	for want, most := range map[string]limits{
		"more than 9 entries":            {entries: 9, depth: 3, bytes: 1000},
		"more than 2 levels of director": {entries: 10, depth: 2, bytes: 1000},
		"more than 50 bytes of paths":    {entries: 10, depth: 3, bytes: 50},
		"":                               {entries: 10, depth: 3, bytes: 1000},
	} {
		files, err := l.files(t.Context(), changes, most)
		var limit *LimitError
		switch {
		case want == "" && (err != nil || len(files) != 8):
			t.Errorf("got %d files and %v", len(files), err)
		case want != "" && (!errors.As(err, &limit) || !strings.Contains(err.Error(), want)):
			t.Errorf("got %v, want one of %s", err, want)
		}
	}
	var b bytes.Buffer
	w := &bounded{w: &b, what: "bytes of patch", path: "f", most: 10}
	_, first := w.Write([]byte("12345678"))
	_, second := w.Write([]byte("123"))
	_, third := w.Write(nil)
	var limit *LimitError
	if first != nil || !errors.As(second, &limit) || third == nil || b.String() != "12345678" {
		t.Errorf("got %v, %v, %v and %q", first, second, third, b.String())
	}
}

// A patch has, of what was moved into git's own directory or out of it, the side that is outside.
func TestWritePatchOutOfGit(t *testing.T) {
	o := newOverlay(t, TrustedMarks)
	o.below(t, `umask 022; mkdir -p .git/refs/e docs; echo build >.git/refs/e/build.sh; echo old >.git/refs/e/note; echo doc >docs/doc`)
	o.change(t, `umask 022; mv .git/refs/e scripts; echo new >scripts/note; mv docs .git/refs/docs`)
	var b bytes.Buffer
	shown := map[string]bool{}
	options := PatchOptions{Shown: func(path string, _ ContentSum) { shown[path] = true }}
	if err := o.layer(t).WritePatch(t.Context(), &b, o.changes(t), options); err != nil {
		t.Fatal(err)
	}
	const want = `diff --git a/docs/doc b/docs/doc
deleted file mode 100644
--- a/docs/doc
+++ /dev/null
@@ -1,1 +0,0 @@
-doc
diff --git a/scripts/build.sh b/scripts/build.sh
new file mode 100644
--- /dev/null
+++ b/scripts/build.sh
@@ -0,0 +1,1 @@
+build
diff --git a/scripts/note b/scripts/note
new file mode 100644
--- /dev/null
+++ b/scripts/note
@@ -0,0 +1,1 @@
+new
# .git is not in this patch: git takes no patch of its own directory (changes: 3)
`
	if got := b.String(); got != want || !shown["scripts/build.sh"] || !shown["scripts/note"] {
		t.Errorf("shown %v, got\n%s", shown, got)
	}
}
