package beneath

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func tree(t *testing.T) (root string, dir Dir) {
	t.Helper()
	root = t.TempDir()
	for _, d := range []string{"root/a/b", "outside/b"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{"root/a/b/f": "inside", "outside/b/f": "outside", "root/file": ""} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../outside", root+"/root/l"); err != nil {
		t.Fatal(err)
	}
	dir, err := Open(filepath.Join(root, "root"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return root, dir
}

func TestWalk(t *testing.T) {
	_, dir := tree(t)
	for _, tt := range []struct {
		path []string
		err  error
		link bool
		at   int
	}{
		{path: nil},
		{path: []string{"a", "b"}},
		{path: []string{"a", "c"}, err: unix.ENOENT},
		{path: []string{"l"}, err: unix.ELOOP, link: true},
		{path: []string{"a", "..", "l", "b"}, err: unix.ELOOP, link: true, at: 2}, // names are the caller's to check
		{path: []string{"l", "b"}, err: unix.ELOOP, link: true},
		{path: []string{"file", "x"}, err: unix.ENOTDIR},
	} {
		got, err := dir.Walk(tt.path)
		if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%q: %v, want %v", tt.path, err, tt.err)
		}
		var link *LinkError
		if errors.As(err, &link) && (link.Link != tt.link || link.Index != tt.at) {
			t.Errorf("%q: %+v", tt.path, link)
		}
		if err == nil {
			_ = got.Close()
		}
	}
}

func TestMakeAll(t *testing.T) {
	root, dir := tree(t)
	var made []int
	got, err := dir.MakeAll([]string{"a", "x", "y"}, 0o700, func(_ Dir, depth int) { made = append(made, depth) })
	if err != nil || !slices.Equal(made, []int{1, 2}) {
		t.Fatalf("made %v, %v", made, err)
	}
	_ = got.Close()
	if info, err := os.Stat(root + "/root/a/x/y"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := dir.MakeAll([]string{"l", "new"}, 0o700, nil); !errors.Is(err, unix.ELOOP) {
		t.Errorf("over a link: %v", err)
	}
	if _, err := os.Stat(root + "/outside/new"); err == nil {
		t.Error("something was made outside")
	}
}

func TestOpenFileDoesNotWait(t *testing.T) {
	root, dir := tree(t)
	if err := unix.Mkfifo(root+"/root/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := dir.OpenFile("fifo", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if _, err := dir.OpenFile("l", unix.O_RDONLY, 0); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link: %v", err)
	}
}

func TestClean(t *testing.T) {
	for path, want := range map[string][]string{"": nil, "/": nil, "a//b/./c/": {"a", "b", "c"}, "...": {"..."}} {
		if got, ok := Clean(path); !ok || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", path, got, ok)
		}
	}
	for _, path := range []string{"..", "a/../b", "a/..", "a\x00b"} {
		if _, ok := Clean(path); ok {
			t.Errorf("%q is clean", path)
		}
	}
}

// read is a way to read a/b/f below a directory.
type read func() (string, error)

// checkedString is how not to do it: the path is checked, and then used.
func checkedString(root string) read {
	return func() (string, error) {
		path := root
		for _, name := range []string{"a", "b"} {
			path = filepath.Join(path, name)
			if info, err := os.Lstat(path); err != nil || !info.IsDir() {
				return "", errors.Join(errors.New("no directory"), err)
			}
		}
		text, err := os.ReadFile(filepath.Join(path, "f"))
		return string(text), err
	}
}

func byHandles(dir Dir) read {
	return func() (string, error) {
		b, err := dir.Walk([]string{"a", "b"})
		if err != nil {
			return "", err
		}
		defer b.Close()
		f, err := b.OpenFile("f", unix.O_RDONLY, 0)
		if err != nil {
			return "", err
		}
		defer f.Close()
		text := make([]byte, 16)
		n, err := f.Read(text)
		return string(text[:n]), err
	}
}

// escapes counts how often what is outside was read, while another changes a
// directory for a link that leads there and back.
func escapes(t *testing.T, root string, read read, until func(escaped, inside int) bool) (escaped, inside int) {
	t.Helper()
	a, l := root+"/root/a", root+"/root/l"
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, l, unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	defer swapping.Wait()
	defer close(stop)
	for !until(escaped, inside) {
		switch text, _ := read(); text {
		case "outside":
			escaped++
		case "inside":
			inside++
		}
	}
	return escaped, inside
}

// The same race catches a path that is checked as a string, in less than the
// time for which it does not catch the handles.
func TestRace(t *testing.T) {
	root, dir := tree(t)
	began := time.Now()
	caught, _ := escapes(t, root, checkedString(filepath.Join(root, "root")), func(escaped, _ int) bool {
		return escaped > 0 || time.Since(began) > 20*time.Second
	})
	if caught == 0 {
		t.Fatal("the race cannot be lost here: this test shows nothing")
	}
	took := max(time.Since(began), 500*time.Millisecond)
	began = time.Now()
	escaped, inside := escapes(t, root, byHandles(dir), func(_, inside int) bool {
		return time.Since(began) > 2*took && inside > 0
	})
	if escaped > 0 {
		t.Errorf("what is outside was read %d times", escaped)
	}
	t.Logf("a checked string was caught, handles were not in %v and %d reads", 2*took, inside)
}
