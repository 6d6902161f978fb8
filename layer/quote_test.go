package layer

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	for path, want := range map[string]string{
		"a b/c":         "a b/c",
		"":              "",
		"a\nb":          `"a\nb"`,
		"\a\b\t\v\f\r":  `"\a\b\t\v\f\r"`,
		`"\`:            `"\"\\"`,
		"\x1b[31m\x7f":  `"\033[31m\177"`,
		"\xff\x00ä":     `"\377\000\303\244"`,
		"'$x' #~!*?[]{": "'$x' #~!*?[]{",
	} {
		if got := Quote(path); got != want {
			t.Errorf("Quote(%q) = %s, want %s", path, got, want)
		}
	}
}

// Git quotes all bytes so.
func TestQuoteAsGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs git")
	}
	dir := t.TempDir()
	run := func(stdin string, args ...string) string {
		cmd := exec.Command(git, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = gitEnv(dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	run("", "init", "-q")
	const blob = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
	run("", "hash-object", "-w", "--stdin")
	var index, want strings.Builder
	for c := 1; c < 256; c++ {
		if c == '/' {
			continue
		}
		name := "x" + string([]byte{byte(c)}) + "y"
		index.WriteString("100644 " + blob + "\t" + name + "\x00")
		want.WriteString(Quote(name) + "\n")
	}
	run(index.String(), "-c", "core.protectNTFS=false", "update-index", "-z", "--index-info")
	if got := run("", "ls-files"); got != want.String() {
		t.Errorf("got\n%s\nand git writes\n%s", want.String(), got)
	}
}

// gitEnv is an environment in which git reads nobody's settings.
func gitEnv(dir string) []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + filepath.Join(dir, "home"), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C"}
}

// unquote reads what git reads back.
func unquote(t *testing.T, s string) string {
	t.Helper()
	if !strings.HasPrefix(s, `"`) {
		return s
	}
	if len(s) < 2 || !strings.HasSuffix(s, `"`) {
		t.Fatalf("%s is not closed", s)
	}
	s = s[1 : len(s)-1]
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '"' {
			t.Fatalf("%s ends within", s)
		}
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		i++
		if at := strings.IndexByte("abtnvfr", s[i]); at >= 0 {
			b = append(b, byte(7+at))
		} else if s[i] == '"' || s[i] == '\\' {
			b = append(b, s[i])
		} else {
			b = append(b, (s[i]-'0')<<6|(s[i+1]-'0')<<3|(s[i+2]-'0'))
			i += 2
		}
	}
	return string(b)
}

func FuzzQuote(f *testing.F) {
	f.Add("a b")
	f.Add("\x1b[0m\n\"\\\xff")
	f.Fuzz(func(t *testing.T, path string) {
		quoted := Quote(path)
		if strings.ContainsFunc(quoted, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("Quote(%q) = %q", path, quoted)
		}
		if got := unquote(t, quoted); got != path {
			t.Errorf("Quote(%q) = %s, which is %q", path, quoted, got)
		}
	})
}

func TestGitDir(t *testing.T) {
	for path, want := range map[string]string{
		"a/b": "", ".gitignore": "", "a/.github/x": "", "git": "", ".git2/x": "",
		".git": ".git", "a/.GIT/config": "a/.GIT", "git~1/x": "git~1", "a/.git. ./x": "a/.git. .", ".git::$INDEX/x": ".git::$INDEX", `a\.git/x`: `a\.git`,
	} {
		if got, ok := gitDir(path); got != want || ok != (want != "") {
			t.Errorf("gitDir(%q) = %q, %v", path, got, ok)
		}
	}
}
