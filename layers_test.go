package paddock

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/layers"
	"github.com/paddock-dev/paddock/policy"
)

// overlayOf runs a shell command in a new overlay over a directory, and returns the id of its layer,
// which is kept.
func overlayOf(t *testing.T, ws, command string) string {
	t.Helper()
	requireWalls(t)
	time.Sleep(50 * time.Millisecond) // what is older than a tick of the kernel's clock is no conflict
	s, err := Open(t.Context(), Spec{Workspace: Workspace{Source: ws, Mode: policy.ModeOverlay}}, Options{Layer: LayerOptions{Keep: true, Command: []string{"sh"}}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.Command(t.Context(), "sh", "-euc", command).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := OpenLayer(t.Context(), s.ID(), Options{}); err == nil || !strings.Contains(err.Error(), "a sandbox has it mounted") {
		t.Errorf("a mounted layer: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if c := s.Changes(); !c.Empty() { // nothing reached the host, and the layer is kept
		t.Errorf("%+v", c)
	}
	return s.ID()
}

// A directory that commands could not work in, since the host obeys all of it, is the source of a
// layer: each change is held back, says why the host obeys it, and lands if it is accepted.
func TestLayerOfObeyed(t *testing.T) {
	for name, why := range map[string]string{"dotfiles/ssh": "/home/.ssh leads to it, which is protected: ssh runs", "ws/.husky": "git runs it where husky has set core.hooksPath"} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			ws := filepath.Join(dir, name)
			err = errors.Join(err, os.MkdirAll(ws, 0o755), os.MkdirAll(filepath.Join(dir, "home"), 0o755), os.MkdirAll(filepath.Join(dir, "ws", ".git"), 0o755),
				os.Symlink("../dotfiles/ssh", filepath.Join(dir, "home", ".ssh")), os.WriteFile(filepath.Join(ws, "config"), []byte("old\n"), 0o600))
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("HOME", filepath.Join(dir, "home"))
			l, err := OpenLayer(t.Context(), overlayOf(t, ws, "echo new >> config; echo x > known; mkdir sub; echo x > sub/x"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Remove(t.Context()) }()
			done, err := l.Commit(t.Context(), LayerCommitOptions{})
			if err != nil || len(done.Landed) != 0 || done.Left != 4 {
				t.Errorf("%+v, %v", done, err)
			}
			for _, path := range []string{"config", "known", "sub", "sub/x"} {
				if !slices.ContainsFunc(done.Held, func(f LayerFinding) bool { return f.Path == path && strings.Contains(f.Why, why) }) {
					t.Errorf("%s: %+v", path, done.Held)
				}
			}
			done, err = l.Commit(t.Context(), LayerCommitOptions{Accept: []string{"config", "sub"}})
			if text, rerr := os.ReadFile(filepath.Join(ws, "config")); err != nil || len(done.Landed) != 3 || done.Left != 1 || string(text) != "old\nnew\n" {
				t.Errorf("%+v, %v, %q, %v", done, err, text, rerr)
			}
		})
	}
}

// Programs that use the library find a layer, look at it, land a part of it, and throw the rest
// away.
func TestLayer(t *testing.T) {
	ws := t.TempDir()
	if err := os.WriteFile(filepath.Join(ws, "file"), []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	id := overlayOf(t, ws, "echo new >> file; mkdir .vscode dir; echo '{}' > .vscode/tasks.json; echo x > dir/x; echo y > y")
	list, err := Layers(Options{})
	if err != nil || len(list) == 0 || list[len(list)-1].ID != id || list[len(list)-1].Source != ws || list[len(list)-1].InUse {
		t.Fatalf("%+v, %v", list, err)
	}
	l, err := OpenLayer(t.Context(), id, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var patch, stat, status, archive bytes.Buffer
	_, terr := l.WriteTar(t.Context(), &archive)
	err = errors.Join(l.WritePatch(t.Context(), &patch, false, "file"), l.WriteStat(t.Context(), &stat), l.WriteStatus(t.Context(), &status), terr)
	if err != nil || !strings.Contains(patch.String(), "\n+new\n") || !strings.Contains(stat.String(), "4 files changed") || status.String() != "A\t.vscode\nA\t.vscode/tasks.json\nA\tdir\nA\tdir/x\nM\tfile\nA\ty\n" || archive.Len() == 0 {
		t.Errorf("%v\n%s\n%s\n%s", err, patch.String(), stat.String(), status.String())
	}
	found, err := l.Screen(t.Context())
	if err != nil || len(found) == 0 || found[0].Path != ".vscode/tasks.json" && found[0].Path != ".vscode" || !found[0].Held {
		t.Errorf("%+v, %v", found, err)
	}
	try, err := l.Commit(t.Context(), LayerCommitOptions{DryRun: true})
	if err != nil || len(try.Landed) < 3 || len(try.Held) == 0 {
		t.Errorf("%+v, %v", try, err)
	}
	done, err := l.Commit(t.Context(), LayerCommitOptions{Paths: []string{"file", "dir"}})
	if err != nil || len(done.Landed) != 3 || len(done.Held) != 0 || done.Left != 3 {
		t.Errorf("%+v, %v", done, err)
	}
	if text, err := os.ReadFile(filepath.Join(ws, "file")); err != nil || string(text) != "old\nnew\n" {
		t.Errorf("%q, %v", text, err)
	}
	if gone, err := l.Discard(t.Context(), "y"); err != nil || len(gone) != 1 || gone[0].Path != "y" {
		t.Errorf("%+v, %v", gone, err)
	}
	if _, err := l.Changes(t.Context(), "y"); err == nil || !strings.Contains(err.Error(), "nothing has changed at y") {
		t.Errorf("%v", err)
	}
	if err := l.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	hint := (*Error)(nil)
	if _, err := OpenLayer(t.Context(), id, Options{}); !errors.As(err, &hint) || !strings.Contains(hint.Hint, "paddock layers") {
		t.Errorf("%v", err)
	}
}

// A directory that a command renamed can be committed, and the layer used on.
func TestLayerRename(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: others' overlays rename no directories")
	}
	ws := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(ws, "dir", "deep"), 0o755), os.WriteFile(filepath.Join(ws, "dir", "deep", "one"), []byte("1\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	id := overlayOf(t, ws, "mv dir moved; echo 2 > moved/two; echo x > moved/.envrc")
	l, err := OpenLayer(t.Context(), id, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	found, err := l.Changes(t.Context())
	if err != nil || len(found) != 4 || found[1].Kind != "R" || found[1].From != "dir" {
		t.Errorf("%+v, %v", found, err)
	}
	done, err := l.Commit(t.Context(), LayerCommitOptions{})
	if err != nil || len(done.Held) != 1 || done.Left != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if text, err := os.ReadFile(filepath.Join(ws, "moved", "deep", "one")); err != nil || string(text) != "1\n" {
		t.Errorf("%q, %v", text, err)
	}
	if found, err := l.Changes(t.Context()); err != nil || len(found) != 1 || found[0].Path != "moved/.envrc" {
		t.Errorf("%+v, %v", found, err)
	}
	if err := l.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// A workspace of mode overlay without anything said ends with its sandbox.
func TestLayerEnds(t *testing.T) {
	requireWalls(t)
	before, err := Layers(Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Spec{Workspace: Workspace{Source: t.TempDir(), Mode: policy.ModeOverlay}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := Layers(Options{}); err != nil || len(list) != len(before)+1 || !list[len(list)-1].InUse || !list[len(list)-1].Ends {
		t.Errorf("%+v, %v", list, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if list, err := Layers(Options{}); err != nil || len(list) != len(before) {
		t.Errorf("%+v, %v", list, err)
	}
	// A start that fails leaves none.
	if s, err := Open(t.Context(), Spec{Workspace: Workspace{Source: t.TempDir(), Mode: policy.ModeOverlay}, Mounts: []Mount{{Source: t.TempDir(), Target: "/workspace/nowhere"}}}, Options{}); err == nil {
		_ = s.Close()
		t.Error("a mount point that does not exist was made")
	}
	if list, err := Layers(Options{}); err != nil || len(list) != len(before) {
		t.Errorf("after a failure: %+v, %v", list, err)
	}
}

// A stopped sandbox's layer is mounted again: commands find what they had changed, and a source
// that was replaced meanwhile is told.
func TestLayerReopens(t *testing.T) {
	parent := t.TempDir()
	ws := filepath.Join(parent, "ws")
	if err := errors.Join(os.Mkdir(ws, 0o755), os.WriteFile(filepath.Join(ws, "file"), []byte("old\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	id := overlayOf(t, ws, "rm file; mkdir dir; echo x > dir/x")
	again := func() (*Sandbox, error) {
		return Open(t.Context(), Spec{Workspace: Workspace{Source: ws, Mode: policy.ModeOverlay}}, Options{ID: id, Layer: LayerOptions{Keep: true, Reopen: true}})
	}
	for range 3 {
		s, err := again()
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.Command(t.Context(), "sh", "-c", "ls; cat dir/x; echo x >> dir/x").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "dir\nx\n") {
			t.Errorf("%v: %s", err, out)
		}
		if _, err := again(); err == nil || !strings.Contains(err.Error(), "a sandbox has it mounted") {
			t.Errorf("mounted twice: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Rename(ws, ws+".was"), os.Mkdir(ws, 0o755)); err != nil {
		t.Fatal(err)
	}
	if s, err := again(); err == nil || !strings.Contains(err.Error(), "is another directory") {
		if err == nil {
			_ = s.Close()
		}
		t.Errorf("another source: %v", err)
	}
	if err := errors.Join(os.Remove(ws), os.Rename(ws+".was", ws)); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLayer(t.Context(), id, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := l.Commit(t.Context(), LayerCommitOptions{}); err != nil || done.Left != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if text, err := os.ReadFile(filepath.Join(ws, "dir", "x")); err != nil || string(text) != "x\nx\nx\nx\n" {
		t.Errorf("%q, %v", text, err)
	}
	if err := l.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// What commands closed is not read in a user namespace before the agent is known to be one's own:
// nobody sees there to whom it belongs.
func TestClosedLayerChecksAgent(t *testing.T) {
	l := &Layer{opts: Options{StateDir: t.TempDir(), Agent: filepath.Join(t.TempDir(), "none")}}
	if err := l.fail(fs.ErrPermission); err == nil || errors.Is(err, ErrClosedLayer) || !strings.Contains(err.Error(), "Options.Agent") {
		t.Error(err)
	}
}

// uncounted is a layer that cannot be read.
type uncounted struct {
	layers.Held
	removed bool
}

func (u *uncounted) Count(context.Context) (int, error) { return 0, fs.ErrPermission }

func (u *uncounted) Remove(context.Context) error {
	u.removed = true
	return nil
}

// What ends with a sandbox is told also where it cannot be counted.
func TestUncountedLayer(t *testing.T) {
	s, _ := openFake(t, Spec{})
	l := &uncounted{}
	s.layer = l
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c := s.Changes()
	if want := "the overlay, whose changes ended with the sandbox: permission denied"; !l.removed || c.Empty() || c.Sandbox != s.ID() || !slices.Equal(c.Unseen, []string{want}) {
		t.Errorf("removed %v, %+v", l.removed, c)
	}
}

// A link over which bind refuses to start is followed when changes are judged: those that lead there
// are held back, and others land. The same goes for programs of a relative PATH.
func TestLayerOfLinks(t *testing.T) {
	ws, err := filepath.EvalSymlinks(t.TempDir())
	err = errors.Join(err, os.MkdirAll(filepath.Join(ws, ".git", "objects"), 0o755), os.Mkdir(filepath.Join(ws, ".git", "refs"), 0o755), os.Mkdir(filepath.Join(ws, "gh"), 0o755),
		os.WriteFile(filepath.Join(ws, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o600), os.Symlink("../gh", filepath.Join(ws, ".git", "hooks")))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "./tools/bin:"+os.Getenv("PATH"))
	l, err := OpenLayer(t.Context(), overlayOf(t, ws, "echo x > gh/pre-commit; mkdir -p tools/bin; echo x > tools/bin/new; chmod +x tools/bin/new gh/pre-commit; echo x > a"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Remove(t.Context()) }()
	done, err := l.Commit(t.Context(), LayerCommitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var landed, held []string
	for _, ch := range done.Landed {
		landed = append(landed, ch.Path)
	}
	for _, f := range done.Held {
		held = append(held, f.Path+": "+f.Tool)
	}
	if !slices.Equal(landed, []string{"a", "tools", "tools/bin"}) || !slices.Equal(held, []string{"gh/pre-commit: git", "tools/bin/new: shells"}) {
		t.Errorf("landed %q, held %q", landed, held)
	}
}
