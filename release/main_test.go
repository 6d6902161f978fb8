package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// must runs a command in a directory and returns what it printed.
func must(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := run(dir, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// run runs a command in a directory and returns what it printed. Without an environment it has
// that of the test.
func run(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// identity keeps git from what this machine has configured, and gives each commit the same time.
func identity() []string {
	return append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000")
}

// made is a directory for what several tests use.
var made string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	var err error
	if made, err = os.MkdirTemp("", "paddock-release-test-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(made)
	return m.Run()
}

// clone returns a repository whose only commit holds the tree as it is now, edits included.
func clone(t *testing.T) string {
	t.Helper()
	if err := makeClone(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(made, "clone")
}

var makeClone = sync.OnceValue(func() error {
	dir := filepath.Join(made, "clone")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	const script = `
		git -C "$TREE" -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
			(cd "$TREE" && xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh | tar --null -cf - -T -) | tar -xf - &&
		git init -q -b main . && git add -A && git commit -q -m "the tree"`
	tree, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = dir, append(identity(), "TREE="+tree)
	cmd.Stderr = os.Stderr
	return cmd.Run()
})

// A commit has the version of its tag, or the one that the go command gives it.
func TestVersion(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) { t.Helper(); must(t, dir, identity(), "git", args...) }
	version := func() string {
		t.Helper()
		c, err := commitOf(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(c.version, c.revision[:12], "REVISION")
	}
	git("init", "-q", "-b", "main", ".")
	steps := []struct {
		tag  string // of a new commit
		want string
	}{
		{"", "v0.0.0-20231114221320-REVISION"},
		{"vague", "v0.0.0-20231114221320-REVISION"},
		{"v0.9.0", "v0.9.0"},
		{"", "v0.9.1-0.20231114221320-REVISION"},
		{"v0.10.0-rc.1", "v0.10.0-rc.1"},
		{"", "v0.10.0-rc.1.0.20231114221320-REVISION"},
		{"v0.10.0", "v0.10.0"},
	}
	for _, s := range steps {
		git("commit", "-q", "--allow-empty", "-m", "one more")
		if s.tag != "" {
			git("tag", s.tag)
		}
		if got := version(); got != s.want {
			t.Errorf("with the tag %q: version %s, want %s", s.tag, got, s.want)
		}
	}
	for _, version := range []string{"1.2.3", "v1.2", "v2.0.0", "v1.0.0+build"} { // of version 2 the path would be another
		want := fmt.Sprintf("cannot use the version %q: must be one of the module's, such as v0.1.0", version)
		if _, err := commitOf(dir, version); err == nil || err.Error() != want {
			t.Errorf("version %s: error %v, want %q", version, err, want)
		}
	}
	if _, err := commitOf(t.TempDir(), ""); err == nil || !strings.HasPrefix(err.Error(), "cannot ask git about ") {
		t.Errorf("outside of a clone: %v", err)
	}
}
