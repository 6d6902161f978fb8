//go:build linux

package obeyed

import (
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// What the host obeys by a name that a link gives a directory is told, also where tools fill that
// directory, or git does: the link, or what it shows.
func TestCompareAliases(t *testing.T) {
	const pnpm = "mkdir -p node_modules/.pnpm/a@1/node_modules/a node_modules/.pnpm/node_modules; echo x | tee node_modules/.pnpm/a@1/node_modules/a/.npmrc > node_modules/.pnpm/a@1/node_modules/a/index.js; " +
		"ln -s .pnpm/a@1/node_modules/a node_modules/a; ln -s ../a@1/node_modules/a node_modules/.pnpm/node_modules/a; "
	type alias struct {
		name, before, commands string
		told                   string // one of these at least; "": nothing
	}
	cases := []alias{
		{"a package that was there", "mkdir -p web node_modules/web/.vscode; echo x > node_modules/web/.vscode/tasks.json", "rmdir web; ln -s node_modules/web web", "web node_modules/web/.vscode"},
		{"a package behind a link that was there", "mkdir -p node_modules/web; ln -s node_modules/web web", "mkdir node_modules/web/.vscode; echo x > node_modules/web/.vscode/tasks.json", "node_modules/web/.vscode node_modules/web/.vscode/tasks.json"},
		{"a changed file behind a link that was there", "mkdir -p node_modules/web; ln -s node_modules/web web; echo x > node_modules/web/.mcp.json", "echo y > node_modules/web/.mcp.json", "node_modules/web/.mcp.json"},
		{"a package behind a link that led nowhere", "ln -s node_modules/web web", "mkdir -p node_modules/web; echo x > node_modules/web/.mcp.json", "web node_modules/web/.mcp.json"},
		{"links in a chain", "mkdir -p node_modules/web", "echo x > node_modules/web/.npmrc; ln -s node_modules l1; ln -s l1 l2; ln -s l2/web web", "web l1 node_modules/web/.npmrc"},
		{"a chain of the user's that leads there now", "mkdir -p pkgs/web; ln -s pkgs/web web", "mkdir -p node_modules/web; echo x > node_modules/web/.npmrc; rm -r pkgs; ln -s node_modules pkgs", "web pkgs node_modules/web/.npmrc"},
		{"the directory of all packages", "mkdir node_modules", "mkdir -p node_modules/x/y; echo x > node_modules/x/y/.mcp.json; ln -s node_modules web", "web node_modules/x/y/.mcp.json"},
		{"what is vendored", "mkdir -p vendor/acme/lib", "mkdir -p vendor/acme/lib/.claude; echo x > vendor/acme/lib/.claude/settings.json; ln -s vendor/acme/lib lib", "lib vendor/acme/lib/.claude vendor/acme/lib/.claude/settings.json"},
		{"other directories that tools fill", "mkdir -p .venv/x third_party/y target/z", "echo x | tee .venv/x/.pdbrc third_party/y/.exrc > target/z/.lldbinit; ln -s .venv/x x; ln -s third_party/y y; ln -s target/z z", "x .venv/x/.pdbrc"},
		{"a link further down", "mkdir -p apps/a", "mkdir -p node_modules/web/b/.vscode; echo x > node_modules/web/b/.vscode/tasks.json; ln -s ../../node_modules/web apps/a/web", "apps/a/web node_modules/web/b/.vscode node_modules/web/b/.vscode/tasks.json"},
		{"an absolute link to the workspace", "", "mkdir -p node_modules/web; echo x > node_modules/web/.npmrc; ln -s \"$PWD/node_modules/web\" web", "web node_modules/web/.npmrc"},
		{"an absolute link of the user's", "mkdir -p node_modules/web; ln -s \"$PWD/node_modules/web\" web", "echo x > node_modules/web/.npmrc", "web node_modules/web/.npmrc"},
		{"a link that leads elsewhere now", "mkdir -p packages/web; ln -s packages/web web", "mkdir -p node_modules/web; echo x > node_modules/web/.mcp.json; ln -sfn node_modules/web web", "web node_modules/web/.mcp.json"},
		{"a link that goes up over a directory that is one now", "mkdir -p x node_modules/y; ln -s x/../web web2", "mkdir -p node_modules/web; echo x > node_modules/web/.mcp.json; rmdir x; ln -s node_modules/y x", "web2 x node_modules/web/.mcp.json"},
		{"a link that is removed, and a directory in its place", "mkdir -p a/editor; ln -s a cfg; ln -s cfg/editor .vscode", "rm cfg; mkdir -p cfg/editor; echo x > cfg/editor/tasks.json", ".vscode cfg cfg/editor cfg/editor/tasks.json"},
		{"a directory that is a link now, on the way of another", "mkdir -p shared sub; ln -s ../shared/cfg sub/.vscode", "mkdir -p e/cfg; echo x > e/cfg/tasks.json; rmdir shared; ln -s e shared", "sub/.vscode shared e/cfg/tasks.json"},
		{"a directory inside .git", gitInit, "mkdir -p .git/objects/ab; echo x > .git/objects/ab/.envrc; ln -s .git/objects/ab o", "o .git/objects/ab/.envrc"},
		{"a directory inside .git, over a link", gitInit + "mkdir .git/objects/ab; ln -s .git g", "echo x > .git/objects/ab/.envrc; ln -s g/objects/ab o", "o .git/objects/ab/.envrc"},
		{"a link of the user's inside .git", gitInit + "ln -s .git/objects o", "echo x > .git/objects/.envrc", "o .git/objects/.envrc"},
		{"the objects of a repository without a work tree", "mkdir -p r/objects r/refs; echo ref: refs/heads/x > r/HEAD; echo '[core] bare = true' > r/config; ln -s r/objects o", "echo x > r/objects/.envrc", "o r/objects/.envrc"},
		{"links in a circle that end", "mkdir sub; ln -s ../l1 sub/.envrc; ln -s l2 l1; ln -s l1 l2", "rm l2; echo x > l2", "sub/.envrc l2"},
		{"a package, beside links in circles", "mkdir a; ln -s . loop; ln -s ../a a/a; ln -s y x; ln -s x y", "mkdir -p node_modules/web; echo x > node_modules/web/.mcp.json; ln -s ../loop/a/a/../node_modules/web a/web", "a/web node_modules/web/.mcp.json"},
		{"a package with a repository's project", "mkdir -p node_modules/web; cd node_modules/web; " + gitInit, "echo x > node_modules/web/lefthook.yml; ln -s node_modules/web web", "node_modules/web/lefthook.yml"},

		{"links in circles", "mkdir a", "ln -s . loop; ln -s ../a a/a; ln -s y x; ln -s x y; ln -s .. a/up", ""},
		{"pnpm's links", "mkdir src", pnpm, ""},
		{"pnpm's links to another version", pnpm, "mv node_modules/.pnpm/a@1 node_modules/.pnpm/a@2; ln -sfn .pnpm/a@2/node_modules/a node_modules/a; echo y > node_modules/.pnpm/a@2/node_modules/a/.npmrc", ""},
		{"npm workspaces", "mkdir -p packages/ui/.vscode; echo x | tee packages/ui/.npmrc > packages/ui/.vscode/settings.json", "mkdir node_modules; ln -s ../packages/ui node_modules/ui; echo y > packages/ui/index.js", ""},
		{"a monorepo", "mkdir -p packages/ui/.vscode apps/web; echo x | tee packages/ui/.npmrc > packages/ui/.vscode/settings.json", "ln -s ../../packages/ui apps/web/ui; mkdir apps/web/node_modules; ln -s ../../../packages/ui apps/web/node_modules/ui", ""},
		{"a link to a package that has nothing", "mkdir -p node_modules/web", "echo x > node_modules/web/index.js; ln -s node_modules/web web", ""},
		{"code of a package that a link of the user's shows", "mkdir -p node_modules/web; ln -s node_modules/web web; echo x > node_modules/web/.npmrc", "echo y > node_modules/web/index.js; mkdir -p node_modules/x; echo x > node_modules/x/.npmrc", ""},
		{"a removed link to a package", "mkdir -p node_modules/web; ln -s node_modules/web web; echo x > node_modules/web/.npmrc", "rm web", ""},
		{"dotfiles", "mkdir -p dotfiles/nvim work; echo x > dotfiles/nvim/init.lua; mkdir .config; ln -s ../dotfiles/nvim .config/nvim; echo x > dotfiles/.bashrc; ln -s dotfiles/.bashrc .bashrc", "echo y > dotfiles/README; ln -s ../dotfiles/README work/readme", ""},
		{"submodules and worktrees", gitInit + "mkdir -p .git/modules/s s w .git/worktrees/w; cp .git/HEAD .git/modules/s; echo gitdir: ../.git/modules/s > s/.git; echo gitdir: ../.git/worktrees/w > w/.git; echo ../.. > .git/worktrees/w/commondir; cp .git/HEAD .git/worktrees/w",
			"echo x > s/a; echo x > w/a; echo x > .git/objects/x; echo x > .git/modules/s/index", ""},
		{"husky", gitInit + "mkdir -p .husky/_; echo x > .husky/pre-commit; echo '[core] hooksPath = .husky/_' > .git/config", "mkdir src; echo x > src/a; echo x > .git/index", ""},
	}
	for _, file := range []string{".vscode/tasks.json", ".claude/settings.json", ".mcp.json", ".npmrc"} {
		dir, _, below := strings.Cut(file, "/")
		told := "web node_modules/web/" + file
		if below {
			told += " node_modules/web/" + dir
		}
		cases = append(cases, alias{"a package with " + file, "mkdir web; echo x > web/index.js",
			"rm -r web; mkdir -p node_modules/web/.vscode node_modules/web/.claude; echo x > node_modules/web/" + file + "; ln -s node_modules/web web", told})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ws := t.TempDir()
			host(t, ws, c.before+"\n:")
			w := Watch{Workspace: ws, Roots: []string{ws}}
			if strings.Contains(c.name, "dotfiles") {
				w.Homes = []string{ws}
			}
			before := Take(t.Context(), w)
			kept, err := Decode(before.Encode())
			if err != nil {
				t.Fatal(err)
			}
			if c := before.Compare(t.Context()); len(c.List)+len(c.Unseen) > 0 {
				t.Errorf("before anything: %+v", c)
			}
			host(t, ws, c.commands)
			for how, changes := range map[string]Changes{"in memory": before.Compare(t.Context()), "from a file": kept.CompareWith(t.Context(), map[string]*Snapshot{})} {
				told, want := strings.Fields(found(changes, ws, policy.Unasked)), strings.Fields(c.told)
				switch {
				case len(want) == 0 && len(told) > 0:
					t.Errorf("%s: told of %q", how, told)
				case len(want) > 0 && !slices.ContainsFunc(told, func(p string) bool { return slices.Contains(want, p) }):
					t.Errorf("%s: told of %q, want one of %q", how, told, want)
				}
			}
		})
	}
}
