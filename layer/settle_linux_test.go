package layer

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// After a commit of a part commands see what they saw before, and the rest is what did not land.
func TestSettleShowsTheSame(t *testing.T) {
	noSync(t)
	for name, c := range map[string]struct {
		script, host string
		paths        []string
	}{
		"a directory renamed into a new one":        {"mkdir new; mv a new/b; echo 3 > n", "", []string{"new", "a"}},
		"the same, with more in it":                 {"mkdir new; mv a new/b; echo 2 > new/b/y; echo 3 > n", "", []string{"new", "a"}},
		"a directory renamed into a replaced one":   {"rm -r old; mkdir old; mv a old/b; echo 3 > n", "", []string{"old", "a"}},
		"a new directory, and a file of the host's": {"mkdir new; echo 1 > new/f; echo 2 > n", "echo mine > new/mine", []string{"new"}},
		"new directories in each other":             {"mkdir -p new/deep; echo 1 > new/deep/f; mv a new/deep/b; echo 2 > n", "", []string{"new", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			bothMarks(t, func(t *testing.T, o *overlay) {
				o.below(t, "mkdir -p a/in old; echo 1 > a/x; echo 1 > a/in/y; echo 1 > n; echo 1 > old/o")
				time.Sleep(3 * tick)
				began, err := Now()
				if err != nil {
					t.Fatal(err)
				}
				script := "mv() { command mv \"$@\" 2>/dev/null || { cp -a \"$1\" \"$2\" && rm -r \"$1\"; }; }\n" + c.script
				o.change(t, script+"\n{ "+listing+"; } > ../listing")
				want, err := os.ReadFile(filepath.Join(o.dir, "listing"))
				if err != nil {
					t.Fatal(err)
				}
				l := o.layer(t)
				l.Began = began
				r, err := l.Commit(t.Context(), o.changes(t), CommitOptions{Journal: t.TempDir(), Paths: c.paths})
				if err != nil || len(r.Held) > 0 {
					t.Fatalf("%v, held back: %v", err, r.Held)
				}
				if err := l.Settle(r.Landed, t.TempDir()); err != nil {
					t.Fatal(err)
				}
				if c.host != "" {
					o.below(t, c.host)
				}
				if got := list(o.changes(t)); got != "M \"n\"\n" {
					t.Errorf("the rest is\n%s", got)
				}
				if c.host == "" {
					o.change(t, "{ "+listing+"; } > ../listing")
					if got, err := os.ReadFile(filepath.Join(o.dir, "listing")); err != nil || string(got) != string(want) {
						t.Errorf("commands see\n%s, %v, and saw\n%s", got, err, want)
					}
				}
			})
		})
	}
}
