// Package testkit is what tests of many packages share: waiting for what comes
// about by itself, and files. It imports the standard library alone, so that
// every package can use it; what starts sandboxes is in boxtest.
package testkit

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Patience is how long to wait for what should happen at once: long enough for a
// machine that does many other things. No test waits it out where all is well.
const Patience = 2 * time.Minute

// Eventually waits until ok holds, and fails the test where it does not within
// [Patience]. What is what should hold, for the message.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); ; {
		asked := time.Now()
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", Patience, what)
		}
		time.Sleep(max(5*time.Millisecond, 3*time.Since(asked))) // asking itself must not keep a processor busy
	}
}

// AwaitFile waits until there is a file, by which a command says that it runs.
func AwaitFile(t testing.TB, path string) {
	t.Helper()
	Eventually(t, path+" is there", func() bool {
		_, err := os.Lstat(path)
		return err == nil
	})
}

// Write makes a file with exactly this mode, and the directories above it.
func Write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask, and where the file was there
		t.Fatal(err)
	}
}

// Private returns a new directory in which, and above which, nobody but root and this user can make
// files, unlike the temporary directory of most hosts. A user who has none skips the test.
func Private(t testing.TB) string {
	t.Helper()
	for _, at := range []string{os.TempDir(), os.Getenv("HOME"), "/run", "/var/lib"} {
		shared := at == ""
		for dir := at; dir != "/" && !shared; dir = filepath.Dir(dir) {
			info, err := os.Stat(dir)
			shared = err != nil || info.Mode().Perm()&0o022 != 0
		}
		if shared {
			continue
		}
		dir, err := os.MkdirTemp(at, "paddock-test-") //nolint:usetesting // where it lies is the point
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		return dir
	}
	t.Skip("there is no directory above which nobody else can make files")
	return ""
}

// Repeated reports whether "make test" has run the same tests as root before: "make test-user" comes
// after it.
func Repeated() bool { return os.Getenv("PADDOCK_TEST_CONTROLLED") != "" }

// Rounds returns how many rounds a random test has: all, or few with -short and in
// tests that are repeated.
func Rounds(all, few int) int {
	if testing.Short() || Repeated() {
		return few
	}
	return all
}
