package layer

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// What people and their tools do every day lands, and exactly what programs of the host obey is
// held back.
func TestCommitOrdinary(t *testing.T) {
	noSync(t)
	s := newStage(t)
	for _, o := range ordinary() {
		for _, marks := range marksHere() {
			t.Run(o.name+"/"+string(marks), func(t *testing.T) { o.run(t, s, marks) })
		}
	}
}

// daily is a scene of daily work. held are the paths that its commits hold back; one with a "?"
// may be held back.
type daily struct {
	name string
	scene
	held string
}

func (d daily) run(t *testing.T, s *stage, marks Marks) {
	out, err := s.play(t, d.scene, marks, true)
	if errors.Is(err, errNoOverlay) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range out.violations {
		t.Error(v)
	}
	var held []string
	for _, c := range out.commits {
		for _, f := range c.result.Held {
			if !slices.Contains(held, f.Path) {
				held = append(held, f.Path)
			}
		}
		if len(c.result.Landed)+len(c.result.Held) == 0 {
			t.Errorf("%s did nothing of\n%s", c.step, list(c.changes))
		}
	}
	for p := range strings.FieldsSeq(d.held) {
		i := slices.Index(held, strings.TrimSuffix(p, "?"))
		if i >= 0 {
			held = slices.Delete(held, i, i+1)
		} else if !strings.HasSuffix(p, "?") {
			t.Errorf("%s is not held", p)
		}
	}
	if len(held) > 0 {
		t.Errorf("%q are held back, too", held)
		for _, c := range out.commits {
			t.Logf("%s: %+v", c.step, c.result.Held)
		}
	}
}

// repositoryAt returns the files of a repository.
func repositoryAt(dir string, more ...string) []string {
	for _, line := range []string{"HEAD ref: refs/heads/main", "config [core]", "objects/", "refs/heads/main 1", "index 1", "logs/HEAD 1", "hooks/pre-commit.sample x", "info/exclude x", "description x"} {
		more = append(more, dir+line)
	}
	return more
}

// commitsIn returns what git does for a commit in a repository.
func commitsIn(dir string) []string {
	return []string{"write " + dir + "objects/ab/cdef blob", "write " + dir + "objects/cd/ef01 tree", "write " + dir + "refs/heads/main 2", "write " + dir + "index 2", "write " + dir + "logs/HEAD 12", "write " + dir + "COMMIT_EDITMSG words"}
}

func joined(lists ...[]string) []string { return slices.Concat(lists...) }

func ordinary() []daily {
	const pnpm = "node_modules/.pnpm/"
	installed := func(version string) []string {
		a := pnpm + "a@" + version + "/node_modules/a"
		return []string{"write " + a + "/index.js " + version, "write " + a + "/package.json {}", "write " + a + "/.npmrc x", "write " + a + "/.vscode/tasks.json x", "exec " + a + "/cli.js x",
			"write " + pnpm + "b@1.0.0/node_modules/b/index.js b", "ln " + pnpm + "b@1.0.0/node_modules/a ../../a@" + version + "/node_modules/a",
			"ln " + pnpm + "node_modules/a ../a@" + version + "/node_modules/a", "ln node_modules/a .pnpm/a@" + version + "/node_modules/a", "ln node_modules/.bin/a ../a/cli.js", "write node_modules/.modules.yaml x"}
	}
	return []daily{
		{"a commit in a repository", scene{source: repositoryAt(".git/", "a.go 1"), steps: joined([]string{"write a.go 2", "write new/b.go 1"}, commitsIn(".git/"), []string{"commit"})}, ""},
		{"another branch", scene{source: repositoryAt(".git/", "a.go 1", "old.go 1"), steps: []string{"write .git/HEAD ref: refs/heads/x", "write .git/refs/heads/x 1", "write .git/index 2", "write .git/logs/refs/heads/x 1", "rm old.go", "write a.go 2", "write .git/ORIG_HEAD 1", "commit"}}, ""},
		{"packed references", scene{source: repositoryAt(".git/"), steps: []string{"rm .git/refs/heads/main", "write .git/packed-refs 1", "write .git/objects/pack/p.pack x", "write .git/objects/info/packs x", "commit"}}, ""},
		{"husky", scene{source: repositoryAt(".git/", `package.json {"scripts":{"prepare":"husky"}}`, ".husky/pre-commit npm test", ".husky/_/h x", "src/a.js 1"), named: []string{".husky/_"},
			steps: joined([]string{"write src/a.js 2", "write src/b.js 1"}, commitsIn(".git/"), []string{"commit", "write .husky/pre-commit npm run all", "write src/b.js 2", "commit"})}, ".husky/pre-commit"},
		{"a submodule", scene{source: joined(repositoryAt(".git/", "a.c 1", ".gitmodules [submodule]", "lib/.git gitdir: ../.git/modules/lib", "lib/l.c 1"), repositoryAt(".git/modules/lib/")),
			steps: joined([]string{"write a.c 2", "write lib/l.c 2"}, commitsIn(".git/"), []string{"commit"})}, ""},
		{"a commit in a submodule", scene{source: joined(repositoryAt(".git/", "a.c 1", ".gitmodules [submodule]", "lib/.git gitdir: ../.git/modules/lib", "lib/l.c 1"), repositoryAt(".git/modules/lib/")),
			steps: joined([]string{"write lib/l.c 2"}, commitsIn(".git/modules/lib/"), []string{"commit"})}, ".git/modules/lib/COMMIT_EDITMSG? .git/modules/lib/index? .git/modules/lib/logs/HEAD? .git/modules/lib/objects/ab? .git/modules/lib/objects/ab/cdef? .git/modules/lib/objects/cd? .git/modules/lib/objects/cd/ef01? .git/modules/lib/refs/heads/main?"},
		{"a linked worktree", scene{source: repositoryAt(".git/", "a.c 1", "w/.git gitdir: ../.git/worktrees/w", "w/a.c 1", ".git/worktrees/w/HEAD ref: refs/heads/w", ".git/worktrees/w/commondir ../..", ".git/worktrees/w/gitdir ../../../w/.git", ".git/worktrees/w/index 1"),
			steps: []string{"write w/a.c 2", "write a.c 2", "write .git/objects/ab/cd x", "write .git/refs/heads/w 2", "commit"}}, ""},
		{"a worktree that is added", scene{source: repositoryAt(".git/", "a.c 1"),
			steps: []string{"write w/.git gitdir: ../.git/worktrees/w", "write w/a.c 1", "write .git/worktrees/w/HEAD ref: refs/heads/w", "write .git/worktrees/w/commondir ../..", "write .git/refs/heads/w 1", "commit"}}, ".git/worktrees? .git/worktrees/w? .git/worktrees/w/HEAD? .git/worktrees/w/commondir? w/.git"},
		{"pnpm installs", scene{source: []string{"src/a.ts 1"}, steps: joined([]string{"write src/a.ts 2"}, installed("1.0.0"), []string{"commit"})}, ""},
		{"pnpm installs another version", scene{source: []string{"src/a.ts 1"}, steps: joined(installed("1.0.0"), []string{"commit", "layer", "rm " + pnpm + "a@1.0.0"}, installed("2.0.0"), []string{"commit"})}, ""},
		{"all packages removed, and installed again", scene{source: []string{"src/a.ts 1"}, steps: joined(installed("1.0.0"), []string{"commit", "layer", "rm node_modules", "commit", "layer"}, installed("2.0.0"), []string{"commit"})}, ""},
		{"packages removed and installed in one layer", scene{source: []string{"src/a.ts 1"}, steps: joined(installed("1.0.0"), []string{"commit", "layer", "rm node_modules"}, installed("2.0.0"), []string{"commit"})}, ""},
		{"npm workspaces", scene{source: []string{"packages/ui/index.js 1", "packages/ui/.npmrc mine", "packages/ui/.vscode/settings.json mine", "packages/ui/package.json {}", "apps/web/index.js 1"},
			steps: []string{"ln node_modules/ui ../packages/ui", "ln node_modules/web ../apps/web", "ln node_modules/.bin/ui ../ui/index.js", "write packages/ui/index.js 2", "commit", "layer", "rm node_modules", "commit"}}, ""},
		{"a monorepo with linked packages", scene{source: []string{"packages/ui/index.js 1", "packages/ui/.vscode/settings.json mine", "apps/web/package.json {}", "apps/web/a.js 1", "apps/web/shared ->../../packages/ui"},
			steps: []string{"ln apps/web/node_modules/ui ../../../packages/ui", "ln apps/api/ui ../../packages/ui", "write apps/web/a.js 2", "write packages/ui/index.js 2", "write apps/web/shared/x.js 1", "commit", "layer", "rm apps/api/ui", "ln apps/web/shared ../../packages", "commit"}}, ""},
		{"releases and the present one", scene{source: []string{"current ->releases/1", "releases/1/app.js 1"},
			steps: []string{"write releases/2/app.js 2", "ln current releases/2", "commit", "layer", "rm releases/1", "commit"}}, ""},
		{"a document that is a link", scene{source: []string{"README.md 1", "docs/a.md 1"},
			steps: []string{"ln docs/README.md ../README.md", "ln docs/broken.md ../later.md", "write README.md 2", "commit", "layer", "write later.md 1", "commit"}}, ""},
		{"dotfiles in a home", scene{source: []string{"dotfiles/bash/.bashrc mine", "dotfiles/nvim/init.lua mine", "dotfiles/README 1", ".bashrc ->dotfiles/bash/.bashrc", ".config/nvim ->../dotfiles/nvim", "work/a.go 1"}, homes: []string{"."},
			steps: []string{"write work/a.go 2", "write dotfiles/README 2", "write dotfiles/notes/x 1", "ln work/readme ../dotfiles/README", "commit", "layer", "write dotfiles/bash/.bashrc evil", "write dotfiles/nvim/init.lua evil", "write work/b.go 1", "commit"}}, "dotfiles/bash/.bashrc dotfiles/nvim/init.lua"},
		{"a new link of a dotfiles manager", scene{source: []string{"dotfiles/vim/vimrc mine", "work/a.go 1"}, homes: []string{"."},
			steps: []string{"ln .vimrc dotfiles/vim/vimrc", "write work/a.go 2", "commit"}}, ".vimrc"},
		{"a renamed directory of sources", scene{source: []string{"src/a/x.go 1", "src/a/y.go 2", "src/main.go 3", "Makefile all:"},
			steps: []string{"mv src/a src/b", "write src/main.go 33", "commit"}}, ""},
		{"directories that change places", scene{source: []string{"a/x 1", "b/y 2"}, steps: []string{"mv a t", "mv b a", "mv t b", "commit"}}, ""},
		{"a file in a new directory of its name", scene{source: []string{"util.go 1", "x.go 2"}, steps: []string{"mv util.go t", "mkdir util.go", "mv t util.go/util.go", "commit"}}, ""},
		{"vendored modules", scene{source: []string{"vendor/m/a.go 1", "vendor/m/.golangci.yml x", "vendor/m/Makefile x", "vendor/modules.txt 1", "main.go 1"},
			steps: []string{"rm vendor", "write vendor/m/a.go 2", "write vendor/n/.vscode/settings.json x", "write vendor/n/package.json {}", "write vendor/modules.txt 2", "write main.go 2", "commit"}}, ""},
		{"an environment of Python", scene{source: []string{"a.py 1"},
			steps: []string{"exec .venv/bin/pip x", "write .venv/bin/activate x", "write .venv/pyvenv.cfg home = /usr/bin", "ln .venv/lib64 lib", "write .venv/lib/python3/site-packages/m/x.py 1", "ln .venv/bin/python3 python", "write a.py 2", "commit"}}, ""},
		{"what is built", scene{source: []string{"a.ts 1", "dist/old.js 1"}, steps: []string{"rm dist", "write dist/new.js 1", "write coverage/index.html 1", "exec scripts/deploy.sh x", "write .next/cache/x 1", "ln dist/latest.js new.js", "commit"}}, ""},
		{"files that are the same", scene{source: []string{"a/__init__.py x", "b/__init__.py x", "LICENSE text"},
			steps: []string{"rm a", "write c/__init__.py x", "cp LICENSE c/LICENSE", "rm LICENSE", "commit"}}, ""},
		{"less than all", scene{source: []string{"a.go 1", "b.go 2", "c/d.go 3"}, steps: []string{"write a.go 11", "write b.go 22", "rm c", "mkdir e", "write e/f.go 5", "commit a.go e", "commit c", "commit"}}, ""},
		{"a link of the user to a package, and the package's code", scene{source: []string{"web ->node_modules/web", "node_modules/web/index.js 1", "node_modules/web/.npmrc mine"},
			steps: []string{"write node_modules/web/index.js 2", "write node_modules/web/lib/x.js 1", "write node_modules/x/.npmrc x", "commit"}}, ""},
		{"a link of the user that leads out", scene{source: []string{"data ->{OUT}/data", "a 1"}, outside: []string{"data/x 1"},
			steps: []string{"write a 2", "write b 1", "ln c a", "commit", "layer", "rm c", "commit"}}, ""},
		{"a script beside programs of the host", scene{source: []string{"tools/a *1"}, outside: []string{"bin/ls *x"}, search: []string{"{OUT}/bin"},
			steps: []string{"exec tools/a 2", "exec tools/b 1", "write ls text", "commit"}}, ""},
		{"a Makefile, and versions of packages", scene{source: []string{"Makefile all:", `package.json {"dependencies":{}}`, "go.mod x"},
			steps: []string{"write Makefile all: x", `write package.json {"dependencies":{"a":"1"}}`, "write go.mod y", "write sub/Makefile x", "commit"}}, ""},
	}
}
