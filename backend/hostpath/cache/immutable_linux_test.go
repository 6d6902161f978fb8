package cache_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath/cache"
)

// TestImmutable: what cannot be removed is an error, and the rest is gone.
func TestImmutable(t *testing.T) {
	s, ws := newStore(t)
	u := use(t, s, cache.Key{Workspace: ws, Tool: "go"})
	file := filepath.Join(u.Dir, "sub", "fixed")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const immutable = 0x10 // FS_IMMUTABLE_FL
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable); err != nil {
		t.Skip("cannot make a file immutable here: ", err)
	}
	t.Cleanup(func() { _ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0) })
	u.Release()
	if err := s.Remove(t.Context(), list(t, s)[0]); !errors.Is(err, unix.EPERM) {
		t.Errorf("the error is %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0); err != nil {
		t.Fatal(err)
	}
	_, trash, err := s.List()
	if err != nil || len(trash) != 1 {
		t.Fatalf("trash %q, error %v", trash, err)
	}
	if err := s.Clean(t.Context(), trash); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 1 { // the mark
		t.Errorf("the store has %v (%v)", left, err)
	}
}
