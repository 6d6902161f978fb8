package beneath

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// tree makes dir/sub/file, a link to each, one that dangles, and a FIFO; and
// opens it.
func tree(t *testing.T) (Dir, string) {
	t.Helper()
	root := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(root, "dir/sub"), 0o755),
		os.WriteFile(filepath.Join(root, "dir/file"), []byte("x"), 0o644),
		os.Symlink("dir", filepath.Join(root, "to-dir")),
		os.Symlink("dir/file", filepath.Join(root, "to-file")),
		os.Symlink("nowhere", filepath.Join(root, "dangling")),
		unix.Mkfifo(filepath.Join(root, "fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, root
}

// descriptors is how many this process has.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestWalk(t *testing.T) {
	d, _ := tree(t)
	before := descriptors(t)
	for path, want := range map[string]error{
		"":                nil,
		"dir":             nil,
		"dir/sub":         nil,
		"missing":         unix.ENOENT,
		"dir/missing/sub": unix.ENOENT,
		"to-dir":          &LinkError{0, true},
		"to-dir/sub":      &LinkError{0, true},
		"to-file":         &LinkError{0, true},
		"dangling":        &LinkError{0, true},
		"fifo":            &LinkError{0, false},
		"dir/file":        &LinkError{1, false},
		"dir/file/below":  &LinkError{1, false},
	} {
		names, _ := Clean(path)
		for verb, walk := range map[string]func() (Dir, error){
			"walk": func() (Dir, error) { return d.Walk(names) },
			"make": func() (Dir, error) { return d.MakeAll(names, 0o755, nil) },
		} {
			if verb == "make" && want == unix.ENOENT {
				continue
			}
			at, err := walk()
			if at.Valid() != (err == nil) {
				t.Errorf("%s %q: %v with %v", verb, path, at, err)
			}
			if err == nil {
				_ = at.Close()
			}
			var link *LinkError
			switch errors.As(err, &link); {
			case link != nil && reflect.DeepEqual(want, link), link == nil && errors.Is(err, want):
			default:
				t.Errorf("%s %q: got %#v, want %#v", verb, path, err, want)
			}
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors became %d", before, after)
	}
}

func TestMakeAll(t *testing.T) {
	d, root := tree(t)
	var made []int
	at, err := d.MakeAll([]string{"dir", "new", "er"}, 0o700, func(_ Dir, depth int) { made = append(made, depth) })
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	if want := []int{1, 2}; !reflect.DeepEqual(made, want) {
		t.Errorf("made %v, want %v", made, want)
	}
	if st, err := os.Stat(filepath.Join(root, "dir/new/er")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st, err)
	}
}

func TestFiles(t *testing.T) {
	d, _ := tree(t)
	for name, want := range map[string]error{"to-file": unix.ELOOP, "dangling": unix.ELOOP, "missing": unix.ENOENT} {
		if f, err := d.OpenFile(name, unix.O_RDONLY, 0); !errors.Is(err, want) {
			t.Errorf("%s: got %v, %v, want %v", name, f, err, want)
		}
	}
	f, err := d.OpenFile("fifo", unix.O_RDONLY, 0) // nobody writes: must not wait
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if _, err := d.OpenFile("fifo", unix.O_WRONLY, 0); !errors.Is(err, unix.ENXIO) {
		t.Errorf("to write into a FIFO that nobody reads: %v", err)
	}
	if st, err := d.Lstat("to-dir"); err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		t.Errorf("%o, %v", st.Mode, err)
	}
	if st, err := d.Lstat(""); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		t.Errorf("%o, %v", st.Mode, err)
	}
}

func TestReadlink(t *testing.T) {
	d, root := tree(t)
	for _, size := range []int{1, 255, 256, 257, 511, 512, 4095} {
		target := strings.Repeat("x", size)
		name := filepath.Join(root, "long")
		_ = os.Remove(name)
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Readlink("long"); got != target || err != nil {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
	}
	if _, err := d.Readlink("dir"); !errors.Is(err, unix.EINVAL) {
		t.Errorf("of a directory: %v", err)
	}
}

func TestClean(t *testing.T) {
	for path, want := range map[string][]string{
		"": nil, ".": nil, "/": nil, "a": {"a"}, "//a/./b//": {"a", "b"}, "...": {"..."}, "a\n/ ": {"a\n", " "},
		"..": nil, "a/..": nil, "a/../b": nil, "a\x00b": nil,
	} {
		refused := strings.Contains(path, "\x00") || strings.Contains("/"+path+"/", "/../")
		if got, ok := Clean(path); ok == refused || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, %v; want %q", path, got, ok, want)
		}
	}
}

// While a name is by turns a directory and a link, a walk finds one or the
// other: never what the link leads to, nor that there is nothing or something
// else.
func TestWalkWhileSwapped(t *testing.T) {
	d, root := tree(t)
	out := t.TempDir()
	a, b := filepath.Join(root, "dir"), filepath.Join(root, "out")
	if err := os.Symlink(out, b); err != nil {
		t.Fatal(err)
	}
	outside, _ := os.Stat(out)
	before := descriptors(t)
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	})
	defer swapping.Wait()
	defer close(stop)
	found := map[bool]int{}
	for range 20_000 {
		at, err := d.Walk([]string{"dir"})
		var link *LinkError
		switch {
		case err == nil:
			st, serr := os.Stat("/proc/self/fd/" + strconv.Itoa(at.FD()))
			if serr == nil && os.SameFile(st, outside) {
				t.Fatal("it leads outside")
			}
			_ = at.Close()
		case !errors.As(err, &link) || !link.Link:
			t.Fatal(err)
		}
		found[err == nil]++
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors became %d", before, after)
	}
	t.Logf("%d walks found the directory, %d the link", found[true], found[false])
}
