package layer

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/obeyed"
)

// git runs git in a directory, as it is without anybody's configuration.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// levels returns what screening says of each path, of several findings the most serious.
func levels(found []Finding) map[string]Level {
	of := map[string]Level{}
	for _, f := range found {
		of[f.Path] = max(of[f.Path], f.Level)
	}
	return of
}

func TestScreen(t *testing.T) {
	bin := t.TempDir()
	put(t, bin+"/ls", "program")
	if err := os.Chmod(bin+"/ls", 0o755); err != nil {
		t.Fatal(err)
	}
	const pass = Level(0)
	for _, c := range []struct {
		name, path string
		old, now   string // "": nothing is there
		mode       os.FileMode
		want       Level
	}{
		{"an ordinary file", "src/main.go", "package a", "package b", 0, pass},
		{"a new file", "src/new/x.go", "", "package b", 0, pass},
		{"a removed file", "src/x", "x", "", 0, pass},
		{"a hook", ".git/hooks/pre-commit", "", "rm -rf", 0o755, Hold},
		{"a hook's sample", ".git/hooks/pre-commit.sample", "", "rm -rf", 0o755, Hold},
		{"configuration", ".git/config", "[core]\n", "[core]\nfsmonitor = evil\n", 0, Hold},
		{"configuration of a worktree", ".git/config.worktree", "", "[core]\nfsmonitor = evil\n", 0, Hold},
		{"where a worktree's configuration is", ".git/commondir", "", "../evil", 0, Hold},
		{"attributes", ".git/info/attributes", "", "* filter=x", 0, Hold},
		{"exclusions", ".git/info/exclude", "", "x", 0, Hold},
		{"objects elsewhere", ".git/objects/info/alternates", "", "/x", 0, Hold},
		{"a submodule's configuration", ".git/modules/sub/config", "", "[core]", 0, Hold},
		{"a rebase", ".git/rebase-merge/git-rebase-todo", "", "exec evil", 0, Hold},
		{"a link for the index", ".git/index.lock", "", "->../x", 0, Hold},
		{"a link among references", ".git/refs/heads/x", "", "->../../config", 0, Hold},
		{"an object", ".git/objects/ab/cdef", "", "blob", 0, pass},
		{"a branch", ".git/refs/heads/main", "a", "b", 0, pass},
		{"the index", ".git/index", "a", "b", 0, pass},
		{"HEAD", ".git/HEAD", "ref: refs/heads/main", "ref: refs/heads/x", 0, pass},
		{"HEAD removed", ".git/HEAD", "ref: refs/heads/main", "", 0, Hold},
		{"a log", ".git/logs/HEAD", "a", "b", 0, pass},
		{"packed references", ".git/packed-refs", "", "b", 0, pass},
		{"the last message", ".git/COMMIT_EDITMSG", "", "b", 0, pass},
		{"another repository", "sub/.git/config", "", "[core]", 0, Hold},
		{"a file that names a repository", "sub/.git", "", "gitdir: ../evil", 0, Hold},
		{"a name of other case", ".GIT/hooks/post-checkout", "", "evil", 0, Hold},
		{"a name with a dot at its end", ".git./config", "", "evil", 0, Hold},
		{"a name with a blank at its end", ".git /config", "", "evil", 0, Hold},
		{"a short name", "git~1", "", "gitdir: x", 0, Hold},
		{"a name with an invisible character", ".g\u200cit/hooks/x", "", "evil", 0, Hold},
		{"the Kelvin sign", ".hus\u212Ay/pre-commit", "", "evil", 0, Hold},
		{"a ligature", ".conﬁg/mise.toml", "", "evil", 0, Hold},
		{"a stream", ".git::$INDEX_ALLOCATION/config", "", "evil", 0, Hold},
		{"direnv", "deep/er/.envrc", "", "evil", 0, Hold},
		{"direnv of other case", ".EnvRC", "", "evil", 0, Hold},
		{"direnv where tools fill", "node_modules/x/.envrc", "", "evil", 0, Hold},
		{"direnv removed", ".envrc", "x", "", 0, Hold},
		{"an editor's tasks", ".vscode/tasks.json", "{}", "{\"x\":1}", 0, Hold},
		{"an editor's tasks in a package", "node_modules/x/.vscode/tasks.json", "", "{}", 0, pass},
		{"servers for agents", ".mcp.json", "", "{}", 0, Hold},
		{"an agent's settings", ".claude/settings.json", "", "{}", 0, Hold},
		{"an agent's worktree", ".claude/worktrees/x/main.go", "", "{}", 0, pass},
		{"a file in a directory for servers", ".clinerules/hooks/x", "", "{}", 0, Hold},
		{"a directory above as a link", ".config", "", "->evil", 0, Hold},
		{"CI", ".github/workflows/ci.yml", "on: push", "on: pull", 0, Hold},
		{"CI, new", ".gitlab-ci.yml", "", "x", 0, Hold},
		{"CI removed", ".gitlab-ci.yml", "x", "", 0, Mark},
		{"scripts of a package", "package.json", `{"scripts":{"test":"a"}}`, `{"scripts":{"test":"evil"}}`, 0, Hold},
		{"versions of a package", "package.json", `{"version":"1","scripts":{"test":"a"},"dependencies":{}}`, `{"version":"2","scripts":{"test":"a"},"dependencies":{"x":"1"}}`, 0, Mark},
		{"a package that was installed", "node_modules/x/package.json", "", `{"scripts":{"install":"x"}}`, 0, pass},
		{"the lock of a package", "package-lock.json", "{}", `{"x":1}`, 0, pass},
		{"a new package without scripts", "sub/package.json", "", `{"dependencies":{}}`, 0, Mark},
		{"a package manager's configuration", ".npmrc", "", "git=evil", 0, Hold},
		{"tests' start", "tests/conftest.py", "", "evil()", 0, Hold},
		{"python's start", "sitecustomize.py", "", "evil()", 0, Hold},
		{"a native module's build", "sub/binding.gyp", "", "{}", 0, Hold},
		{"pnpm's settings", "pnpm-workspace.yaml", "packages: [a]", "scriptShell: evil", 0, Hold},
		{"mise's other directory", "mise/config.toml", "", "[hooks]", 0, Hold},
		{"packages that run scripts", "package.json", `{"name":"x"}`, `{"name":"x","trustedDependencies":["evil"]}`, 0, Hold},
		{"cargo", ".cargo/config.toml", "", "[build]", 0, Hold},
		{"a debugger's start", "sub/.pdbrc", "", "!evil()", 0, Hold},
		{"a linter's code", ".pylintrc", "[MAIN]", "[MAIN]\ninit-hook='evil()'", 0, Hold},
		{"a console's start", "sub/.irbrc", "", "evil", 0, Hold},
		{"what R loads", ".RData", "", "evil", 0, Hold},
		{"a workspace of VS Code", "x.code-workspace", "", "{}", 0, Hold},
		{"a name that only begins so", "x.code-workspace.md", "", "x", 0, pass},
		{"a launcher", "docs/README.desktop", "", "Exec=evil", 0, Hold},
		{"a path file", ".venv/lib/python3.12/site-packages/x.pth", "", "import evil", 0, Mark},
		{"a path file that was there", ".venv/lib/python3.12/site-packages/x.pth", "/src\n", "import evil", 0, Hold},
		{"weights of a model", "model.pth", "", "numbers", 0, pass},
		{"python's start where tools fill", ".venv/lib/python3.12/site-packages/sitecustomize.py", "", "evil()", 0, Hold},
		{"a module that was installed", ".venv/lib/python3.12/site-packages/x/__init__.py", "", "x", 0, pass},
		{"an environment's start", ".venv/bin/activate", "", "x", 0, Mark},
		{"an environment's start that was there", ".venv/bin/activate", "x", "evil", 0, Hold},
		{"an environment's python", "env/pyvenv.cfg", "home = /usr/bin", "home = /evil", 0, Hold},
		{"a program of an environment", ".venv/bin/pytest", "", "x", 0o755, pass},
		{"a version of python", ".python-version", "3.12\n", "3.13\n", 0, Mark},
		{"a python", ".python-version", "3.12\n", "./evil\n", 0, Hold},
		{"rules of a linter", "eslint.config.mjs", "a", "evil()", 0, Hold},
		{"a linter of a package", "node_modules/x/.eslintrc.js", "", "x", 0, pass},
		{"options of a compiler", "tsconfig.json", `{"compilerOptions":{"strict":true}}`, `{"compilerOptions":{"strict":false}}`, 0, Mark},
		{"plugins of a compiler", "tsconfig.json", `{"strict":true}`, `{"compilerOptions":{"plugins":[{"name":"evil"}]}}`, 0, Hold},
		{"options from elsewhere", "tsconfig.json", `{}`, `{"extends":"./evil"}`, 0, Hold},
		{"a build tool's configuration", "vite.config.ts", "a", "b", 0, Mark},
		{"containers beside others", "compose.override.yaml", "", "x", 0, Hold},
		{"a build server", ".bsp/x.json", "", `{"argv":["evil"]}`, 0, Hold},
		{"bazel's wrapper", "tools/bazel", "", "evil", 0o755, Hold},
		{"an older husky", ".huskyrc.json", "", "{}", 0, Hold},
		{"variables", ".env", "A=1", "A=2", 0, Mark},
		{"crates", "Cargo.toml", "a", "b", 0, Mark},
		{"the lock of crates", "Cargo.lock", "a", "b", 0, pass},
		{"a Makefile", "Makefile", "a:", "b:", 0, Mark},
		{"a Makefile for another", "GNUmakefile", "", "evil:", 0, pass + Mark},
		{"attributes without filters", ".gitattributes", "*.c text\n", "*.c text\n*.png binary\n", 0, Mark},
		{"attributes with filters", ".gitattributes", "*.c text\n", "*.c text\n* filter=evil\n", 0, Hold},
		{"a program's name", "tools/ls", "", "evil", 0o755, Hold},
		{"a program's name that is no program", "tools/ls", "", "a list", 0, pass},
		{"a program of another name", "tools/mine", "", "x", 0o755, pass},
		{"a program where tools fill", "venv/bin/ls", "", "x", 0o755, pass},
		{"another user's bit", "x", "", "evil", 0o755 | os.ModeSetuid, Hold},
		{"another group's bit", "x", "old", "evil", 0o755 | os.ModeSetgid, Hold},
		{"a link out", "x", "", "->/etc/passwd", 0, Hold},
		{"a link above", "a/x", "", "->../../x", 0, Hold},
		{"a link beside", "a/x", "", "->../b", 0, pass},
		{"a link into a repository", "a/x", "", "->../.git/hooks", 0, Hold},
		{"a pipe", "x", "", "|", 0, Hold},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{}
			if strings.HasPrefix(c.path, ".git/") {
				files[".git/objects/"] = ""
			}
			if c.old != "" {
				files[c.path] = c.old
			}
			l := newLab(t, files)
			if c.now != "" {
				put(t, l.upper+"/"+c.path, c.now)
				if c.mode != 0 {
					if err := os.Chmod(filepath.Join(l.upper, c.path), c.mode); err != nil {
						t.Fatal(err)
					}
				}
			}
			kind := Modified
			switch {
			case c.now == "":
				kind = Deleted
			case c.old == "":
				kind = Added
			}
			l.changed(kind, c.path, "")
			found, err := l.layer.Screen(t.Context(), l.changes, ScreenOptions{Search: []string{bin}})
			if err != nil {
				t.Fatal(err)
			}
			if got := levels(found)[c.path]; got != c.want {
				t.Errorf("%q is at level %d, want %d: %+v", c.path, got, c.want, found)
			}
		})
	}
}

// What the commands of a person do in a real repository lands, and what is beside it does not.
func TestCommitRepository(t *testing.T) {
	l := newLab(t, map[string]string{"main.go": "package a\n", "Makefile": "all:\n", "package.json": `{"scripts":{"test":"x"}}`, ".github/workflows/ci.yml": "on: push\n"})
	git(t, l.source, "init", "-q", "-b", "main")
	git(t, l.source, "add", "-A")
	git(t, l.source, "commit", "-q", "-m", "first")
	l.begin()
	if out, err := exec.Command("cp", "-a", l.source+"/.", l.upper).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before, config := show(t, l.upper), show(t, l.source)[".git/config"]
	put(t, l.upper+"/main.go", "package b\n")
	put(t, l.upper+"/GNUmakefile", "all: evil\n")
	put(t, l.upper+"/package.json", `{"scripts":{"test":"evil"}}`)
	put(t, l.upper+"/.github/workflows/ci.yml", "on: pull_request_target\n")
	git(t, l.upper, "add", "main.go")
	git(t, l.upper, "commit", "-q", "-m", "second")
	git(t, l.upper, "gc", "-q")
	git(t, l.upper, "config", "core.fsmonitor", "evil")
	put(t, l.upper+"/.git/hooks/post-commit", "evil")
	after := show(t, l.upper)
	for p, was := range before {
		switch now, there := after[p]; {
		case !there:
			if _, parent := after[filepath.Dir(p)]; parent {
				l.changed(Deleted, p, "")
			}
		case now != was:
			l.changed(Modified, p, "")
		}
	}
	for p := range after {
		if _, there := before[p]; !there {
			l.changed(Added, p, "")
		}
	}
	r := l.land(CommitOptions{})
	var held []string
	for _, f := range r.Held {
		held = append(held, f.Path)
	}
	for _, p := range []string{".git/config", ".git/hooks/post-commit", "GNUmakefile", "package.json", ".github/workflows/ci.yml"} {
		if !slices.Contains(held, p) {
			t.Errorf("%s is not held back", p)
		}
	}
	got := show(t, l.source)
	if got["main.go"] != regular+"package b\n" || got[".git/config"] != config || got["package.json"] != regular+`{"scripts":{"test":"x"}}` {
		t.Errorf("the source has %q, %q and %q", got["main.go"], got[".git/config"], got["package.json"])
	}
	git(t, l.source, "fsck", "--strict")
	git(t, l.source, "diff", "--exit-code", "HEAD", "--", "main.go")
	var rest []Change
	for _, ch := range l.changes {
		if slices.Contains(held, ch.Path) {
			rest = append(rest, ch)
		}
	}
	l.changes = rest
	l.land(CommitOptions{Known: r.Records, Accept: []string{"package.json"}})
	if got := show(t, l.source)["package.json"]; got != regular+`{"scripts":{"test":"evil"}}` {
		t.Errorf("what was accepted is %q", got)
	}
}

// What is obeyed is found behind links, in what is removed and moved, and when halves meet.
func TestScreenTrees(t *testing.T) {
	screen := func(t *testing.T, l *lab, opt ScreenOptions) map[string]Level {
		t.Helper()
		found, err := l.layer.Screen(t.Context(), l.changes, opt)
		if err != nil {
			t.Fatal(err)
		}
		return levels(found)
	}
	want := func(t *testing.T, got map[string]Level, path string, want Level) {
		t.Helper()
		if got[path] != want {
			t.Errorf("%q is at level %d, want %d of %v", path, got[path], want, got)
		}
	}
	t.Run("a removed tree", func(t *testing.T) {
		l := newLab(t, map[string]string{"sub/deep/.envrc": "x", "other/x": "x", "node_modules/a/.vscode/x": "x"})
		l.does(Deleted, "sub", "")
		l.does(Deleted, "other", "")
		l.does(Deleted, "node_modules", "")
		got := screen(t, l, ScreenOptions{})
		want(t, got, "sub", Hold)
		want(t, got, "other", 0)
		want(t, got, "node_modules", 0)
	})
	t.Run("a repository replaced whole", func(t *testing.T) {
		l := newLab(t, map[string]string{".git/HEAD": "x", ".git/config": "x", ".git/objects/": "", ".git/refs/": ""})
		l.does(Retyped, ".git", "gitdir: evil")
		want(t, screen(t, l, ScreenOptions{}), ".git", Hold)
	})
	t.Run("a directory moved to such a name", func(t *testing.T) {
		l := newLab(t, map[string]string{"plain/settings.json": "x", "hooks/pre-commit": "x"})
		put(t, l.upper+"/.vscode/", "")
		put(t, l.upper+"/moved/", "")
		l.changed(Renamed, ".vscode", "plain")
		l.changed(Renamed, "moved", "hooks")
		got := screen(t, l, ScreenOptions{})
		want(t, got, ".vscode", Hold)
		want(t, got, "moved", 0)
	})
	t.Run("a link of the source", func(t *testing.T) {
		l := newLab(t, map[string]string{".vscode": "->etc/editor", "etc/editor/tasks.json": "x", "etc/x": "x"})
		l.does(Modified, "etc/editor/tasks.json", "evil")
		l.does(Modified, "etc/x", "y")
		got := screen(t, l, ScreenOptions{})
		want(t, got, "etc/editor/tasks.json", Hold)
		want(t, got, "etc/x", 0)
	})
	t.Run("links from elsewhere in the source", func(t *testing.T) {
		l := newLab(t, map[string]string{"sub/.vscode": "->../shared", "shared/tasks.json": "->../conf/tasks.json", "conf/tasks.json": "x", "conf/x": "x",
			".claude/settings.json": "->../conf/claude.json", "conf/claude.json": "x", ".git/objects/": "", ".git/refs/": "", ".git/HEAD": "x", ".git/hooks/x": "->../../run", "run": "x", "plain": "->conf/x"})
		for _, p := range []string{"conf/tasks.json", "conf/claude.json", "conf/x", "run"} {
			l.does(Modified, p, "evil")
		}
		l.does(Added, "shared/new", "evil")
		got := screen(t, l, ScreenOptions{})
		for _, p := range []string{"conf/tasks.json", "conf/claude.json", "run", "shared/new"} {
			want(t, got, p, Hold)
		}
		want(t, got, "conf/x", 0)
		r, err := l.layer.Commit(t.Context(), l.changes, CommitOptions{DryRun: true})
		if err != nil || len(r.Landed) != 1 || r.Landed[0].Path != "conf/x" {
			t.Errorf("a commit would land %+v, %v", r.Landed, err)
		}
	})
	t.Run("more links than are followed", func(t *testing.T) {
		l := newLab(t, nil)
		deep := strings.Repeat("d/", 300)
		link := func(p, to string) {
			l.changes = append(l.changes, Change{Path: p, Kind: Added, New: Entry{Mode: os.ModeSymlink, Link: to}})
		}
		link("a", "x")
		for i := range 2000 {
			link(deep+strconv.Itoa(i), strings.Repeat("../d/", 300)+strconv.Itoa(i+1))
		}
		link("z", "x")
		for i := range 50 {
			link(strconv.Itoa(i)+"/.vscode", "../"+deep+"0")
		}
		l.does(Added, "file", "x")
		if got := screen(t, l, ScreenOptions{})["file"]; got != Hold {
			t.Errorf("a file to which they may lead is at level %d", got)
		}
	})
	t.Run("links of one commit", func(t *testing.T) {
		l := newLab(t, nil)
		l.does(Added, "a", "->b")
		l.does(Added, "b", "->..")
		l.does(Added, "c", "->d")
		l.does(Added, "d/", "")
		l.does(Added, "sub/", "")
		l.does(Added, "sub/.envrc", "->../text")
		l.does(Added, "text", "evil")
		got := screen(t, l, ScreenOptions{})
		want(t, got, "a", Hold)
		want(t, got, "b", Hold)
		want(t, got, "c", 0)
		want(t, got, "text", Hold)
	})
	t.Run("the halves of a repository", func(t *testing.T) {
		l := newLab(t, map[string]string{"d/HEAD": "x", "d/refs/": "", "e/refs/": "", "e/objects/": ""})
		l.does(Added, "d/objects/", "")
		l.does(Added, "e/HEAD", "x")
		l.does(Added, "f/HEAD", "x")
		got := screen(t, l, ScreenOptions{})
		want(t, got, "d/objects", Hold)
		want(t, got, "e/HEAD", Hold)
		want(t, got, "f/HEAD", 0)
	})
	t.Run("the halves of a worktree", func(t *testing.T) {
		l := newLab(t, map[string]string{"d/commondir": "../evil", "e/HEAD": "x"})
		l.does(Added, "d/HEAD", "x")
		l.does(Added, "e/commondir", "../evil")
		got := screen(t, l, ScreenOptions{})
		want(t, got, "d/HEAD", Hold)
		want(t, got, "e/commondir", Hold)
	})
	t.Run("what a worktree names that leads to nothing", func(t *testing.T) {
		l := newLab(t, map[string]string{"d/HEAD": "x", "d/commondir": "../evil\n", "e/": ""})
		for _, p := range []string{"evil/", "evil/config", "evil/hooks/", "evil/hooks/post-checkout", "e/config"} {
			l.does(Added, p, "x")
		}
		got := screen(t, l, ScreenOptions{})
		want(t, got, "evil/config", Hold)
		want(t, got, "evil/hooks/post-checkout", Hold)
		want(t, got, "e/config", 0)
	})
	t.Run("a bare repository", func(t *testing.T) {
		l := newLab(t, map[string]string{"r.git/HEAD": "x", "r.git/refs/": "", "r.git/objects/": ""})
		l.does(Added, "r.git/hooks/", "")
		l.does(Added, "r.git/hooks/update", "evil")
		l.does(Added, "r.git/objects/ab", "x")
		got := screen(t, l, ScreenOptions{})
		want(t, got, "r.git/hooks/update", Hold)
		want(t, got, "r.git/objects/ab", 0)
	})
	t.Run("a repository among objects", func(t *testing.T) {
		l := newLab(t, map[string]string{".git/HEAD": "x", ".git/refs/": "", ".git/objects/pack/": ""})
		for _, p := range []string{"HEAD", "config", "refs/", "objects/", ".envrc", "pack/HEAD", "pack/mise.toml", "ab/HEAD"} {
			l.does(Added, ".git/objects/"+p, "x")
		}
		l.does(Added, ".git/rebase-merge/", "")
		got := screen(t, l, ScreenOptions{})
		for _, p := range []string{"HEAD", "config", "refs", "objects", ".envrc", "pack/HEAD", "pack/mise.toml", "ab/HEAD"} {
			want(t, got, ".git/objects/"+p, Hold)
		}
		want(t, got, ".git/rebase-merge", Hold)
	})
	t.Run("directories that nobody can look into", func(t *testing.T) {
		l := newLab(t, map[string]string{"d/": "", "closed/": ""})
		for p, old := range map[string]os.FileMode{"d": 0o755, "closed": 0o300} {
			l.changes = append(l.changes, Change{Path: p, Kind: Modified, Old: Entry{Mode: os.ModeDir | old}, New: Entry{Mode: os.ModeDir | 0o311}})
		}
		l.changes = append(l.changes, Change{Path: "new", Kind: Added, New: Entry{Mode: os.ModeDir | 0o600}})
		got := screen(t, l, ScreenOptions{})
		want(t, got, "d", Mark)
		want(t, got, "new", Mark)
		want(t, got, "closed", 0)
	})
	t.Run("a Makefile before another", func(t *testing.T) {
		l := newLab(t, map[string]string{"Makefile": "x", "sub/x": "x"})
		l.does(Added, "GNUmakefile", "evil")
		l.does(Added, "sub/makefile", "x")
		got := screen(t, l, ScreenOptions{})
		want(t, got, "GNUmakefile", Hold)
		want(t, got, "sub/makefile", Mark)
	})
	t.Run("what the host names", func(t *testing.T) {
		l := newLab(t, map[string]string{"scripts/hooks/x": "x", "progs/x": "x", ".profile": "x"})
		l.does(Modified, "scripts/hooks/x", "evil")
		l.does(Modified, ".profile", "evil")
		for _, p := range []string{l.source + "/progs/x", l.source + "/tool", l.upper + "/progs/x", l.upper + "/progs/new", l.upper + "/tool"} {
			put(t, p, "x")
			if err := os.Chmod(p, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		l.changed(Modified, "progs/x", "")
		l.changed(Modified, "tool", "")
		l.changed(Added, "progs/new", "")
		got := screen(t, l, ScreenOptions{Homes: []string{l.source}, Search: []string{l.source + "/progs"}, Named: []obeyed.Named{{Path: "scripts/hooks", Tool: "git", Why: "git runs hooks from there"}}})
		want(t, got, "scripts/hooks/x", Hold)
		want(t, got, ".profile", Hold)
		want(t, got, "progs/new", Hold)
		want(t, got, "progs/x", Hold)
		want(t, got, "tool", 0)
		want(t, screen(t, l, ScreenOptions{}), ".profile", 0)
	})
}

// Names that were read already are not read again, and change nothing in what is found.
func TestScreenNames(t *testing.T) {
	l := newLab(t, map[string]string{".vscode": "->etc/editor", "etc/editor/tasks.json": "x", "etc/x": "x", "sub/.git/config": "x", "sub/README": "x",
		"other/.vscode": "->../far", "far/tasks.json": "x", "bare/HEAD": "x", "bare/objects/": "", "bare/refs/": "", "bare/x": "x", "plain/x": "x"})
	for _, p := range []string{"etc/editor/tasks.json", "etc/x", "sub/README", "far/tasks.json", "bare/x", "plain/x"} {
		l.does(Modified, p, "evil")
	}
	below := obeyed.ReadNames(t.Context(), []string{l.source}).Below(t.Context(), l.source, int(l.layer.Source.Fd()))
	want, err := l.layer.Screen(t.Context(), l.changes, ScreenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.layer.Screen(t.Context(), l.changes, ScreenOptions{Names: below})
	if err != nil || !slices.Equal(got, want) || levels(got)["etc/editor/tasks.json"] != Hold || levels(got)["bare/x"] != Hold || levels(got)["far/tasks.json"] != Hold {
		t.Errorf("found %+v, %v; else %+v", got, err, want)
	}
}

// Links of the host that lead to a changed file hold it back, however they are written.
func TestScreenLinksOfTheHost(t *testing.T) {
	for name, c := range map[string]struct{ at, to string }{
		"relative":        {".vscode", "shared"},
		"absolute":        {".vscode", "SOURCE/shared"},
		"out and back":    {".vscode", "../source/shared"},
		"to a file":       {".mcp.json", "SOURCE/shared/tasks.json"},
		"over other ones": {".vscode", "OTHER/shared"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, map[string]string{"shared/tasks.json": "x"})
			other := filepath.Join(t.TempDir(), "other")
			to := strings.NewReplacer("SOURCE", l.source, "OTHER", other).Replace(c.to)
			if err := errors.Join(os.Symlink(l.source, other), os.Symlink(to, filepath.Join(l.source, c.at))); err != nil {
				t.Fatal(err)
			}
			l.begin()
			l.does(Modified, "shared/tasks.json", "evil")
			got, err := l.layer.Screen(t.Context(), l.changes, ScreenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if i := slices.IndexFunc(got, func(f Finding) bool { return f.Path == "shared/tasks.json" && f.Level == Hold }); i < 0 {
				t.Errorf("it is not held back: %+v", got)
			}
		})
	}
}

// Links whose texts are long take no more time than others: all is held back when that is spent.
func TestScreenLongLinks(t *testing.T) {
	for name, text := range map[string]string{"names that lead nowhere": strings.Repeat("./", 2000), "names that the kernel is asked for": "/usr/" + strings.Repeat("lib/../", 570)} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, map[string]string{"l0": "1"})
			const links = 2000
			for i := 1; i <= links; i++ {
				to := text
				if strings.HasPrefix(to, ".") && i%40 > 0 {
					to += "l" + strconv.Itoa(i-1)
				}
				l.changes = append(l.changes, Change{Path: "l" + strconv.Itoa(i), Kind: Added, New: Entry{Mode: os.ModeSymlink | 0o777, Link: to}})
			}
			found, err := l.layer.Screen(t.Context(), l.changes, ScreenOptions{})
			spent := 0
			for _, f := range found {
				if f.Level == Hold && strings.Contains(f.Why, "too many links") {
					spent++
				}
			}
			if err != nil || spent < links {
				t.Errorf("%d of %d links are held back: %v", spent, links, err)
			}
		})
	}
}

// Links to a directory where people work lead to nothing that does not count there anyway, however many
// they are and whatever it holds.
func TestScreenLinksToTrees(t *testing.T) {
	files := map[string]string{"README": "1"}
	for i := range 1500 {
		files["lib/d"+strconv.Itoa(i)+"/"] = ""
	}
	l := newLab(t, files)
	l.does(Modified, "README", "2")
	l.does(Added, "examples/", "")
	for i := range 1000 {
		l.changes = append(l.changes, Change{Path: "examples/l" + strconv.Itoa(i), Kind: Added, New: Entry{Mode: os.ModeSymlink | 0o777, Link: "../lib"}})
	}
	if got, err := l.layer.Screen(t.Context(), l.changes, ScreenOptions{}); err != nil || len(got) > 0 {
		t.Errorf("%d are held back or marked: %v", len(got), err)
	}
}
