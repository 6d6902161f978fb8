package layers

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/layerstore"
)

// reviewed is a layer over a source with a file, of which everything is done by hand.
type reviewed struct {
	*testing.T
	dir, id, source, upper string
}

func newReviewed(t *testing.T) *reviewed {
	t.Helper()
	source, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &reviewed{t, t.TempDir(), backend.NewID(), source, ""}
	r.write(source, "old", "old\n")
	h, err := Make(t.Context(), r.dir, New{ID: r.id, Source: source})
	if err != nil {
		t.Fatal(err)
	}
	r.upper = filepath.Join(h.Dir(), "upper")
	h.Release()
	return r
}

func (r *reviewed) write(dir, name, text string) {
	r.Helper()
	at := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
		r.Fatal(err)
	}
}

// change does to the layer what commands do: "NAME=TEXT" writes a file, "NAME->TARGET" makes a link,
// "NAME+x" makes a file executable, "NAME!" deletes one of the source, and "NAME-" what is new.
func (r *reviewed) change(what ...string) {
	r.Helper()
	for _, w := range what {
		var err error
		if name, target, is := strings.Cut(w, "->"); is {
			_ = os.Remove(filepath.Join(r.upper, name))
			err = os.Symlink(target, filepath.Join(r.upper, name))
		} else if name, text, is := strings.Cut(w, "="); is {
			r.write(r.upper, name, text)
		} else if name, is := strings.CutSuffix(w, "+x"); is {
			err = os.Chmod(filepath.Join(r.upper, name), 0o755)
		} else if name, is := strings.CutSuffix(w, "!"); is {
			_ = os.Remove(filepath.Join(r.upper, name))
			err = unix.Mknod(filepath.Join(r.upper, name), unix.S_IFCHR, 0)
		} else {
			err = os.RemoveAll(filepath.Join(r.upper, strings.TrimSuffix(w, "-")))
		}
		if err != nil {
			r.Fatal(err)
		}
	}
}

// open opens the layer for a principal.
func (r *reviewed) open(principal string) *Layer {
	r.Helper()
	l, err := Open(r.Context(), r.dir, r.id)
	if err != nil {
		r.Fatal(err)
	}
	l.Principal = principal
	return l
}

func (r *reviewed) diff(principal string, binary bool, paths ...string) {
	r.Helper()
	l := r.open(principal)
	defer l.Close()
	var b bytes.Buffer
	if err := l.WritePatch(r.Context(), &b, binary, paths...); err != nil {
		r.Fatal(err)
	}
}

func (r *reviewed) commit(principal string, opt CommitOptions) (Commit, error) {
	r.Helper()
	l := r.open(principal)
	defer l.Close()
	return l.Commit(r.Context(), opt, Host{})
}

// A commit lands what its principal was shown, and fails if that is something else by now.
func TestReview(t *testing.T) {
	for name, tt := range map[string]struct {
		before   string // what commands do before the diff
		seen     string // the paths of the diff; "-": there is none
		binary   bool
		after    string
		commit   string // the paths of the commit
		changed  string // what the commit says to have changed
		appeared string
	}{
		"nothing since":                   {before: "a=1 old=2 l->a"},
		"no diff before":                  {before: "a=1", seen: "-", after: "a=2 b=1"},
		"content of a new file":           {before: "a=1 b=1", after: "a=2", changed: "a"},
		"content of the same length":      {before: "old=new1", after: "old=new2", changed: "old"},
		"and back again":                  {before: "a=1", after: "a=2 a=1"},
		"permissions":                     {before: "a=1", after: "a+x", changed: "a"},
		"permissions that were shown":     {before: "a=1 a+x", after: "a=2", changed: "a"},
		"only permissions, then content":  {before: "old=old\n old+x", after: "old=new", changed: "old"},
		"the target of a link":            {before: "l->a", after: "l->b", changed: "l"},
		"a file becomes a link":           {before: "a=1", after: "a->old", changed: "a"},
		"a deletion becomes a change":     {before: "old!", after: "old- old=new", changed: "old"},
		"a change becomes a deletion":     {before: "old=new", after: "old!", changed: "old"},
		"another file":                    {before: "a=1", after: "b=1", appeared: "b"},
		"in a directory of its own":       {before: "a=1", after: "d/e/b=1", appeared: "d d/e d/e/b"},
		"a deletion":                      {before: "a=1", after: "old!", appeared: "old"},
		"what is gone does not land":      {before: "a=1 b=1", after: "b-"},
		"outside of the diff":             {before: "a=1 d/b=1", seen: "d", after: "a=2 c=1"},
		"below the diff's path":           {before: "a=1 d/b=1", seen: "d", after: "d/c=1", appeared: "d/c"},
		"outside of the commit":           {before: "a=1 b=1", after: "a=2 c=1", commit: "b"},
		"below the commit's path":         {before: "d/a=1 b=1", after: "d/a=2 b=2", commit: "d", changed: "d/a"},
		"a binary file is only named":     {before: "a=\x00", after: "a=\x01\x00"},
		"its permissions are not":         {before: "a=\x00", after: "a+x", changed: "a"},
		"a binary file in the patch":      {before: "a=\x00", binary: true, after: "a=\x01\x00", changed: "a"},
		"git's own directory":             {before: "a=1 d/.git/refs/x=1", after: "d/.git/refs/x=2 d/.git/refs/y=1"},
		"what is held back does not land": {before: "a=1", after: ".envrc=1"},
		"a file that grew":                {before: "a=1", after: "a=" + strings.Repeat("1", 17<<20), changed: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReviewed(t)
			r.change(strings.Split(tt.before, " ")...)
			if tt.seen != "-" {
				r.diff("user:a", tt.binary, strings.Fields(tt.seen)...)
			}
			if tt.after != "" {
				r.change(strings.Fields(tt.after)...)
			}
			opt := CommitOptions{Paths: strings.Fields(tt.commit), OnConflict: "overwrite"}
			for _, dry := range []bool{true, false} {
				opt.DryRun = dry
				_, err := r.commit("user:a", opt)
				var review ReviewError
				if as := (*ReviewError)(nil); errors.As(err, &as) {
					review = *as
				} else if err != nil {
					t.Fatal(err)
				}
				if changed, appeared := pathsOf(review.Changed), pathsOf(review.Appeared); changed != tt.changed || appeared != tt.appeared {
					t.Fatalf("with dry run %t: changed %q, appeared %q: %v", dry, changed, appeared, err)
				}
				if as := (*ReviewError)(nil); errors.As(err, &as) {
					if message, hint := Explain(r.id, err); !strings.HasPrefix(message, "nothing was committed: ") || !strings.Contains(hint, "`unreviewed`") {
						t.Errorf("%s (%s)", message, hint)
					}
				}
			}
			if tt.changed+tt.appeared == "" {
				return
			}
			for _, name := range []string{"a", "b", "d"} {
				if _, err := os.Lstat(filepath.Join(r.source, name)); err == nil {
					t.Errorf("%s has landed", name)
				}
			}
			if _, err := r.commit("user:b", CommitOptions{DryRun: true, OnConflict: "overwrite"}); err != nil {
				t.Errorf("somebody else was shown nothing: %v", err)
			}
			opt.Unreviewed = true
			if done, err := r.commit("user:a", opt); err != nil || len(done.Landed) == 0 {
				t.Errorf("unreviewed: %+v, %v", done, err)
			}
		})
	}
}

func pathsOf(changes []Change) string {
	var all []string
	for _, c := range changes {
		all = append(all, c.Path)
	}
	return strings.Join(all, " ")
}

// What has landed, or was discarded, is forgotten: what commands change then is a new matter. What
// was held back is still what was shown.
func TestReviewForgets(t *testing.T) {
	r := newReviewed(t)
	r.change("a=1", "b=1", ".envrc=1")
	r.diff("user:a", false)
	r.diff("user:b", false)
	if done, err := r.commit("user:a", CommitOptions{}); err != nil || pathsOf(done.Landed) != "a b" {
		t.Fatalf("%+v, %v", done, err)
	}
	r.change("a=2", "c=1", ".envrc=2")
	if _, err := r.commit("user:a", CommitOptions{DryRun: true}); err != nil {
		t.Errorf("after a commit: %v", err)
	}
	var review *ReviewError
	if _, err := r.commit("user:b", CommitOptions{DryRun: true}); !errors.As(err, &review) || pathsOf(review.Appeared) != "a c" {
		t.Errorf("who has committed nothing: %v", err)
	}
	if _, err := r.commit("user:a", CommitOptions{DryRun: true, Accept: []string{".envrc"}}); !errors.As(err, &review) || pathsOf(review.Changed) != ".envrc" {
		t.Errorf("what was held back: %v", err)
	}
	l := r.open("user:a")
	if _, err := l.Discard(t.Context(), ".envrc"); err != nil {
		t.Fatal(err)
	}
	l.Close()
	r.change(".envrc=3")
	if _, err := r.commit("user:a", CommitOptions{DryRun: true, Accept: []string{".envrc"}}); err != nil {
		t.Errorf("what was discarded: %v", err)
	}
	l = r.open("user:b")
	if _, err := l.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := os.Lstat(filepath.Join(r.dir, "layers", r.id, "shown.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after everything was discarded: %v", err)
	}
}

// A record that cannot be read fails a commit, until everything was shown anew.
func TestReviewDamaged(t *testing.T) {
	r := newReviewed(t)
	r.change("a=1")
	r.diff("user:a", false)
	record := filepath.Join(r.dir, "layers", r.id, "shown.json")
	for name, text := range map[string]string{"cut": `{"version":1,"prin`, "empty": "", "of another version": `{"version":2}`} {
		if err := os.WriteFile(record, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var damaged *layerstore.ShownError
		_, err := r.commit("user:a", CommitOptions{DryRun: true})
		if message, hint := Explain(r.id, err); !errors.As(err, &damaged) || !strings.Contains(message, "cannot tell what was shown") || !strings.Contains(hint, "paddock diff "+r.id) {
			t.Errorf("%s: %s (%s)", name, message, hint)
		}
		l := r.open("user:a")
		if err := l.WritePatch(t.Context(), &bytes.Buffer{}, false, "a"); !errors.As(err, &damaged) {
			t.Errorf("%s: a part that is shown: %v", name, err)
		}
		l.Close()
		r.diff("user:a", false)
		if _, err := r.commit("user:a", CommitOptions{DryRun: true}); err != nil {
			t.Errorf("%s: after a diff: %v", name, err)
		}
	}
	if err := os.WriteFile(record, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.commit("user:a", CommitOptions{Unreviewed: true}); err != nil {
		t.Errorf("unreviewed: %v", err)
	}
}

// A patch that was not written to its end was not shown.
func TestReviewCutOff(t *testing.T) {
	r := newReviewed(t)
	r.change("a=1")
	r.diff("user:a", false)
	r.change("a=2")
	l := r.open("user:a")
	if err := l.WritePatch(t.Context(), brokenPipe{}, false); !errors.Is(err, unix.EPIPE) {
		t.Fatal(err)
	}
	l.Close()
	var review *ReviewError
	if _, err := r.commit("user:a", CommitOptions{}); !errors.As(err, &review) {
		t.Errorf("%v", err)
	}
}

// What counts is what was written, and not what is there when it is recorded: a command that has the
// file in its memory can change it while no time of the file shows that.
func TestReviewRace(t *testing.T) {
	for name, text := range map[string]string{"a": "1", "old": "old\n"} { // of the second one only the permissions have changed
		r := newReviewed(t)
		r.change(name+"="+text, name+"+x")
		f, err := os.OpenFile(filepath.Join(r.upper, name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		memory, err := unix.Mmap(int(f.Fd()), 0, len(text), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		memory[0] = text[0]
		l := r.open("user:a")
		if err := l.WritePatch(t.Context(), writerFunc(func() { memory[0] = '!' }), false); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if err := unix.Munmap(memory); err != nil {
			t.Fatal(err)
		}
		var review *ReviewError
		if _, err := r.commit("user:a", CommitOptions{OnConflict: "overwrite"}); !errors.As(err, &review) || pathsOf(review.Changed) != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// writerFunc is called whenever something is written.
type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) { f(); return len(p), nil }

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, unix.EPIPE }

// In a list that is cut, files that commands made do not hide one that they changed.
func TestFindingsOrder(t *testing.T) {
	r := newReviewed(t)
	r.write(r.source, "z/Makefile", "all:\n")
	var decoys []string
	for _, c := range "abcdefgh" {
		decoys = append(decoys, string(c)+"/Makefile=x:\n")
	}
	r.change(append(decoys, "z/Makefile=all: evil\n", "y/.envrc=1")...)
	l := r.open("user:a")
	defer l.Close()
	found, err := l.Screen(t.Context(), Host{})
	if err != nil || len(found) != 10 || found[0].Path != "y/.envrc" || found[1].Path != "z/Makefile" || found[1].Made || found[2].Path != "a/Makefile" || !found[2].Made {
		t.Errorf("%+v, %v", found, err)
	}
}
