package layer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// What somebody changes while the sandbox is stopped is a conflict if commands had changed the same
// before, and none if they saw it first.
func TestConflictsOverStarts(t *testing.T) {
	type run struct{ host, commands string } // the host first, while the sandbox is stopped
	cases := map[string]struct {
		runs []run
		last string // what the host does after the last one
		path string
		why  string // "": no conflict
	}{
		"edited, then changed":               {runs: []run{{}, {"echo mine >> file", "echo more >> file"}}, path: "file"},
		"edited, then replaced":              {runs: []run{{}, {"echo mine >> file", "sed s/f/g/ file > t; mv t file"}}, path: "file"},
		"edited, then removed":               {runs: []run{{}, {"echo mine >> file", "rm file"}}, path: "file"},
		"edited, then its tree removed":      {runs: []run{{}, {"echo mine >> tree/one", "rm -r tree"}}, path: "tree"},
		"edited, then moved":                 {runs: []run{{}, {"echo mine >> file", "mv file moved"}}, path: "file"},
		"made by both, the host first":       {runs: []run{{}, {"echo mine > new", "echo more >> new"}}, path: "new"},
		"edited before the third start":      {runs: []run{{}, {"", "echo x >> other"}, {"echo mine >> file", "echo more >> file"}}, path: "file"},
		"changed back before the edit":       {runs: []run{{"", "echo x >> file"}, {"", "echo f > file"}, {"echo mine >> file", "echo more > file"}}, path: "file", why: whyChanged},
		"changed, then edited":               {runs: []run{{"", "echo more >> file"}, {"echo mine >> file", ""}}, path: "file", why: whyChanged},
		"changed, edited, changed":           {runs: []run{{"", "echo more >> file"}, {"echo mine >> file", "echo again >> file"}}, path: "file", why: whyChanged},
		"changed, edited, three starts":      {runs: []run{{"", "echo more >> file"}, {"echo mine >> file", ""}, {"", "echo again >> file"}}, path: "file", why: whyChanged},
		"replaced, edited, replaced":         {runs: []run{{"", "echo more > t; mv t file"}, {"echo mine >> file", "sed s/m/n/ file > t; mv t file"}}, path: "file", why: whyChanged},
		"only opened for writing, edited":    {runs: []run{{"", ": >> file"}, {"echo mine >> file", ""}}, path: "file", why: whyChanged},
		"removed, edited":                    {runs: []run{{"", "rm file"}, {"echo mine >> file", ""}}, path: "file", why: whyChanged},
		"removed, edited, made anew":         {runs: []run{{"", "rm file"}, {"echo mine >> file", "echo x > file"}}, path: "file", why: whyChanged},
		"moved, edited":                      {runs: []run{{"", "mv file moved"}, {"echo mine >> file", "echo x >> moved"}}, path: "file", why: whyChanged},
		"tree removed, edited, made anew":    {runs: []run{{"", "rm -r tree"}, {"echo mine >> tree/one", "mkdir tree; echo x > tree/one"}}, path: "tree/one", why: whyChanged},
		"changed, edited, its tree removed":  {runs: []run{{"", "echo x >> tree/one"}, {"echo mine >> tree/one", "rm -r tree"}}, path: "tree", why: "in it, tree/one: " + whyChanged},
		"made by both, the commands first":   {runs: []run{{"", "echo more > new"}, {"echo mine > new", ""}}, path: "new", why: whyChanged},
		"edited after the last start":        {runs: []run{{}, {"", "echo more >> file"}}, last: "echo mine >> file", path: "file", why: whyChanged},
		"made after the last start":          {runs: []run{{}, {"", "echo more > new"}}, last: "echo mine > new", path: "new", why: whyChanged},
		"removed after the last start":       {runs: []run{{}, {"", "echo more >> file"}}, last: "rm file", path: "file", why: whyDropped},
		"another file edited while stopped":  {runs: []run{{"", "echo more >> file"}, {"echo mine >> other", ""}}, path: "file"},
		"a file made beside while stopped":   {runs: []run{{"", "mv file moved"}, {"echo mine > beside", ""}}, path: "moved"},
		"permissions changed, then the host": {runs: []run{{"", "chmod 700 tree"}, {"echo mine >> tree/one", "echo more >> tree/one"}}, path: "tree/one"},
	}
	bothMarks(t, func(t *testing.T, o *overlay) { // all in one overlay, each in a directory of its own
		l := o.layer(t)
		names := slices.Sorted(maps.Keys(cases))
		each := func(script func(name string) string) string {
			var b strings.Builder
			for n, name := range names {
				fmt.Fprintf(&b, "( cd c%d; %s\n)\n", n, script(name))
			}
			return b.String()
		}
		for n := range names {
			o.below(t, fmt.Sprintf("mkdir c%d; cd c%[1]d; echo f%[1]d > file; echo o%[1]d > other; mkdir tree; echo t%[1]d > tree/one", n))
		}
		var since map[string]time.Time
		for n := range 3 {
			part := func(of func(run) string) string {
				return each(func(name string) string {
					if r := cases[name].runs; n < len(r) {
						return of(r[n])
					}
					return ""
				})
			}
			time.Sleep(3 * tick)
			o.below(t, part(func(r run) string { return r.host }))
			time.Sleep(3 * tick)
			at, err := Now()
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				l.Began = at
			} else {
				since = l.Restart(o.changes(t), since)
				l.Started = at
			}
			o.change(t, part(func(r run) string { return r.commands }))
		}
		time.Sleep(3 * tick)
		o.below(t, each(func(name string) string { return cases[name].last }))
		r, err := l.Commit(t.Context(), o.changes(t), CommitOptions{OnConflict: Skip, DryRun: true, Since: since})
		if err != nil {
			t.Fatal(err)
		}
		for n, name := range names {
			c, dir := cases[name], fmt.Sprintf("c%d/", n)
			want := strings.Replace(c.why, "in it, ", "in it, "+dir, 1)
			if got := r.why(dir + c.path); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
			for _, f := range r.Conflicts {
				if c.why == "" && strings.HasPrefix(f.Path, dir) {
					t.Errorf("%s: %s: %s", name, f.Path, f.Why)
				}
			}
		}
	})
}

// A start after the clock was set back is no base for anything.
func TestClockSetBackBetweenStarts(t *testing.T) {
	day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(clock, boot time.Duration) Began { return Began{day.Add(clock), time.Hour + boot} }
	for name, c := range map[string]struct {
		first, second Began
		want          bool
	}{
		"later":              {at(0, 0), at(time.Hour, time.Hour), true},
		"set forward":        {at(0, 0), at(3*time.Hour, time.Hour), true},
		"set back":           {at(0, 0), at(time.Minute, time.Hour), false},
		"set back to before": {at(0, 0), at(-time.Hour, time.Hour), false},
		"after a boot":       {at(0, 0), Began{day.Add(time.Minute), time.Second}, true},
	} {
		if got := c.first.Precedes(c.second); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	l := newLab(t, map[string]string{"file": "was"})
	l.does(Modified, "file", "new")
	l.layer.Started = Began{l.layer.Began.Realtime.Add(-time.Hour), l.layer.Began.Boottime + 1}
	r, err := l.commit(CommitOptions{OnConflict: Skip, DryRun: true})
	if err != nil || r.why("file") != whyDoubt {
		t.Errorf("%v, %v", r.Conflicts, err)
	}
}

// A file that commands have moved is no conflict when something else is made beside it; one that
// the source has lost is.
func TestConflictMoved(t *testing.T) {
	cases := map[string]struct {
		commands, host string
		path, why      string
		root           bool // of root's layers only: an ordinary user's name no file
	}{
		"moved":                       {"mv file moved", "echo > beside", "moved", "", false},
		"moved, and changed":          {"mv file moved; echo more >> moved", "echo > beside", "moved", "", true},
		"moved twice":                 {"mv file moved; mv moved again", "echo > beside", "again", "", false},
		"changed places":              {"mv file t; mv other file; mv t other", "echo > beside", "other", "", false},
		"kept by an editor":           {"mv file file.bak; echo more > file", "echo > beside", "file.bak", "", false},
		"moved out of a removed tree": {"mv tree/one moved; rm -r tree", "echo > beside", "moved", "", false},
		"moved within a tree":         {"mv tree/one tree/two", "echo > tree/beside", "tree/two", "", false},
		"a second name":               {"ln file second", "echo > beside", "second", "", true},
		"two with one content":        {"mv file a; mv same b", "echo > beside", "b", "", false},
		"changed, and lost":           {"echo more >> file", "rm file", "file", whyDropped, false},
		"changed, and moved outside":  {"echo more >> file", "mv file elsewhere", "file", whyDropped, false},
		"changed, its tree replaced":  {"echo more >> tree/one", "mv tree wood; mkdir tree", "tree/one", whyDropped, false},
		"one moved, one lost":         {"mv file a; chmod 700 same", "rm same", "same", whyDropped, false},
	}
	bothMarks(t, func(t *testing.T, o *overlay) { // all in one overlay, each in a directory of its own
		names := slices.Sorted(maps.Keys(cases))
		var below, commands, host strings.Builder
		for n, name := range names {
			fmt.Fprintf(&below, "mkdir c%d; ( cd c%[1]d; echo f%[1]d > file; echo f%[1]d > same; echo o%[1]d > other; mkdir tree; echo t%[1]d > tree/one; echo z > tree/z )\n", n)
			fmt.Fprintf(&commands, "( cd c%d; %s )\n", n, cases[name].commands)
			fmt.Fprintf(&host, "( cd c%d; %s )\n", n, cases[name].host)
		}
		o.below(t, below.String())
		time.Sleep(3 * tick)
		l := o.layer(t)
		var err error
		if l.Began, err = Now(); err != nil {
			t.Fatal(err)
		}
		o.change(t, commands.String())
		o.below(t, host.String())
		r, err := l.Commit(t.Context(), o.changes(t), CommitOptions{OnConflict: Skip, DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		for n, name := range names {
			c, dir := cases[name], fmt.Sprintf("c%d/", n)
			want := c.why
			if c.root && o.marks == UserMarks {
				want = whyDropped // in doubt
			}
			if got := r.why(dir + c.path); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
			lands := slices.ContainsFunc(r.Landed, func(ch Change) bool { return ch.Path == dir+c.path })
			if (want == "") != lands {
				t.Errorf("%s: %s lands: %v", name, c.path, lands)
			}
		}
	})
}
