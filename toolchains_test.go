package paddock

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/toolchain"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// homeWithTools makes a home with version managers' trees, and with what nobody must see. It
// returns the home, the PATH that a shell there has, and an empty workspace.
func homeWithTools(t *testing.T) (home, search, workspace string) {
	t.Helper()
	root, err := os.MkdirTemp("", "paddock-home-") //nolint:usetesting // other identities must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	root = hostpath.Real(root)
	home, workspace = filepath.Join(root, "home"), filepath.Join(root, "home", "app")
	for name, text := range map[string]string{
		"app/README":                           "x",
		".nvm/versions/node/v20.1.0/bin/node":  "#!/bin/sh\necho node v20.1.0\n",
		".nvm/versions/node/v20.1.0/etc/npmrc": "secret",
		".nvm/versions/node/v18.0.0/bin/node":  "#!/bin/sh\necho node v18.0.0\n",
		".nvm/.git/config":                     "secret",
		".npmrc":                               "secret",
		".pyenv/bin/pyenv":                     "#!/bin/sh\n",
		".pyenv/libexec/pyenv":                 "#!/bin/sh\nexec \"$PYENV_ROOT/versions/$(cat \"$PYENV_ROOT/version\")/bin/$2\"\n",
		".pyenv/shims/python":                  "#!/bin/sh\nexec \"$PYENV_ROOT/libexec/pyenv\" exec python\n",
		".pyenv/version":                       "3.12.1",
		".pyenv/versions/3.12.1/bin/python":    "#!/bin/sh\necho python 3.12.1\n",
		".pyenv/versions/3.12.1/pip.conf":      "secret",
		".pyenv/versions/3.12.1/envs/a/python": "x",
		".pyenv/plugins/x/.git/config":         "secret",
		".cargo/bin/cargo":                     "#!/bin/sh\necho \"cargo in $RUSTUP_HOME\"\ntouch ~/.cargo/cache\n",
		".cargo/credentials.toml":              "secret",
		".cargo/registry/index":                "secret",
		".rustup/settings.toml":                "x",
		".rustup/toolchains/stable/bin/cargo":  "x",
		".rustup/downloads/x":                  "secret",
		".sdkman/candidates/java/21/bin/java":  "#!/bin/sh\necho \"java of $JAVA_HOME\"\n",
		".sdkman/etc/config":                   "secret",
		".local/bin/uv":                        "#!/bin/sh\necho uv\n",
		".local/bin/other":                     "secret",
		".local/share/uv/python/cpython-3.12.1-linux-x86_64-gnu/bin/py": "#!/bin/sh\necho uv python\n",
		".local/share/uv/tools/x/receipt":                               "secret",
		".ssh/id_ed25519":                                               "secret",
		"bin/own-tool":                                                  "#!/bin/sh\necho own\n",
		".config/mise/config.toml":                                      "secret",
		".docker/config.json":                                           "secret",
		".local/share/fnm/node-versions/v9/x/token":                     "secret",
	} {
		testkit.Write(t, filepath.Join(home, name), text, 0o755)
	}
	for link, to := range map[string]string{".local/bin/python3.12": home + "/.local/share/uv/python/cpython-3.12.1-linux-x86_64-gnu/bin/py", ".sdkman/candidates/java/current": "21",
		".pyenv/versions/3.12.1/envs/a/pip.conf": "../../../../../.npmrc", ".nvm/versions/node/v20.1.0/lib": "../../../../.ssh"} {
		if err := os.Symlink(to, filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{root, workspace} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	for _, name := range []string{"NVM_DIR", "PYENV_ROOT", "CARGO_HOME", "RUSTUP_HOME", "SDKMAN_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "UV_PYTHON_INSTALL_DIR", "GOPATH"} {
		t.Setenv(name, "")
	}
	var dirs []string
	for _, dir := range []string{"bin", ".nvm/versions/node/v20.1.0/bin", ".pyenv/shims", ".pyenv/bin", ".cargo/bin", ".sdkman/candidates/java/current/bin", ".local/bin"} {
		dirs = append(dirs, filepath.Join(home, dir))
	}
	return home, strings.Join(append(dirs, "/usr/bin", "/bin"), ":"), workspace
}

func allToolchains(Mount) bool { return true }

// shownTools are the names of toolchains with their directories, below $HOME.
func shownTools(home string, iso Isolation) (all []string) {
	for _, t := range iso.Toolchains {
		all = append(all, strings.ReplaceAll(t.Name+" "+strings.Join(t.Dirs, " "), home, "$HOME"))
	}
	return all
}

// homeTools are the toolchains of homeWithTools.
var homeTools = []string{
	"nvm $HOME/.nvm/versions/node/v20.1.0",
	"pyenv $HOME/.pyenv/bin $HOME/.pyenv/libexec $HOME/.pyenv/shims $HOME/.pyenv/version $HOME/.pyenv/versions",
	"rustup $HOME/.cargo/bin $HOME/.rustup/settings.toml $HOME/.rustup/toolchains",
	"sdkman $HOME/.sdkman/candidates/java/21",
	"uv $HOME/.local/bin/uv $HOME/.local/share/uv/python",
}

// Inside, the home has the directories of the table and nothing else, and the version managers'
// programs are the ones that run.
func TestToolchains(t *testing.T) {
	requireWalls(t)
	home, search, workspace := homeWithTools(t)
	s, err := Open(t.Context(), Spec{Workspace: Workspace{Source: workspace}}, Options{Path: search, Toolchains: allToolchains})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if diff := cmp.Diff(homeTools, shownTools(home, s.Isolation())); diff != "" {
		t.Errorf("toolchains (-want +got):\n%s", diff)
	}
	sh := func(text string) string {
		t.Helper()
		c := s.Command(t.Context(), "sh", "-c", text)
		out := &Capture{Max: 1 << 20}
		c.Stdout, c.Stderr = out, out
		if err := c.Run(); err != nil {
			t.Errorf("%s: %v\n%s", text, err, out.Bytes())
		}
		return strings.ReplaceAll(string(out.Bytes()), home, "$HOME")
	}
	for text, want := range map[string]string{
		"node":                                 "node v20.1.0\n",
		"python":                               "python 3.12.1\n",
		"cargo && cat ~/.cargo/cache":          "cargo in $HOME/.rustup\n",
		"java":                                 "java of $HOME/.sdkman/candidates/java/21\n",
		"uv; python3.12":                       "uv\nuv python\n",
		"command -v own-tool other || echo no": "no\n",
		"cd ~/.nvm/versions/node && ls; ls ~":  "v20.1.0\n",
		"touch " + home + "/.cargo/bin/x || ":  "",
		"cat " + home + "/.nvm/versions/*/*/etc/npmrc " + home + "/.pyenv/versions/3.12.1/pip.conf": "",
	} {
		if want == "" {
			text += " 2>&1 | grep -v -e 'Read-only' -e 'Permission'; true"
			text = strings.ReplaceAll(text, "|| ", "")
		}
		if got := sh(text); got != want {
			t.Errorf("%s prints %q, want %q", text, got, want)
		}
	}

	var want []string // all that the table shows
	for _, tool := range homeTools {
		for _, dir := range strings.Fields(tool)[1:] {
			_ = filepath.WalkDir(strings.Replace(dir, "$HOME", home, 1), func(at string, _ os.DirEntry, err error) error {
				if err != nil {
					t.Error(err)
				}
				want = append(want, strings.Replace(at, home, "$HOME", 1))
				return nil
			})
			for at := filepath.Dir(dir); at != "/" && at != "."; at = filepath.Dir(at) {
				want = append(want, at)
			}
		}
	}
	slices.Sort(want)
	want = append(slices.Compact(want), "$HOME/.local/bin/python3.12", "$HOME/.sdkman/candidates/java/current")
	slices.Sort(want)
	got := strings.Split(strings.TrimSpace(sh("find "+home)), "\n")
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is visible of the home (-want +got):\n%s", diff)
	}
	if found := sh("grep -rls secret " + home + " ~ | sort"); found != "" {
		t.Errorf("credentials can be read: %s", found)
	}
}

// Programs find each other by the names that links give them: of the home, and in it.
func TestToolchainsByLinks(t *testing.T) {
	requireWalls(t)
	home, search, workspace := homeWithTools(t)
	link := filepath.Join(filepath.Dir(home), "link")
	if err := errors.Join(os.Symlink("home", link), os.Rename(home+"/.pyenv", home+"/python"), os.Symlink("python", home+"/.pyenv")); err != nil {
		t.Fatal(err)
	}
	testkit.Write(t, home+"/python/shims/python", "#!/bin/sh\nexec "+link+"/.pyenv/libexec/pyenv exec python\n", 0o755)
	testkit.Write(t, home+"/.cargo/bin/script", "#!"+link+"/.pyenv/shims/python\n", 0o755)
	t.Setenv("HOME", link)
	s, err := Open(t.Context(), Spec{Workspace: Workspace{Source: workspace}}, Options{Path: strings.ReplaceAll(search, home, link), Toolchains: allToolchains})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := s.Command(t.Context(), "sh", "-c", "node; python; script; cd ~/.cargo/bin && ls; "+link+"/.nvm/versions/node/v20.1.0/bin/node; python3.12")
	out := &Capture{Max: 1 << 20}
	c.Stdout, c.Stderr = out, out
	const want = "node v20.1.0\npython 3.12.1\npython 3.12.1\ncargo\nscript\nnode v20.1.0\nuv python\n"
	if err := c.Run(); err != nil || string(out.Bytes()) != want {
		t.Errorf("inside: %v\n%s\nwant\n%s", err, out.Bytes(), want)
	}
}

// A PATH that is damaged, hostile or endless keeps no sandbox from starting, and brings nothing in.
func TestToolchainsOddPath(t *testing.T) {
	requireWalls(t)
	home, search, workspace := homeWithTools(t)
	for _, link := range []string{"a", "b"} {
		if err := os.Symlink(map[string]string{"a": "b", "b": "a"}[link], filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Write(t, home+"/.nvm/versions/node/v18.0.0/open", "x", 0o644)
	if err := os.Chmod(home+"/.nvm/versions/node/v18.0.0", 0o777); err != nil {
		t.Fatal(err)
	}
	odd := []string{"", ".", "home/.cargo/bin", "~/.cargo/bin", "$HOME/.cargo/bin", "/../" + home, home, home + "/..", home + "/a", home + "/a/bin", home + "/b/../.cargo",
		home + "/.nvm/versions/node/v18.0.0/bin", workspace, "/proc/self/cwd", "/dev/fd/0", "\xff", home + "/\n\x1b[31m/bin"}
	many := make([]string, 0, 10_000)
	for i := range cap(many) {
		many = append(many, []string{"/usr/d", home + "/d"}[i%2]+strconv.Itoa(i))
	}
	path := strings.Join(slices.Concat(odd, strings.Split(search, ":"), many, odd), ":")
	s, err := Open(t.Context(), Spec{Workspace: Workspace{Source: workspace}}, Options{Path: path, Toolchains: allToolchains})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if diff := cmp.Diff(homeTools, shownTools(home, s.Isolation())); diff != "" {
		t.Errorf("toolchains (-want +got):\n%s", diff)
	}
	out, err := s.Command(t.Context(), "sh", "-c", `node; echo "$PATH"`).Output()
	text := strings.ReplaceAll(string(out), home, "$HOME")
	const want = "node v20.1.0\n$HOME/.nvm/versions/node/v20.1.0/bin:$HOME/.pyenv/shims:$HOME/.pyenv/bin:$HOME/.cargo/bin:$HOME/.sdkman/candidates/java/21/bin:$HOME/.local/bin:/"
	if err != nil || !strings.HasPrefix(text, want) || strings.Contains(text, "/d1") {
		t.Errorf("inside: %v\n%s", err, text)
	}
}

// Where toolchains are not asked for, or make no sense, there are none; a mount of the spec's wins.
func TestNoToolchains(t *testing.T) {
	home, search, workspace := homeWithTools(t)
	level := func(s *Spec) { s.Level = policy.LevelLandlock }
	for name, tt := range map[string]struct {
		change func(*Spec)
		opts   Options
		want   []string
		left   string // one of those left out
	}{
		"all":                      {nil, Options{Path: search, Toolchains: allToolchains}, homeTools, home + "/bin: it is not visible inside"},
		"the library's zero value": {nil, Options{Path: search}, nil, home + "/.cargo/bin: it is not visible inside"},
		"no PATH":                  {nil, Options{Toolchains: allToolchains}, nil, ""},
		"a PATH without the home":  {nil, Options{Path: "/usr/bin:/bin", Toolchains: allToolchains}, nil, ""},
		"no_toolchains":            {func(s *Spec) { s.NoToolchains = true }, Options{Path: search, Toolchains: allToolchains}, nil, home + "/.cargo/bin: it is not visible inside"},
		"rules for commands":       {func(s *Spec) { s.Commands = &policy.Commands{Allow: []string{"true"}} }, Options{Path: search, Toolchains: allToolchains}, nil, ""},
		"PATH of the spec":         {func(s *Spec) { s.Env = map[string]string{"PATH": search} }, Options{Path: search, Toolchains: allToolchains}, nil, ""},
		"the workspace holds them": {func(s *Spec) { s.Workspace.Source = home }, Options{Path: search, Toolchains: allToolchains}, nil,
			home + "/.cargo/bin: the toolchain rustup: " + home + "/.cargo/bin: commands can change it: it lies in " + home + ", which is writable"},
		"a mount of the spec's wins": {func(s *Spec) { s.Mounts = []Mount{{Source: home + "/bin", Target: home + "/.cargo/bin"}} }, Options{Path: search, Toolchains: allToolchains},
			slices.Concat(homeTools[:2], homeTools[3:]), home + "/.cargo/bin: the toolchain rustup: " + home + "/.cargo/bin is a mount of the spec's"},
		"a mount above": {func(s *Spec) { s.Mounts = []Mount{{Source: home + "/.pyenv"}} }, Options{Path: search, Toolchains: allToolchains}, slices.Concat(homeTools[:1], homeTools[2:]), ""},
		"some are allowed": {nil, Options{Path: search, Toolchains: func(m Mount) bool { return strings.Contains(m.Source, "/.nvm/") }}, homeTools[:1],
			home + "/.cargo/bin: the toolchain rustup: " + home + "/.cargo/bin is not allowed"},
		"too many mounts": {func(s *Spec) {
			for i := range 255 {
				s.Mounts = append(s.Mounts, Mount{Source: workspace, Target: "/mnt/" + strings.Repeat("x", i+1), Mode: "ro"})
			}
		}, Options{Path: search, Toolchains: allToolchains}, homeTools[:1], home + "/.cargo/bin: the toolchain rustup: there are more than 256"},
		"level landlock": {level, Options{Path: search, Toolchains: allToolchains}, homeTools[2:],
			home + "/.pyenv/bin: the toolchain pyenv: " + home + "/.npmrc may have credentials, which level landlock cannot cover"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "level landlock" && os.Geteuid() == 0 {
				tt.want, tt.left = nil, home+"/.cargo/bin: the toolchain rustup: at level landlock commands of root's run as another user"
			}
			spec := Spec{Workspace: Workspace{Source: workspace}}
			if tt.change != nil {
				tt.change(&spec)
			}
			if spec.Level != "" && os.Geteuid() == 0 { // commands run as the workspace's owner
				spec.AllowDegraded = []string{policy.DegradeIdentity}
			}
			plan, _, err := Plan(t.Context(), spec, tt.opts)
			if e := (*backend.StartError)(nil); errors.As(err, &e) && strings.HasPrefix(e.Cause, "the kernel's Landlock ABI is ") {
				t.Skip(e.Cause)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, shownTools(home, plan.Holds)); diff != "" {
				t.Errorf("toolchains (-want +got):\n%s", diff)
			}
			var left []string
			for _, l := range plan.LeftOut {
				left = append(left, l.Dir+": "+l.Why)
			}
			if tt.left != "" && !slices.Contains(left, tt.left) {
				t.Errorf("left out:\n%s\nwant\n%s", strings.Join(left, "\n"), tt.left)
			}
		})
	}
}

// The version managers of this machine's user, where there are any: what runs inside is what runs
// outside.
func TestRealToolchains(t *testing.T) {
	requireWalls(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip("no version manager is installed: " + err.Error())
	}
	found := map[string][]string{} // what to ask them
	for name, argv := range map[string]string{"node": "--version", "npm": "--version", "python3": "--version", "cargo": "--version", "rustc": "--version",
		"java": "-version", "go": "version", "bun": "--version", "deno": "--version", "uv": "--version"} {
		if at, err := exec.LookPath(name); err == nil && toolchain.Named(filepath.Dir(at), home) {
			found[name] = []string{name, argv}
		}
	}
	workspace, err := os.MkdirTemp("", "paddock-home-") //nolint:usetesting // other identities must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(workspace) })
	s, err := Open(t.Context(), Spec{Workspace: Workspace{Source: workspace}}, Options{Path: os.Getenv("PATH"), Toolchains: allToolchains})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if len(s.Isolation().Toolchains) == 0 {
		t.Skip("no version manager is installed: PATH names none below " + home)
	}
	for name, argv := range found {
		outside := exec.Command(argv[0], argv[1:]...)
		outside.Dir = workspace
		want, err := outside.CombinedOutput()
		if err != nil {
			continue // it does not work outside either
		}
		c := s.Command(t.Context(), argv[0], argv[1:]...)
		out := &Capture{Max: 1 << 20}
		c.Stdout, c.Stderr = out, out
		if err := c.Run(); err != nil || string(out.Bytes()) != string(want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, out.Bytes(), want)
		}
	}
	if found["cargo"] != nil { // which writes below HOME
		c := s.Command(t.Context(), "sh", "-c", "cargo init --quiet --offline --vcs none --name hello && cargo test --offline")
		out := &Capture{Max: 1 << 20}
		c.Stdout, c.Stderr = out, out
		if err := c.Run(); err != nil || !strings.Contains(string(out.Bytes()), "test result: ok") {
			t.Errorf("cargo test: %v\n%s", err, out.Bytes())
		}
	}
}
