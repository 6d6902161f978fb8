package agent_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/wire"
)

// What is found is what grep finds, in files made of pieces.
func TestSearchAsGrep(t *testing.T) {
	if _, err := exec.LookPath("grep"); err != nil {
		t.Skip("needs grep")
	}
	b := bare(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"foo", "bar", "Foo", "BAR", "foobar", " ", "\t", "_", "1", "22", "é", "x", "(", ")", ".", "func ", "return", "err"}
	for i := range 60 {
		var text strings.Builder
		for range rnd.IntN(400) {
			for range rnd.IntN(8) {
				text.WriteString(pieces[rnd.IntN(len(pieces))])
			}
			text.WriteByte('\n')
		}
		if i%3 == 0 {
			text.WriteString("foobar without an end")
		}
		put(t, text.String(), b.workspace, fmt.Sprintf("d%d", i%4), fmt.Sprintf("f%02d", i))
	}
	for _, tt := range []struct {
		q    wire.SearchRequest
		args []string
	}{
		{wire.SearchRequest{Pattern: "foobar"}, []string{"-e", "foobar"}},
		{wire.SearchRequest{Pattern: "foo|22"}, []string{"-E", "foo|22"}},
		{wire.SearchRequest{Pattern: "^(foo|bar)+$"}, []string{"-E", "^(foo|bar)+$"}},
		{wire.SearchRequest{Pattern: "[0-9]+[a-z_]{2,}"}, []string{"-E", "[0-9]+[a-z_]{2,}"}},
		{wire.SearchRequest{Pattern: "foobar", IgnoreCase: true}, []string{"-i", "-e", "foobar"}},
		{wire.SearchRequest{Pattern: "foo", Word: true}, []string{"-w", "-e", "foo"}},
		{wire.SearchRequest{Pattern: "foo(.", Fixed: true}, []string{"-F", "-e", "foo(."}},
		{wire.SearchRequest{Pattern: "é.x"}, []string{"-e", "é.x"}},
		{wire.SearchRequest{Pattern: "func .*return.*err"}, []string{"-e", "func .*return.*err"}},
		{wire.SearchRequest{Pattern: "^$"}, []string{"-e", "^$"}},
		{wire.SearchRequest{Pattern: `\bfoo_1\b`}, []string{"-P", `\bfoo_1\b`}},
		{wire.SearchRequest{Pattern: "foobarfoo", Before: 2, After: 3}, []string{"-B2", "-A3", "-e", "foobarfoo"}},
		{wire.SearchRequest{Pattern: "22_", Before: 50, After: 0}, []string{"-B50", "-e", "22_"}},
		{wire.SearchRequest{Pattern: "foobarfoo", Output: wire.SearchCount}, []string{"-c", "-e", "foobarfoo"}},
	} {
		cmd := exec.Command("grep", append([]string{"-rn", "--no-group-separator"}, append(tt.args, "d0", "d1", "d2", "d3")...)...)
		cmd.Dir, cmd.Env = b.workspace, append(os.Environ(), "LC_ALL=C.UTF-8")
		if tt.q.Word { // of words beyond ASCII the two think differently
			cmd.Env = append(cmd.Env, "LC_ALL=C")
		}
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			t.Fatal(err)
		}
		var want []string
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSuffix(line, "\n"); !strings.HasSuffix(line, ":0") || tt.q.Output != wire.SearchCount {
				want = append(want, line)
			}
		}
		slices.SortStableFunc(want, func(a, b string) int { return strings.Compare(a[:6], b[:6]) }) // d0/f00
		q := tt.q
		q.Limit, q.LineBytes, q.MaxBytes = wire.MaxSearchMatches, 4096, wire.MaxSearchBytes
		same(t, fmt.Sprint(tt.args), grepped(b.search(t, q)), want)
	}
}

// Which files are meant is what git says of them, with rules in directories of
// any depth.
func TestSearchIgnoresAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	rules := []string{"a", "/a", "a/", "*.c", "!*.c", "d/*", "!d/a", "d/", "*\n!*/\n!b", "**/d/a", "/d/**", "e/**/a", "!e/", "b\n!/b", "[ab].c"}
	names := []string{"a", "b", "a.c", "b.c", "d", "e"}
	for seed := range uint64(25) {
		rnd := rand.New(rand.NewPCG(5, seed))
		b := bare(t)
		var fill func(dir string, depth int)
		fill = func(dir string, depth int) {
			for _, name := range names {
				if at := filepath.Join(dir, name); depth < 3 && rnd.IntN(3) == 0 {
					fill(at, depth+1)
				} else {
					put(t, "x", at)
				}
			}
			if rnd.IntN(2) == 0 {
				put(t, rules[rnd.IntN(len(rules))]+"\n"+rules[rnd.IntN(len(rules))]+"\n", dir, ".gitignore")
			}
		}
		fill(b.workspace, 0)
		run := func(args ...string) string {
			cmd := exec.Command("git", append([]string{"-c", "core.excludesFile="}, args...)...)
			cmd.Dir, cmd.Env = b.workspace, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		run("init", "-q")
		put(t, rules[rnd.IntN(len(rules))], b.workspace, ".git", "info", "exclude")
		want := strings.FieldsFunc(run("ls-files", "-o", "-z", "--exclude-standard"), func(r rune) bool { return r == 0 })
		var got []string
		for _, f := range b.search(t, wire.SearchRequest{Glob: []string{"*"}}).Files {
			got = append(got, strings.TrimPrefix(string(f.Path), "/workspace/"))
		}
		slices.Sort(want)
		slices.Sort(got)
		same(t, fmt.Sprint("seed ", seed), got, want)
	}
}
