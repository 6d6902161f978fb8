//go:build linux

package linux

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
)

// overlaid is a request for a workspace of mode overlay, with an empty layer.
func overlaid(t *testing.T, change ...func(*policy.Spec)) backend.Request {
	t.Helper()
	req := request(t, append(change, func(s *policy.Spec) { s.Workspace.Mode = policy.ModeOverlay })...)
	dir := tempDir(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	err := unix.Stat(req.Spec.Workspace.Source, &st)
	for _, name := range []string{"upper", "work"} {
		at := filepath.Join(dir, name)
		if err == nil {
			err = os.Mkdir(at, 0o755)
		}
		if err == nil {
			err = os.Chown(at, int(st.Uid), int(st.Gid))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "work", "work"), 0o700) })
	req.Layer = &backend.Layer{Dir: dir, Root: os.Geteuid() == 0}
	return req
}

// What commands change in an overlay is in the layer, and the source stays as it was.
func TestLayeredWorkspace(t *testing.T) {
	req := overlaid(t)
	ws := req.Spec.Workspace.Source
	testkit.Write(t, ws+"/dir/file", "text\n", 0o644)
	testkit.Write(t, ws+"/.git/hooks/pre-commit", "hook\n", 0o644)
	before := treeOf(t, ws)
	box := launchBox(t, req)
	out, _ := sh(t, box, `echo changed > .git/hooks/pre-commit; echo more >> dir/file; cat dir/file; mkdir new; echo x > new/x; rm -r .git/hooks; mkdir .git/hooks; ls -A . .git/hooks; stat -c '%U' . dir dir/file new new/x; mv new newer && cat newer/x; grep -c `+req.Layer.Dir+` /proc/self/mounts; touch dir/"$(printf 'a\nb')"; ls dir | wc -l`)
	want := "text\nmore\n.:\n.git\ndir\nnew\n\n.git/hooks:\nagent\nagent\nagent\nagent\nagent\nx\n0\n3"
	if out != want {
		t.Errorf("inside:\n%s\nwant\n%s", out, want)
	}
	if now := treeOf(t, ws); now != before {
		t.Errorf("the source was\n%s\nand is\n%s", before, now)
	}
	marks := "userxattr"
	if os.Geteuid() == 0 {
		marks = "trusted"
	}
	if iso := box.Isolation(); iso.Workspace != policy.ModeOverlay || iso.Layer != marks || !iso.Verified {
		t.Errorf("%+v", iso)
	}
	if _, err := box.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	var above, below unix.Stat_t
	if err := unix.Stat(req.Layer.Dir+"/upper/dir/file", &above); err != nil {
		t.Fatal(err)
	}
	if err := unix.Stat(ws+"/dir/file", &below); err != nil {
		t.Fatal(err)
	}
	if above.Uid != below.Uid || above.Gid != below.Gid || above.Mode != below.Mode {
		t.Errorf("the file belongs to %d:%d %o in the layer, and to %d:%d %o in the source", above.Uid, above.Gid, above.Mode, below.Uid, below.Gid, below.Mode)
	}
	// The same layer, started again.
	box = launchBox(t, req)
	if out, _ := sh(t, box, "cat newer/x dir/file; ls .git/hooks; rm -r newer; ls"); out != "x\ntext\nmore\ndir" {
		t.Errorf("started again: %s", out)
	}
}

// Root's overlays rename directories of the source, and the sandbox can change nothing that the
// source's owner could not.
func TestLayerOfRoot(t *testing.T) {
	requireRoot(t)
	req := overlaid(t)
	ws := req.Spec.Workspace.Source
	testkit.Write(t, ws+"/dir/file", "text\n", 0o644)
	testkit.Write(t, ws+"/other", "other\n", 0o666)
	testkit.Write(t, ws+"/closed", "closed\n", 0o600)
	if err := errors.Join(os.Chown(ws+"/other", 12345, 12345), os.Chown(ws+"/closed", 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	box := launchBox(t, req)
	for _, tt := range [][2]string{
		{"mv dir moved && cat moved/file; ls dir", "text\nls: cannot access 'dir': No such file or directory"},
		{"cat closed", "cat: closed: Permission denied"},
		{"cat other; echo x >> other", "other\n/bin/sh: 1: cannot create other: Permission denied"},
		{"rm -f other", "rm: cannot remove 'other': Value too large for defined data type"},
		{"mknod null c 1 3 2>&1 | grep -c 'not permitted'", "1"},
	} {
		if out, _ := sh(t, box, tt[0]); out != tt[1] {
			t.Errorf("%s\nsays %q, not %q", tt[0], out, tt[1])
		}
	}
	if found, err := os.ReadDir(req.Layer.Dir + "/upper/moved"); err != nil || len(found) > 0 {
		t.Errorf("the renamed directory was copied: %v, %v", found, err)
	}
}

// What an overlay cannot be is refused before anything is started.
func TestLayerRefusals(t *testing.T) {
	boxtest.RequireWalls(t)
	req := overlaid(t)
	for name, tt := range map[string]struct {
		change func(t *testing.T, req *backend.Request)
		want   []string
	}{
		"without a layer": {func(_ *testing.T, r *backend.Request) { r.Layer = nil }, []string{"no layer was made for it"}},
		"a layer of another kind": {func(_ *testing.T, r *backend.Request) {
			r.Layer = &backend.Layer{Dir: r.Layer.Dir, Root: !r.Layer.Root}
		}, []string{"this user is another", "start it as the user who made it"}},
		"a layer that is gone": {func(_ *testing.T, r *backend.Request) {
			r.Layer = &backend.Layer{Dir: r.Layer.Dir + "/gone", Root: r.Layer.Root}
		}, []string{"/gone/upper: no such file"}},
		"a mount below the source": {func(t *testing.T, r *backend.Request) {
			if os.Geteuid() != 0 {
				t.Skip("needs root: only root can mount something for the host")
			}
			at := r.Spec.Workspace.Source + "/data"
			err := os.Mkdir(at, 0o755)
			if err == nil {
				err = unix.Mount("none", at, "tmpfs", 0, "size=4k")
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		}, []string{"lay bare", "/data", "`workspace.mode` copy or bind"}},
	} {
		t.Run(name, func(t *testing.T) {
			own := req
			tt.change(t, &own)
			box, err := New().Start(t.Context(), own)
			if err == nil {
				_, _ = box.Stop(t.Context(), 0)
				t.Fatal("it was started")
			}
			said := err.Error()
			if e := (*backend.StartError)(nil); errors.As(err, &e) {
				said += " " + e.Hint
			}
			if e := (*policy.FieldError)(nil); errors.As(err, &e) {
				said += " " + e.Hint
			}
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("%q does not say %q", said, want)
				}
			}
		})
	}
}

// Paddock's own state, in a workspace that is an overlay, is not seen.
func TestLayerHidesState(t *testing.T) {
	req := overlaid(t)
	req.StateDir = req.Spec.Workspace.Source + "/state"
	box := launchBox(t, req)
	if out, _ := sh(t, box, "ls -A state; touch state/x; mv state other"); !strings.Contains(out, "Read-only file system") || !strings.Contains(out, "busy") {
		t.Errorf("%s", out)
	}
}
