package layer

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// discard takes changes out of a layer.
func (o *overlay) discard(t *testing.T, paths ...string) error {
	t.Helper()
	trash := filepath.Join(o.dir, "trash")
	if err := os.Mkdir(trash, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	defer func() {
		_ = exec.Command("chmod", "-R", "u+rwx", trash).Run()
		_ = os.RemoveAll(trash)
	}()
	l := o.layer(t)
	changes, err := l.Changes(t.Context())
	if err != nil && !errors.Is(err, os.ErrPermission) { // an ordinary user cannot read what is closed
		t.Fatal(err)
	}
	_, err = l.Discard(t.Context(), paths, changes, trash)
	return err
}

// What is discarded is as the source has it when the overlay is mounted again, and the rest
// stays.
func TestDiscard(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		paths        []string
		want         string // the changes that are left
		moves        bool   // it needs directories that can be renamed
	}{
		{"a new file", `echo x > new; echo y > other`, []string{"new"}, "A \"other\"\n", false},
		{"a changed file", `echo x >> file; echo x >> tree/one`, []string{"file"}, "M \"tree/one\"\n", false},
		{"a removed file", `rm file tree/one`, []string{"tree/one"}, "D \"file\"\n", false},
		{"a removed directory", `rm -r tree; rm file`, []string{"tree/"}, "D \"file\"\n", false},
		{"a directory with all of it", `echo x > tree/deep/new; rm tree/one; chmod 700 tree; echo x > y`, []string{"tree"}, "A \"y\"\n", false},
		{"in a new directory", `mkdir -p a/b; echo 1 > a/b/one; echo 2 > a/b/two`, []string{"a/b/one"}, "A \"a\"\nA \"a/b\"\nA \"a/b/two\"\n", false},
		{"a directory that became a file", `rm -r tree; echo x > tree`, []string{"tree"}, "", false},
		{"a replaced directory", `rm -r tree; mkdir tree; echo x > tree/x`, []string{"tree"}, "", false},
		{"new in a replaced directory", `rm -r side; mkdir side; echo x > side/x; echo y > side/y`, []string{"side/x"}, "D \"side/s\"\nA \"side/y\"\n", false},
		{"closed to its owner", `mkdir -p a/b; echo x > a/b/x; chmod 000 a/b; chmod 500 a; echo y > y`, []string{"a"}, "A \"y\"\n", false},
		{"all of it", `rm -r tree; echo x > a; echo y >> file`, nil, "", false},
		{"all of it, by its path", `rm -r tree; echo x > a; echo y >> file`, []string{"a", "./"}, "", false},
		{"a moved file", `mv file other; rm tree/one`, []string{"other"}, "D \"tree/one\"\n", false},
		{"a moved file that was changed, too", `mv file other; echo x >> other`, []string{"other"}, "", false},
		{"a copied directory", `cp -r tree wood; rm -r tree; rm file`, []string{"wood"}, "D \"file\"\n", false},
		{"a file of a copied directory", `cp -r tree wood; rm -r tree`, []string{"wood/deep/two"}, "A \"wood\"\nA \"wood/deep\"\nA \"wood/one\"\n", false},
		{"one of two copies", `cp file a; mv file b`, []string{"a"}, "A \"b\"\nD \"file\"\n", false},
		{"a copy of a file that was edited then", `cp file file.bak; echo x >> file`, []string{"file.bak"}, "M \"file\"\n", false},
		{"a file that was rewritten where it was moved, beside a removed one", `mv lines other; sed -i 's/^3$/three/' other; rm tree/one`, []string{"other"}, "D \"tree/one\"\n", false},
		{"a file that was moved to a link's place, and rewritten", `rm link; mv lines link; echo ten >> link; rm file`, []string{"link"}, "D \"file\"\n", false},
		{"two files that were joined", `cat lines more > all; rm lines more file`, []string{"all"}, "D \"file\"\n", false},
		{"a file that was split", `head -n 5 lines > one; tail -n 4 lines > two; rm lines file`, []string{"one", "two"}, "D \"file\"\n", false},
		{"a file that was moved and indented", `sed 's/^/  /' lines > t; cat t > lines; rm t file; mv lines indented`, []string{"indented"}, "D \"file\"\n", false},
		{"a binary file that was moved and changed", `mv bin b; printf 1 | dd of=b bs=1 seek=9000 conv=notrunc; rm file`, []string{"b"}, "D \"file\"\n", false},
		{"a file of two names that was moved and changed", `mv twice t; echo ten >> t; rm file`, []string{"t"}, "D \"file\"\n", false},
		{"a small file that grew where it was moved", `mv side/s grown; seq 50 90 >> grown; rm file`, []string{"grown"}, "D \"file\"\n", false},
		{"a file that was moved onto another one, and grew", `mv side/s more; seq 50 90 >> more; rm file`, []string{"more"}, "D \"file\"\n", false},
		{"many removed files beside a moved one", `rm many/*; mv lines other; echo ten >> other`, []string{"other"}, "D \"many/1\"\nD \"many/2\"\nD \"many/3\"\nD \"many/4\"\nD \"many/5\"\n", false},
		{"a copy by sed", `sed -i.bak 's/f/g/' file`, []string{"file.bak"}, "M \"file\"\n", false},
		{"a file that was moved to a copy of it, and written again", `mv file file.bak; echo new > file`, []string{"file.bak"}, "M \"file\"\n", false},
		{"a renamed directory", `mv tree wood; echo x > wood/new; rm file`, []string{"wood"}, "D \"file\"\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothMarks(t, func(t *testing.T, o *overlay) {
				if tt.moves && o.marks == UserMarks {
					t.Skip("root's overlays alone rename directories")
				}
				o.below(t, `echo f > file; mkdir -p tree/deep side; echo 1 > tree/one; echo 2 > tree/deep/two; echo s > side/s; seq 9 > lines; seq 30 45 > more; ln -s gone link; mkdir many; for i in 1 2 3 4 5; do seq 1000 > many/$i; done; seq 60 69 > twice; ln twice second; head -c 20000 /dev/urandom | tr '\n' x > bin`)
				o.change(t, tt.script)
				if err := o.discard(t, tt.paths...); err != nil {
					t.Fatal(err)
				}
				_ = exec.Command("chmod", "-R", "u+rwx", filepath.Join(o.dir, "result")).Run()
				_ = os.RemoveAll(filepath.Join(o.dir, "result"))
				if got := list(o.changes(t)); got != tt.want {
					t.Errorf("left:\n%swant\n%s", got, tt.want)
				}
				for _, p := range tt.paths { // what commands see there now
					o.change(t, `test -e ../source/'`+p+`' || test ! -e '`+p+`'; test ! -f ../source/'`+p+`' || cmp '`+p+`' ../source/'`+p+`'`)
					_ = os.RemoveAll(filepath.Join(o.dir, "result"))
				}
			})
		})
	}
}

// Below a directory that hides the source's, a change of what the source has cannot be discarded
// alone.
func TestDiscardInReplaced(t *testing.T) {
	bothMarks(t, func(t *testing.T, o *overlay) {
		o.below(t, `mkdir -p tree/deep; echo 1 > tree/one; echo 2 > tree/deep/two`)
		o.change(t, `rm -r tree; mkdir -p tree/deep; echo x > tree/one`)
		for _, p := range []string{"tree/one", "tree/deep/two", "tree/deep"} {
			var replaced *ReplacedError
			if err := o.discard(t, p); !errors.As(err, &replaced) || replaced.Above != "tree" {
				t.Errorf("%s: %v", p, err)
			}
		}
		for _, p := range []string{"../source", "/etc"} {
			if err := o.discard(t, p); err == nil && list(o.changes(t)) == "" {
				t.Errorf("%s was taken", p)
			}
		}
		if !exists(t, o.source()+"/tree/one") || !exists(t, "/etc/passwd") {
			t.Error("something outside of the layer is gone")
		}
	})
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	return err == nil
}

// After a commit a layer has nothing of what has landed: neither what the host changes there
// later, nor a directory that was renamed, is taken for a change of the layer's.
func TestSettle(t *testing.T) {
	noSync(t)
	bothMarks(t, func(t *testing.T, o *overlay) {
		o.below(t, `echo f > file; echo g > gone; mkdir -p tree/deep side; echo 1 > tree/one; echo 2 > tree/deep/two; echo s > side/s`)
		time.Sleep(3 * tick)
		began, err := Now()
		if err != nil {
			t.Fatal(err)
		}
		script := `echo x >> file; rm gone; echo new > new; rm -r side; mkdir side; echo x > side/x; echo held > .envrc`
		if o.marks == TrustedMarks {
			script += `; mv tree wood; echo z > wood/z; rm wood/one`
		}
		o.change(t, script)
		l := o.layer(t)
		l.Began = began
		r, err := l.Commit(t.Context(), o.changes(t), CommitOptions{Journal: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		trash := t.TempDir()
		if err := l.Settle(r.Landed, trash); err != nil {
			t.Fatal(err)
		}
		o.below(t, `echo host > file; echo host > gone; echo host >> new`)
		if got, want := list(o.changes(t)), "A \".envrc\"\n"; got != want {
			t.Errorf("left:\n%swant\n%s", got, want)
		}
		_ = os.RemoveAll(filepath.Join(o.dir, "result"))
		o.change(t, `test "$(cat file gone side/x)" = "host
host
x" && test ! -e side/s && test "$(cat .envrc)" = held`)
		if o.marks == TrustedMarks {
			_ = os.RemoveAll(filepath.Join(o.dir, "result"))
			o.change(t, `test ! -e tree && test ! -e wood/one && test "$(cat wood/z wood/deep/two)" = "z
2"`)
		}
	})
}

// A renamed directory whose source the host has moved can be discarded, and what was moved into it comes back.
func TestDiscardLost(t *testing.T) {
	o := newOverlay(t, TrustedMarks)
	o.below(t, `mkdir d; echo x > d/x; seq 20 29 > p; seq 9 > q`)
	o.change(t, `mv d e; mv p e/p; rm q`)
	o.below(t, `mv d dd`)
	l, trash := o.layer(t), filepath.Join(o.dir, "trash")
	changes, err := l.Changes(t.Context())
	if lost := (*LostError)(nil); !errors.As(err, &lost) {
		t.Fatal(err)
	}
	if err := os.Mkdir(trash, 0o700); err != nil {
		t.Fatal(err)
	}
	if back, err := l.Discard(t.Context(), []string{"e"}, changes, trash); err != nil || len(back) != 1 || back[0] != "p" {
		t.Errorf("got %q, %v", back, err)
	}
	if got := list(o.changes(t)); got != "D \"q\"\n" {
		t.Errorf("left:\n%s", got)
	}
}

// A file that was moved out of a place which something else has taken comes back only together with that.
func TestDiscardMovedFromReplaced(t *testing.T) {
	for script, place := range map[string]string{
		`cp side/s moved; rm -r side; mkdir side; echo x > side/x`:                     "side",
		`cp -r side moved; rm -r side; ln -s moved side`:                               "side",
		`cp -r side moved; rm -r side; cp -r other side; rm -r other; echo x > side/x`: "side",
		`mv side moved; mv other side; echo x > side/x`:                                "side",
	} {
		bothMarks(t, func(t *testing.T, o *overlay) {
			if strings.HasPrefix(script, "mv") && o.marks == UserMarks {
				t.Skip("root's overlays alone rename directories")
			}
			o.below(t, `mkdir side other; echo s > side/s; echo o > other/o`)
			o.change(t, script)
			before := list(o.changes(t))
			var replaced *ReplacedError
			if err := o.discard(t, "moved"); !errors.As(err, &replaced) || replaced.Above != place {
				t.Errorf("%s: got %v", script, err)
			}
			if now := list(o.changes(t)); now != before {
				t.Errorf("%s: left:\n%s", script, now)
			}
			if err := o.discard(t, "moved", place, "other"); err != nil {
				t.Errorf("%s: %v", script, err)
			}
		})
	}
}

// Of files whose places were exchanged none is discarded without the others: a commit would replace the
// only copy of what one of them had.
func TestDiscardExchanged(t *testing.T) {
	for script, tt := range map[string]struct{ path, with, left string }{
		`mv a t; mv b a; mv t b; echo y > y`:                                {"a", "b", "A \"y\"\n"},
		`mv a t; mv b a; mv t b; echo y >> b; echo y > y`:                   {"b", "a", "A \"y\"\n"},
		`mv b d; mv a b; echo y > y`:                                        {"d", "b", "A \"y\"\n"},
		`mv a t; mv b a; mv c b; mv t c; echo y > y`:                        {"a", "b c", "A \"y\"\n"},
		`sed -i s/3/x/ p; mv p d; mv q p; sed -i s/25/x/ p; echo y > y`:     {"d", "p", "A \"y\"\n"},
		`mv twice t; mv a twice; mv t a`:                                    {"twice", "a", ""},
		`mv b c; mv a b; echo new > a`:                                      {"c", "b", "M \"a\"\n"},
		`ln -sfn x l; ln -sfn x2 l2; echo y > y`:                            {"l", "", "M \"l2\"\nA \"y\"\n"},
		`rm l; ln -s two l; rm l2; ln -s one l2; echo y > y`:                {"l", "l2", "A \"y\"\n"},
		`echo 1 | dd of=big conv=notrunc; echo 2 | dd of=big2 conv=notrunc`: {"big", "", "M \"big2\"\n"},
	} {
		t.Run(script, func(t *testing.T) {
			bothMarks(t, func(t *testing.T, o *overlay) {
				o.below(t, `for f in a b c; do echo $f > $f; done; echo t > twice; ln twice second; seq 9 > p; seq 20 29 > q; ln -s one l; ln -s two l2; truncate -s 70M big big2`)
				o.change(t, script)
				o.below(t, `echo host >> a`) // what the source has now tells nothing
				before := list(o.changes(t))
				err := o.discard(t, tt.path)
				var moved *MovedError
				if errors.As(err, &moved) != (tt.with != "") || moved != nil && (moved.Path != tt.path || strings.Join(moved.With, " ") != tt.with) {
					t.Fatalf("got %v", err)
				}
				if tt.with != "" {
					if now := list(o.changes(t)); now != before {
						t.Errorf("left:\n%s", now)
					}
					err = o.discard(t, append(strings.Fields(tt.with), tt.path)...)
				}
				if err != nil {
					t.Fatal(err)
				}
				_ = os.RemoveAll(filepath.Join(o.dir, "result"))
				if got := list(o.changes(t)); got != tt.left {
					t.Errorf("left:\n%swant\n%s", got, tt.left)
				}
			})
		})
	}
}
