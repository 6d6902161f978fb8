package gitconfig

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestParsePlain(t *testing.T) {
	config := `[core]
	repositoryformatversion = 0
	HooksPath = "tools/git hooks" # by custom
	bare
[include]
	path = ../team.gitconfig ; and
[includeIf "gitdir:~/src/"] path = local.inc
[alias]
	x = !sh -c \"a b\"	# tab before it
`
	got, err := Parse([]byte(config))
	want := []Entry{{Key: "core.repositoryformatversion", Value: "0"}, {Key: "core.hookspath", Value: "tools/git hooks"}, {Key: "core.bare", Bare: true},
		{Key: "include.path", Value: "../team.gitconfig"}, {Key: "includeif.gitdir:~/src/.path", Value: "local.inc"}, {Key: "alias.x", Value: `!sh -c "a b"`}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v\nwant %v", got, err, want)
	}
	for _, odd := range []string{
		"[core]\nhooksPath = \\\nevil\n",                    // continued
		"[core]\nhooksPath = \"a\nb\"\n",                    // a quote over lines
		"[core]\n#" + strings.Repeat("x", maxLine+1) + "\n", // long
		"[core]\nx = a\x00b\n", "[core]\nx = a\rb\n", "\ufeff[core]\nx = a\n",
		"[core.sub]\nx = a\n", "[core \"a\\b\"]\nx = a\n", "[core\nx = a\n", "[core \"a\" ]\nx = a\n",
		"x = a\n", "[core]\nx y = a\n", "[core]\n1x = a\n", "[core]\nx = \\q\n", "[core]\nx = a\tb\n", "[core]\nx # a\n",
	} {
		if got, err := Parse([]byte(odd)); err == nil {
			t.Errorf("%.40q is taken: %v", odd, got)
		}
	}
}

// FuzzParsePlain: what is taken is what git takes, in the same words.
func FuzzParsePlain(f *testing.F) {
	for _, seed := range []string{
		"[core]\n\thooksPath = x\n", "[core]\nx = \"a b\" c # d\n", "[a \"b c\"]x=y;z\n", "[core]\r\nx = y\r\n", "[core]\nx=y\\\nz\n",
		"[core]\nx = \"\\\"\\t\\n\\b\\\\\"\n", "[core] ; c\nx\ny =\n", "[A-1]\nB-2 = \"\" a \"\"  \n", "[core]\nx = a  b  \n[core]\n", "[core]\nx = \"a \r\"",
		"[core]\nx = a\r", "#\n;\n[x \"é\"]\ny = ü\n", "[core]\nx = a\t\t#b\n", "[core]\nx = \"a\tb\"\n", "[x.y]\na=b\n",
	} {
		f.Add([]byte(seed))
	}
	git, err := exec.LookPath("git")
	if err != nil {
		f.Skip("git is not there to compare with")
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Parse(text)
		if err != nil {
			return
		}
		c := exec.Command(git, "config", "--file", "-", "--null", "--list")
		c.Stdin, c.Env = bytes.NewReader(text), []string{"GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent", "LC_ALL=C"}
		out, err := c.Output()
		if err != nil {
			t.Fatalf("git refuses %q: %v", text, err)
		}
		if want := ParseList(out); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, git says %v", text, got, want)
		}
	})
}
