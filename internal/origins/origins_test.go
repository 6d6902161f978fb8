package origins

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// place is a host with programs of the test's own: home, a workspace in it, and bin in PATH.
type place struct {
	home, workspace, bin string
	state                string // above which nobody else can make files
	env                  []string
	mounts               []policy.Mount
	path                 string
	patience             time.Duration
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{home: filepath.Join(t.TempDir(), "home"), state: filepath.Join(testkit.Private(t), "below", "state"), patience: testkit.Patience}
	p.workspace, p.bin = filepath.Join(p.home, "work"), filepath.Join(p.home, "tools", "bin")
	for _, dir := range []string{p.workspace, p.bin} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.path = p.bin + ":/usr/bin:/bin"
	return p
}

// write writes a file below the home, which can be executed.
func (p *place) write(t *testing.T, name, text string) string {
	t.Helper()
	at := filepath.Join(p.home, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return at
}

// tool writes a program of PATH, a shell script.
func (p *place) tool(t *testing.T, name, script string) {
	t.Helper()
	p.write(t, "tools/bin/"+name, "#!/bin/sh\n"+script+"\n")
}

// ask asks tools.
func (p *place) ask(t *testing.T, tools ...string) (Answer, error) {
	t.Helper()
	spec, err := policy.Spec{Workspace: policy.Workspace{Source: p.workspace}, Mounts: p.mounts}.Resolve(policy.Base{Dir: p.workspace, Home: p.home})
	if err != nil {
		t.Fatal(err)
	}
	env := append([]string{"HOME=" + p.home, "SECRET=1"}, p.env...)
	return Ask(t.Context(), Request{
		Tools: tools, Environ: env, Patience: p.patience,
		Sandbox: backend.Request{Spec: spec, Home: p.home, Path: p.path, StateDir: p.state},
		LookupEnv: func(name string) (string, bool) {
			for _, v := range env {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value, true
				}
			}
			return "", false
		},
	})
}

// rules returns the rules of an answer in their short form.
func rules(a Answer) string {
	var words []string
	for _, rule := range a.Rules {
		words = append(words, rule.String())
	}
	return strings.Join(words, " ")
}

func TestAsk(t *testing.T) {
	for _, tt := range []struct {
		name, tool, program, script string
		files                       map[string]string
		env                         []string
		want                        string
		wantEnv                     map[string]string
		notes                       []string // parts of the notes, one by one
	}{
		{name: "npm", tool: "npm", script: `[ "$*" = "config list --json" ] && echo '{"registry":"https://a.example/npm/","@x:registry":"http://b.example:4873/","other":1}'`, want: "a.example:443 b.example:4873"},
		{name: "npm with a registry of the user's", tool: "npm", script: `echo '{"registry":"https://a.example/npm/"}'`, files: map[string]string{".npmrc": "registry=x"},
			want: "a.example:443", wantEnv: map[string]string{"npm_config_registry": "https://a.example/npm/"}},
		{name: "npm where the workspace has a registry", tool: "npm", script: `echo '{"registry":"https://a.example/npm/"}'`, files: map[string]string{".npmrc": "registry=x", "work/.npmrc": "registry=y"}, want: "a.example:443"},
		{name: "npm with credentials", tool: "npm", script: `echo '{"registry":"https://u:secret@a.example/"}'`, files: map[string]string{".npmrc": "x"}, want: "a.example:443", notes: []string{"credentials"}},
		{name: "npm on this host", tool: "npm", script: `echo '{"registry":"http://localhost:4873/"}'`, notes: []string{"http://localhost:4873 cannot be opened", "names no host"}},
		{name: "npm in a script of npm's", tool: "npm", env: []string{"npm_lifecycle_event=test", "npm_config_registry=https://evil.example"},
			script: `echo '{"registry":"https://'"${npm_config_registry:-a.example}"'"}' | sed s,https://https://,https://,`, want: "a.example:443", wantEnv: map[string]string{}},
		{name: "go", tool: "go", script: `[ "$GOTOOLCHAIN$GOWORK" = localoff ] && echo '{"GOPROXY":"https://a.example|http://b.example:8080/x,direct","GOSUMDB":"sum.example"}'`,
			want: "a.example:443 b.example:8080 sum.example:443", notes: []string{"direct"}},
		{name: "go without hosts", tool: "go", script: `echo '{"GOPROXY":"file:///srv/proxy,off","GOSUMDB":"off"}'`, notes: []string{"file:///srv/proxy is a path", "off: nothing", "names no host"}},
		{name: "go with a key", tool: "go", env: []string{"GOPROXY=https://a.example"}, script: `echo '{"GOPROXY":"'$GOPROXY'","GOSUMDB":"sum.example+abc+def https://sums.example/x","GOPRIVATE":"x.example/*"}'`,
			want: "a.example:443 sums.example:443", wantEnv: map[string]string{"GOPROXY": "https://a.example", "GOSUMDB": "sum.example+abc+def https://sums.example/x", "GOPRIVATE": "x.example/*"}},
		{name: "pip", tool: "pip", script: `case "$*" in *--help) echo "  -i, --index-url <url> Base URL (default https://a.example/simple). -c";; "config list") ;; *--report*) echo '{"url": "https://files.example/x.whl"}';; esac`,
			want: "a.example:443 files.example:443"},
		{name: "pip by another name", tool: "pip", program: "pip3", script: `case "$*" in *--help) echo "--index-url <url> x (default: https://a.example/simple)";; *--report*) exit 1;; esac`, want: "a.example:443", notes: []string{"does not say where its files are"}},
		{name: "pip with indexes of the user's", tool: "pip", files: map[string]string{".config/pip/pip.conf": "x"},
			script: `case "$*" in *--help) echo "--index-url <url> x (default https://a.example/simple)";; "config list") echo "global.index-url='https://a.example/simple'"; printf '%s\n' "global.extra-index-url='\nhttps://b.example/simple\nhttp://c.example/'"; echo "global.no-index-urls='https://d.example'";; esac`,
			want:   "a.example:443 b.example:443 c.example:80", notes: []string{"does not say where"},
			wantEnv: map[string]string{"PIP_INDEX_URL": "https://a.example/simple", "PIP_EXTRA_INDEX_URL": "https://b.example/simple http://c.example/"}},
		{name: "cargo", tool: "cargo", script: `case "$CARGO_HTTP_PROXY" in ?*) echo 'failed to download from ` + "`https://index.example/x/config.json`" + `' >&2; exit 101;; esac
mkdir -p "$CARGO_HOME/registry/index/i"; echo '{"dl":"https://crates.example/{crate}"}' > "$CARGO_HOME/registry/index/i/config.json"; exit 101`, want: "index.example:443 crates.example:443"},
		{name: "cargo with a repository", tool: "cargo", script: `[ -n "$CARGO_HTTP_PROXY" ] || { echo cloned > "$HOME/cloned"; exit; }; echo 'failed to fetch ` + "`https://git.example/index`" + `' >&2; exit 101`, want: "git.example:443"},
		{name: "cargo with registries", tool: "cargo", files: map[string]string{".cargo/config.toml": "[registries.x]\nindex = \"sparse+https://x.example/i/\"\n"},
			script: `grep -q x.example "$CARGO_HOME/config.toml" && echo 'from ` + "`https://index.example/y`" + `' >&2; exit 101`, want: "index.example:443 x.example:443", notes: []string{"not visible inside"}},
		{name: "apt", tool: "apt", program: "apt-get", script: `[ "$1" = indextargets ] && printf 'http://b.example/debian\nhttps://a.example/x\nhttp://b.example/debian\ncdrom:[x]/\n'`,
			want: "b.example:80 a.example:443", notes: []string{"/etc/apt is not visible", "cdrom"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			program := tt.program
			if program == "" {
				program = tt.tool
			}
			p.path = p.bin + ":" + basics(t) // no other program of that name
			p.tool(t, program, tt.script)
			for name, text := range tt.files {
				p.write(t, name, text)
			}
			p.env = tt.env
			got, err := p.ask(t, tt.tool)
			if err != nil {
				t.Fatal(err)
			}
			if rules(got) != tt.want {
				t.Errorf("rules %q instead of %q", rules(got), tt.want)
			}
			if tt.wantEnv == nil {
				tt.wantEnv = map[string]string{}
			}
			if diff := cmp.Diff(tt.wantEnv, got.Env); diff != "" {
				t.Errorf("variables: %s", diff)
			}
			all := strings.Join(got.Notes, "\n")
			for _, want := range tt.notes {
				if !strings.Contains(all, want) {
					t.Errorf("no note has %q: %s", want, all)
				}
			}
			if tt.notes == nil && all != "" || strings.Contains(all, "secret") {
				t.Errorf("notes: %s", all)
			}
			if exists(filepath.Join(p.home, "cloned")) {
				t.Error("a repository was cloned")
			}
		})
	}
}

// basics returns a directory with the programs that the scripts of this test need.
func basics(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sh", "sed", "grep", "mkdir", "cat", "sleep", "head", "touch", "env"} {
		for _, bin := range []string{"/bin", "/usr/bin"} {
			if exists(filepath.Join(bin, name)) {
				if err := os.Symlink(filepath.Join(bin, name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
					t.Fatal(err)
				}
			}
		}
	}
	return dir
}

// TestAskCannot: what cannot be asked is an error that names the tool, in bounded time, and
// nothing that commands could have written is executed or obeyed.
func TestAskCannot(t *testing.T) {
	const ran = `touch "$HOME/ran"; echo '{"registry":"https://evil.example"}'`
	for _, tt := range []struct {
		name  string
		tools []string
		make  func(t *testing.T, p *place)
		want  string
		ran   bool
	}{
		{"unknown words", []string{"npm", "maven"}, func(t *testing.T, p *place) { p.tool(t, "npm", ran) }, `"maven": unknown tool`, false},
		{"a tool that is not there", []string{"npm"}, func(*testing.T, *place) {}, "there is no npm in PATH", false},
		{"a tool in the workspace", []string{"npm"}, func(t *testing.T, p *place) {
			p.write(t, "work/bin/npm", "#!/bin/sh\n"+ran)
			p.path = filepath.Join(p.workspace, "bin")
		}, "must not be executed", false},
		{"a relative directory of PATH", []string{"npm"}, func(t *testing.T, p *place) {
			p.write(t, "work/bin/npm", "#!/bin/sh\n"+ran)
			p.path = "bin:.:"
		}, "there is no npm in PATH", false},
		{"a link of the workspace's", []string{"npm"}, func(t *testing.T, p *place) {
			p.tool(t, "npm", ran)
			if err := os.Symlink(p.bin, filepath.Join(p.workspace, "bin")); err != nil {
				t.Fatal(err)
			}
			p.path = filepath.Join(p.workspace, "bin")
		}, "npm", false},
		{"a tool in a mount that commands can write", []string{"npm"}, func(t *testing.T, p *place) {
			p.tool(t, "npm", ran)
			p.mounts = []policy.Mount{{Source: filepath.Join(p.home, "tools"), Target: "/mnt/tools", Mode: "rw"}}
		}, "must not be executed", false},
		{"a part of the installation that commands can write", []string{"npm"}, func(t *testing.T, p *place) {
			p.tool(t, "npm", ran)
			p.write(t, "tools/lib/x.js", "")
			p.mounts = []policy.Mount{{Source: filepath.Join(p.home, "tools", "lib"), Target: "/mnt/lib", Mode: "rw"}}
		}, "writable", false},
		{"configuration that commands can write", []string{"npm"}, func(t *testing.T, p *place) {
			p.tool(t, "npm", ran)
			p.write(t, "work/npmrc", "registry=https://evil.example")
			if err := os.Symlink("work/npmrc", filepath.Join(p.home, ".npmrc")); err != nil {
				t.Fatal(err)
			}
		}, "cannot be trusted", false},
		{"configuration in the workspace to which npm's prefix leads", []string{"npm"}, func(t *testing.T, p *place) {
			at := p.write(t, "work/etc/npmrc", "registry=https://evil.example")
			p.tool(t, "npm", `echo '{"registry":"https://evil.example","globalconfig":"`+at+`"}'`)
		}, "cannot be trusted", false},
		{"configuration in the workspace to which XDG_CONFIG_DIRS leads", []string{"pip"}, func(t *testing.T, p *place) {
			at := p.write(t, "work/pip/pip.conf", "")
			p.env = append(p.env, "XDG_CONFIG_DIRS=/etc/xdg:"+filepath.Dir(filepath.Dir(at)))
			p.tool(t, "pip", ran)
		}, "cannot be trusted", false},
		{"a home that is the workspace", []string{"npm"}, func(t *testing.T, p *place) {
			p.tool(t, "npm", ran)
			p.write(t, ".npmrc", "registry=https://evil.example")
			p.workspace = p.home
		}, "must not be executed", false},
		{"a tool that hangs, with a child that holds its output", []string{"npm"}, func(t *testing.T, p *place) {
			p.tool(t, "npm", `touch "$HOME/ran"; sleep 1000 & sleep 1000`)
			p.patience = time.Second
		}, "did not answer in time", true},
		{"a tool that fails", []string{"npm"}, func(t *testing.T, p *place) { p.tool(t, "npm", `printf 'no \033[31m\n' >&2; exit 3`) }, `exit status 3: no \x1b[31m`, false},
		{"a tool that prints without an end", []string{"npm"}, func(t *testing.T, p *place) { p.tool(t, "npm", `head -c 20000000 /dev/zero`) }, "too long", false},
		{"an answer that is not one", []string{"npm"}, func(t *testing.T, p *place) { p.tool(t, "npm", `echo nothing`) }, "not JSON", false},
		{"a registry that is no text", []string{"npm"}, func(t *testing.T, p *place) { p.tool(t, "npm", `echo '{"registry":[1]}'`) }, "names no registry", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.path = p.bin + ":" + basics(t)
			tt.make(t, p)
			got, err := p.ask(t, tt.tools...)
			if err == nil {
				t.Fatalf("answered %q", rules(got))
			}
			for _, e := range policy.FieldErrors(err) {
				if e.Field != "allow_from" {
					t.Errorf("an error about %s", e.Field)
				}
			}
			if len(policy.FieldErrors(err)) == 0 || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
			if len(got.Rules) > 0 {
				t.Errorf("and yet it opens %q", rules(got))
			}
			if exists(filepath.Join(p.home, "ran")) != tt.ran {
				t.Errorf("the program was executed: %v", !tt.ran)
			}
		})
	}
}

// TestAskInAnEmptyDirectory: a tool runs in a new directory, with few variables, and without the
// workspace's programs in PATH.
func TestAskInAnEmptyDirectory(t *testing.T) {
	p := newPlace(t)
	out := filepath.Join(p.home, "seen")
	p.tool(t, "npm", `{ pwd; ls -A; env; } > "$HOME/seen"; echo '{"registry":"https://a.example"}'`)
	p.env = []string{"NODE_OPTIONS=--require=./evil.js", "npm_config_x=1", "PYENV_VERSION=3.12", "ASDF_DIR=/opt/asdf", "HTTPS_PROXY=http://gate.example"}
	p.write(t, "work/bin/x", "")
	p.path = filepath.Join(p.workspace, "bin") + ":" + p.path
	if _, err := p.ask(t, "npm"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if !strings.HasPrefix(lines[0], p.state+"/ask/") || lines[1] != "package.json" {
		t.Errorf("it ran in %s, with %s", lines[0], lines[1])
	}
	if exists(lines[0]) {
		t.Errorf("%s is left", lines[0])
	}
	for _, not := range []string{"NODE_OPTIONS", "SECRET", p.workspace} {
		if strings.Contains(string(text), not) {
			t.Errorf("it has %s: %s", not, text)
		}
	}
	for _, want := range []string{"\nHTTPS_PROXY=", "\nnpm_config_x=1\n", "\nPYENV_VERSION=3.12\n", "\nASDF_DIR=/opt/asdf\n", "\nHOME=" + p.home + "\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q: %s", want, text)
		}
	}
}

// shim is a program as version managers put in the place of tools: it executes what the next file
// .tool-versions says, in a directory above or in the home.
const shim = `dir=$PWD
while [ -n "$dir" ] && [ ! -e "$dir/.tool-versions" ]; do dir=${dir%/*}; done
[ -e "$dir/.tool-versions" ] || dir=$HOME
[ -e "$dir/.tool-versions" ] && exec "$(cat "$dir/.tool-versions")" "$@"
echo '{"registry":"https://none.example"}'`

// TestMarks: what version managers read in directories above is obeyed if the caller wrote it, and
// refused by name if others or commands of a sandbox could have.
func TestMarks(t *testing.T) {
	const good, evil = "tools/lib/good", "tools/lib/evil"
	// other makes a file another user's, as far as this user can.
	other := func(t *testing.T, at string) {
		t.Helper()
		if os.Geteuid() == 0 {
			if err := os.Chown(at, 12345, 12345); err != nil {
				t.Fatal(err)
			}
		}
	}
	shared := func(t *testing.T, p *place) {
		t.Helper()
		p.state = filepath.Join(t.TempDir(), "shared", "own", "state")
		for _, dir := range []string{p.state, filepath.Dir(p.state)} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Dir(filepath.Dir(p.state)), 0o777|os.ModeSticky); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		make  func(t *testing.T, p *place) (mark string)
		mark  string // what it says
		rules string
		want  string // a part of the error; MARK is the mark
		hint  string
	}{
		{"none", func(*testing.T, *place) string { return "" }, "", "none.example:443", "", ""},
		{"of the caller, above", func(_ *testing.T, p *place) string { return filepath.Join(filepath.Dir(p.state), ".tool-versions") }, good, "good.example:443", "", ""},
		{"of the caller, in the home", func(_ *testing.T, p *place) string { return filepath.Join(p.home, ".tool-versions") }, good, "good.example:443", "", ""},
		{"in a directory that everybody shares", func(t *testing.T, p *place) string {
			shared(t, p)
			return filepath.Join(filepath.Dir(filepath.Dir(p.state)), ".tool-versions")
		}, evil, "", "every user of this host can make files in ", "set PADDOCK_STATE_DIR to a directory of your own"},
		{"that may come", func(t *testing.T, p *place) string {
			shared(t, p)
			return ""
		}, "", "", "every user of this host can make files in ", "set PADDOCK_STATE_DIR to a directory of your own"},
		{"that everybody can write", func(t *testing.T, p *place) string { return filepath.Join(filepath.Dir(p.state), ".tool-versions") }, evil, "", "MARK cannot be trusted: ", "remove it"},
		{"in a mount that commands can write", func(t *testing.T, p *place) string {
			p.mounts = []policy.Mount{{Source: filepath.Join(p.home, "files"), Target: "/mnt/files", Mode: "rw"}}
			at := p.write(t, "files/versions", filepath.Join(p.home, evil))
			if err := os.Symlink(at, filepath.Join(p.home, ".tool-versions")); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(p.home, ".tool-versions")
		}, evil, "", "MARK cannot be trusted: ", "remove it"},
		{"by another name", func(t *testing.T, p *place) string {
			p.env = []string{"ASDF_DEFAULT_TOOL_VERSIONS_FILENAME=.versions"}
			if err := os.Symlink(p.write(t, "work/versions", ""), filepath.Join(p.home, ".versions")); err != nil {
				t.Fatal(err)
			}
			return ""
		}, "", "", ".versions cannot be trusted: ", "remove it"},
		{"where a link leads elsewhere", func(t *testing.T, p *place) string {
			old := p.write(t, "elsewhere/old", "")
			if err := errors.Join(os.MkdirAll(p.state, 0o700), os.Chtimes(old, time.Unix(0, 0), time.Unix(0, 0)), os.Symlink(filepath.Dir(old), filepath.Join(p.state, "ask"))); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if !exists(old) {
					t.Error("it was removed there")
				}
			})
			return ""
		}, "", "", "ask is not a directory", "set PADDOCK_STATE_DIR"},
		{"in a state directory that commands can write", func(t *testing.T, p *place) string {
			p.state = filepath.Join(p.home, "work", "state")
			return ""
		}, "", "", "commands can change it", "set PADDOCK_STATE_DIR to a directory of your own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.path = p.bin + ":" + basics(t)
			p.tool(t, "npm", shim)
			p.write(t, good, "#!/bin/sh\necho '{\"registry\":\"https://good.example\"}'\n")
			p.write(t, evil, "#!/bin/sh\ntouch \"$HOME/ran\"\necho '{\"registry\":\"https://evil.example\"}'\n")
			if err := os.MkdirAll(filepath.Dir(p.state), 0o700); err != nil {
				t.Fatal(err)
			}
			mark := tt.make(t, p)
			if mark != "" {
				testkit.Write(t, mark, filepath.Join(p.home, tt.mark), 0o644)
			}
			if tt.mark == evil {
				if at, err := os.Readlink(mark); err != nil { // it is the mark itself
					other(t, mark)
					if err := os.Chmod(mark, 0o666); err != nil {
						t.Fatal(err)
					}
				} else if _, err := os.Stat(at); err != nil {
					t.Fatal(err)
				}
				// The control: the same program, where nobody looks at what is above, is the evil one.
				dir := filepath.Join(filepath.Dir(mark), "paddock-ask")
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				out, _, err := run(t.Context(), dir, []string{"HOME=" + p.home, "PATH=" + p.path}, filepath.Join(p.bin, "npm"))
				if err != nil || !strings.Contains(out, "evil.example") || os.Remove(filepath.Join(p.home, "ran")) != nil {
					t.Fatalf("the mark decides nothing: %q, %v", out, err)
				}
			}
			got, err := p.ask(t, "npm")
			if exists(filepath.Join(p.home, "ran")) {
				t.Error("the other's program was executed")
			}
			if tt.want == "" {
				if err != nil || rules(got) != tt.rules {
					t.Errorf("%q, %v", rules(got), err)
				}
				return
			}
			found := policy.FieldErrors(err)
			if len(found) != 1 || !strings.Contains(found[0].Reason, strings.ReplaceAll(tt.want, "MARK", mark)) || !strings.Contains(found[0].Hint, tt.hint) {
				t.Errorf("%q, %+v", rules(got), found)
			}
			if left, err := filepath.Glob(filepath.Join(p.state, "ask", "[0-9]*")); len(left) > 0 || err != nil {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}

// TestRustup: the cargo that rustup runs by default is asked, and not rustup.
func TestRustup(t *testing.T) {
	p := newPlace(t)
	p.path = p.bin + ":" + basics(t)
	p.tool(t, "rustup", `touch "$HOME/ran"`)
	if err := os.Symlink("rustup", filepath.Join(p.bin, "cargo")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ask(t, "cargo"); err == nil || !strings.Contains(err.Error(), "cargo") {
		t.Errorf("without a toolchain: %v", err)
	}
	p.write(t, ".rustup/settings.toml", "version = \"12\"\ndefault_toolchain = \"stable-x\"\n")
	p.write(t, ".rustup/toolchains/stable-x/bin/cargo", "#!/bin/sh\necho 'from `https://index.example/x`' >&2\nexit 1\n")
	got, err := p.ask(t, "cargo")
	if err != nil || rules(got) != "index.example:443" {
		t.Errorf("%q, %v", rules(got), err)
	}
	if exists(filepath.Join(p.home, "ran")) {
		t.Error("rustup was executed")
	}
}

// TestAskEndsWithItsContext: nothing waits for a tool when the caller gives up.
func TestAskEndsWithItsContext(t *testing.T) {
	p := newPlace(t)
	fifo := filepath.Join(p.home, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	p.tool(t, "npm", `echo started > "$HOME/fifo"; sleep 1000`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = os.ReadFile(fifo)
		cancel()
	}()
	spec, err := policy.Spec{Workspace: policy.Workspace{Source: p.workspace}}.Resolve(policy.Base{Dir: p.workspace, Home: p.home})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Ask(ctx, Request{Tools: []string{"npm"}, Environ: []string{"HOME=" + p.home}, LookupEnv: func(string) (string, bool) { return "", false },
		Patience: testkit.Patience, Sandbox: backend.Request{Spec: spec, Home: p.home, Path: p.path, StateDir: p.state}})
	if err == nil {
		t.Error("it has answered")
	}
}
