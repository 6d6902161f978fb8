package patch

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// memory is a tree in memory.
type memory map[string]File

func (m memory) Read(_ context.Context, name string) (File, error) {
	f, ok := m[name]
	if !ok {
		return f, fs.ErrNotExist
	}
	return f, nil
}

func (m memory) Room(_ context.Context, name string, gone func(string) bool) error {
	for other := range m {
		switch {
		case gone(other):
		case other == name || strings.HasPrefix(other, name+"/"):
			return fs.ErrExist
		case strings.HasPrefix(name, other+"/"):
			return fmt.Errorf("%s is not a directory", other)
		}
	}
	return nil
}

// after is the tree with the steps taken.
func (m memory) after(r *Result) memory {
	out := memory{}
	for name, f := range m {
		out[name] = f
	}
	for _, s := range r.Steps {
		if s.New == nil {
			delete(out, s.Path)
		} else {
			out[s.Path] = *s.New
		}
	}
	return out
}

func (m memory) String() string {
	var all []string
	for name, f := range m {
		all = append(all, fmt.Sprintf("%s %v %q", name, f.Perm&0o100 != 0, f.Content))
	}
	sort.Strings(all)
	return strings.Join(all, "\n")
}

// write makes a directory hold the tree, and nothing else but .git.
func (m memory) write(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".git" {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, f := range m {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, f.Content, os.FileMode(f.Perm)); err != nil {
			t.Fatal(err)
		}
	}
}

// load reads what a directory holds.
func load(t *testing.T, dir string) memory {
	t.Helper()
	m := memory{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		if d.IsDir() {
			return nil
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		info, err := d.Info()
		name, _ := filepath.Rel(dir, file)
		m[name] = File{content, uint32(info.Mode().Perm())}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// git runs git, undisturbed by anybody's settings.
func git(t *testing.T, dir string, stdin []byte, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "core.autocrlf=false", "-c", "core.fileMode=true"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+dir, "LC_ALL=C")
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %v: %w: %s", args, err, stderr.Bytes())
	}
	return out, err
}

// dice makes trees and edits.
type dice struct{ *rand.Rand }

func (d dice) line() string {
	words := []string{"func", "return x", "}", "{", "", "\t\tif a {", "import os", "a\tb", " trailing ", "é", "- item", "+ item", "@@ x", "-- sig", "\\ no"}
	ends := "\n"
	if d.IntN(40) == 0 {
		ends = "\r\n"
	}
	text := words[d.IntN(len(words))]
	if d.IntN(2) == 0 {
		text += fmt.Sprint(d.IntN(50))
	}
	return text + ends
}

func (d dice) text(n int) []byte {
	var b bytes.Buffer
	crlf := d.IntN(8) == 0
	for range n {
		line := d.line()
		if crlf {
			line = strings.TrimRight(line, "\r\n") + "\r\n"
		}
		b.WriteString(line)
	}
	if d.IntN(5) == 0 {
		return bytes.TrimRight(b.Bytes(), "\r\n")
	}
	return b.Bytes()
}

func (d dice) content() []byte {
	if d.IntN(10) == 0 {
		b := make([]byte, d.IntN(3000))
		for i := range b {
			b[i] = byte(d.IntN(8))
		}
		return b
	}
	return d.text(d.IntN(60))
}

func (d dice) name() string {
	names := []string{"a.txt", "b/c.go", "b/d e.txt", "b/x/y", "ü.md", "tab\tname", "z", "q\"uote", "b/c.go2", "back\\slash"}
	if d.IntN(3) == 0 {
		return fmt.Sprintf("n%d/f%d", d.IntN(3), d.IntN(20))
	}
	return names[d.IntN(len(names))]
}

func (d dice) perm() uint32 { return []uint32{0o644, 0o755}[d.IntN(2)] }

func (d dice) tree() memory {
	m := memory{}
	for range 1 + d.IntN(6) {
		if name := d.name(); m.Room(context.Background(), name, func(string) bool { return false }) == nil {
			m[name] = File{d.content(), d.perm()}
		}
	}
	return m
}

// edit changes some lines of a text.
func (d dice) edit(content []byte) []byte {
	all := lines(content)
	for range 1 + d.IntN(4) {
		at := d.IntN(len(all) + 1)
		n := min(d.IntN(4), len(all)-at)
		all = append(append(append([]string{}, all[:at]...), lines(d.text(d.IntN(4)))...), all[at+n:]...)
	}
	return []byte(strings.Join(all, ""))
}

// next is a tree after a few changes.
func (d dice) next(m memory) memory {
	out := memory{}
	for name, f := range m {
		out[name] = f
	}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		f := out[name]
		to := d.name()
		free := out.Room(context.Background(), to, func(string) bool { return false }) == nil
		switch d.IntN(9) {
		case 0:
			delete(out, name)
		case 1:
			out[name] = File{d.content(), f.Perm}
		case 2, 3, 4:
			out[name] = File{d.edit(f.Content), f.Perm}
		case 5:
			out[name] = File{f.Content, d.perm()}
		case 6:
			if free {
				delete(out, name)
				out[to] = File{d.edit(f.Content), d.perm()}
			}
		case 7:
			if free {
				out[to] = File{d.edit(f.Content), f.Perm}
			}
		}
	}
	if to := d.name(); d.IntN(3) == 0 && out.Room(context.Background(), to, func(string) bool { return false }) == nil {
		out[to] = File{d.content(), d.perm()}
	}
	return out
}

// disturbed is a tree that somebody has changed meanwhile.
func (d dice) disturbed(m memory) memory {
	out := memory{}
	for name, f := range m {
		switch d.IntN(4) {
		case 0:
			f.Content = d.edit(f.Content)
		case 1:
			f.Content = append(d.text(d.IntN(5)), f.Content...)
		}
		out[name] = f
	}
	return out
}

// cases is how many patches are compared with git's work.
const cases = 200

// TestLikeGit makes trees and patches by chance, and compares with git apply:
// the same tree, or both refuse.
func TestLikeGit(t *testing.T) {
	dir := t.TempDir()
	if _, err := git(t, dir, nil, "init", "-q"); err != nil {
		t.Fatal(err)
	}
	applied, refused := 0, 0
	for seed := range uint64(cases) {
		d := dice{rand.New(rand.NewPCG(seed, 7))}
		before := d.tree()
		text, want := diff(t, dir, d, before, d.next(before))
		if len(text) == 0 {
			continue
		}
		if same(t, dir, fmt.Sprint("seed ", seed), text, Options{}, before, want) {
			applied++
		}
		if !bytes.Contains(text, []byte("\ncopy from ")) {
			same(t, dir, fmt.Sprint("reversed, seed ", seed), text, Options{Reverse: true}, want, before)
		}
		if !same(t, dir, fmt.Sprint("disturbed, seed ", seed), text, Options{}, d.disturbed(before), nil) {
			refused++
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d applied, %d refused", applied, refused)
	if applied < cases*3/4 || refused < cases/10 {
		t.Errorf("%d applied and %d refused, which tests little", applied, refused)
	}
}

// diff is git's patch from one tree to another.
func diff(t *testing.T, dir string, d dice, before, after memory) ([]byte, memory) {
	t.Helper()
	commit := func(m memory) {
		m.write(t, dir)
		if _, err := git(t, dir, nil, "add", "-A"); err != nil {
			t.Fatal(err)
		}
	}
	commit(before)
	tree, err := git(t, dir, nil, "write-tree")
	if err != nil {
		t.Fatal(err)
	}
	commit(after)
	args := []string{"diff", "--cached", "--binary", "--full-index", fmt.Sprintf("-U%d", 1+d.IntN(4))}
	args = append(args, [][]string{{"-M", "-C", "--find-copies-harder"}, {"-M"}, {"--no-renames"}, {"-M", "--no-prefix"}}[d.IntN(4)]...)
	text, err := git(t, dir, nil, append(args, strings.TrimSpace(string(tree)))...)
	if err != nil {
		t.Fatal(err)
	}
	return text, after
}

// same applies a patch both ways. It reports whether it was applied.
func same(t *testing.T, dir, name string, text []byte, o Options, before, want memory) bool {
	t.Helper()
	args := []string{"apply"}
	if o.Reverse {
		args = append(args, "-R")
	}
	if bytes.Contains(text, []byte("diff --git ")) && noPrefix(text) {
		args = append(args, "-p0")
	}
	run := func(args ...string) (memory, error) {
		before.write(t, dir)
		_, err := git(t, dir, text, append(args, "-")...)
		return load(t, dir), err
	}
	theirs, gitErr := run(args...)
	p, err := Parse(text, o)
	var r *Result
	if err == nil {
		r, err = p.Apply(t.Context(), before)
	}
	switch {
	case gitErr != nil && err != nil:
		return false
	case gitErr != nil:
		// A hunk without context at an edge is also taken elsewhere, where its
		// lines are found once; git takes it there when told so.
		if theirs, gitErr = run(append(args, "--unidiff-zero")...); gitErr != nil {
			t.Errorf("%s: git refuses what is applied: %v\n%s", name, gitErr, text)
			return false
		}
	case err != nil:
		t.Errorf("%s: git applies what is refused: %v\n%s", name, err, text)
		return false
	}
	mine := before.after(r)
	if mine.String() != theirs.String() || want != nil && mine.String() != want.String() {
		t.Errorf("%s:\n%s\nmakes\n%s\nand with git\n%s\nwanted\n%s", name, text, mine, theirs, want)
	}
	return true
}

func noPrefix(text []byte) bool {
	for _, line := range strings.Split(string(text), "\n") {
		if names, ok := strings.CutPrefix(line, "diff --git "); ok {
			return !strings.HasPrefix(names, "a/") && !strings.HasPrefix(names, `"a/`)
		}
	}
	return false
}

// applied is a tree with a patch applied.
func applied(before memory, text string, o Options) (memory, *Result, error) {
	p, err := Parse([]byte(text), o)
	if err != nil {
		return nil, nil, err
	}
	r, err := p.Apply(context.Background(), before)
	if err != nil {
		return nil, nil, err
	}
	return before.after(r), r, nil
}
