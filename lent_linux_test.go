package paddock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
)

// A link that a command of root's sandbox made in a directory of another user's
// belongs to that user, who is told of it by the list that root keeps for all.
func TestLinksOfLentIdentity(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root lends identities")
	}
	const user = 54321
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", root+"/home")
	t.Setenv(StateDirEnv, "")
	usualIn(t, root+"/var") // of root; the user's is in HOME
	t.Setenv("XDG_STATE_HOME", "")
	for _, dir := range []string{"home", "home/app", "home/other", "home/victim", "home/roots", "var"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(root, dir), user, user); err != nil && dir != "var" {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chown(root+"/var", 0, 0), os.Chown(root+"/home/roots", 0, 0), os.Chmod(filepath.Dir(root), 0o711)); err != nil {
		t.Fatal(err)
	}
	start := func(uid int, workspace string, mounts ...Mount) error {
		t.Helper()
		if err := syscall.Seteuid(uid); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := syscall.Seteuid(0); err != nil {
				t.Fatal(err)
			}
		}()
		_, req, err := Options{}.request(Spec{Workspace: Workspace{Source: workspace}, Mounts: mounts})
		if err == nil {
			_, err = Options{}.remember(req)
		}
		return err
	}
	cache := Mount{Source: root + "/home/app/.cache", Target: "/c", Mode: "rw"}
	link := func() {
		t.Helper()
		if err := errors.Join(os.Symlink("../victim", cache.Source), os.Lchown(cache.Source, user, user)); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(start(user, root+"/home/other"))
	link()
	must(start(user, root+"/home/other", cache)) // the control: nobody's sandbox could make it
	must(start(0, root+"/home/roots"))           // of root alone: nothing for others
	if _, err := os.Stat(hostpath.RootState + "/lent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory of root's is listed for all: %v", err)
	}

	must(syscall.Setgroups(nil))
	umask := syscall.Umask(0o077)
	err = start(0, root+"/home/app")
	syscall.Umask(umask)
	must(err)
	err = start(user, root+"/home/other", cache)
	if err == nil || !strings.Contains(err.Error(), cache.Source+" is a symbolic link to ../victim") || !strings.Contains(err.Error(), root+"/home/app was writable for them") {
		t.Errorf("the link is followed, or the error does not say why: %v", err)
	}
	for name, mode := range map[string]os.FileMode{"": 0o711, "lent": 0o644, "written": 0o600} {
		if info, err := os.Stat(filepath.Join(hostpath.RootState, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%q: %v, %v", name, info, err)
		}
	}

	// Another start of root's leaves it readable.
	must(os.Chmod(hostpath.RootState, 0o755))
	if d, err := state.New(hostpath.RootState, "", nil); err != nil {
		t.Error(err)
	} else {
		d.Remove(nil)
	}
	if info, err := os.Stat(hostpath.RootState); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v", info, err)
	}

	// What the user has no list for is judged by root's, too; a damaged one stops.
	must(os.RemoveAll(root + "/home/.local"))
	t.Setenv(StateDirEnv, cache.Source+"/state")
	if err := start(user, root+"/home/other"); err == nil || !strings.Contains(err.Error(), "was writable for them") {
		t.Errorf("the way to the state: %v", err)
	}
	t.Setenv(StateDirEnv, "")
	must(os.WriteFile(hostpath.RootState+"/lent", []byte("?"), 0o644))
	for range 2 {
		if err := start(user, root+"/home/other"); err == nil || !strings.Contains(err.Error(), hostpath.RootState+"/lent") {
			t.Errorf("a damaged list: %v", err)
		}
	}
	must(os.Remove(hostpath.RootState + "/lent"))
	must(start(user, root+"/home/other"))
}
