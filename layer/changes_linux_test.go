package layer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestChanges(t *testing.T) {
	tests := []struct {
		name, below, change, want string
	}{
		{"nothing", `echo a >f`, `true`, ``},
		{"read", `mkdir d; echo a >d/f`, `cat d/f; ls -R`, ``},
		{"added", `mkdir d`, `echo a >f; echo a >d/f; mkdir e; ln -s x l`, `A "d/f"
A "e"
A "f"
A "l"
`},
		{"content", `mkdir d; echo a >d/f; echo b >g`, `echo b >d/f; echo b >>g`, `M "d/f"
M "g"
`},
		{"copied up", `mkdir d; echo a >d/f; chmod 644 d/f`, `touch d/f; chmod 600 d/f; chmod 644 d/f; chmod 711 d; chmod 755 d`, ``},
		{"replaced by the same", `echo a >f; chmod 644 f`, `rm f; echo a >f; chmod 644 f`, ``},
		{"mode", `mkdir d; echo a >f`, `chmod 755 f; chmod 700 d`, `M "d"
M "f"
`},
		{"set-id", `echo a >f; chmod 755 f`, `chmod 4755 f`, `M "f"
`},
		{"deleted", `mkdir -p d/e; echo a >f; echo a >d/e/f`, `rm f; rm -r d`, `D "d"
D "f"
`},
		{"made and deleted", `true`, `echo a >f; rm f; mkdir d; rmdir d`, ``},
		{"types", `mkdir d; echo a >d/f; echo a >f; ln -s x l`, `rm -r d f l; echo a >d; mkdir f; echo a >f/g; mkfifo l`, `T "d"
T "f"
A "f/g"
T "l"
`},
		{"link", `ln -s x l; ln -s x m`, `ln -sfn y l; ln -sfn x m`, `M "l"
`},
		{"opaque", `mkdir -p d/e; echo a >d/f; echo a >d/g; echo a >d/e/f; echo a >d/e/g; chmod 644 d/f`,
			`rm -r d; mkdir -p d/e; echo a >d/f; chmod 644 d/f; echo b >d/h; echo b >d/e/f`, `M "d/e/f"
D "d/e/g"
D "d/g"
A "d/h"
`},
		{"opaque, and the same", `mkdir -p d; echo a >d/f; chmod 644 d/f`, `rm -r d; mkdir d; echo a >d/f; chmod 644 d/f`, ``},
		{"hard links", `echo a >f; ln f g`, `echo b >>f; ln f h`, `M "f"
A "h"
`},
		{"odd names", `echo a >"a b"`, `echo a >"$(printf 'n\nl')"; echo a >"$(printf '\377')"; mkdir "$(printf '\033[31m')"; rm "a b"; echo a >"-" `,
			`A "\x1b[31m"
A "-"
D "a b"
A "n\nl"
A "\xff"
`},
		{"special", `mkfifo p`, `mkfifo q; chmod 600 p`, `M "p"
A "q"
`},
		{"order", `true`, `mkdir a; echo a >a/b; echo a >a.txt; echo a >a-b`, `A "a"
A "a-b"
A "a.txt"
A "a/b"
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bothMarks(t, func(t *testing.T, o *overlay) {
				o.below(t, tt.below)
				o.change(t, "umask 022; "+tt.change)
				if got := list(o.changes(t)); got != tt.want {
					t.Errorf("got\n%swant\n%s", got, tt.want)
				}
			})
		})
	}
}

func TestRenames(t *testing.T) {
	const below = `mkdir -p d/sub e; echo 1 >d/f; echo 2 >d/g; echo 3 >d/sub/h; echo 4 >e/i`
	tests := []struct {
		name, change, want string
	}{
		{"plain", `mv -T d x`, `D "d"
R "x" from "d"
`},
		{"changed inside", `mv -T d x; echo b >x/f; rm x/g; echo c >x/n; rm -r x/sub; mkdir x/sub; chmod 700 x`, `D "d"
R "x" from "d"
M "x/f" from "d/f"
D "x/g" from "d/g"
A "x/n"
D "x/sub/h" from "d/sub/h"
`},
		{"made anew", `mv -T d x; mkdir d; echo 1 >d/f`, `D "d/g"
D "d/sub"
R "x" from "d"
`},
		{"over another", `rm e/i; mv -T d e`, `D "d"
D "e"
R "e" from "d"
`},
		{"exchanged", `mv -T d x; mv -T e d; mv -T x e`, `D "d"
R "d" from "e"
D "e"
R "e" from "d"
`},
		{"in a renamed one", `mv -T d x; mv -T x/sub x/other; echo b >x/other/h`, `D "d"
R "x" from "d"
R "x/other" from "d/sub"
M "x/other/h" from "d/sub/h"
D "x/sub" from "d/sub"
`},
		{"into a new one", `mkdir n; mv d/sub n/`, `D "d/sub"
A "n"
R "n/sub" from "d/sub"
`},
		{"back again", `mv -T d x; mv -T x d; echo b >d/g`, `M "d/g"
`},
		{"nothing but", `mkdir -p n; mv -T d n/x; mv -T n/x d; rmdir n`, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOverlay(t, TrustedMarks)
			o.below(t, below)
			o.change(t, "umask 022; "+tt.change)
			if got := list(o.changes(t)); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}

// A renamed directory hangs on the source's name: another directory of that name is not it.
func TestLostRename(t *testing.T) {
	for name, then := range map[string]string{
		"moved":    `mv d elsewhere`,
		"replaced": `mv d elsewhere; mkdir d; echo fake >d/f`,
		"a file":   `rm -r d; echo a >d`,
	} {
		t.Run(name, func(t *testing.T) {
			o := newOverlay(t, TrustedMarks)
			o.below(t, `mkdir d; echo a >d/f`)
			o.change(t, `mv d e`)
			o.below(t, then)
			_, err := o.layer(t).Changes(t.Context())
			var lost *LostError
			if !errors.As(err, &lost) || len(lost.Renames) != 1 || lost.Renames[0] != (Rename{From: "d", Path: "e"}) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEntries(t *testing.T) {
	o := newOverlay(t, UserMarks)
	o.below(t, `printf 123 >f; chmod 640 f; ln -s old l`)
	o.change(t, `printf 12345 >f; chmod 755 f; ln -sfn new l; printf 1 >n; chmod 1600 n`)
	changes := o.changes(t)
	if len(changes) != 3 {
		t.Fatalf("got\n%s", list(changes))
	}
	f, l, n := changes[0], changes[1], changes[2]
	if f.Old.Mode != 0o640 || f.New.Mode != 0o755 || f.Old.Size != 3 || f.New.Size != 5 || f.Old.Identity == f.New.Identity {
		t.Errorf("f is %+v", f)
	}
	if l.Old.Link != "old" || l.New.Link != "new" || l.New.Mode.Type() != fs.ModeSymlink {
		t.Errorf("l is %+v", l)
	}
	if n.Old != (Entry{}) || n.New.Mode != 0o600|fs.ModeSticky || n.New.ModTime.IsZero() || n.New.Identity.Ino == 0 {
		t.Errorf("n is %+v", n)
	}
}

func setAttr(t *testing.T, path, name, value string) {
	t.Helper()
	err := unix.Lsetxattr(path, name, []byte(value), 0)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
		t.Skip("no overlay can be had here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestCorruptLayers(t *testing.T) {
	tests := []struct {
		marks              Marks
		path, attr, value  string
		wantPath, wantText string
	}{
		{UserMarks, "", "user.overlay.opaque", "y", "", "own directory"},
		{TrustedMarks, "", "trusted.overlay.opaque", "y", "", "own directory"},
		{TrustedMarks, "", "trusted.overlay.redirect", "/x", "", "own directory"},
		{UserMarks, "d", "user.overlay.redirect", "/x", "d", "only root's"},
		{UserMarks, "d", "user.overlay.opaque", "x", "d", "opaque"},
		{TrustedMarks, "d", "trusted.overlay.redirect", "../x", "d", "redirect"},
		{TrustedMarks, "d", "trusted.overlay.redirect", "/a//x", "d", "redirect"},
		{TrustedMarks, "d", "trusted.overlay.redirect", "/../x", "d", "redirect"},
		{UserMarks, "f", "user.overlay.metacopy", "", "f", "without data"},
		{TrustedMarks, "f", "trusted.overlay.metacopy", "", "f", "without data"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.attr, " ", tt.path, " ", tt.value), func(t *testing.T) {
			o := newOverlay(t, tt.marks)
			if err := os.Mkdir(filepath.Join(o.upper(), "d"), 0o755); err != nil {
				t.Fatal(err)
			}
			f := filepath.Join(o.upper(), "f")
			if err := os.WriteFile(f, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(f, 100_000); err != nil {
				t.Fatal(err)
			}
			setAttr(t, filepath.Join(o.upper(), tt.path), tt.attr, tt.value)
			_, err := o.layer(t).Changes(t.Context())
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || corrupt.Path != tt.wantPath || !strings.Contains(err.Error(), tt.wantText) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// What commands set themselves are not the kernel's marks.
func TestForgedMarks(t *testing.T) {
	o := newOverlay(t, TrustedMarks)
	o.below(t, `mkdir d; echo a >d/f`)
	o.change(t, `echo b >d/g`)
	setAttr(t, filepath.Join(o.upper(), "d"), "user.overlay.opaque", "y")
	setAttr(t, filepath.Join(o.upper(), "d"), "user.overlay.redirect", "/x")
	if got, want := list(o.changes(t)), "A \"d/g\"\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestBounds(t *testing.T) {
	o := newOverlay(t, UserMarks)
	deep := filepath.Join(o.upper(), strings.Repeat("d/", 20))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(o.upper(), fmt.Sprint("file", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		most limits
		want string
	}{
		{limits{entries: 39, depth: 20, bytes: 1 << 20}, "more than 39 entries"},
		{limits{entries: 40, depth: 19, bytes: 1 << 20}, "more than 19 levels of directories"},
		{limits{entries: 40, depth: 20, bytes: 100}, "more than 100 bytes of paths"},
		{limits{entries: 40, depth: 20, bytes: 1 << 20}, ""},
	}
	for _, tt := range tests {
		changes, err := o.layer(t).changes(t.Context(), tt.most)
		if tt.want == "" {
			if err != nil || len(changes) != 40 {
				t.Errorf("got %d changes and %v", len(changes), err)
			}
			continue
		}
		var limit *LimitError
		if !errors.As(err, &limit) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want one of %s", err, tt.want)
		}
	}
}

func TestCancelledWalk(t *testing.T) {
	o := newOverlay(t, UserMarks)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.layer(t).Changes(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The tree is deeper than any path may be long, and needs few descriptors.
func TestDeepLayer(t *testing.T) {
	const levels = 4000
	o := newOverlay(t, UserMarks)
	const name = "n"
	at, err := unix.Open(o.upper(), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		if err := unix.Mkdirat(at, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(at)
		at = next
	}
	_ = unix.Close(at)
	changes := o.changes(t)
	if len(changes) != levels || len(changes[levels-1].Path) != levels*2-1 {
		t.Errorf("got %d changes", len(changes))
	}
}

func TestSparseLayer(t *testing.T) {
	o := newOverlay(t, UserMarks)
	for _, dir := range []string{o.source(), o.upper()} {
		for _, name := range []string{"same", "other"} {
			f, err := os.Create(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(1 << 40); err != nil {
				t.Skip("no overlay can be had here: ", err)
			}
			if name == "other" && dir == o.upper() {
				if _, err := f.WriteAt([]byte("x"), 1<<39); err != nil {
					t.Fatal(err)
				}
			}
			f.Close()
		}
	}
	if got, want := list(o.changes(t)), "M \"other\"\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Root can read what commands made unreadable; for others the error names the directory.
func TestClosedDirectories(t *testing.T) {
	o := newOverlay(t, UserMarks)
	o.below(t, `echo a >f; chmod 600 f`)
	t.Cleanup(func() {
		for _, in := range []string{"upper", "result"} {
			_ = os.Chmod(filepath.Join(o.dir, in, "d"), 0o700)
		}
	})
	o.change(t, `mkdir d; echo a >d/g; echo b >f; chmod 000 d/g f d`)
	changes, err := o.layer(t).Changes(t.Context())
	if os.Getuid() != 0 {
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "cannot open d of the layer") {
			t.Errorf("got %v", err)
		}
		return
	}
	if got, want := list(changes), "A \"d\"\nA \"d/g\"\nM \"f\"\n"; err != nil || got != want {
		t.Errorf("got %v and\n%s", err, got)
	}
}
