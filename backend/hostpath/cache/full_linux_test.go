package cache_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/cache"
)

// TestRemoveFull: on a file system without room for even one more directory, caches are
// removed, closed ones too.
func TestRemoveFull(t *testing.T) {
	dir := hostpath.Real(t.TempDir())
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "nr_inodes=100,size=4m,mode=0700"); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	s, err := openStore(t, filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	ws := t.TempDir()
	u := use(t, s, cache.Key{Workspace: ws, Tool: "go"})
	for i := 0; err == nil; i++ {
		err = os.Mkdir(filepath.Join(u.Dir, fmt.Sprint(i)), 0)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if err := os.Chmod(u.Dir, 0); err != nil {
		t.Fatal(err)
	}
	u.Release()
	s, err = openStore(t, s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	all := list(t, s)
	if len(all) != 1 {
		t.Fatalf("the caches are %v", all)
	}
	if err := s.Remove(t.Context(), all[0]); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Dir(u.Dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left (%v)", err)
	}
}
