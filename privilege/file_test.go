package privilege

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/internal/testkit"
)

// grantingEnv tells a child of this test which file to grant in.
const grantingEnv = "PADDOCK_TEST_GRANTS"

func TestMain(m *testing.M) {
	if path := os.Getenv(grantingEnv); path != "" {
		if err := grantMany(path, os.Getenv(grantingEnv+"_FIRST")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// grantMany grants, from 50 goroutines, one bit each to everybody, and
// something to a principal of its own.
func grantMany(path, first string) error {
	s, err := OpenFile(path)
	if err != nil {
		return err
	}
	var bit int
	if _, err := fmt.Sscan(first, &bit); err != nil {
		return err
	}
	update := func(principal string, change func(Set) Set) error {
		for {
			// A busy host may not get to all of them within the time that one waits for the others.
			if _, _, err := s.Update(context.Background(), principal, change); !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
		}
	}
	errs := make(chan error)
	for i := range 50 {
		go func() {
			err := update(fmt.Sprintf("own:%d:%d", bit, i), func(Set) Set { return 1 })
			if err == nil && i < 16 {
				err = update("all", func(old Set) Set { return old | 1<<(bit+i) })
			}
			errs <- err
		}()
	}
	for range 50 {
		err = errors.Join(err, <-errs)
	}
	return errors.Join(err, s.Close())
}

func add(set Set) func(Set) Set { return func(old Set) Set { return old | set } }

func open(t *testing.T, path string) Store {
	t.Helper()
	s, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "deep", "p.json")
	s, ctx := open(t, path), t.Context()
	if got, err := s.Get(ctx, "nobody"); got != 0 || err != nil {
		t.Errorf("Get of nobody = %v, %v", got, err)
	}
	if _, err := os.Lstat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a question made the directory: %v", err)
	}
	steps := []struct {
		who           string
		change        func(Set) Set
		before, after Set
	}{
		{"user:ann", add(UnsandboxedExec), 0, 4},
		{"user:ann", add(1 << 63), 4, 1<<63 | 4},
		{"user:bob", add(AlterPrivileges), 0, 1},
		{"user:bob", add(AlterPrivileges), 1, 1},
		{"user:ann", func(s Set) Set { return s &^ UnsandboxedExec }, 1<<63 | 4, 1 << 63},
		{"user:bob", func(Set) Set { return 0 }, 1, 0},
	}
	for i, step := range steps {
		before, after, err := s.Update(ctx, step.who, step.change)
		if before != step.before || after != step.after || err != nil {
			t.Errorf("step %d: %v to %v, %v", i, before, after, err)
		}
		if got, err := open(t, path).Get(ctx, step.who); got != step.after || err != nil {
			t.Errorf("step %d: another store reads %v, %v", i, got, err)
		}
		if got, err := s.Get(ctx, step.who); got != step.after || err != nil {
			t.Errorf("step %d: the store reads %v, %v", i, got, err)
		}
	}
	got, err := s.List(ctx)
	if diff := cmp.Diff(map[string]Set{"user:ann": 1 << 63}, got); diff != "" || err != nil {
		t.Errorf("List: %v %s", err, diff)
	}
	checkModes(t, path)
}

func checkModes(t *testing.T, path string) {
	t.Helper()
	for path, want := range map[string]os.FileMode{path: 0o600, path + ".lock": 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %v", path, info, err, want)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); len(entries) != 2 || err != nil {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

// TestFileRefused has everything that a store must not be. No question about
// it may have an answer.
func TestFileRefused(t *testing.T) {
	const good = `{"version":1,"principals":{"a":"0x4"}}`
	text := func(data string) func(*testing.T, string) {
		return func(t *testing.T, path string) { testkit.Write(t, path, data, 0o600) }
	}
	many := strings.Repeat(`"a":"1",`, MaxPrincipals)
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"empty", text(""), "it is not what Paddock writes: line 1: the text ends too early"},
		{"half", text(good[:20]), "it is not what Paddock writes: line 1: the text ends too early"},
		{"followed", text(good + "{}"), "after top-level value"},
		{"no object", text("[]"), "it is not what Paddock writes"},
		{"another version", text(`{"version":2,"principals":{}}`), "unknown version 2 of the file"},
		{"no version", text(`{"principals":{}}`), "unknown version 0 of the file"},
		{"no principals", text(`{"version":1}`), "principals are missing"},
		{"null", text(`{"version":1,"principals":null}`), "principals: must not be null"},
		{"an unknown key", text(`{"version":1,"principals":{},"admins":[]}`), "admins: unknown member"},
		{"twice", text(`{"version":1,"principals":{"a":"1","a":"2"}}`), "principals.a: appears twice"},
		{"two tables", text(`{"version":1,"principals":{},"principals":{"a":"4"}}`), "principals: appears twice"},
		{"two tables, one in other letters", text(`{"version":1,"principals":{},"Principals":{"a":"4"}}`), "Principals: unknown member"},
		{"many", text(`{"version":1,"principals":{` + many + `"b":"1"}}`), "appears twice"},
		{"a mask that is none", text(`{"version":1,"principals":{"a":"all"}}`), `cannot use the mask "all"`},
		{"a number", text(`{"version":1,"principals":{"a":4}}`), "it is not what Paddock writes"},
		{"a name that is none", text(`{"version":1,"principals":{"a b":"1"}}`), `cannot use the principal "a b"`},
		{"too large", text(strings.Repeat(" ", 16<<20) + good), "it is larger than 16 MiB"},
		{"a directory", func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, "not a regular file"},
		{"a pipe", func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) }, "not a regular file"},
		{"a link", func(t *testing.T, path string) {
			testkit.Write(t, path+".real", good, 0o600)
			must(t, os.Symlink(filepath.Base(path)+".real", path))
		}, "is a symbolic link"},
		{"a dangling link", func(t *testing.T, path string) { must(t, os.Symlink("nowhere", path)) }, "is a symbolic link"},
		{"a hard link", func(t *testing.T, path string) {
			testkit.Write(t, path, good, 0o600)
			must(t, os.Link(path, path+".other"))
		}, "it has a second name"},
		{"others may write", func(t *testing.T, path string) { testkit.Write(t, path, good, 0o602) }, "others may write to it (mode 0602)"},
		{"the group may write", func(t *testing.T, path string) { testkit.Write(t, path, good, 0o660) }, "others may write to it (mode 0660)"},
		{"others may write beside it", func(t *testing.T, path string) {
			testkit.Write(t, path, good, 0o600)
			must(t, os.Chmod(filepath.Dir(path), 0o777))
		}, "others may write to its directory (mode 0777)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state", "p.json")
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			s := open(t, path)
			if _, _, err := s.Update(t.Context(), "a", add(1)); err != nil {
				t.Fatal(err)
			}
			must(t, os.Remove(path))
			tt.make(t, path)
			_, openErr := OpenFile(path)
			_, getErr := s.Get(t.Context(), "a")
			_, listErr := s.List(t.Context())
			_, _, updateErr := s.Update(t.Context(), "a", add(1))
			for _, err := range []error{openErr, getErr, listErr, updateErr} {
				u := (*Unavailable)(nil)
				if !errors.As(err, &u) || u.Store != path || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
			}
			if err := Check(t.Context(), s, &Principal{Name: "a"}, 1); err == nil || err.Error() != "Privilege system unavailable." {
				t.Errorf("Check = %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFileOfAnother has files of a user who is neither the caller nor root.
func TestFileOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	path := filepath.Join(t.TempDir(), "p.json")
	must(t, os.Chmod(filepath.Dir(path), 0o700))
	testkit.Write(t, path, `{"version":1,"principals":{}}`, 0o600)
	if !Owned(path) {
		t.Error("the file is not the caller's")
	}
	must(t, os.Chown(path, 65533, 0))
	if _, err := OpenFile(path); err == nil || !strings.Contains(err.Error(), "it belongs to another user (uid 65533)") {
		t.Errorf("OpenFile = %v", err)
	}
	if Owned(path) {
		t.Error("the file is the caller's")
	}
	must(t, os.Chown(path, 0, 0))
	must(t, os.Chown(filepath.Dir(path), 65533, 0))
	if _, err := OpenFile(path); err == nil || !strings.Contains(err.Error(), "its directory belongs to another user") {
		t.Errorf("OpenFile = %v", err)
	}
	if Owned(filepath.Join(filepath.Dir(path), "missing", "p.json")) {
		t.Error("a file that would be made in another's directory is the caller's")
	}
}

// TestFileChangesShow changes the file behind a store's back.
func TestFileChangesShow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.json")
	must(t, os.Chmod(filepath.Dir(path), 0o700))
	s := open(t, path)
	old := time.Now().Add(-time.Hour)
	for i, mask := range []string{"4", "5", "6", "4"} {
		testkit.Write(t, path, `{"version":1,"principals":{"a":"`+mask+`"}}`, 0o600)
		if i%2 == 1 {
			must(t, os.Chtimes(path, old, old)) // such a file is remembered
		}
		for range 2 {
			if got, err := s.Get(t.Context(), "a"); err != nil || fmt.Sprint(uint64(got)) != mask {
				t.Fatalf("step %d: %v, %v, want %s", i, got, err, mask)
			}
		}
	}
	must(t, os.Chmod(path, 0o666))
	if got, err := s.Get(t.Context(), "a"); err == nil {
		t.Errorf("others may write to the file, and it grants %v", got)
	}
	must(t, os.Chmod(path, 0o600))
	if got, err := s.Get(t.Context(), "a"); got != 4 || err != nil {
		t.Errorf("it is good again: %v, %v", got, err)
	}
	must(t, os.Remove(path))
	if got, err := s.Get(t.Context(), "a"); got != 0 || err != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
}

// TestFileKeepsItsMode has a file that others may read.
func TestFileKeepsItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.json")
	must(t, os.Chmod(filepath.Dir(path), 0o755))
	testkit.Write(t, path, `{"version":1,"principals":{}}`, 0o644)
	testkit.Write(t, path+".new", "left by a writer that was killed", 0o600)
	if _, _, err := open(t, path).Update(t.Context(), "a", add(1)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestFileManyWriters has four processes of fifty goroutines each, and loses nothing.
func TestFileManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.json")
	must(t, os.Chmod(filepath.Dir(path), 0o700))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), grantingEnv+"="+path, fmt.Sprintf("%s_FIRST=%d", grantingEnv, 16*i))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("process %d: %v: %s", i, err, out)
			}
		})
	}
	wg.Wait()
	got, err := open(t, path).List(t.Context())
	if err != nil || len(got) != 4*50+1 || got["all"] != 1<<64-1 {
		t.Errorf("%d principals, all have %v, %v", len(got), got["all"], err)
	}
}

// TestFileLocked waits for another process that has the lock, and not for ever.
func TestFileLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.json")
	must(t, os.Chmod(filepath.Dir(path), 0o700))
	s := open(t, path)
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for range 2 { // the second waits for the first
		if _, _, err := s.Update(ctx, "a", add(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Update = %v", err)
		}
	}
	if got, err := s.Get(t.Context(), "a"); got != 0 || err != nil {
		t.Errorf("Get waits for the lock: %v, %v", got, err)
	}
	must(t, lock.Close())
	if _, _, err := s.Update(t.Context(), "a", add(1)); err != nil {
		t.Error(err)
	}
}

func TestNamesAreChecked(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "p.json"))
	if _, err := s.Get(t.Context(), "a b"); err == nil {
		t.Error("Get takes any name")
	}
	if _, _, err := s.Update(t.Context(), "a\nb", add(1)); err == nil {
		t.Error("Update takes any name")
	}
	if _, err := OpenFile(""); err == nil {
		t.Error("a file without a name can be opened")
	}
}

// BenchmarkCheckFile checks with a file that is read for the first time, as on
// the command line, and with one that a server has read.
func BenchmarkCheckFile(b *testing.B) {
	for _, size := range []int{10, 10_000} {
		path := filepath.Join(b.TempDir(), "p.json")
		grants := make(map[string]Set)
		for i := range size {
			grants[fmt.Sprintf("user:%d", i)] = UnsandboxedExec
		}
		data, err := encode(grants)
		if err := errors.Join(err, os.Chmod(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			b.Fatal(err)
		}
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, old, old); err != nil {
			b.Fatal(err)
		}
		check := func(b *testing.B, s Store) {
			if err := Check(b.Context(), s, &Principal{Name: "user:7"}, UnsandboxedExec); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("first/%d", size), func(b *testing.B) {
			for b.Loop() {
				s, err := OpenFile(path)
				if err != nil {
					b.Fatal(err)
				}
				check(b, s)
				_ = s.Close()
			}
		})
		b.Run(fmt.Sprintf("again/%d", size), func(b *testing.B) {
			s, err := OpenFile(path)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for b.Loop() {
				check(b, s)
			}
		})
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"principals":{"a":"0x4","user:b":"18446744073709551615"}}`))
	f.Add([]byte(`{"version":1,"principals":{"a":"1","a":"2"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		grants, err := parse(data)
		if err != nil {
			return
		}
		written, err := encode(grants)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(written)
		if diff := cmp.Diff(grants, again); diff != "" || err != nil {
			t.Fatalf("%v %s", err, diff)
		}
	})
}
