package cache_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/cache"
	"github.com/paddock-dev/paddock/internal/testkit"
)

const plenty = 1 << 40 // bytes

// openStore opens the store in a directory. A nil list stands for no list.
func openStore(t *testing.T, dir string) (*cache.Store, error) {
	t.Helper()
	t.Setenv(cache.DirEnv, dir)
	return cache.Open(hostpath.NewSeen(&hostpath.Written{}))
}

// newStore returns a store that exists, and a workspace.
func newStore(t *testing.T) (s *cache.Store, workspace string) {
	t.Helper()
	dir := filepath.Join(hostpath.Real(t.TempDir()), "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := openStore(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, hostpath.Real(t.TempDir())
}

// use uses a cache until the test ends, or until it is released.
func use(t *testing.T, s *cache.Store, k cache.Key) *cache.Used {
	t.Helper()
	u, err := s.Use(t.Context(), k, plenty)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Release)
	return u
}

// list returns the caches of the store, and fails if there is trash.
func list(t *testing.T, s *cache.Store) []cache.Cache {
	t.Helper()
	caches, trash, err := s.List()
	if err != nil || len(trash) > 0 {
		t.Fatalf("list: trash %q, error %v", trash, err)
	}
	return caches
}

// removed waits until nothing is being removed in the background, which a test's end would meet.
func removed(t *testing.T, s *cache.Store) {
	t.Helper()
	testkit.Eventually(t, "what was emptied is gone", func() bool {
		_, trash, err := s.List()
		return err == nil && len(trash) == 0
	})
}

// TestSeparate: each workspace, principal and tool has its own directory, and another
// directory in the place of a workspace is another workspace.
func TestSeparate(t *testing.T) {
	s, ws := newStore(t)
	first := use(t, s, cache.Key{Workspace: ws, Principal: "ann", Tool: "go"})
	if again := use(t, s, cache.Key{Workspace: ws, Principal: "ann", Tool: "go"}); again.Dir != first.Dir {
		t.Errorf("the same cache is %s and %s", first.Dir, again.Dir)
	}
	seen := map[string]string{first.Dir: "the first"}
	other := func(what string, k cache.Key) {
		u := use(t, s, k)
		if seen[u.Dir] != "" {
			t.Errorf("%s has the cache of %s", what, seen[u.Dir])
		}
		seen[u.Dir] = what
	}
	other("another tool", cache.Key{Workspace: ws, Principal: "ann", Tool: "npm"})
	other("another principal", cache.Key{Workspace: ws, Principal: "bob", Tool: "go"})
	other("a principal named like a path", cache.Key{Workspace: ws, Principal: "../../x", Tool: "go"})
	other("no principal", cache.Key{Workspace: ws, Tool: "go"})
	other("another workspace", cache.Key{Workspace: t.TempDir(), Principal: "ann", Tool: "go"})
	if err := os.Rename(ws, ws+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	other("another directory in its place", cache.Key{Workspace: ws, Principal: "ann", Tool: "go"})
	for dir := range seen {
		if _, in := hostpath.Within(dir, s.Dir); !in || strings.Contains(dir, "ann") || strings.Contains(dir, "..") {
			t.Errorf("a cache is at %s", dir)
		}
	}
}

// TestUnsafe: places that others may have made or may change are refused, with a reason.
func TestUnsafe(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, dir string) error // what is at the store's path
		root bool
		want string
	}{
		{"a link of another user's", func(t *testing.T, dir string) error {
			if err := os.Symlink(t.TempDir(), dir); err != nil {
				return err
			}
			return os.Lchown(dir, 12345, 12345)
		}, true, "symbolic link"},
		{"foreign", func(_ *testing.T, dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 12345, 12345))
		}, true, "belongs to another user"},
		{"open to all", func(_ *testing.T, dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) }, false, "it is open to others (mode 0777)"},
		{"readable", func(_ *testing.T, dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o755)) }, false, "it is open to others (mode 0755)"},
		{"a file", func(_ *testing.T, dir string) error { return os.WriteFile(dir, nil, 0o600) }, false, "it is not a directory"},
		{"below what all may write", func(_ *testing.T, dir string) error { return os.Chmod(filepath.Dir(dir), 0o777) }, false, "every user of this host may write to"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			dir := filepath.Join(hostpath.Real(t.TempDir()), "store")
			if err := tt.make(t, dir); err != nil {
				t.Fatal(err)
			}
			s, err := openStore(t, dir)
			if err == nil {
				_, err = s.Use(t.Context(), cache.Key{Workspace: hostpath.Real(t.TempDir()), Tool: "go"}, plenty)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v, not %q", err, tt.want)
			}
		})
	}
}

// TestUnsafeCache: so is one cache that is not as Paddock makes it. A changed mode is repaired:
// commands can change it.
func TestUnsafeCache(t *testing.T) {
	tests := []struct {
		name, want string
		change     func(dir string) error
	}{
		{"a link", "it is a symbolic link", func(dir string) error { return errors.Join(os.Remove(dir), os.Symlink("/etc", dir)) }},
		{"a file", "it is not a directory", func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) }},
		{"its parent a link", "it is a symbolic link", func(dir string) error {
			parent := filepath.Dir(dir)
			return errors.Join(os.Rename(parent, parent+".x"), os.Symlink(parent+".x", parent))
		}},
		{"its parent open", "it is open to others", func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o770) }},
		{"closed by commands", "", func(dir string) error { return os.Chmod(dir, 0) }},
		{"opened by commands", "", func(dir string) error { return os.Chmod(dir, 0o777) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, ws := newStore(t)
			k := cache.Key{Workspace: ws, Tool: "go"}
			u := use(t, s, k)
			u.Release()
			if err := tt.change(u.Dir); err != nil {
				t.Fatal(err)
			}
			_, err := s.Use(t.Context(), k, plenty)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Fatalf("the error is %v, not %q", err, tt.want)
			}
			if info, err := os.Lstat(u.Dir); tt.want == "" && (err != nil || info.Mode().Perm() != 0o700) {
				t.Errorf("its mode is %v (%v)", info.Mode(), err)
			}
		})
	}
}

// plant fills a cache with what is hard to remove, and returns a file outside to which links
// in it lead.
func plant(t *testing.T, dir string) (outside string) {
	t.Helper()
	outside = filepath.Join(t.TempDir(), "outside")
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	must(os.WriteFile(outside, []byte("x"), 0o400))
	must(os.Symlink(outside, filepath.Join(dir, "link")))
	must(os.Symlink(filepath.Dir(outside), filepath.Join(dir, "dir link")))
	must(os.WriteFile(dir+"/a\nb\x1b[31m\xff", nil, 0))
	must(unix.Mkfifo(filepath.Join(dir, "fifo"), 0))
	must(os.MkdirAll(filepath.Join(dir, "closed", "below", "more"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "closed", "below", "file"), nil, 0))
	must(os.Chmod(filepath.Join(dir, "closed", "below"), 0))
	must(os.Chmod(filepath.Join(dir, "closed"), 0))
	wide := filepath.Join(dir, "wide")
	must(os.Mkdir(wide, 0o700))
	for i := range 5000 { // more than are read at once
		must(os.Symlink("x", filepath.Join(wide, fmt.Sprint(i))))
	}
	// Deeper than any path can name.
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(err)
	for range 3000 {
		must(unix.Mkdirat(at, "deep", 0o700))
		next, err := unix.Openat(at, "deep", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		must(err)
		must(unix.Close(at))
		at = next
	}
	must(unix.Symlinkat(outside, at, "link"))
	must(unix.Close(at))
	return outside
}

// TestRemove: a cache is removed whatever is in it, and no link in it is followed.
func TestRemove(t *testing.T) {
	s, ws := newStore(t)
	u := use(t, s, cache.Key{Workspace: ws, Tool: "go"})
	outside := plant(t, u.Dir)
	u.Release()
	for _, c := range list(t, s) {
		if err := s.Remove(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 1 { // the mark
		t.Errorf("the store has %v (%v)", left, err)
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("the file outside: %v, %v", info, err)
	}
}

// TestRemoveInterrupted: what an interrupted removal leaves is no cache, and goes with the
// next one.
func TestRemoveInterrupted(t *testing.T) {
	s, ws := newStore(t)
	k := cache.Key{Workspace: ws, Tool: "go"}
	u := use(t, s, k)
	if err := file("file")(u.Dir); err != nil {
		t.Fatal(err)
	}
	u.Release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Remove(ctx, list(t, s)[0]); !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v", err)
	}
	caches, trash, err := s.List()
	if err != nil || len(caches) > 0 || len(trash) != 1 {
		t.Fatalf("%d caches, trash %q, error %v", len(caches), trash, err)
	}
	again := use(t, s, k)
	if left, err := os.ReadDir(again.Dir); err != nil || len(left) > 0 {
		t.Errorf("a new cache has %v (%v)", left, err)
	}
	if _, err := s.Trim(t.Context(), plenty); err != nil {
		t.Error(err)
	}
	if n := len(list(t, s)); n != 1 {
		t.Errorf("there are %d caches", n)
	}
}

// TestInUse: a cache that is used is never removed, by hand or to make room.
func TestInUse(t *testing.T) {
	s, ws := newStore(t)
	k := cache.Key{Workspace: ws, Tool: "go"}
	u, other := use(t, s, k), use(t, s, k)
	if err := os.WriteFile(filepath.Join(u.Dir, "file"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	u.Release()
	c := list(t, s)[0]
	if err := s.Remove(t.Context(), c); !errors.Is(err, cache.ErrInUse) || !c.InUse {
		t.Errorf("in use: %t, the error is %v", c.InUse, err)
	}
	if removed, err := s.Trim(t.Context(), 1); err != nil || len(removed) > 0 {
		t.Errorf("removed %v (%v)", removed, err)
	}
	if _, err := os.Stat(filepath.Join(u.Dir, "file")); err != nil {
		t.Error(err)
	}
	other.Release()
	if err := s.Remove(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// TestTrim: the caches that were used least recently go first, and a HOME never.
func TestTrim(t *testing.T) {
	s, ws := newStore(t)
	dirs := map[string]string{}
	for i, tool := range []string{"go", "npm", "pip", cache.Home} {
		u := use(t, s, cache.Key{Workspace: ws, Tool: tool})
		if err := os.WriteFile(filepath.Join(u.Dir, "file"), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		u.Release()
		// Home is the oldest, pip the newest.
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		if tool == cache.Home {
			at = at.Add(-24 * time.Hour)
		}
		if err := os.Chtimes(u.Dir+".lock", at, at); err != nil {
			t.Fatal(err)
		}
		dirs[tool] = u.Dir
	}
	removed, err := s.Trim(t.Context(), 2<<20+1<<19)
	if err != nil || len(removed) != 1 || removed[0].Tool != "go" {
		t.Errorf("removed %v (%v), not go alone", removed, err)
	}
	removed, err = s.Trim(t.Context(), 1)
	if err != nil || len(removed) != 2 {
		t.Errorf("removed %v (%v), not the other two caches", removed, err)
	}
	if _, err := os.Stat(filepath.Join(dirs[cache.Home], "file")); err != nil {
		t.Error(err)
	}
}

// TestTooLarge: one that is larger than the bound alone begins anew.
func TestTooLarge(t *testing.T) {
	s, ws := newStore(t)
	for _, tool := range []string{"go", cache.Home} {
		k := cache.Key{Workspace: ws, Tool: tool}
		u := use(t, s, k)
		if err := os.WriteFile(filepath.Join(u.Dir, "file"), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Trim(t.Context(), plenty); err != nil { // which measures it
			t.Fatal(err)
		}
		u.Release()
		u, err := s.Use(t.Context(), k, 1<<19)
		if err != nil {
			t.Fatal(err)
		}
		_, err = os.Stat(filepath.Join(u.Dir, "file"))
		if gone := errors.Is(err, os.ErrNotExist); gone != (tool == "go") {
			t.Errorf("%s: gone is %t", tool, gone)
		}
		u.Release()
	}
	removed(t, s)
}

// TestTogether: many starts and removals at once never fail, and whoever uses a cache has it.
func TestTogether(t *testing.T) {
	s, ws := newStore(t)
	k := cache.Key{Workspace: ws, Tool: "go"}
	var wait sync.WaitGroup
	for i := range 10 {
		wait.Go(func() {
			for range 20 {
				u, err := s.Use(t.Context(), k, plenty)
				if err != nil {
					t.Error(err)
					return
				}
				name := filepath.Join(u.Dir, fmt.Sprint(i))
				if err := os.WriteFile(name, nil, 0o600); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(name); err != nil {
					t.Error(err)
				}
				u.Release()
			}
		})
	}
	wait.Go(func() {
		for range 50 {
			caches, _, err := s.List()
			if err != nil {
				t.Error(err)
			}
			for _, c := range caches {
				if err := s.Remove(t.Context(), c); err != nil && !errors.Is(err, cache.ErrInUse) {
					t.Error(err)
				}
			}
		}
	})
	wait.Wait()
}

// TestChosen: "auto" is what the workspace's top directory says, as regular files.
func TestChosen(t *testing.T) {
	tests := []struct {
		words []string
		make  func(dir string) error
		want  []string
	}{
		{[]string{"auto"}, func(string) error { return nil }, nil},
		{[]string{"auto"}, file("go.mod"), []string{"go"}},
		{[]string{"auto"}, file("package.json", "Cargo.toml"), []string{"cargo", "npm"}},
		{[]string{"auto"}, file("requirements.txt"), []string{"pip", "uv"}},
		{[]string{"auto"}, func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "go.mod")) }, nil},
		{[]string{"auto"}, func(dir string) error { return os.Mkdir(filepath.Join(dir, "go.mod"), 0o700) }, nil},
		{[]string{"auto"}, func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o700), file("sub/go.mod")(dir))
		}, nil},
		{[]string{"none"}, file("go.mod"), nil},
		{nil, file("go.mod"), nil},
		{[]string{"npm"}, file("go.mod"), []string{"npm"}},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		if err := tt.make(dir); err != nil {
			t.Fatal(err)
		}
		if got := cache.Chosen(tt.words, dir); !slices.Equal(got, tt.want) {
			t.Errorf("%q chooses %q, not %q", tt.words, got, tt.want)
		}
	}
}

// file returns a function that makes empty files.
func file(names ...string) func(string) error {
	return func(dir string) error {
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestForeign: a directory with other things in it is no store, and what is in a store without
// a record for its place or a lock is no cache.
func TestForeign(t *testing.T) {
	s, ws := newStore(t)
	other := filepath.Join(s.Dir, "mozilla", "firefox", "go")
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	k := cache.Key{Workspace: ws, Tool: "go"}
	for name, open := range map[string]func() error{
		"Open": func() error { _, err := openStore(t, s.Dir); return err },
		"Use":  func() error { _, err := s.Use(t.Context(), k, plenty); return err },
	} {
		if err := open(); err == nil || !strings.Contains(err.Error(), "it has files that are not Paddock's") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(s.Dir, "mozilla")); err != nil {
		t.Fatal(err)
	}
	u := use(t, s, k)
	u.Release()
	text, err := os.ReadFile(u.Dir + ".json")
	if err != nil {
		t.Fatal(err)
	}
	foreign := []string{other, filepath.Join(filepath.Dir(u.Dir), "mine"), filepath.Join(filepath.Dir(u.Dir), "npm"), filepath.Join(filepath.Dir(filepath.Dir(u.Dir)), strings.Repeat("a", 24), "go")}
	for _, dir := range foreign {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(dir+".json", text, 0o600), os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	nonsense := filepath.Join(filepath.Dir(u.Dir), "pip") // without a lock
	if err := errors.Join(os.Mkdir(nonsense, 0o700), os.WriteFile(nonsense+".json", []byte("x"), 0o600), os.WriteFile(filepath.Join(nonsense, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	foreign = append(foreign, nonsense)
	if s, err = openStore(t, s.Dir); err != nil {
		t.Fatal(err)
	}
	if all := list(t, s); len(all) != 1 || all[0].Dir != u.Dir || all[0].Workspace != ws {
		t.Errorf("the caches are %+v", all)
	}
	if removed, err := s.Trim(t.Context(), -1); err != nil || len(removed) != 1 {
		t.Errorf("removed %v (%v)", removed, err)
	}
	for _, dir := range foreign {
		if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
			t.Error(err)
		}
	}
}

// TestKilledStart: a cache whose start was killed at any point is found, or made again by the
// next start.
func TestKilledStart(t *testing.T) {
	for _, left := range [][]string{{".json"}, {".lock", ".json"}, {"", ".lock"}, {""}} {
		s, ws := newStore(t)
		k := cache.Key{Workspace: ws, Tool: "go"}
		u := use(t, s, k)
		u.Release()
		for _, part := range []string{"", ".lock", ".json"} {
			if !slices.Contains(left, part) {
				if err := os.Remove(u.Dir + part); err != nil {
					t.Fatal(err)
				}
			}
		}
		use(t, s, k).Release()
		all := list(t, s)
		if len(all) != 1 || all[0].Key != k {
			t.Errorf("with %q left the caches are %+v", left, all)
			continue
		}
		if err := s.Remove(t.Context(), all[0]); err != nil || len(list(t, s)) > 0 {
			t.Errorf("with %q left: %v", left, err)
		}
	}
}

// TestHardLinks: a file with many names counts once, and a HOME not at all.
func TestHardLinks(t *testing.T) {
	s, ws := newStore(t)
	for _, tool := range []string{"go", cache.Home} {
		u := use(t, s, cache.Key{Workspace: ws, Tool: tool})
		first := filepath.Join(u.Dir, "file")
		if err := os.WriteFile(first, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if err := os.Link(first, first+fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		u.Release()
	}
	if removed, err := s.Trim(t.Context(), 3<<19); err != nil || len(removed) > 0 {
		t.Errorf("removed %v (%v)", removed, err)
	}
	if removed, err := s.Trim(t.Context(), 1<<19); err != nil || len(removed) != 1 {
		t.Errorf("then removed %v (%v)", removed, err)
	}
}

// TestPartial: a cache of which commands have hidden a part, where nothing is measured, counts as
// too large: it goes, although all together are small, and is empty at its next use.
func TestPartial(t *testing.T) {
	s, ws := newStore(t)
	hide := func(tool string, levels int) cache.Key {
		k := cache.Key{Workspace: ws, Tool: tool}
		u := use(t, s, k)
		dir := filepath.Join(u.Dir, strings.Repeat("d/", levels))
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(u.Dir, "file"), make([]byte, 1<<20), 0o600)); err != nil {
			t.Fatal(err)
		}
		u.Release()
		return k
	}
	hide("go", 200)
	hide("npm", 300)
	if removed, err := s.Trim(t.Context(), plenty); err != nil || len(removed) != 1 || removed[0].Tool != "npm" {
		t.Errorf("removed %v (%v), not npm alone", removed, err)
	}
	pip := hide("pip", 300)
	u := use(t, s, pip)
	if removed, err := s.Trim(t.Context(), plenty); err != nil || len(removed) > 0 {
		t.Errorf("removed %v (%v) while it is used", removed, err)
	}
	u.Release()
	u = use(t, s, pip)
	if left, err := os.ReadDir(u.Dir); err != nil || len(left) > 0 {
		t.Errorf("at its next use it has %v (%v)", left, err)
	}
	removed(t, s)
}

// TestClosed: bytes count in directories that commands have closed too, the cache's own among
// them, and directories that are only closed for writing stay so.
func TestClosed(t *testing.T) {
	s, ws := newStore(t)
	u := use(t, s, cache.Key{Workspace: ws, Tool: "go"})
	u.Release()
	for _, name := range []string{"none", "none/below", "read", "search", "fixed"} {
		dir := filepath.Join(u.Dir, name)
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "file"), make([]byte, 1<<20), 0)); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"none/below": 0, "read": 0o400, "search": 0o100, "fixed": 0o555} {
		if err := os.Chmod(filepath.Join(u.Dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"none", ""} {
		if err := os.Chmod(filepath.Join(u.Dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	c, err := s.Measure(t.Context(), list(t, s)[0])
	if err != nil || c.Partial || c.Bytes < 5<<20 {
		t.Errorf("it has %d bytes, partial %t (%v)", c.Bytes, c.Partial, err)
	}
	fixed := filepath.Join(u.Dir, "fixed")
	if info, err := os.Lstat(fixed); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("a directory that was only closed for writing: %v (%v)", info, err)
	}
	if err := os.Chmod(fixed, 0o700); err != nil { // or the test's files stay
		t.Error(err)
	}
}

// TestSparse: a file counts as what it takes on the disk, not as what it says.
func TestSparse(t *testing.T) {
	s, ws := newStore(t)
	u := use(t, s, cache.Key{Workspace: ws, Tool: "go"})
	huge := filepath.Join(u.Dir, "huge")
	if err := errors.Join(os.WriteFile(huge, make([]byte, 1<<20), 0o600), os.Truncate(huge, 100<<30)); err != nil {
		t.Fatal(err)
	}
	u.Release()
	if removed, err := s.Trim(t.Context(), 10<<20); err != nil || len(removed) > 0 {
		t.Errorf("removed %v (%v)", removed, err)
	}
	if c := list(t, s)[0]; c.Partial || c.Bytes < 1<<20 || c.Bytes > 10<<20 {
		t.Errorf("it has %d bytes, partial %t", c.Bytes, c.Partial)
	}
	if removed, err := s.Trim(t.Context(), 1<<19); err != nil || len(removed) != 1 {
		t.Errorf("then removed %v (%v)", removed, err)
	}
}

// TestDamagedRecord: a cache whose record says nothing any more is found, counts, and can be
// removed. The next use keeps what is in it, and makes the record again.
func TestDamagedRecord(t *testing.T) {
	tests := []struct {
		name   string
		damage func(record string) error
	}{
		{"gone", os.Remove},
		{"empty", func(record string) error { return os.Truncate(record, 0) }},
		{"half", func(record string) error { return os.Truncate(record, 40) }},
		{"zeros", func(record string) error { return os.WriteFile(record, make([]byte, 300), 0o600) }},
		{"an empty object", func(record string) error { return os.WriteFile(record, []byte("{}"), 0o600) }},
		{"of another version", func(record string) error { return os.WriteFile(record, []byte(`{"version":99}`), 0o600) }},
		{"a directory", func(record string) error { return errors.Join(os.Remove(record), os.Mkdir(record, 0o700)) }},
		{"a link", func(record string) error { return errors.Join(os.Remove(record), os.Symlink("/dev/zero", record)) }},
		{"a FIFO", func(record string) error { return errors.Join(os.Remove(record), unix.Mkfifo(record, 0o600)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, ws := newStore(t)
			dirs := map[string]string{}
			for _, tool := range []string{"go", "npm", cache.Home} {
				k := cache.Key{Workspace: ws, Principal: "ann", Tool: tool}
				u := use(t, s, k)
				if err := os.WriteFile(filepath.Join(u.Dir, "file"), make([]byte, 1<<20), 0o600); err != nil {
					t.Fatal(err)
				}
				u.Release()
				if err := tt.damage(u.Dir + ".json"); err != nil {
					t.Fatal(err)
				}
				dirs[tool] = u.Dir
			}
			all := list(t, s)
			if len(all) != 3 {
				t.Fatalf("the caches are %+v", all)
			}
			for _, c := range all {
				if dirs[c.Tool] != c.Dir || c.Workspace != "" || c.Used.IsZero() || c.InUse {
					t.Errorf("a cache is %+v", c)
				}
			}
			if tt.name != "a directory" { // no start replaces that
				k := cache.Key{Workspace: ws, Principal: "ann", Tool: "npm"}
				u := use(t, s, k)
				if _, err := os.Stat(filepath.Join(u.Dir, "file")); err != nil {
					t.Error(err)
				}
				u.Release()
				if !slices.ContainsFunc(list(t, s), func(c cache.Cache) bool { return c.Key == k }) {
					t.Errorf("after its use the caches are %+v", list(t, s))
				}
			}
			if removed, err := s.Trim(t.Context(), 1<<19); err != nil || len(removed) != 2 {
				t.Errorf("removed %v (%v), not both caches", removed, err)
			}
			for _, c := range list(t, s) { // HOME
				if err := s.Remove(t.Context(), c); err != nil || c.Tool != cache.Home {
					t.Errorf("removing %+v: %v", c, err)
				}
			}
			if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 1 { // the mark
				t.Errorf("the store has %v (%v)", left, err)
			}
		})
	}
}

// TestWait: a start that waits for the end of a removal ends with its context.
func TestWait(t *testing.T) {
	s, ws := newStore(t)
	k := cache.Key{Workspace: ws, Tool: "go"}
	u := use(t, s, k)
	u.Release()
	lock, err := os.OpenFile(u.Dir+".lock", os.O_RDWR, 0)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Use(ctx, k, plenty); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	go func() { _ = lock.Close() }()
	use(t, s, k)
}
