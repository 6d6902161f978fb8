package hostpath

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const hostConfig = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.com/a\n"

func TestCompareGit(t *testing.T) {
	for name, tt := range map[string]struct {
		copied       string
		added, other []string
	}{
		"nothing":                    {copied: hostConfig},
		"in other words":             {copied: "[core]\nbare=false\n[remote \"origin\"] url = \"https://example.com/a\"\n"},
		"a remote and a branch":      {copied: hostConfig + "[remote \"b\"]\nurl = git@example.com:b\nfetch = +refs/heads/*:refs/remotes/b/*\n[branch \"m\"]\nremote = b\nmerge = refs/heads/m\n", added: []string{"remote.b.url=git@example.com:b", "remote.b.fetch=+refs/heads/*:refs/remotes/b/*", "branch.m.remote=b", "branch.m.merge=refs/heads/m"}},
		"a branch of the host's":     {copied: hostConfig + "[branch \"m\"]\nremote = origin\n", added: []string{"branch.m.remote=origin"}},
		"a branch of no remote":      {copied: hostConfig + "[branch \"m\"]\nremote = evil\n", other: []string{"branch.m.remote"}},
		"a branch of a refused one":  {copied: hostConfig + "[remote \"evil\"]\nurl = ../evil\n[branch \"m\"]\nremote = evil\n", other: []string{"remote.evil.url", "branch.m.remote"}},
		"what no remote fetches":     {copied: hostConfig + "[remote \"evil\"]\nfetch = +refs/heads/*:refs/remotes/evil/*\n", other: []string{"remote.evil.fetch"}},
		"what the host's fetches":    {copied: hostConfig + "[remote \"origin\"]\nfetch = +refs/heads/*:refs/remotes/origin/*\n", added: []string{"remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*"}},
		"what a refused one fetches": {copied: hostConfig + "[remote \"evil\"]\nurl = ../evil\nfetch = +refs/heads/*:refs/remotes/evil/*\n", other: []string{"remote.evil.url", "remote.evil.fetch"}},
		"a changed value":            {copied: strings.Replace(hostConfig, "/a", "/b", 1), other: []string{"remote.origin.url"}},
		"a second value":             {copied: hostConfig + "[remote \"origin\"]\nurl = https://example.com/b\n", other: []string{"remote.origin.url"}},
		"a removed value":            {copied: "[core]\nbare = false\n", other: []string{"remote.origin.url"}},
		"one good value and one bad": {copied: hostConfig + "[remote \"b\"]\nurl = https://example.com/b\nurl = ext::sh\n", other: []string{"remote.b.url"}},
		"what git runs":              {copied: hostConfig + "[core]\nfsmonitor = x\n[alias]\nx = !y\n[include]\npath = z\n", other: []string{"core.fsmonitor", "alias.x", "include.path"}},
		"a bare key":                 {copied: hostConfig + "[user]\nname\n", other: []string{"user.name"}},
	} {
		found, err := CompareGit([]byte(hostConfig), []byte(tt.copied))
		var added []string
		for _, s := range found.Settings {
			added = append(added, s.String())
		}
		if err != nil || !slices.Equal(added, tt.added) || !slices.Equal(found.Other, tt.other) {
			t.Errorf("%s: %q, %q, %v", name, added, found.Other, err)
		}
	}
	for _, text := range []string{"[a", "[a]\nb = \\\nc\n", "[a.b]\nc = d\n", "[user]\nname = \x1b[31m\n", strings.Repeat("#", 2<<20)} {
		if found, err := CompareGit([]byte(hostConfig), []byte(text)); err == nil {
			t.Errorf("%.20q: %+v", text, found)
		}
	}
}

// What a file includes may have the same keys, and a remote with two URLs is pushed to
// both.
func TestCompareGitIncludes(t *testing.T) {
	for _, include := range []string{"[include]\n\tpath = other\n", "[Include]\nPath=/other\n", "[includeIf \"gitdir:/x/\"]\n\tpath = other\n"} {
		host := "[core]\n\tbare = false\n" + include
		found, err := CompareGit([]byte(host), []byte(host+"[remote \"origin\"]\n\turl = https://example.com/evil\n"))
		if !errors.Is(err, errIncludes) || len(found.Settings) > 0 {
			t.Errorf("%q: %+v, %v", include, found, err)
		}
	}
}

func FuzzCompareGit(f *testing.F) {
	f.Add(hostConfig, hostConfig+"[user]\n\tname = \"a # b\"\n")
	f.Add("[user]", "[branch \"a\\b\"]\nmerge=refs/heads/x")
	f.Fuzz(func(t *testing.T, host, copied string) {
		found, err := CompareGit([]byte(host), []byte(copied))
		if err != nil {
			return
		}
		old, _ := parsePlain([]byte(host))
		added := gitText(found.Settings)
		if host != "" && !strings.HasSuffix(host, "\n") {
			added = "\n" + added
		}
		all, err := parsePlain([]byte(host + added))
		if err != nil || len(all) != len(old)+len(found.Settings) {
			t.Fatalf("%q gives %q: %v, %v", found.Settings, added, all, err)
		}
		for i, s := range found.Settings {
			if got := all[len(old)+i]; got.key != s.Key || got.value != s.Value {
				t.Fatalf("%q is read as %+v", s, got)
			}
		}
	})
}

// kept makes a repository, and keeps what a sandbox has added.
func kept(t *testing.T, settings ...GitSetting) (state, ws, file string) {
	t.Helper()
	state, ws = t.TempDir(), t.TempDir()
	file = filepath.Join(ws, ".git", "config")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(hostConfig), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := KeepGit(state, "one", []GitKept{{Workspace: ws, File: file, Settings: settings}}); err != nil {
		t.Fatal(err)
	}
	return state, ws, file
}

func TestAcceptGit(t *testing.T) {
	state, ws, file := kept(t, GitSetting{"user.name", "Ann # Example"}, GitSetting{"remote.origin.url", "https://example.com/b"},
		GitSetting{"core.fsmonitor", "evil"}, GitSetting{"branch.m.remote", "evil"}, GitSetting{"branch.m.merge", "refs/heads/m"})
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	done, err := AcceptGit(state, ws)
	if err != nil || len(done) != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if want := []GitSetting{{"user.name", "Ann # Example"}, {"branch.m.merge", "refs/heads/m"}}; !slices.Equal(done[0].Settings, want) || len(done[0].Left) != 3 {
		t.Errorf("%+v", done[0])
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
	if done, err := AcceptGit(state, ws); len(done) > 0 || err != nil {
		t.Errorf("a second time: %+v, %v", done, err)
	}
}

// What has become of the repository meanwhile is looked at, and nothing is followed.
func TestAcceptGitHostile(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(elsewhere, []byte(hostConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(ws, file string) error{
		"another repository": func(ws, file string) error {
			return errors.Join(os.Rename(filepath.Dir(file), ws+"/old"), os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(hostConfig), 0o644))
		},
		"a link to a repository": func(ws, file string) error {
			return errors.Join(os.Rename(filepath.Dir(file), ws+"/old"), os.Symlink("old", filepath.Dir(file)))
		},
		"a link to a file":  func(_, file string) error { return errors.Join(os.Remove(file), os.Symlink(elsewhere, file)) },
		"a directory":       func(_, file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o755)) },
		"a FIFO":            func(_, file string) error { return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)) },
		"a locked file":     func(_, file string) error { return os.WriteFile(file+".lock", nil, 0o644) },
		"a lock that leads": func(_, file string) error { return os.Symlink(elsewhere, file+".lock") },
		"a file that includes others": func(_, file string) error {
			return os.WriteFile(file, []byte("[include]\npath = other\n"), 0o644)
		},
		"another form": func(_, file string) error { return os.WriteFile(file, []byte("[a]\nb = \\\nc\n"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			state, ws, file := kept(t, GitSetting{"user.name", "Ann"})
			if err := change(ws, file); err != nil {
				t.Fatal(err)
			}
			done, err := AcceptGit(state, ws)
			if err == nil || len(done) > 0 {
				t.Errorf("%+v, %v", done, err)
			}
			for _, at := range []string{elsewhere, ws + "/old/config"} {
				if text, err := os.ReadFile(at); err == nil && string(text) != hostConfig {
					t.Errorf("%s was changed: %s", at, text)
				}
			}
		})
	}
}

// No more than the newest are kept.
func TestKeepGitBound(t *testing.T) {
	state, ws, file := kept(t, GitSetting{"user.name", "Ann"})
	for i := range maxGitKept + 10 {
		if err := KeepGit(state, "s"+num(i), []GitKept{{Workspace: ws, File: file}}); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := keptGit(state); err != nil || len(names) != maxGitKept {
		t.Errorf("%d are kept: %v", len(names), err)
	}
}
