package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// dirs returns a workspace and a state directory.
func dirs(t *testing.T) (ws, state string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, state = filepath.Join(root, "ws"), filepath.Join(root, "state")
	if err := errors.Join(os.Mkdir(ws, 0o755), os.Mkdir(state, 0o700)); err != nil {
		t.Fatal(err)
	}
	return ws, state
}

func write(t *testing.T, dir, text string) *File {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, specfile.ProjectName), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := Read("", dir)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestReadRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(path string) error
		want string
	}{
		"a link":           {func(p string) error { return os.Symlink("/etc/hostname", p) }, "it is a symbolic link"},
		"a link to itself": {func(p string) error { return os.Symlink(specfile.ProjectName, p) }, "it is a symbolic link"},
		"a FIFO":           {func(p string) error { return syscall.Mkfifo(p, 0o644) }, "it is not a regular file"},
		"a directory":      {func(p string) error { return os.Mkdir(p, 0o755) }, "it is not a regular file"},
		"too large":        {func(p string) error { return os.WriteFile(p, make([]byte, specfile.MaxProject+1), 0o644) }, "it is larger than 16KiB"},
		"a giant":          {func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o644), os.Truncate(p, 1<<40)) }, "it is larger than 16KiB"},
		"another user's": {func(p string) error {
			if os.Geteuid() != 0 {
				return errors.ErrUnsupported
			}
			return errors.Join(os.WriteFile(p, nil, 0o644), os.Chown(p, 1234, -1))
		}, "it belongs to another user (uid 1234)"},
		"closed": {func(p string) error {
			if os.Geteuid() == 0 {
				return errors.ErrUnsupported
			}
			return os.WriteFile(p, nil, 0)
		}, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			ws, state := dirs(t)
			if err := tt.make(filepath.Join(ws, specfile.ProjectName)); errors.Is(err, errors.ErrUnsupported) {
				return // for another user
			} else if err != nil {
				t.Fatal(err)
			}
			unfit := (*UnfitError)(nil)
			if _, err := Read(state, ws); !errors.As(err, &unfit) || unfit.Reason != tt.want || !Exists(ws) {
				t.Errorf("%v", err)
			}
		})
	}
	ws, state := dirs(t)
	if _, err := Read(state, ws); !errors.Is(err, fs.ErrNotExist) || Exists(ws) {
		t.Error(err)
	}
	if _, err := Read(state, ws+"/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestStore(t *testing.T) {
	ws, state := dirs(t)
	store, err := Open(state)
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, ws, "network: none\n")
	same := func(f *File) bool {
		t.Helper()
		trusted, err := store.Find(f.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return trusted.Same(f)
	}
	if same(file) {
		t.Error("a file is trusted that nobody has trusted")
	}
	if err := store.Trust(t.Context(), file); err != nil || !same(file) {
		t.Fatal(err)
	}
	if same(write(t, ws, "network: host\n")) {
		t.Error("a changed file is trusted")
	}
	if !same(write(t, ws, "network: none\n")) {
		t.Error("the trusted content is not trusted any more")
	}
	if err := errors.Join(os.Rename(ws, ws+".old"), os.Mkdir(ws, 0o755)); err != nil {
		t.Fatal(err)
	}
	other := write(t, ws, "network: none\n")
	if same(other) {
		t.Error("another directory is trusted")
	}
	if err := store.Trust(t.Context(), other); err != nil || !same(other) {
		t.Error(err)
	}
	if all, err := store.List(); err != nil || len(all) != 1 || all[0].Text != "network: none\n" {
		t.Errorf("%+v, %v", all, err)
	}
	if info, err := os.Stat(filepath.Join(state, FileName)); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for _, want := range []bool{true, false} {
		if found, err := store.Remove(t.Context(), ws); err != nil || found != want {
			t.Errorf("%v, %v", found, err)
		}
	}
	if same(other) {
		t.Error("a removed directory is trusted")
	}
}

// Whatever is wrong with the list, nothing is trusted.
func TestBrokenStore(t *testing.T) {
	for name, breaks := range map[string]func(path string) error{
		"no JSON":          func(p string) error { return os.WriteFile(p, []byte("nonsense"), 0o600) },
		"half":             func(p string) error { return os.Truncate(p, 20) },
		"unknown":          func(p string) error { return os.WriteFile(p, []byte(`{"trusts":[]}`), 0o600) },
		"others' to write": func(p string) error { return os.Chmod(p, 0o666) },
		"a link":           func(p string) error { return errors.Join(os.Rename(p, p+".real"), os.Symlink(p+".real", p)) },
		"a FIFO":           func(p string) error { return errors.Join(os.Remove(p), syscall.Mkfifo(p, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			ws, state := dirs(t)
			store, err := Open(state)
			file := write(t, ws, "network: none\n")
			if err := errors.Join(err, store.Trust(t.Context(), file), breaks(filepath.Join(state, FileName))); err != nil {
				t.Fatal(err)
			}
			if store, err = Open(state); err != nil {
				t.Fatal(err)
			}
			trusted, err := store.Find(ws)
			if e := (*paddock.Error)(nil); trusted != nil || !errors.As(err, &e) || e.Hint == "" || !strings.HasPrefix(e.Message, "cannot use the list of trusted projects") {
				t.Errorf("%+v, %v", trusted, err)
			}
			if err := store.Trust(t.Context(), file); err == nil {
				t.Error("a broken list is replaced")
			}
		})
	}
}

// A list that lies in the current directory is nobody's.
func TestNoState(t *testing.T) {
	ws, state := dirs(t)
	store, err := Open(state)
	if err == nil {
		err = store.Trust(t.Context(), write(t, ws, "network: host\n"))
	}
	if err := errors.Join(err, os.Rename(filepath.Join(state, FileName), filepath.Join(ws, FileName))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(ws)
	if store, err := Open(""); store != nil || err == nil {
		t.Errorf("%v", err)
	}
}

// Many processes trust at once, and nothing is lost.
func TestStoreAtOnce(t *testing.T) {
	_, state := dirs(t)
	var all sync.WaitGroup
	for i := range 16 {
		ws, _ := dirs(t)
		file := write(t, ws, "hostname: h"+strconv.Itoa(i)+"\n")
		all.Go(func() {
			store, err := Open(state)
			if err == nil {
				err = store.Trust(t.Context(), file)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	store, err := Open(state)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := store.List(); err != nil || len(list) != 16 {
		t.Errorf("%d, %v", len(list), err)
	}
}

// A full list makes room by what is gone, and refuses more otherwise.
func TestFullStore(t *testing.T) {
	ws, state := dirs(t)
	store, err := Open(state)
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, ws, "network: none\n")
	fill := func(dir string) error {
		return store.update(t.Context(), func([]Trusted) ([]Trusted, error) {
			var all []Trusted
			for i := range maxProjects {
				all = append(all, Trusted{Dir: fmt.Appendf(nil, "%s/%d/..", dir, i), SHA256: "x", Text: strings.Repeat(`"`, specfile.MaxProject)})
			}
			return all, nil
		})
	}
	for i := range maxProjects {
		if err := os.Mkdir(filepath.Join(ws, strconv.Itoa(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := fill(ws); err != nil {
		t.Fatal(err)
	}
	e := (*paddock.Error)(nil)
	if err := store.Trust(t.Context(), file); !errors.As(err, &e) || !strings.Contains(e.Hint, "--remove") {
		t.Errorf("%v", err)
	}
	if err := errors.Join(fill(ws+"/gone"), store.Trust(t.Context(), file)); err != nil {
		t.Error(err)
	}
	if list, err := store.List(); err != nil || len(list) != 1 {
		t.Errorf("%d, %v", len(list), err)
	}
}
