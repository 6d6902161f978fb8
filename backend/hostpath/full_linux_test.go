package hostpath

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// fullDisk mounts a file system in which there is no room, but for names.
func fullDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	at := t.TempDir()
	if err := unix.Mount("full", at, "tmpfs", 0, "size=16k,mode=700"); err != nil {
		t.Skip("no mount can be made here: " + err.Error())
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(at, "filler"), make([]byte, 64<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("it is not full: %v", err)
	}
	return at
}

// The hint for a full disk names the directory in which to make room, and never says to
// remove the list.
func TestRememberOnAFullDisk(t *testing.T) {
	full, usual := fullDisk(t), RootState
	t.Cleanup(func() { RootState = usual })
	for name, tt := range map[string]struct {
		state, usual, hint string
	}{
		"the named place": {full, t.TempDir(), "make room in " + full + ", or choose another directory with PADDOCK_STATE_DIR"},
		"the usual place": {t.TempDir(), full, "make room in " + full + ": the list is kept in the usual place as well, whatever PADDOCK_STATE_DIR says"},
		"neither":         {t.TempDir(), t.TempDir(), ""},
	} {
		RootState = tt.usual
		root := dirIn(t, "ws")
		req := backend.Request{StateDir: tt.state, Spec: policy.Spec{Workspace: policy.Workspace{Source: filepath.Join(root, "ws"), Mode: policy.ModeBind, Access: "rw"}}}
		mounts, err := Mounts(req, policy.WorkspacePath)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Remember(req, mounts, true)
		var e *backend.StartError
		if tt.hint == "" && err != nil || tt.hint != "" && (!errors.As(err, &e) || e.Hint != tt.hint || !strings.HasPrefix(e.Object, full)) {
			t.Errorf("%s: %v, %+v", name, err, e)
		}
		if _, err := os.Stat(filepath.Join(full, "written.new")); err == nil {
			t.Errorf("%s: half a list is left", name)
		}
	}
}
