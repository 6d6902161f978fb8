package command

import (
	"os"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// testRules are the default list and what testdata/commands.txt says.
func testRules(tb testing.TB) *Rules {
	tb.Helper()
	r, err := New(policy.DefaultCommands())
	if err != nil {
		tb.Fatal(err)
	}
	r, err = r.With("git", "pip", "npm", "xargs", "timeout", "nice", "tar", "make", "sh", "bash", "touch", "mkdir", "rm", "tee", "sleep")
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// line is one row of the table.
type line struct {
	number              int
	want, text, excerpt string
}

func table(tb testing.TB, name string) []line {
	tb.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	var lines []line
	for i, row := range strings.Split(string(data), "\n") {
		if row == "" || row[0] == '#' {
			continue
		}
		want, rest, _ := strings.Cut(row, " ")
		text, excerpt, _ := strings.Cut(strings.TrimLeft(rest, " "), " ⇒ ")
		lines = append(lines, line{i + 1, want, strings.NewReplacer("␤", "\n", "␡", "\x7f").Replace(text), excerpt})
	}
	return lines
}

func TestShell(t *testing.T) {
	r := testRules(t)
	for _, l := range table(t, "commands.txt") {
		v := r.Shell(l.text)
		got := v.Rule
		if v.Allowed {
			got = "+"
		}
		if got != l.want || !strings.Contains(v.Reason, l.excerpt) {
			t.Errorf("line %d: %q\n got  %s: %s\n want %s: %s", l.number, l.text, got, v.Reason, l.want, l.excerpt)
		}
		if !v.Allowed && (v.Reason == "" || v.Script != "") || v.Allowed && v.Script == "" {
			t.Errorf("line %d: %q: %+v is not whole", l.number, l.text, v)
		}
	}
}
