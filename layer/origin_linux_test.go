package layer

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// A file that was moved and written to is still one change with its deletion: where the one is held back,
// or not chosen, the other stays.
func TestCommitRewritten(t *testing.T) {
	noSync(t)
	for _, tt := range []struct {
		script string
		chosen string
		held   string
		left   string // what the source has then
	}{
		{`mv lines .envrc; echo ten >> .envrc`, "", ".envrc lines", "lines other"},
		{`mv lines .envrc; sed -i s/3/three/ .envrc`, "", ".envrc lines", "lines other"},
		{`mv lines .envrc; echo ten >> .envrc; rm other`, "", ".envrc lines", "lines"},
		{`mv lines .envrc; echo ten >> .envrc; cp .envrc copy; rm other`, "", ".envrc", "copy"},
		{`mv lines moved; echo ten >> moved; rm other`, "lines", "lines", "lines other"},
		{`mv lines moved; echo ten >> moved; rm other`, "other", "", "lines"},
		{`mv lines moved; echo ten >> moved; rm other`, "lines moved", "", "moved other"},
		{`mv lines moved; ln moved name`, "name lines", "", "name other"},
		{`mv lines moved; cp moved .envrc; rm other`, "", ".envrc", "moved"},
		{`mv lines .envrc; cat other >> .envrc; rm other`, "", ".envrc lines other", "lines other"},
		{`mv lines moved; echo ten >> moved; cp moved .envrc; rm other`, "", ".envrc", "moved"},
		{`mv lines moved; echo ten >> moved; echo new > lines; rm other`, "lines other", "lines", "lines"},
		{`rm other; seq 20 29 > .envrc`, "", ".envrc", "lines"},
		{`mv lines .envrc; echo x >> .envrc; mv other lines; echo y >> lines`, "", ".envrc lines other", "lines other"},
		{`echo ten >> lines; mv lines other`, "lines", "lines", "lines other"},
		{`split -l 5 lines p; rm lines; mkdir .vscode; mv p* .vscode; rm other`, "", ".vscode/paa .vscode/pab lines", ".vscode lines"},
		{`mv lines .envrc; sed s/^1/key/ .envrc > t; cat t > .envrc; rm t other; cp .envrc new; echo more >> new`, "", ".envrc lines", "lines new"},
		{`mv lines moved; sed -i s/3/x/ moved; mkdir .vscode; for i in 1 2 3; do seq 5000 | sed s/^/$i/ > .vscode/$i; done; rm other`, "lines other", "lines", "lines"},
		{`mv lines .envrc; (echo x1; echo 9; echo y) > .envrc; echo more >> other; rm other`, "", ".envrc lines", "lines"},
		{`mv lines .envrc; seq 50 60 > .envrc`, "", ".envrc lines", "lines other"},
	} {
		t.Run(tt.script+"; "+tt.chosen, func(t *testing.T) {
			bothMarks(t, func(t *testing.T, o *overlay) {
				o.below(t, `seq 9 > lines; seq 100 108 > other`)
				began := now(t)
				o.change(t, tt.script)
				l := o.layer(t)
				l.Began = began
				changes := o.changes(t)
				var chosen []string
				if tt.chosen != "" {
					chosen = strings.Fields(tt.chosen)
				}
				r, err := l.Commit(t.Context(), changes, CommitOptions{Journal: t.TempDir(), Paths: chosen})
				if err != nil {
					t.Fatal(err)
				}
				var held []string
				for _, f := range r.Held {
					held = append(held, f.Path)
				}
				slices.Sort(held)
				if got := strings.Join(slices.Compact(held), " "); got != tt.held {
					t.Errorf("held back are %q, want %q: %+v", got, tt.held, r.Held)
				}
				if got := strings.Join(listed(t, o.source()), " "); got != tt.left {
					t.Errorf("the source has %q, want %q", got, tt.left)
				}
			})
		})
	}
}

// A removal that is held back because of a guess lands if it is accepted. What is known to be only in what does not
// land stays: of directories that root's overlays rename it would be in neither tree.
func TestCommitAcceptedRemoval(t *testing.T) {
	noSync(t)
	for _, tt := range []struct{ script, path, why, with string }{
		{`rm lines; (seq 9; echo ten) > .envrc`, "lines", "what is there may have been moved to .envrc, which does not land", ""},
		{`mv lines .envrc`, "lines", "what is there was moved to .envrc, which does not land", ".envrc"},
		{`cp -r d e; rm -r d`, "d", "what is there was moved to e/x, which does not land", "e/x"},
		{`mv d e`, "d", "what is there was moved to e, which does not land", "e"},
		{`mv d e; mkdir d; echo new > d/y`, "d/y", "it would come to e, too, which does not land", "e"},
		{`mv lines moved; echo new > lines`, "lines", "its content in your directory is otherwise only in moved, which does not land", "moved"},
	} {
		bothMarks(t, func(t *testing.T, o *overlay) {
			if strings.HasPrefix(tt.script, "mv d") && o.marks == UserMarks {
				t.Skip("root's overlays alone rename directories")
			}
			o.below(t, `seq 9 > lines; mkdir d; echo x > d/x`)
			began := now(t)
			o.change(t, tt.script)
			for _, accept := range []string{"", tt.path} {
				l := o.layer(t)
				l.Began = began
				r, err := l.Commit(t.Context(), o.changes(t), CommitOptions{Journal: t.TempDir(), Paths: []string{tt.path}, Accept: strings.Fields(accept)})
				if err != nil {
					t.Fatal(err)
				}
				if accept != "" && tt.with == "" {
					if len(r.Landed) != 1 {
						t.Errorf("%s: it did not land: %+v", tt.script, r.Held)
					}
					continue
				}
				if i := slices.IndexFunc(r.Held, func(f Finding) bool { return f.Path == tt.path }); i < 0 || r.Held[i].Why != tt.why || r.Held[i].With != tt.with {
					t.Errorf("%s: accepting %q, held back are %+v", tt.script, accept, r.Held)
				}
			}
		})
	}
}

// A file whose other name is removed has not changed.
func TestCommitLinked(t *testing.T) {
	noSync(t)
	for _, first := range []string{"a", "d"} {
		bothMarks(t, func(t *testing.T, o *overlay) {
			o.below(t, `mkdir d; seq 9 > a; ln a d/n`)
			began := now(t)
			o.change(t, `rm -r d; echo x >> a`)
			l := o.layer(t)
			l.Began = began
			r, err := l.Commit(t.Context(), o.changes(t), CommitOptions{Journal: t.TempDir(), Paths: []string{first}})
			if err != nil || len(r.Landed) != 1 {
				t.Fatalf("%s: %+v, %v", first, r, err)
			}
			if err := l.Settle(r.Landed, t.TempDir()); err != nil {
				t.Fatal(err)
			}
			l = o.layer(t)
			l.Began = began
			if r, err = l.Commit(t.Context(), o.changes(t), CommitOptions{Journal: t.TempDir(), Known: r.Records}); err != nil || len(r.Landed) != 1 {
				t.Errorf("after %s: %+v, %v", first, r, err)
			}
		})
	}
}

// now returns the instant, after the clock for files has gone on.
func now(t *testing.T) Began {
	t.Helper()
	time.Sleep(3 * tick)
	now, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func listed(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// What has landed below a directory that hides the source's stays in the layer, and is no change that could
// land again once somebody has removed it.
func TestLandedIsRemoved(t *testing.T) {
	noSync(t)
	bothMarks(t, func(t *testing.T, o *overlay) {
		o.below(t, `mkdir d; echo old > d/old`)
		began := now(t)
		o.change(t, `rm -r d; mkdir d; echo a > d/a; echo m > d/m`)
		l := o.layer(t)
		l.Began = began
		r, err := l.Commit(t.Context(), o.changes(t), CommitOptions{Journal: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Settle(r.Landed, t.TempDir()); err != nil {
			t.Fatal(err)
		}
		o.below(t, `rm d/m`)
		l = o.layer(t)
		l.Began = began
		r, err = l.Commit(t.Context(), o.changes(t), CommitOptions{Journal: t.TempDir(), Known: r.Records, OnConflict: Skip})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.why("d/m"); got != whyGone || exists(t, o.source()+"/d/m") {
			t.Errorf("got %q, and %v", got, r.Landed)
		}
	})
}

// A commit of a part changes directories of the source, and the rest can land after it.
func TestCommitRewrittenLater(t *testing.T) {
	noSync(t)
	for _, tt := range []struct{ script, first string }{
		{`mv d/a d/c; echo y >> d/c; echo r >> d/q`, "d/q"},
		{`mv d/a d/c; echo y >> d/c; echo new > d/a`, "d/c"},
	} {
		bothMarks(t, func(t *testing.T, o *overlay) {
			o.below(t, `mkdir d; seq 20 > d/a; echo q > d/q`)
			began := now(t)
			o.change(t, tt.script)
			l := o.layer(t)
			l.Began = began
			r, err := l.Commit(t.Context(), o.changes(t), CommitOptions{Journal: t.TempDir(), Paths: []string{tt.first}})
			if err != nil || len(r.Landed) != 1 {
				t.Fatalf("%s: %v, %v", tt.script, r.Landed, err)
			}
			if err := l.Settle(r.Landed, t.TempDir()); err != nil {
				t.Fatal(err)
			}
			l = o.layer(t)
			l.Began = began
			if r, err = l.Commit(t.Context(), o.changes(t), CommitOptions{Journal: t.TempDir(), Known: r.Records}); err != nil || !exists(t, o.source()+"/d/c") {
				t.Errorf("%s: %v, %v", tt.script, r.Landed, err)
			}
		})
	}
}
