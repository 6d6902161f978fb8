package gitconfig

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

// repositoryAt makes a repository, without git.
func repositoryAt(t *testing.T, ws string) (file string) {
	t.Helper()
	file = filepath.Join(ws, ".git", "config")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(hostConfig), 0o644)); err != nil {
		t.Fatal(err)
	}
	return file
}

// keep keeps what a sandbox over a repository has added, hours ago.
func keep(t *testing.T, state, id, ws string, hours int, settings ...Setting) {
	t.Helper()
	age := time.Now().Add(-time.Duration(hours) * time.Hour)
	err := Keep(state, id, []Kept{{Workspace: ws, File: filepath.Join(ws, ".git", "config"), Settings: settings}})
	if err := errors.Join(err, os.Chtimes(filepath.Join(state, keptDir, id), age, age)); err != nil {
		t.Fatal(err)
	}
}

// kept makes a repository, and keeps what a sandbox has added.
func kept(t *testing.T, settings ...Setting) (state, ws, file string) {
	t.Helper()
	state, ws = t.TempDir(), t.TempDir()
	file = repositoryAt(t, ws)
	keep(t, state, "one", ws, 0, settings...)
	return state, ws, file
}

func agree([]Accepted) (bool, error) { return true, nil }

// accept takes over what is kept over a directory.
func accept(t *testing.T, state, dir string) Acceptance {
	t.Helper()
	done, err := Accept(state, Choice{Dir: dir, Agree: agree})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// said is what was not taken over, and why, in lines.
func (d Accepted) said() string {
	var b strings.Builder
	for _, l := range d.Left {
		b.WriteString(l.String() + ": " + l.Why + "\n")
	}
	return b.String()
}

func TestAcceptGit(t *testing.T) {
	state, ws, file := kept(t, Setting{"user.name", "Ann # Example"}, Setting{"remote.origin.url", "https://example.com/b"}, Setting{"core.fsmonitor", "evil"},
		Setting{"branch.m.remote", "evil"}, Setting{"branch.m.merge", "refs/heads/m"}, Setting{"remote.evil.fetch", "+refs/heads/*:refs/remotes/evil/*"})
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is written, or forgotten, before somebody agrees.
	for _, ask := range []func([]Accepted) (bool, error){nil, func([]Accepted) (bool, error) { return false, nil }} {
		done, err := Accept(state, Choice{Dir: ws, Agree: ask})
		if err != nil || done.Agreed || len(done.Files) != 1 || len(done.Files[0].Settings) != 2 {
			t.Errorf("%+v, %v", done, err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != hostConfig {
			t.Errorf("%s, %v", text, err)
		}
	}
	done := accept(t, state, ws)
	if want := []Setting{{"user.name", "Ann # Example"}, {"branch.m.merge", "refs/heads/m"}}; !done.Agreed || !slices.Equal(done.Files[0].Settings, want) {
		t.Errorf("%+v", done)
	}
	if want := `core.fsmonitor=evil: it is never taken over
remote.origin.url=https://example.com/b: the file has another value
branch.m.remote=evil: its remote has no URL in the file
remote.evil.fetch=+refs/heads/*:refs/remotes/evil/*: its remote has no URL in the file
`; sortedLines(done.Files[0].said()) != sortedLines(want) {
		t.Errorf("%s", done.Files[0].said())
	}
	want := hostConfig + "[user]\n\tname = \"Ann # Example\"\n[branch \"m\"]\n\tmerge = refs/heads/m\n"
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	after, err := os.Stat(file)
	if err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
		t.Errorf("the file was replaced: %v, %v", after, err)
	}
	if left, err := filepath.Glob(ws + "/.git/*lock"); len(left) > 0 || err != nil {
		t.Errorf("%q is left", left)
	}
	if done := accept(t, state, ws); len(done.Files) > 0 {
		t.Errorf("a second time: %+v", done)
	}
}

func sortedLines(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Of what several sandboxes gave a key the newest counts, and each can be chosen.
func TestAcceptGitNewest(t *testing.T) {
	const good, evil = "https://example.com/good", "https://example.com/evil"
	for name, tt := range map[string]struct {
		what  Choice
		adds  []Setting
		says  string
		still []string // of which something is kept afterwards
	}{
		"all":         {Choice{Agree: agree}, []Setting{{"remote.b.url", good}, {"user.name", "Ann"}}, "remote.b.url=" + evil + ": a later sandbox gave another value\n", nil},
		"the first":   {Choice{Agree: agree, Sandbox: "first"}, []Setting{{"remote.b.url", evil}, {"user.name", "Ann"}}, "", []string{"second"}},
		"the second":  {Choice{Agree: agree, Sandbox: "second"}, []Setting{{"remote.b.url", good}}, "", []string{"first"}},
		"dropped":     {Choice{Agree: agree, Drop: true, Sandbox: "first"}, nil, "", []string{"second"}},
		"all dropped": {Choice{Drop: true}, nil, "remote.b.url=" + evil + ": a later sandbox gave another value\n", nil},
		"elsewhere":   {Choice{Agree: agree, Dir: "/nonexistent"}, nil, "", []string{"second", "first"}},
	} {
		t.Run(name, func(t *testing.T) {
			state, ws := t.TempDir(), t.TempDir()
			file := repositoryAt(t, ws)
			keep(t, state, "first", ws, 2, Setting{"remote.b.url", evil}, Setting{"user.name", "Ann"})
			keep(t, state, "second", ws, 1, Setting{"remote.b.url", good})
			done, err := Accept(state, tt.what)
			if err != nil {
				t.Fatal(err)
			}
			if len(done.Files) > 0 && !tt.what.Drop && (!slices.Equal(done.Files[0].Settings, tt.adds) || done.Files[0].said() != tt.says) {
				t.Errorf("%+v", done)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != hostConfig+gitText(tt.adds) {
				t.Errorf("%s, %v", text, err)
			}
			var still []string
			records, err := listKept(filepath.Join(state, keptDir))
			for _, r := range records {
				still = append(still, r.sandbox)
			}
			if err != nil || !slices.Equal(still, tt.still) {
				t.Errorf("%q is kept: %v", still, err)
			}
		})
	}
}

// What comes to be possible while somebody is asked is not added.
func TestAcceptGitShown(t *testing.T) {
	state, ws, file := kept(t, Setting{"user.name", "Ann"}, Setting{"remote.origin.url", "https://example.com/evil"}, Setting{"branch.m.remote", "origin"})
	const changed = "[core]\n\tbare = false\n"
	done, err := Accept(state, Choice{Dir: ws, Agree: func(offered []Accepted) (bool, error) {
		if want := []Setting{{"user.name", "Ann"}, {"branch.m.remote", "origin"}}; len(offered) != 1 || !slices.Equal(offered[0].Settings, want) {
			t.Errorf("%+v", offered)
		}
		return true, os.WriteFile(file, []byte(changed), 0o644)
	}})
	if err != nil || !done.Agreed {
		t.Errorf("%+v, %v", done, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != changed+"[user]\n\tname = Ann\n" {
		t.Errorf("%s, %v", text, err)
	}
}

// What has become of a repository meanwhile is looked at, and nothing is followed. It
// keeps no other from what is kept for it.
func TestAcceptGitHostile(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(elsewhere, []byte(hostConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(ws, file string) error
		says   string
		stays  bool // it is still kept
	}{
		"another repository": {func(ws, file string) error {
			return errors.Join(os.Rename(filepath.Dir(file), ws+"/old"), os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(hostConfig), 0o644))
		}, "another directory is in the place", false},
		"a link to a repository": {func(ws, file string) error {
			return errors.Join(os.Rename(filepath.Dir(file), ws+"/old"), os.Symlink("old", filepath.Dir(file)))
		}, "is a symbolic link", false},
		"no repository":     {func(_, file string) error { return os.RemoveAll(filepath.Dir(file)) }, "no such file", false},
		"a link to a file":  {func(_, file string) error { return errors.Join(os.Remove(file), os.Symlink(elsewhere, file)) }, "is a symbolic link", false},
		"a directory":       {func(_, file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o755)) }, "", false},
		"a FIFO":            {func(_, file string) error { return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)) }, "not a regular file", false},
		"a locked file":     {func(_, file string) error { return os.WriteFile(file+".lock", nil, 0o644) }, "config.lock exists", true},
		"a lock that leads": {func(_, file string) error { return os.Symlink(elsewhere, file+".lock") }, "config.lock exists", true},
		"another form":      {func(_, file string) error { return os.WriteFile(file, []byte("[a]\nb = \\\nc\n"), 0o644) }, "not in the form", false},
		"a file that includes others": {func(_, file string) error {
			return os.WriteFile(file, []byte("[include]\npath = other\n"), 0o644)
		}, "includes others", false},
	} {
		t.Run(name, func(t *testing.T) {
			state, ws, file := kept(t, Setting{"user.name", "Ann"})
			nested := ws + "/b\xff\nc" // git takes any name
			other := repositoryAt(t, nested)
			keep(t, state, "other", nested, 1, Setting{"user.name", "Bob"})
			if err := tt.change(ws, file); err != nil {
				t.Fatal(err)
			}
			done, err := Accept(state, Choice{Agree: agree})
			if err != nil || len(done.Files) != 2 || len(done.Files[0].Settings) > 0 || !strings.Contains(done.Files[0].said(), tt.says) || (done.Files[0].Err != nil) != tt.stays {
				t.Errorf("%+v, %v", done, err)
			}
			if text, err := os.ReadFile(other); err != nil || string(text) != hostConfig+"[user]\n\tname = Bob\n" {
				t.Errorf("the other: %q, %v", text, err)
			}
			for _, at := range []string{elsewhere, ws + "/old/config"} {
				if text, err := os.ReadFile(at); err == nil && string(text) != hostConfig {
					t.Errorf("%s was changed: %s", at, text)
				}
			}
			if records, err := listKept(filepath.Join(state, keptDir)); err != nil || len(records) > 0 != tt.stays {
				t.Errorf("%d are kept: %v", len(records), err)
			}
		})
	}
}

// What cannot be read keeps nobody from the rest, and is forgotten with a word.
func TestAcceptGitUnreadable(t *testing.T) {
	for name, change := range map[string]func(name string) error{
		"another form": func(name string) error { return os.WriteFile(name, []byte("{"), 0o600) },
		"too large":    func(name string) error { return os.Truncate(name, maxKeptSize+1) },
		"anybody's":    func(name string) error { return os.Chmod(name, 0o666) },
	} {
		state, ws, file := kept(t, Setting{"user.name", "Ann"})
		keep(t, state, "broken", ws, 1, Setting{"user.email", "a@example.com"})
		if err := change(filepath.Join(state, keptDir, "broken")); err != nil {
			t.Fatal(err)
		}
		if done := accept(t, state, ws); len(done.Forgotten) != 1 || !strings.HasPrefix(done.Forgotten[0], "broken: ") {
			t.Errorf("%s: %+v", name, done)
		}
		if text, err := os.ReadFile(file); err != nil || !strings.HasSuffix(string(text), "name = Ann\n") {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		if done := accept(t, state, ws); len(done.Files)+len(done.Forgotten) > 0 {
			t.Errorf("%s, a second time: %+v", name, done)
		}
	}
}

// Of what one sandbox has added to several repositories the rest stays.
func TestAcceptGitPart(t *testing.T) {
	state, ws, mounted := t.TempDir(), t.TempDir(), t.TempDir()
	files := []string{repositoryAt(t, ws), repositoryAt(t, mounted)}
	var list []Kept
	for _, file := range files {
		list = append(list, Kept{Workspace: ws, File: file, Settings: []Setting{{"user.name", "Ann"}}})
	}
	if err := Keep(state, "one", list); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ dir, file string }{{mounted, files[1]}, {ws, files[0]}} {
		if done := accept(t, state, tt.dir); len(done.Files) != 1 || done.Files[0].File != tt.file || len(done.Files[0].Settings) != 1 {
			t.Errorf("%s: %+v", tt.dir, done)
		}
	}
}

// Nobody looks at more than a list that people can read.
func TestAcceptGitTooMany(t *testing.T) {
	state, ws := t.TempDir(), t.TempDir()
	file := repositoryAt(t, ws)
	for i := range 3 {
		var many []Setting
		for n := range MaxAdded/2 + 1 {
			many = append(many, Setting{"branch.b" + strconv.Itoa(i*MaxAdded+n) + ".merge", "refs/heads/x"})
		}
		keep(t, state, "s"+strconv.Itoa(i), ws, i, many...)
	}
	many := (*TooManyError)(nil)
	if _, err := Accept(state, Choice{Dir: ws, Agree: agree}); !errors.As(err, &many) || !slices.Equal(many.Sandboxes, []string{"s0", "s1", "s2"}) {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != hostConfig {
		t.Errorf("%s, %v", text, err)
	}
	if done, err := Accept(state, Choice{Sandbox: "s1", Agree: agree}); err != nil || len(done.Files) != 1 || len(done.Files[0].Settings) != MaxAdded/2+1 {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := Accept(state, Choice{Drop: true}); err != nil {
		t.Error(err)
	}
	if records, err := listKept(filepath.Join(state, keptDir)); err != nil || len(records) > 0 {
		t.Errorf("%d are kept: %v", len(records), err)
	}
}

// No more than the newest are kept, and of each what can be read again.
func TestKeepGitBound(t *testing.T) {
	state, ws, file := kept(t, Setting{"user.name", "Ann"})
	for i := range maxGitKept + 10 {
		if err := Keep(state, "s"+strconv.Itoa(i), []Kept{{Workspace: ws, File: file}}); err != nil {
			t.Fatal(err)
		}
	}
	if records, err := listKept(filepath.Join(state, keptDir)); err != nil || len(records) != maxGitKept {
		t.Errorf("%d are kept: %v", len(records), err)
	}
	if err := Keep(state, "large", []Kept{{Workspace: ws, File: file, Settings: []Setting{{"user.name", strings.Repeat("x", maxKeptSize)}}}}); !errors.Is(err, hostpath.ErrTooLarge) {
		t.Error(err)
	}
}
