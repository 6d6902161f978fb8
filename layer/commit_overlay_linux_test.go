package layer

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit"
)

// listing is a shell command that describes everything in the current directory.
const listing = `find . -mindepth 1 \( -type d -printf '%y %m %p\n' -o -printf '%y %m %s %l %T@ %p\n' \) | sort; find . -type f -exec sha256sum {} + | sort -k 2`

// After the commit of a whole layer the source is what commands saw in the overlay.
func TestCommitOverlay(t *testing.T) {
	noSync(t)
	for name, script := range map[string]string{
		"files":       `echo new >> file; rm gone; echo x > 'new name'; chmod 600 other; ln -s file link; rm -r tree/deep`,
		"types":       `rm file; mkdir file; echo x > file/in; rm -r tree; echo now a file > tree; ln -sf nowhere other`,
		"opaque":      `rm -r tree; mkdir tree; echo x > tree/one; mkdir -p tree/deep; echo y > tree/deep/new`,
		"deep":        `mkdir -p a/b/c/d; echo x > a/b/c/d/e; mkdir -m 700 a/b/closed; touch -d 2001-02-03 a/b/c/d/e a/b/c`,
		"moves":       `mv file moved; mv gone tree/deep/; mv tree/one .; mkdir d; mv other d/`,
		"directories": `mv tree wood || { cp -a tree wood; rm -r tree; }; echo more >> wood/one; rm wood/deep/two; echo z > wood/deep/z; mv wood/deep wood/deeper || { cp -a wood/deep wood/deeper; rm -r wood/deep; }`,
		"swapped":     `for p in "tree t" "side tree" "t side"; do set -- $p; mv $1 $2 || { cp -a $1 $2; rm -r $1; }; done; echo x > side/mine`,
		"hard links":  `ln file second; echo x >> second; ln other tree/third`,
		"permissions": `chmod 700 tree; chmod 750 tree/deep; echo x > tree/deep/two; chmod 500 side`,
		"nothing":     `cat file > /dev/null; touch -r file file`,
	} {
		t.Run(name, func(t *testing.T) {
			bothMarks(t, func(t *testing.T, o *overlay) {
				o.below(t, `echo f > file; echo g > gone; echo o > other; mkdir -p tree/deep side; echo 1 > tree/one; echo 2 > tree/deep/two; echo s > side/s; printf 'a\nb' > 'odd
name'`)
				time.Sleep(3 * tick)
				began, err := Now()
				if err != nil {
					t.Fatal(err)
				}
				o.change(t, script+"\n{ "+listing+"; } > ../listing")
				want, err := os.ReadFile(filepath.Join(o.dir, "listing"))
				if err != nil {
					t.Fatal(err)
				}
				l, journal := o.layer(t), t.TempDir()
				l.Began = began
				r, err := l.Commit(t.Context(), o.changes(t), CommitOptions{Journal: journal})
				if err != nil || len(r.Held) > 0 {
					t.Fatalf("%v, held back: %v, of\n%s", err, r.Held, list(o.changes(t)))
				}
				cmd := exec.Command("/bin/sh", "-euc", listing)
				cmd.Dir = o.source()
				got, err := cmd.Output()
				if err != nil {
					t.Fatal(err)
				}
				if string(got) != string(want) {
					t.Errorf("the source is\n%s\nwant\n%s", got, want)
				}
				if left := show(t, journal); len(left) > 0 {
					t.Errorf("the journal has %v", left)
				}
				if name == "directories" || name == "swapped" {
					return // a renamed directory of the layer has lost what it was in the source
				}
				if rest := list(o.changes(t)); rest != "" {
					t.Errorf("the layer still differs from its source:\n%s", rest)
				}
			})
		})
	}
}

// The same, of changes at random, at once or in two parts.
func TestCommitRandom(t *testing.T) {
	noSync(t)
	for seed := range int64(testkit.Rounds(12, 5)) {
		bothMarks(t, func(t *testing.T, o *overlay) {
			changeAtRandom(o.source(), 2000+seed, 60)
			time.Sleep(3 * tick)
			l, journal := o.layer(t), t.TempDir()
			var err error
			if l.Began, err = Now(); err != nil {
				t.Fatal(err)
			}
			o.inside(t, fmt.Sprint(changesTree, "=", 100+seed))
			changes := o.changes(t)
			want := lookAt(t, filepath.Join(o.dir, "result"))
			t.Logf("seed %d:\n%s", seed, list(changes)) // what fails can be done again
			opt := CommitOptions{Journal: journal}
			for _, c := range changes { // pipes are held back, and links that lead nowhere
				opt.Accept = append(opt.Accept, c.Path)
			}
			if seed%2 == 1 && !strings.Contains("\n"+list(changes), "\nR ") && len(changes) > 1 {
				first := opt
				first.Accept, first.Paths = first.Accept[:1], []string{changes[0].Path}
				if opt.Known, err = l.Records(t.Context(), changes); err != nil { // else the removal of a hard link would be a conflict at the other
					t.Fatal(err)
				}
				r, err := l.Commit(t.Context(), changes, first)
				if err != nil {
					t.Fatal(err)
				}
				maps.Copy(opt.Known, r.Records)
				changes = o.changes(t)
				opt.Accept = nil
				for _, c := range changes {
					opt.Accept = append(opt.Accept, c.Path)
				}
			}
			r, err := l.Commit(t.Context(), changes, opt)
			if err != nil || len(r.Held) > 0 {
				t.Fatalf("%v, held back: %v", err, r.Held)
			}
			if diff := differences(lookAt(t, o.source()), want); diff != "" {
				t.Errorf("the source:\n%s", diff)
			}
		})
	}
}
