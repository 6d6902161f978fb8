package ignore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository makes an empty one with the paths of a test, of which those that
// end in a slash are directories.
func repository(t testing.TB, paths []string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	root := t.TempDir()
	git(t, root, "", "init", "-q")
	for _, path := range paths {
		at := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if strings.HasSuffix(path, "/") {
			err = os.MkdirAll(at, 0o755)
		} else {
			err = os.WriteFile(at, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// git runs it with nobody's settings, and gives what it prints.
func git(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "core.excludesFile="}, args...)...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && stderr.Len() > 0 {
		t.Fatalf("git %q: %v\n%s", args, err, &stderr)
	}
	return string(out)
}

// ignored says by the rules of the root's file alone whether a path is, or is in
// a directory that is.
func ignored(r *Rules, path string) bool {
	dir := strings.HasSuffix(path, "/")
	names := strings.Split(strings.TrimSuffix(path, "/"), "/")
	for i := range names {
		if yes, _ := r.Match(names[:i+1], dir || i < len(names)-1); yes {
			return true
		}
	}
	return false
}

// compare asks git about the rules of one file, and says where it differs.
func compare(t testing.TB, root, rules string, paths []string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, ".gitignore"), []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	asked := strings.ReplaceAll(strings.Join(paths, "\x00")+"\x00", "/\x00", "\x00") // it looks for itself what a path is
	want := strings.Split(git(t, root, asked, "check-ignore", "--no-index", "-z", "--stdin"), "\x00")
	r := Parse([]byte(rules))
	for _, path := range paths {
		if got, want := ignored(r, path), slices.Contains(want, strings.TrimSuffix(path, "/")); got != want {
			t.Errorf("rules %q: %q is ignored: %v, git says %v", rules, path, got, want)
		}
	}
}

var treePaths = []string{
	"a", "b", "ab", "abc", "a.c", "b.c", "a b", "a ", `a\b`, "#a", "!a", "*", "[a]", "é", ".a", "foo.o", "foo", "-", "^", "a]", "a-c", "A", "1", "\t",
	"d/", "d/a", "d/b", "d/ab", "d/a.c", "d/foo.o", "d/d/", "d/d/a", "d/d/d/a", "d/d/d/b", "d/e/a", "d/e/f/a", "e/", "e/a", "e/f/", "e/f/d/a", "e/f/d/b.c",
	"x/y/z/a", "x/y/z/b", "x/y/a", "x/a", "x/y/", "d.c/", "d.c/a", "ü/a", "build/", "build/out/a", "src/build/a", "src/a.c", "src/build.c",
}

func TestRulesAsGitHasThem(t *testing.T) {
	root := repository(t, treePaths)
	for _, rules := range []string{
		"", "\n\n", "a", "/a", "a/", "d/", "d", "/d/", "d/a", "/d/a", "d/d", "*", "*\n!a", "*\n!*/\n!a", "*.c", "!a.c\n*.c", "*.c\n!a.c", "*.c\n!/a.c", "d/*\n!d/a",
		"d\n!d/a", "**", "**/a", "**/d/a", "d/**", "d/**/a", "/**/a", "x/**/a", "a/**", "**/", "**/d/**", "e/**/d/*.c", "x/*/a", "x/*/*/a", "?", "??", "?.c", "[ab]", "[a-b]",
		"[!a]", "[^a]", "[]a]", "[]-]", "[a-]", "[-a]", "[[:alpha:]]", "[[:digit:]]", "[[:upper:]]", "[[:space:]]", "[![:alpha:]]", "[[:nope:]]", "[[:alpha:]", "[[:]", "[a", "a]", `\[a]`,
		`[\]]`, `[\[]a]`, `[a\-c]`, `[\a-c]`, "#a", `\#a`, "!a", `\!a`, "a ", `a\ `, "a  ", `a\ b`, "a b", `a\\b`, `a\`, `\a`, `\*`, "a\r\nb\r\n", "a\nb", "\ufeffa", "# a\na",
		"é", "??/a", "?", "/", "//", "a//", "d//a", "//a", "./a", "d/./a", "*/", "*/a", "/*", "/*/", "/*/a", "***", "d/***/a", "*a*", "*.*", "*b*c", "a*c", "*d*/a",
		"build/\n!src/build/", "/build", "/*\n!/src\n/src/*\n!/src/a.c", "*\n!.gitignore", "d/**\n!d/**/\n!d/**/a", "\t", " a", "foo.[oa]", "*.[oa]", "!*", "\\", "!", "!!a", "a\x00b", "x/y/z/**", "x/y/**/z/a", "x/**/y/**/a", "**/**/a", "**/x/**/**/b",
	} {
		compare(t, root, rules, treePaths)
	}
}

// Rules made of pieces, by the hundred.
func TestGeneratedRulesAsGitHasThem(t *testing.T) {
	root := repository(t, treePaths)
	rnd := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", "c", "d", "e", "x", "y", "foo", ".", "*", "?", "[ab]", "[!a]", "[a-e]", "[[:alpha:]]", `\`, " ", "é", "build"}
	name := func() (text string) {
		if rnd.IntN(5) == 0 {
			return "**"
		}
		for range 1 + rnd.IntN(3) {
			text += pieces[rnd.IntN(len(pieces))]
		}
		// Of two stars in a name git's documentation says that they are one, and git
		// itself something else where a plain text comes before them.
		return strings.ReplaceAll(text, "**", "*")
	}
	for range 400 {
		var rules strings.Builder
		for range 1 + rnd.IntN(4) {
			if rnd.IntN(4) == 0 {
				rules.WriteByte('!')
			}
			if rnd.IntN(4) == 0 {
				rules.WriteByte('/')
			}
			rules.WriteString(name())
			for range rnd.IntN(3) {
				fmt.Fprintf(&rules, "/%s", name())
			}
			if rnd.IntN(4) == 0 {
				rules.WriteByte('/')
			}
			rules.WriteByte('\n')
		}
		compare(t, root, rules.String(), treePaths)
		if t.Failed() {
			return
		}
	}
}
