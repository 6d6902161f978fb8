//go:build linux

package state

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/testkit"
)

// TestSome checks that each call looks at a bounded part of many names, that calls one after
// another look at all, whatever the file of the position holds, and that of few all are returned.
func TestSome(t *testing.T) {
	const many, n = 500, 24
	path := t.TempDir()
	dir, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for i := range many {
		testkit.Write(t, filepath.Join(path, "name-of-some-length-"+strconv.Itoa(i)), "", 0o600)
	}
	covers := func(t *testing.T) {
		t.Helper()
		seen := map[string]bool{}
		for range 3 * many / n {
			names := Some(dir, n)
			if len(names) < n || len(names) > 4*n {
				t.Fatalf("a call looks at %d names, want about %d", len(names), n)
			}
			for _, name := range names {
				seen[name] = true
			}
		}
		delete(seen, positionName)
		if len(seen) != many {
			t.Errorf("the calls have looked at %d names of %d", len(seen), many)
		}
	}
	covers(t)
	for name, put := range map[string]func(at string) error{
		"text":        func(at string) error { return os.WriteFile(at, []byte("not a position at all"), 0o600) },
		"past end":    func(at string) error { return os.WriteFile(at, []byte("09223372036854775807"), 0o600) },
		"negative":    func(at string) error { return os.WriteFile(at, []byte("-0000000000000000001"), 0o600) },
		"a link":      func(at string) error { return os.Symlink("/dev/zero", at) },
		"a FIFO":      func(at string) error { return unix.Mkfifo(at, 0o600) },
		"a directory": func(at string) error { return os.Mkdir(at, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(path, positionName)
			if err := os.RemoveAll(at); err != nil {
				t.Fatal(err)
			}
			if err := put(at); err != nil {
				t.Fatal(err)
			}
			if names := Some(dir, n); len(names) < n {
				t.Errorf("it looks at %d names, want about %d", len(names), n)
			}
			if err := os.RemoveAll(at); err != nil {
				t.Fatal(err)
			}
			covers(t)
		})
	}
	for i := 10; i < many; i++ {
		if err := os.Remove(filepath.Join(path, "name-of-some-length-"+strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		names := Some(dir, n)
		slices.Sort(names)
		if names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == positionName }); len(names) != 10 {
			t.Errorf("of ten names it returns %q", names)
		}
	}
	if Exists(filepath.Join(path, positionName)) {
		t.Error("the file of the position stays when all was looked at")
	}
}
