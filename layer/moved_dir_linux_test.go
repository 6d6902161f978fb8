package layer

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Where the host has moved another directory to the place of the one that commands saw, nothing in it is
// replaced or removed. Other work of the host beside a changed file is no conflict.
func TestConflictOtherDir(t *testing.T) {
	noSync(t)
	const swap, above = "mv d d.old; mv d2 d", "mv p p.old; mv p2 p"
	for name, c := range map[string]struct {
		commands, host string
		path           string // in conflict; "": none
		only           Marks  // "": both
	}{
		"an edit":                           {commands: "echo more >> d/x", host: swap, path: "d/x"},
		"a removal":                         {commands: "rm d/x", host: swap, path: "d/x"},
		"a removed tree":                    {commands: "rm -r d/deep", host: swap, path: "d/deep"},
		"another type":                      {commands: "rm d/x; ln -s nowhere d/x", host: swap, path: "d/x"},
		"an edit, and new files":            {commands: "echo more >> d/x; echo new > d/new", host: swap, path: "d/x"},
		"an edit, one level up":             {commands: "echo more >> p/d/x", host: above, path: "p/d/x"},
		"a removal, one level up":           {commands: "rm p/d/x", host: above, path: "p/d/x"},
		"permissions":                       {commands: "chmod 700 d/deep", host: swap, path: "d/deep"},
		"in a new directory":                {commands: "mkdir n; echo new > n/x", host: "mv d2 n", path: "n/x"},
		"an edit, and then a file":          {commands: "echo more >> d/x", host: swap + "; echo y > d/y", path: "d/x", only: TrustedMarks},
		"files beside it":                   {commands: "echo more >> d/x; rm d/y", host: "echo z > d/z; rm d/w; mkdir d/v"},
		"files beside it, one level up":     {commands: "echo more >> p/d/x; rm p/d/y", host: "echo z > p/z; rm p/w; mkdir p/v"},
		"other permissions":                 {commands: "echo more >> d/x", host: "chmod 700 d"},
		"other permissions, and a removal":  {commands: "rm d/x", host: "chmod 700 d", only: TrustedMarks},
		"other permissions by commands":     {commands: "echo more >> d/x; chmod 700 d", host: "true"},
		"it moved away and back":            {commands: "echo more >> d/x", host: "mv d t; mv t d"},
		"it moved away and back, a removal": {commands: "rm d/x", host: "mv d t; mv t d", only: TrustedMarks},
		"another one moved":                 {commands: "echo more >> d/x", host: "mv d2 d3; mv p d2"},
	} {
		t.Run(name, func(t *testing.T) {
			bothMarks(t, func(t *testing.T, o *overlay) {
				if c.only != "" && c.only != o.marks {
					t.Skip("its times do not tell that")
				}
				o.below(t, `for d in d d2 p/d p2/d; do mkdir -p $d/deep; for f in w x y deep/x; do echo $d > $d/$f; done; sleep 0.01; done; for d in p p2; do echo w > $d/w; sleep 0.01; done`)
				time.Sleep(3 * tick)
				l := o.layer(t)
				var err error
				if l.Began, err = Now(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * tick)
				o.change(t, c.commands)
				o.below(t, c.host)
				before := show(t, o.source())
				r, err := l.Commit(t.Context(), o.changes(t), CommitOptions{Journal: t.TempDir(), OnConflict: Skip})
				if err != nil {
					t.Fatal(err)
				}
				if c.path == "" {
					if len(r.Conflicts) > 0 {
						t.Errorf("the conflicts are %q", r.Conflicts)
					}
					return
				}
				if !strings.HasSuffix(r.why(c.path), whyOther) && !strings.HasSuffix(r.why(c.path), whyChanged) {
					t.Errorf("the conflicts are %q", r.Conflicts)
				}
				after := show(t, o.source())
				for _, p := range slices.Sorted(maps.Keys(before)) {
					if after[p] != before[p] {
						t.Errorf("%s was %q, and is %q", p, before[p], after[p])
					}
				}
			})
		})
	}
}

// What a commit has landed is no conflict for the next one, also where it has given directories their
// permissions or times.
func TestConflictOwnDir(t *testing.T) {
	noSync(t)
	bothMarks(t, func(t *testing.T, o *overlay) {
		o.below(t, `mkdir -p d e; echo x > d/x; echo y > d/y; echo z > e/z`)
		time.Sleep(3 * tick)
		l := o.layer(t)
		var err error
		if l.Began, err = Now(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * tick)
		known, journal := map[string]Record{}, t.TempDir()
		for _, script := range []string{
			`chmod 700 d; mkdir -p new/in; echo 1 > new/in/x; touch -d 2001-02-03 new/in new`,
			`rm d/x; echo more >> d/y; echo 2 > new/in/x`,
			`rm -r new/in/x e; mkdir e; echo z > e/z; echo q > e/q; touch -d 2001-02-03 e`,
			`echo 2 > e/z; rm e/q`,
		} {
			o.change(t, script)
			changes := o.changes(t)
			r, err := l.Commit(t.Context(), changes, CommitOptions{Journal: journal, Known: known})
			if err != nil {
				t.Fatalf("%s: %v, %q of\n%s", script, err, r.Conflicts, list(changes))
			}
			maps.Copy(known, r.Records)
		}
	})
}
