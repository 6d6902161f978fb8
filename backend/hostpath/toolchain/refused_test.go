package toolchain

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// What must not be shown is left out, with the reason, and never an error.
func TestRefused(t *testing.T) {
	const node = "$HOME/.nvm/versions/node/v1/bin"
	rw := func(at string) func(string) func(*policy.Spec) {
		return func(root string) func(*policy.Spec) {
			return func(s *policy.Spec) {
				s.Mounts = append(s.Mounts, policy.Mount{Source: root + "/" + at, Mode: "rw"})
			}
		}
	}
	workspace := func(at string) func(string) func(*policy.Spec) {
		return func(root string) func(*policy.Spec) {
			return func(s *policy.Spec) { s.Workspace.Source = root + "/" + at }
		}
	}
	for name, tt := range map[string]struct {
		files  string
		path   string
		change func(root string) func(*policy.Spec)
		mode   string // of $HOME/.nvm/versions/node/v1, "0777" say
		want   string
	}{
		"a link out of the home": {"home/.nvm/versions/node/v1 -> $ROOT/other/v1; other/v1/bin/node", node, nil, "",
			"left " + node + ": the toolchain nvm: $HOME/.nvm/versions/node/v1: it leads to $ROOT/other/v1, which is not below your home"},
		"the root of the tool is a link out of the home": {"home/.nvm -> $ROOT/other; other/versions/node/v1/bin/node", node, nil, "",
			"left " + node + ": the toolchain nvm: $ROOT/other/versions/node/v1: it leads to $ROOT/other/versions/node/v1, which is not below your home"},
		"a link to the home itself": {"home/.nvm/versions/node/v1 -> $ROOT/home; home/bin/x", node, nil, "",
			"left " + node + ": the toolchain nvm: $HOME/.nvm/versions/node/v1: it leads to $HOME, which is not below your home"},
		"the programs lie elsewhere": {"home/.nvm/versions/node/v1/bin -> $ROOT/home/private/bin; home/private/bin/x", node, nil, "",
			"left " + node + ": the toolchain nvm: " + node + " leads to $HOME/private/bin, which is not its directory"},
		"a link into the workspace": {"home/.nvm/versions/node/v1 -> $ROOT/ws/v1; ws/v1/bin/node", node, nil, "",
			"left " + node + ": the toolchain nvm: $HOME/.nvm/versions/node/v1: commands can change it: it lies in $ROOT/ws, which is writable"},
		"a link in the home, into the workspace": {"home/.nvm/versions/node/v1 -> $ROOT/home/app/v1; home/app/v1/bin/node", node, workspace("home/app"), "",
			"left " + node + ": the toolchain nvm: $HOME/.nvm/versions/node/v1: commands can change it: it lies in $HOME/app, which is writable"},
		"the home is the workspace": {"home/.nvm/versions/node/v1/bin/node", node, workspace("home"), "",
			"left " + node + ": the toolchain nvm: $HOME/.nvm/versions/node/v1: commands can change it: it lies in $HOME, which is writable"},
		"a writable mount above": {"home/.nvm/versions/node/v1/bin/node", node, rw("home/.nvm"), "",
			"left " + node + ": the toolchain nvm: $HOME/.nvm/versions/node/v1: commands can change it: it lies in $HOME/.nvm, which is writable"},
		"a writable mount in it": {"home/.nvm/versions/node/v1/bin/node; home/.nvm/versions/node/v1/lib/a/b/", node, rw("home/.nvm/versions/node/v1/lib/a"), "",
			"left " + node + ": the toolchain nvm: $HOME/.nvm/versions/node/v1: commands can change what is in it: $HOME/.nvm/versions/node/v1/lib/a is writable"},
		"a loop": {"home/.nvm/versions/node/v1 -> v2; home/.nvm/versions/node/v2 -> v1", node, nil, "",
			"left " + node + ": the toolchain nvm: $HOME/.nvm/versions/node/v1 does not exist"},
		"a loop of entries":                  {"home/a -> b; home/b -> a", "$HOME/a/bin:$HOME/b", nil, "", ""},
		"every user may write to it":         {"home/.nvm/versions/node/v1/bin/node", node, nil, "0777", "left " + node + ": the toolchain nvm: $HOME/.nvm/versions/node/v1: every user of this host may write to it (mode 0777)"},
		"a group may write to it":            {"home/.nvm/versions/node/v1/bin/node", node, nil, "0775", "nvm: $HOME/.nvm/versions/node/v1 @" + node},
		"a directory in the place of a file": {"home/.pyenv/libexec/pyenv; home/.pyenv/bin/x; home/.pyenv/version/", "$HOME/.pyenv/bin", nil, "", "pyenv: $HOME/.pyenv/bin $HOME/.pyenv/libexec $HOME/.pyenv/version PYENV_ROOT=$HOME/.pyenv @$HOME/.pyenv/bin"},
		"empty, relative, other's":           {"home/.nvm/versions/node/v1/bin/node", ":.:home/.nvm/versions/node/v1/bin:~/.nvm/versions/node/v1/bin:$ROOT/home2/.nvm/versions/node/v1/bin:\xff:$HOME/../home2/.nvm", nil, "", ""},
		"another name of the same place":     {"home/.nvm/versions/node/v1/bin/node", "$HOME/./.nvm//versions/node/v2/../v1/bin/", nil, "", "nvm: $HOME/.nvm/versions/node/v1 @" + node},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			makeTree(t, root, tt.files)
			if tt.mode != "" {
				var mode uint32
				if _, err := fmt.Sscanf(tt.mode, "%o", &mode); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(root+"/home/.nvm/versions/node/v1", os.FileMode(mode)); err != nil {
					t.Fatal(err)
				}
			}
			var change func(*policy.Spec)
			if tt.change != nil {
				change = tt.change(root)
			}
			if diff := cmp.Diff(tt.want, find(t, root, tt.path, nil, change)); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

// Variables and links that make a tool of something else show nothing of it.
func TestSomethingElse(t *testing.T) {
	const goroot = "home/.local/VERSION; home/.local/src/runtime/x; home/.local/pkg/tool/x; home/.local/bin/go"
	for name, tt := range map[string]struct {
		files, path string
		env         map[string]string
		want        string
	}{
		"uv's Pythons are keys": {"home/.local/bin/uv; home/.ssh/id_a; home/.ssh/known-hosts-x/bin/python3", "$HOME/.local/bin", map[string]string{"UV_PYTHON_INSTALL_DIR": "$HOME/.ssh"},
			"uv: $HOME/.local/bin/uv @$HOME/.local/bin"},
		"uv's Pythons are the home": {"home/.local/bin/uv; home/a-b-c/x", "$HOME/.local/bin", map[string]string{"UV_PYTHON_INSTALL_DIR": "$HOME/"},
			"uv: $HOME/.local/bin/uv @$HOME/.local/bin"},
		"uv's Pythons are a link to keys": {"home/.local/bin/uv; home/.ssh/id_a; home/.local/share/uv/python -> $ROOT/home/.ssh", "$HOME/.local/bin", nil,
			"uv: $HOME/.local/bin/uv @$HOME/.local/bin"},
		"a Python in the home":   {"home/.local/bin/x; home/app/bin/x", "$HOME/.local/bin:$HOME/app/bin", map[string]string{"UV_PYTHON_INSTALL_DIR": "$HOME"}, ""},
		"cargo in ~/.local":      {"home/.local/bin/x", "$HOME/.local/bin", map[string]string{"CARGO_HOME": "$HOME/.local"}, ""},
		"cargo is the home":      {"home/bin/x", "$HOME/bin", map[string]string{"CARGO_HOME": "$HOME/.ssh/.."}, ""},
		"GOPATH is the home":     {"home/bin/x", "$HOME/bin", map[string]string{"GOPATH": "$HOME"}, ""},
		"GOPATH is a link to it": {"home/bin/x; home/h -> $ROOT/home", "$HOME/h/bin", map[string]string{"GOPATH": "$HOME/h"}, ""},
		"deno in ~/.local":       {"home/.local/bin/deno; home/.local/bin/x", "$HOME/.local/bin", map[string]string{"DENO_INSTALL": "$HOME/.local"}, ""},
		"a Go in ~/.local":       {goroot, "$HOME/.local/bin", nil, ""},
		"a Go in a link to it": {goroot + "; home/g -> $ROOT/home/.local", "$HOME/g/bin", nil,
			"left $HOME/g/bin: the toolchain go: $HOME/.local/bin: it leads to $HOME/.local/bin, which is not its own"},
		"a directory of programs is keys": {"home/.ssh/id_a; home/.cargo/bin -> $ROOT/home/.ssh", "$HOME/.cargo/bin", nil,
			"left $HOME/.cargo/bin: the toolchain rustup: $HOME/.cargo/bin: it leads to $HOME/.ssh, which is not its own"},
		"a program is a secret": {"home/.netrc; home/.local/bin/uv -> ../../.netrc", "$HOME/.local/bin", nil,
			"left $HOME/.local/bin: the toolchain uv: $HOME/.local/bin/uv: it leads to $HOME/.netrc, which is not the program"},
		"a program is a directory": {"home/.local/bin/uv/x", "$HOME/.local/bin", nil,
			"left $HOME/.local/bin: the toolchain uv: $HOME/.local/bin/uv: it leads to $HOME/.local/bin/uv, which is not the program"},
		"a program lies elsewhere": {"home/apps/uv; home/.local/bin/uv -> ../../apps/uv", "$HOME/.local/bin", nil,
			"uv: $HOME/apps/uv $HOME/.local/bin/uv->$HOME/apps/uv @$HOME/.local/bin"},
		"mise's program is a directory": {"home/.local/bin/mise/x; home/.local/share/mise/shims/x; home/.local/share/mise/installs/", "$HOME/.local/share/mise/shims", nil,
			"left $HOME/.local/share/mise/shims: the toolchain mise: $HOME/.local/bin/mise: it leads to $HOME/.local/bin/mise, which is not its own"},
		"a list of versions is a secret": {"home/.netrc; home/.tool-versions -> .netrc; home/.asdf/shims/x; home/.asdf/installs/", "$HOME/.asdf/shims", nil,
			"left $HOME/.asdf/shims: the toolchain asdf: $HOME/.tool-versions: it leads to $HOME/.netrc, which is not its own"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			makeTree(t, root, tt.files)
			if diff := cmp.Diff(tt.want, find(t, root, tt.path, tt.env, nil)); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

// What a sandbox could ever write is not shown, however deep in a toolchain it lay.
func TestWrittenOnce(t *testing.T) {
	const node = "$HOME/.nvm/versions/node/v1/bin"
	for name, tt := range map[string]struct{ written, files, path, want string }{
		"above": {"home/.nvm", "", node, "left " + node + ": the toolchain nvm: $HOME/.nvm/versions/node/v1: commands of a sandbox could have changed what is in it: $HOME/.nvm was writable for them (paddock written forget $HOME/.nvm shows what is in it, and takes it off the list)"},
		"in it": {"home/.nvm/versions/node/v1/lib/a/b", "", node, "left " + node + ": the toolchain nvm: $HOME/.nvm/versions/node/v1: commands of a sandbox could have changed what is in it: $HOME/.nvm/versions/node/v1/lib/a/b was writable for them (paddock written forget $HOME/.nvm/versions/node/v1/lib/a/b shows what is in it, and takes it off the list)"},
		"a single file": {"home/.pyenv/version", "home/.pyenv/version; home/.pyenv/libexec/pyenv; home/.pyenv/bin/x", "$HOME/.pyenv/bin",
			"left $HOME/.pyenv/bin: the toolchain pyenv: $HOME/.pyenv/version: commands of a sandbox could have changed it: $HOME/.pyenv/version was writable for them (paddock written forget $HOME/.pyenv/version shows what is in it, and takes it off the list)"},
		"where a link lies": {"home/links", "home/links/current -> $ROOT/home/.nvm/versions/node/v1", "$HOME/links/current/bin",
			"left $HOME/links/current/bin: the toolchain nvm: $HOME/links/current is a symbolic link to $HOME/.nvm/versions/node/v1, and commands of a sandbox could have made it: $HOME/links was writable for them (paddock written forget $HOME/links shows what is in it, and takes it off the list)"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			makeTree(t, root, "home/.nvm/versions/node/v1/bin/node; home/.nvm/versions/node/v1/lib/a/b/; home/links/")
			makeTree(t, root, tt.files)
			if before := find(t, root, tt.path, nil, nil); strings.Contains(before, "left") {
				t.Fatalf("before anything was writable: %s", before)
			}
			req := request(t, root, "", func(s *policy.Spec) { s.Mounts = []policy.Mount{{Source: root + "/" + tt.written, Mode: "rw"}} })
			mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
			if err == nil {
				_, err = hostpath.Remember(req, mounts, false)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, find(t, root, tt.path, nil, nil)); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
			if err := os.WriteFile(root+"/state/written", []byte("nonsense"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := find(t, root, tt.path, nil, nil); !strings.Contains(got, "cannot tell what sandboxes could write") {
				t.Errorf("with a damaged list: %s", got)
			}
		})
	}
}

// What a sandbox could write, and was then moved into a toolchain, is found near its top.
func TestMovedThere(t *testing.T) {
	for name, tt := range map[string]struct{ from, to, path, refused string }{
		"a version":              {"home/app", "home/.pyenv/versions/3.12.1", "$HOME/.pyenv/bin", "$HOME/.pyenv/versions"},
		"a package":              {"home/app", "home/.nvm/versions/node/v1/lib/node_modules/app", "$HOME/.nvm/versions/node/v1/bin", "$HOME/.nvm/versions/node/v1"},
		"the toolchain above it": {"home/old/lib/a/b", "home/.nvm/versions/node/v2/lib/a/b", "$HOME/.nvm/versions/node/v2/bin", "$HOME/.nvm/versions/node/v2"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			makeTree(t, root, "home/.nvm/versions/node/v1/bin/node; home/.nvm/versions/node/v1/lib/node_modules/; home/app/bin/x; home/old/bin/node; home/old/lib/a/b/"+
				"; home/.pyenv/libexec/pyenv; home/.pyenv/bin/pyenv; home/.pyenv/versions/3.11/bin/python")
			req := request(t, root, "", func(s *policy.Spec) { s.Mounts = []policy.Mount{{Source: root + "/" + tt.from, Mode: "rw"}} })
			mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
			if err == nil {
				_, err = hostpath.Remember(req, mounts, false)
			}
			if err != nil {
				t.Fatal(err)
			}
			from, to := root+"/"+tt.from, root+"/"+tt.to
			if name == "the toolchain above it" {
				from, to = root+"/home/old", root+"/home/.nvm/versions/node/v2"
			} else if before := find(t, root, tt.path, nil, nil); strings.Contains(before, "left") {
				t.Fatalf("before anything was moved: %s", before)
			}
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
			got := find(t, root, tt.path, nil, nil)
			want := tt.refused + ": commands of a sandbox could have changed what is in it: " + strings.ReplaceAll(hostpath.WasWritable(tt.to), "home", "$HOME")
			if !strings.HasPrefix(got, "left ") || !strings.HasSuffix(got, want) {
				t.Errorf("found %s\nwant …%s", got, want)
			}
		})
	}
}

// Only root can make files of other users.
func TestOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can make files of other owners")
	}
	root := newRoot(t)
	makeTree(t, root, "home/.nvm/versions/node/v1/bin/node")
	if err := os.Lchown(root+"/home/.nvm", 4711, 4711); err != nil {
		t.Fatal(err)
	}
	const node = "$HOME/.nvm/versions/node/v1/bin"
	want := "left " + node + ": the toolchain nvm: $HOME/.nvm/versions/node/v1: $HOME/.nvm belongs to uid 4711, whose sandboxes could have put another in its place"
	if diff := cmp.Diff(want, find(t, root, node, nil, nil)); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}

	root = newRoot(t)
	makeTree(t, root, "home/.nvm -> $ROOT/bob/.nvm; bob/.nvm/versions/node/v1/bin/node")
	if err := os.Lchown(root+"/bob", 4711, 4711); err != nil {
		t.Fatal(err)
	}
	want = "left " + node + ": the toolchain nvm: $ROOT/bob/.nvm/versions/node/v1: it leads to $ROOT/bob/.nvm/versions/node/v1, which is not below your home"
	if diff := cmp.Diff(want, find(t, root, node, nil, nil)); diff != "" {
		t.Errorf("a link to another user's home (-want +got):\n%s", diff)
	}
}

// The entries that are looked at are bounded, and so are the files of a toolchain.
func TestBounds(t *testing.T) {
	root := newRoot(t)
	makeTree(t, root, "home/.nvm/versions/node/v1/bin/node")
	search := strings.Builder{}
	for i := range 10_000 {
		fmt.Fprintf(&search, "$HOME/d%d/bin:/usr/d%d:", i, i)
	}
	got := strings.Split(find(t, root, search.String()+"$HOME/.nvm/versions/node/v1/bin", nil, nil), "\n")
	if last := got[len(got)-1]; len(got) != 10_001-maxEntries || !strings.Contains(last, "it is not among the first 256 directories of PATH below your home") {
		t.Errorf("of 10,001 entries %d are left out, the last one: %s", len(got), last)
	}
	if got := find(t, root, "$HOME/.nvm/versions/node/v1/bin:"+search.String(), nil, nil); !strings.HasPrefix(got, "nvm: ") {
		t.Errorf("the first of them is not found: %.200s", got)
	}

	for i := range maxShown + 1 {
		makeTree(t, root, fmt.Sprintf("home/.volta/layout.v%d", i))
	}
	makeTree(t, root, "home/.volta/bin/volta-shim")
	want := "left $HOME/.volta/bin: the toolchain volta: it has more than 64 directories and files"
	if diff := cmp.Diff(want, find(t, root, "$HOME/.volta/bin", nil, nil)); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

// A directory with more names than are looked at leaves its toolchain out: what is beyond them
// could not be covered.
func TestManyNames(t *testing.T) {
	root := newRoot(t)
	makeTree(t, root, "home/.asdf/shims/x; home/.asdf/installs/python/3/pip.conf; home/.local/bin/uv")
	for i := range maxNames {
		for _, dir := range []string{"home/.asdf/installs/python", "home/.local/bin"} {
			if err := os.WriteFile(fmt.Sprintf("%s/%s/v%d", root, dir, i), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	const many = ": it has more than 4096 names"
	want := "left $HOME/.asdf/shims: the toolchain asdf: $HOME/.asdf/installs/python" + many +
		"\nleft $HOME/.local/bin: the toolchain uv: $HOME/.local/bin" + many + "; the toolchain asdf: $HOME/.local/bin" + many + "; the toolchain mise: $HOME/.local/bin" + many
	if diff := cmp.Diff(want, find(t, root, "$HOME/.asdf/shims:$HOME/.local/bin", nil, nil)); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

// Credentials are covered below names that begin with a point, too, and where links lead; conda's are.
func TestHidden(t *testing.T) {
	root := newRoot(t)
	makeTree(t, root, `home/.pyenv/libexec/pyenv; home/.pyenv/bin/x; home/.pyenv/versions/.hid/pip.conf
		home/.pyenv/versions/conda/.condarc; home/.pyenv/versions/conda/condarc.d/x; home/.pyenv/versions/conda/envs/.e/condarc
		home/.pyenv/versions/link/pip.conf -> ../token; home/.pyenv/versions/token; home/.pyenv/versions/out/pip.conf -> $ROOT/home/.pip.conf; home/.pip.conf`)
	v := " -$HOME/.pyenv/versions/"
	want := "pyenv: $HOME/.pyenv/bin $HOME/.pyenv/libexec $HOME/.pyenv/versions -$HOME/.pip.conf" + v + ".hid/pip.conf" + v + "conda/.condarc" + v + "conda/condarc.d" +
		v + "conda/envs/.e/condarc" + v + "token PYENV_ROOT=$HOME/.pyenv @$HOME/.pyenv/bin"
	if diff := cmp.Diff(want, find(t, root, "$HOME/.pyenv/bin", nil, nil)); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestNamed(t *testing.T) {
	for search, want := range map[string]bool{
		"": false, "/usr/bin:/bin": false, "/home/a/bin": true, "/usr/bin:/home/a/x": true, "/home/a": false, "/home/a/": false, "/home/ab/x": false,
		"home/a/x": false, "/home/a/../b": false, "/run/user/1/fnm_multishells/1_2/bin": true, "/usr/../home/a/x": true,
	} {
		if got := Named(search, "/home/a/"); got != want {
			t.Errorf("Named(%q) = %v", search, got)
		}
	}
	for _, home := range []string{"", "/", "home/a"} {
		if Named("/home/a/bin:home/a/bin", home) {
			t.Errorf("with the home %q there are toolchains", home)
		}
	}
}
