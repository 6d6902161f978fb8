//go:build linux

package linux

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
)

func copied(disk policy.Size) func(*policy.Spec) {
	return func(s *policy.Spec) { s.Workspace.Mode, s.Limits.Disk = policy.ModeCopy, disk }
}

// What commands change in a copy does not reach the source, and what they
// find is what the source holds.
func TestCopiedWorkspace(t *testing.T) {
	req := request(t, copied(0))
	ws := req.Spec.Workspace.Source
	testkit.Write(t, ws+"/dir/file", "text\n", 0o644)
	testkit.Write(t, ws+"/.git/hooks/pre-commit", "hook\n", 0o644)
	for _, err := range []error{
		os.Link(ws+"/dir/file", ws+"/hard"), os.Symlink("dir/file", ws+"/link"), os.Symlink("/etc/shadow", ws+"/out"),
		unix.Mkfifo(ws+"/pipe", 0o640), os.Chmod(ws+"/dir/file", 0o4751), os.Truncate(ws+"/dir/file", 1<<30),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	box := launchBox(t, req)
	out, _ := sh(t, box, `stat -c '%a %h %s' dir/file; cat link | head -n 1; readlink out; stat -c %F pipe; test hard -ef dir/file && echo same
		echo changed > .git/hooks/pre-commit; rm -r dir; echo new > planted; ls -A; du -m hard | cut -f1`)
	want := "751 2 1073741824\ntext\n/etc/shadow\nfifo\nsame\n.git\nhard\nlink\nout\npipe\nplanted\n1"
	if out = strings.Replace(out, "\n0", "\n1", 1); out != want {
		t.Errorf("inside:\n%s\nwant\n%s", out, want)
	}
	if text, err := os.ReadFile(ws + "/.git/hooks/pre-commit"); err != nil || string(text) != "hook\n" {
		t.Errorf("the source's hook: %q, %v", text, err)
	}
	if !state.Exists(ws+"/dir/file") || state.Exists(ws+"/planted") {
		t.Error("the source was changed")
	}
	if iso := box.Isolation(); iso.Workspace != policy.ModeCopy || iso.Limits["disk"] != "tmpfs size=1GiB" {
		t.Errorf("%+v", iso)
	}
}

// A copy is bounded by the kernel, while it is made and afterwards.
func TestCopyIsBounded(t *testing.T) {
	req := request(t, copied(2*policy.MiB))
	ws := req.Spec.Workspace.Source
	box := launchBox(t, req)
	out, _ := sh(t, box, "head -c 3000000 /dev/zero > big; stat -c %s big")
	if !strings.Contains(out, "No space left") || !strings.Contains(out, "2097152") {
		t.Errorf("3 MB in 2 MiB: %s", out)
	}
	testkit.Write(t, ws+"/sub/big", strings.Repeat("x", 3<<20), 0o644)
	boxtest.RequireWalls(t)
	_, err := New().Start(t.Context(), req)
	if e := startError(t, err); e.Op != "copy" || e.Object != "sub/big" || e.Errno != int(unix.ENOSPC) || !strings.Contains(e.Hint, "`limits.disk`") {
		t.Errorf("%+v", e)
	}
	if left, _ := os.ReadDir(filepath.Join(req.StateDir, "sandboxes")); len(left) != 1 {
		t.Errorf("the failed start has left %v", left)
	}
}

func TestCopyOfWhatCannotBeRead(t *testing.T) {
	req := request(t, copied(0))
	ws := req.Spec.Workspace.Source
	testkit.Write(t, ws+"/a/secret", "x", 0o644)
	if err := os.Chmod(ws+"/a", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(ws+"/a", 0o755) })
	boxtest.RequireWalls(t)
	_, err := New().Start(t.Context(), req)
	if e := startError(t, err); e.Object != "a" || e.Errno != int(unix.EACCES) {
		t.Errorf("%+v", e)
	}
	// Paddock's own state is never copied.
	req = request(t, copied(0))
	req.StateDir = req.Spec.Workspace.Source + "/state"
	if _, err := New().Start(t.Context(), req); err == nil || !strings.Contains(err.Error(), "Paddock's own state") {
		t.Errorf("%v", err)
	}
}
