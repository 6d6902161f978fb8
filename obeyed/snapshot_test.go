//go:build linux

package obeyed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// host runs a shell script in a directory of the host.
func host(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// found lists the changes of a class, relative to the workspace.
func found(c Changes, ws string, class policy.Class) string {
	var list []string
	for _, change := range c.List {
		if change.By.Class == class {
			rel, in := hostpath.Within(change.Path, ws)
			if !in {
				rel = change.Path
			}
			list = append(list, rel)
		}
	}
	return strings.Join(list, " ")
}

const gitInit = "mkdir -p .git/objects .git/refs .git/hooks; echo ref: refs/heads/x > .git/HEAD; echo '[core]' > .git/config; echo x > .git/hooks/a.sample; "

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		name, before, commands string
		planted, named         string
	}{
		{"nothing", gitInit + "echo x > a", "echo y > a; mkdir b; echo ref > .git/refs/x; echo y > .git/index", "", ""},
		{"a hook", gitInit, "echo x > .git/hooks/pre-commit", ".git/hooks/pre-commit", ""},
		{"many hooks", gitInit, "for i in a b c d e; do echo x > .git/hooks/$i; done", ".git/hooks", ""},
		{"a hook that becomes executable", gitInit + "echo x > .git/hooks/post-merge", "chmod 755 .git/hooks/post-merge", ".git/hooks/post-merge", ""},
		{"the directory of hooks", "mkdir .git", "mkdir .git/hooks; echo x > .git/hooks/pre-commit", ".git/hooks", ""},
		{"a repository", "", gitInit + "echo '[remote \"o\"]\\nurl = /x\\n[core] bare = false' >> .git/config", "", ""},
		{"a repository with a pager", "", gitInit + "echo '[core] pager = x' >> .git/config", ".git/config", ""},
		{"a repository with a hook", "", gitInit + "echo x > .git/hooks/pre-commit", ".git/hooks", ""},
		{"a repository with a command as its remote", "", gitInit + "echo '[remote \"o\"] url = ext::x' >> .git/config", ".git/config", ""},
		{"a repository that works elsewhere", "", gitInit + "echo '[core] worktree = /home/x' >> .git/config", ".git/config", ""},
		{"a repository with its own attributes", "", gitInit + "mkdir .git/info; echo x > .git/info/attributes", ".git/info/attributes", ""},
		{"a plain bare repository", "", "mkdir -p a/objects a/refs a/hooks; echo ref: refs/heads/x > a/HEAD; echo '[core] bare = true' > a/config", "", ""},
		{"a plain submodule", gitInit, "mkdir -p .git/modules/s/hooks s; echo x > .git/modules/s/HEAD; echo '[core] worktree = ../../../s' > .git/modules/s/config; echo gitdir: ../.git/modules/s > s/.git", "", ""},
		{"a submodule that works elsewhere", gitInit, "mkdir -p .git/modules/s s t; echo x > .git/modules/s/HEAD; echo '[core] worktree = ../../../t' > .git/modules/s/config; echo gitdir: ../.git/modules/s > s/.git", ".git/modules s/.git", ""},
		{"a plain worktree", gitInit, "mkdir -p .git/worktrees/w w; echo x > .git/worktrees/w/HEAD; echo ../.. > .git/worktrees/w/commondir; echo gitdir: ../.git/worktrees/w > w/.git", "", ""},
		{"a worktree that was added inside", gitInit, "mkdir -p .git/worktrees/w w; echo x > .git/worktrees/w/HEAD; echo ../.. > .git/worktrees/w/commondir; echo /workspace/w/.git > .git/worktrees/w/gitdir; echo gitdir: /workspace/.git/worktrees/w > w/.git", "w/.git", ""},
		{"a worktree of a repository that has programs run", gitInit + "echo '[core] fsmonitor = tools/x' >> .git/config", "mkdir -p .git/worktrees/w w; echo x > .git/worktrees/w/HEAD; echo ../.. > .git/worktrees/w/commondir; echo gitdir: ../.git/worktrees/w > w/.git", "w/.git", ""},
		{"a worktree of another repository", gitInit, "mkdir -p .git/worktrees/w w; echo x > .git/worktrees/w/HEAD; echo ../../x > .git/worktrees/w/commondir; echo gitdir: ../.git/worktrees/w > w/.git", ".git/worktrees w/.git", ""},
		{"a .git file that leads to the repository above", gitInit, "mkdir w; echo gitdir: ../.git > w/.git", "w/.git", ""},
		{"a .git file that leads over a link", gitInit + "mkdir -p b/worktrees; ln -s ../.git b/x", "mkdir -p .git/worktrees/w w; echo x > .git/worktrees/w/HEAD; echo ../.. > .git/worktrees/w/commondir; echo gitdir: ../b/x/worktrees/w > w/.git", "w/.git", ""},
		{"a .git file that leads over a link and back", gitInit, "mkdir -p sub/mod/objects sub/mod/refs .git/objects/mod; echo x > sub/mod/HEAD; echo '[core] worktree = ..' > sub/mod/config; ln -s ../.git/objects/mod sub/L; echo gitdir: L/../mod > sub/.git", ".git/objects/mod sub/.git sub/L sub/mod/HEAD", ""},
		{"a .git file that leads on behind its end", gitInit, "mkdir -p sub/mod/objects sub/mod/refs; echo x > sub/mod/HEAD; echo '[core] worktree = ..' > sub/mod/config; printf 'gitdir: ../evil\\0/../sub/mod\\n' > sub/.git", "sub/.git sub/mod/HEAD", ""},
		{"submodules below what has a HEAD now", gitInit + "cd .git; mkdir modules; for m in lib libs/lib libs/objects libs/logs; do mkdir -p modules/$m; echo x > modules/$m/HEAD; echo x > modules/$m/commondir; done",
			"cd .git/modules; echo x | tee HEAD > libs/HEAD; for m in lib libs/lib libs/objects libs/logs; do echo ../evil > $m/commondir; done", ".git/modules/lib/commondir .git/modules/libs/lib/commondir .git/modules/libs/logs/commondir .git/modules/libs/objects/commondir", ""},
		{"worktrees below what has a HEAD now", gitInit + "mkdir -p .git/worktrees/w; echo x > .git/worktrees/w/HEAD; echo ../.. > .git/worktrees/w/commondir", "touch .git/worktrees/HEAD; echo ../evil > .git/worktrees/w/commondir", ".git/worktrees/w/commondir", ""},
		{"the objects of a directory that becomes a repository", "mkdir -p a/objects", "cd a; echo ref: refs/heads/x > HEAD; mkdir refs; echo '[core] bare = true' > config; cd objects; mkdir ab; echo x | tee .envrc > ab/.envrc; " + gitInit + "echo x > .git/config", "a/objects/.envrc a/objects/.git/config a/objects/ab/.envrc", ""},
		{"what lies in the modules of a directory that becomes a repository", "mkdir -p modules/app", "mkdir objects refs; echo ref: refs/heads/x > HEAD; echo '[core] bare = true' > config; echo x > modules/app/.envrc; echo x > modules/app/Makefile", "modules", ""},
		{"a link into a repository's own directory", gitInit + "mkdir a; ln -s .git/hooks a/old", "mkdir -p .git/x/app; ln -s .git/x/app app", ".git/x/app app", ""},
		{"a worktree with configuration of its own, of a repository that has programs run", gitInit + "echo '[core] hooksPath = tools/hooks' >> .git/config", "mkdir -p .git/worktrees/w w; cd .git/worktrees/w; echo x > HEAD; mkdir refs; echo ../.. > commondir; echo '[core] worktree = ../../../w' > config; echo gitdir: ../.git/worktrees/w > ../../../w/.git", "w/.git", ""},
		{"a repository that works where nobody can tell", "", gitInit + "echo '[core] worktree = /a/../b' >> .git/config", ".git/config", ""},
		{"a .git file that leads over a link now", "mkdir -p store/mod/objects store/mod/refs app; echo x > store/mod/HEAD; echo '[core] worktree = ../../app' > store/mod/config; echo gitdir: ../store/mod > app/.git", "mkdir other; mv store/mod other; rmdir store; ln -s other store; echo '[core] pager = x' >> other/mod/config", "app/.git other/mod/HEAD store", ""},
		{"a repository without anything", "", "mkdir .git; echo ref: refs/heads/x > .git/HEAD", ".git", ""},
		{"a nested repository", "mkdir -p a/b", "cd a/b; " + gitInit + "echo x > .git/config; echo x > .git/hooks/update", "a/b/.git/config a/b/.git/hooks", ""},
		{"a nested hook", "mkdir -p a/b; cd a/b; " + gitInit, "echo x > a/b/.git/hooks/pre-commit", "a/b/.git/hooks/pre-commit", ""},
		{"nested configuration", "mkdir -p a/b; cd a/b; " + gitInit, "echo '[core] fsmonitor = x' >> a/b/.git/config", "a/b/.git/config", ""},
		{"a nested .git replaced by a file", "mkdir sub; cd sub; " + gitInit, "rm -r sub/.git; echo gitdir: ../evil > sub/.git", "sub/.git", ""},
		{"a nested .git replaced by a link", "mkdir sub; cd sub; " + gitInit, "mv sub/.git evil; ln -s ../evil sub/.git", "sub/.git", ""},
		{"where a .git file leads", "mkdir sub; echo gitdir: ../a > sub/.git", "echo gitdir: ../b > sub/.git", "sub/.git", ""},
		{"a submodule's hook", gitInit + "mkdir -p .git/modules/a/b/hooks; echo x > .git/modules/a/b/HEAD", "echo x > .git/modules/a/b/hooks/pre-commit", ".git/modules/a/b/hooks/pre-commit", ""},
		{"a new submodule", gitInit, "mkdir -p .git/modules/a; echo x > .git/modules/a/HEAD; echo x > .git/modules/a/config", ".git/modules", ""},
		{"another submodule", gitInit + "mkdir .git/modules", "mkdir -p .git/modules/a/hooks; echo x > .git/modules/a/HEAD; echo x > .git/modules/a/config", ".git/modules/a/config", ""},
		{"a submodule's other files", gitInit + "mkdir -p .git/modules/a/objects; echo x > .git/modules/a/HEAD", "echo x > .git/modules/a/index; echo x > .git/modules/a/objects/x", "", ""},
		{"a worktree's configuration", gitInit + "mkdir -p .git/worktrees/w; echo x > .git/worktrees/w/HEAD; echo .. > .git/worktrees/w/commondir", "echo x > .git/worktrees/w/config.worktree; echo ../evil > .git/worktrees/w/commondir", ".git/worktrees/w/commondir .git/worktrees/w/config.worktree", ""},
		{"a bare repository", "mkdir a", "mkdir a/objects a/refs a/hooks; echo ref: refs/heads/x > a/HEAD; echo x > a/config", "a/HEAD", ""},
		{"a bare repository's hook", "mkdir -p a/objects a/refs; echo x > a/HEAD", "mkdir a/hooks; echo x > a/hooks/update", "a/hooks", ""},
		{"the root as a repository", "", "mkdir objects refs; echo ref: refs/heads/x > HEAD", "HEAD", ""},
		{"what a worktree names that leads to nothing", "mkdir d; echo x > d/HEAD; echo ../evil > d/commondir", "mkdir -p evil/hooks; echo x > evil/config; echo x > evil/hooks/post-checkout", "evil/config evil/hooks", ""},
		{"the root as a worktree", "", "echo ref: refs/heads/x > HEAD; echo src > commondir", "commondir", ""},
		{"half a repository", "", "echo x > HEAD; mkdir refs", "", ""},
		{"less of a repository", "mkdir objects refs; echo x > HEAD", "rm -r HEAD objects; touch HEAD objects", "", ""},
		{"the project of a nested repository", "mkdir -p a/.husky b; cd a; " + gitInit + "echo x > .husky/pre-commit; echo x > lefthook.yml; cd ../b; " + gitInit, "echo y > a/.husky/pre-commit; echo y > a/lefthook.yml; echo x > a/.pre-commit-config.yaml; echo x > b/.gitlab-ci.yml; mkdir a/c c; echo x > a/c/lefthook.yml; echo x > c/lefthook.yml",
			"a/.husky/pre-commit a/lefthook.yml a/.pre-commit-config.yaml", "b/.gitlab-ci.yml"},
		{"the project of a worktree and of a link", "mkdir a b; echo gitdir: ../x > a/.git; ln -s ../x b/.git", "for d in a b; do echo x > $d/lefthook.yml; done", "a/lefthook.yml b/lefthook.yml", ""},
		{"a directory that becomes a project", "mkdir a; echo x > a/lefthook.yml", "cd a; " + gitInit, "a/lefthook.yml", ""},
		{"a project among packages", "mkdir -p vendor/a; cd vendor/a; " + gitInit, "echo x > vendor/a/lefthook.yml; echo x > vendor/a/Makefile; mkdir vendor/a/b; echo x > vendor/a/b/lefthook.yml", "vendor/a/lefthook.yml", ""},
		{"links that git writes through", gitInit + "mkdir -p .git/logs/refs .git/rr-cache/x", "for f in logs/HEAD logs/refs/x refs/stash COMMIT_EDITMSG packed-refs rr-cache/x/preimage; do ln -s ../../x .git/$f; done",
			".git/COMMIT_EDITMSG .git/logs/HEAD .git/logs/refs/x .git/packed-refs .git/refs/stash .git/rr-cache/x/preimage", ""},
		{"such links in a submodule, a worktree and beside it", gitInit + "mkdir -p .git/modules/a/logs .git/worktrees/w/refs b/objects b/refs/x b/logs; for d in .git/modules/a .git/worktrees/w b; do echo x > $d/HEAD; done; cp .git/HEAD .git/worktrees/w/commondir",
			"ln -s x .git/modules/a/logs/HEAD; ln -s x .git/modules/z; ln -s x .git/worktrees/w/refs/x; ln -s x b/refs/x/y; ln -s x b/logs/z; ln -s x b/FETCH_HEAD; ln -s x b/objects/y",
			".git/modules/a/logs/HEAD .git/modules/z .git/worktrees/w/refs/x b/FETCH_HEAD b/logs/z b/refs/x/y", ""},
		{"a link that was there", gitInit + "mkdir .git/logs; ln -s ../../x .git/logs/HEAD; ln -s refs/heads/x .git/refs/HEAD", "echo x > x; rm .git/HEAD; ln -s refs/heads/x .git/HEAD", "", ""},
		{"a link out that was there", gitInit + "mkdir .git/logs; ln -s ../../x .git/logs/HEAD; ln -s /nowhere/x x", "", "", ""},
		{"a HEAD that is no reference", gitInit, "ln -sf ../x .git/HEAD", ".git/HEAD", ""},
		{"what git resumes", gitInit, "mkdir .git/rebase-merge; echo exec evil > .git/rebase-merge/git-rebase-todo", "", ".git/rebase-merge"},
		{"a stopped rebase", gitInit, "mkdir .git/rebase-merge .git/sequencer; for f in git-rebase-todo done author-script; do echo x > .git/rebase-merge/$f; done; for f in AUTO_MERGE MERGE_MSG CHERRY_PICK_HEAD; do echo x > .git/$f; done", "", ".git/rebase-merge"},
		{"a stopped merge, and one in a nested repository", gitInit + "mkdir a; cp -a .git a", "for d in .git a/.git; do for f in AUTO_MERGE MERGE_MSG MERGE_HEAD MERGE_MODE; do echo x > $d/$f; done; done", "", ".git/MERGE_HEAD a/.git/MERGE_HEAD"},
		{"a rebase that goes on", gitInit + "mkdir .git/rebase-merge; for f in a b; do echo x > .git/rebase-merge/$f; done", "echo y > .git/rebase-merge/a; echo y > .git/rebase-merge/b", "", ".git/rebase-merge"},
		{"direnv", "", "mkdir -p a/b; echo x > .envrc; echo x > a/b/.envrc", ".envrc a/b/.envrc", ""},
		{"direnv, changed", "mkdir a; echo x > a/.envrc", "echo y > a/.envrc", "a/.envrc", ""},
		{"the same content", "echo x > .envrc; echo x > Makefile", "rm .envrc; echo x > .envrc; touch Makefile", "", ""},
		{"a file replaced by a link", "echo x > .envrc", "mv .envrc other; ln -s other .envrc", ".envrc other", ""},
		{"a link that leads elsewhere", "ln -s a .envrc", "ln -sfn b .envrc", ".envrc", ""},
		{"where a link leads", "echo x > real; ln -s real .envrc", "echo y > real", "real", ""},
		{"where a link to a link leads", "mkdir d; echo x > d/real; ln -s real d/one; ln -s d/one .envrc", "echo y > d/real", "d/real", ""},
		{"where a link to a directory leads", "mkdir -p dot/config/mise; ln -s dot/config .config", "echo x > dot/config/mise.toml", "dot/config/mise.toml", ""},
		{"a hook that is a link", gitInit + "mkdir s; echo x > s/pc; ln -s ../../s/pc .git/hooks/pre-commit", "echo y > s/pc", "s/pc", ""},
		{"links in a circle", "ln -s b a; ln -s a b; ln -s a .envrc", "echo x > c", "", ""},
		{"a directory of an editor", "mkdir .vscode; echo x > .vscode/tasks.json; echo x > .vscode/launch.json", "echo y > .vscode/tasks.json", ".vscode/tasks.json", ""},
		{"what is not meant of it", "mkdir -p .claude/worktrees", "echo x > .claude/worktrees/x; echo y > .claude/settings.json", ".claude/settings.json", ""},
		{"FIFOs", "mkfifo Makefile", "mkfifo .envrc; rm Makefile; mkfifo makefile", ".envrc", ""},
		{"what is removed", "echo x > .envrc; echo x > Makefile", "rm .envrc Makefile", "", ""},
		{"Makefiles", "mkdir a; echo x > Makefile", "echo y > Makefile; echo x > a/Makefile", "", "Makefile a/Makefile"},
		{"the dependencies of a package", `echo '{"scripts": {"a": "b"}, "dependencies": {}}' > package.json`, `echo '{"dependencies": {"x": "1"}, "scripts": { "a": "b"}}' > package.json`, "", ""},
		{"the scripts of a package", `echo '{"scripts": {"a": "b"}}' > package.json`, `echo '{"scripts": {"a": "c"}}' > package.json`, "", "package.json"},
		{"scripts, twice", `echo '{"scripts": {"a": "b"}}' > package.json`, `echo '{"scripts": {"a": "evil"}, "Scripts": {"a": "b"}}' > package.json`, "", "package.json"},
		{"scripts, twice in one case", `echo '{"scripts": {"a": "b"}}' > package.json`, `echo '{"scripts": {"a": "evil"}, "scripts": {"a": "b"}}' > package.json`, "", "package.json"},
		{"an installation", "mkdir node_modules", "for i in a b c; do mkdir -p node_modules/$i/src; echo x > node_modules/$i/Makefile; echo '{}' > node_modules/$i/package.json; echo x > node_modules/$i/src/setup.py; done", "", ""},
		{"an installation that plants", "mkdir node_modules", "mkdir -p node_modules/a/b; echo x > node_modules/a/b/.envrc; cd node_modules/a; " + gitInit, "node_modules/a/b/.envrc", ""},
		{"names with anything in them", "mkdir 'a\nb'", "echo x > 'a\nb/.envrc'", "a\nb/.envrc", ""},
		{"objects are not looked at", gitInit, "mkdir -p .git/objects/x; echo x > .git/objects/x/.envrc", "", ""},
		{"a moved directory", "mkdir -p a/b; echo x > a/b/.envrc", "mv a c", "c/b/.envrc", ""},
		{"where links lead that are run by name", `mkdir d ci; echo x > real.mk; ln -s real.mk Makefile; echo '{"scripts": {"a": "b"}}' > d/p; ln -s d/p package.json; echo '{}' > d/q; mkdir e; ln -s ../d/q e/package.json; ln -s ci .circleci; echo x > ci/a`,
			`echo y > real.mk; echo '{"scripts": {"a": "c"}}' > d/p; echo '{"dependencies": {"x": "1"}}' > d/q; echo y > ci/a`, "", "ci/a d/p real.mk"},
		{"what is obeyed unasked in a directory that is run by name", "", "mkdir -p .agents/.vscode .agents/r .ci/a; echo x > .agents/.envrc; echo x > .agents/.vscode/tasks.json; echo x > .ci/b; cd .agents/r; " + gitInit + "echo '[core] fsmonitor = x' >> .git/config; echo x > .git/hooks/update",
			".agents/.envrc .agents/.vscode .agents/r/.git/config .agents/r/.git/hooks", ".agents .ci"},
		{"a repository that a .git file finds in .git", gitInit + "mkdir -p .git/own/lib lib; cp .git/config .git/HEAD .git/own/lib; echo gitdir: ../.git/own/lib > lib/.git", "mkdir .git/own/lib/hooks; echo x > .git/own/lib/hooks/pre-commit", ".git/own/lib/hooks", ""},
		{"repositories where git keeps objects", gitInit + "for d in .git/objects/a .git/modules/objects/ab .git/lfs/objects/ab; do mkdir -p $d/hooks; cp .git/config .git/HEAD $d; echo gitdir: $PWD/$d | tee -a ${d##*/}.f; done; mkdir a b c; mv a.f a/.git; head -1 ab.f > b/.git; tail -1 ab.f > c/.git; rm ab.f",
			"for d in .git/objects/a .git/modules/objects/ab .git/lfs/objects/ab; do echo x > $d/hooks/update; done", ".git/lfs/objects/ab/hooks/update .git/modules/objects/ab/hooks/update .git/objects/a/hooks/update", ""},
		{"a worktree of a repository where git keeps objects", gitInit + "mkdir -p .git/objects/a/worktrees/w w; cp .git/config .git/HEAD .git/objects/a; echo x > .git/objects/a/worktrees/w/HEAD; echo ../.. > .git/objects/a/worktrees/w/commondir; echo gitdir: ../.git/objects/a/worktrees/w > w/.git", "echo '[core] pager = x' >> .git/objects/a/config", ".git/objects/a/config", ""},
		{"a submodule in objects/ of a directory with only a HEAD", gitInit, "mkdir -p .git/modules/x/objects/ab; cp .git/HEAD .git/modules/x; cp .git/HEAD .git/modules/x/objects/ab; echo x > .git/modules/x/objects/ab/config", ".git/modules", ""},
		{"a submodule in objects/ of a directory with only a HEAD, changed later", gitInit + "mkdir -p .git/modules/x/objects/ab; cp .git/HEAD .git/modules/x; cp .git/HEAD .git/modules/x/objects/ab", "echo x > .git/modules/x/objects/ab/config", ".git/modules/x/objects/ab/config", ""},
		{"a submodule in objects/ of a forged repository", gitInit + "mkdir -p .git/modules/x/objects/ab .git/modules/x/objects/cd .git/modules/x/refs; cp .git/HEAD .git/modules/x; cp .git/HEAD .git/modules/x/objects/ab", "echo x > .git/modules/x/objects/ab/config; echo x > .git/modules/x/objects/cd/config", ".git/modules/x/objects/ab/config", ""},
		{"files of git-annex's", gitInit + "mkdir -p .git/annex/objects/a/dir; echo x > .git/annex/objects/a/x", "ln -s .git/annex/objects/a/x x; ln -s .git/annex/objects/b y; ln -s .git/annex/objects/a/dir z", ".git/annex/objects/a/dir z", ""},
		{"a repository behind a .git file, among many files", gitInit + "mkdir -p .git/objects/ab z; cp .git/HEAD .git/objects/ab; for i in $(seq 600); do mkdir d$i; echo x > d$i/.envrc; done; echo gitdir: ../.git/objects/ab > z/.git", "echo x > .git/objects/ab/config", ".git/objects/ab/config", ""},
		{"the directory of submodules as a repository", gitInit + "mkdir .git/modules a; cp .git/config .git/HEAD .git/modules; echo gitdir: ../.git/modules > a/.git", "mkdir .git/modules/hooks; echo x > .git/modules/hooks/update", ".git/modules/hooks", ""},
		{"a repository that looks like a sample", gitInit, "mkdir -p .git/hooks/r.sample; cp .git/HEAD .git/hooks/r.sample; echo x > .git/hooks/x.sample", ".git/hooks/r.sample/HEAD", ""},
		{"a repository that others push to", gitInit, "mkdir -p .git/foo/e.git/objects .git/foo/e.git/refs .git/foo/e.git/hooks; cp .git/HEAD .git/foo/e.git; echo x > .git/foo/e.git/hooks/update; mkdir sub; cd sub; " + gitInit + "echo '[remote \"origin\"] url = ../.git/foo/e.git' >> .git/config", ".git/foo/e.git/hooks sub/.git/config", ""},
		{"remotes in the older form", gitInit, "mkdir .git/remotes .git/branches; echo URL: .git/foo/e.git > .git/remotes/origin; echo .git/foo/e.git > .git/branches/b", "", ".git/branches .git/remotes"},
		{"a .git file that the text alone does not tell", "mkdir -p m/objects m/refs s a; ln -s ../m s/l; echo x > m/HEAD; echo gitdir: ../s/l/../m > a/.git", "mkdir m/hooks; echo x > m/hooks/update", "m/hooks", ""},
		{"a link over a link and back", "mkdir -p other/deep .vscode; ln -s other/deep c; echo x > other/t.json; ln -s ../c/../t.json .vscode/tasks.json", "echo y > other/t.json", "other/t.json", ""},
		{"a link over many links", "mkdir .vscode c; echo x > c/r; ln -s r c/l1; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do ln -s l$i c/l$((i+1)); done; ln -s ../c/l13 .vscode/tasks.json", "echo y > c/r", "c/r", ""},
		{"a workflow that is a link", "mkdir -p .github/workflows shared; echo x > shared/ci; ln -s ../../shared/ci .github/workflows/ci.yml", "echo y > shared/ci", "", "shared/ci"},
		{"workflows", "mkdir -p .github/workflows", "echo x > .github/workflows/ci.yml", "", ".github/workflows/ci.yml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ws := t.TempDir()
			script := func(text string) string { return strings.ReplaceAll(text, `\n`, "\n") }
			host(t, ws, script(tt.before))
			before := Take(t.Context(), Watch{Workspace: ws, Roots: []string{ws}})
			kept, err := Decode(before.Encode())
			if err != nil {
				t.Fatal(err)
			}
			host(t, ws, script(tt.commands))
			for how, c := range map[string]Changes{"in memory": before.Compare(t.Context()), "from a file": kept.CompareWith(t.Context(), map[string]*Snapshot{})} {
				planted, named := found(c, ws, policy.Unasked), found(c, ws, policy.WhenNamed)
				if planted != tt.planted || named != tt.named || len(c.Unseen) > 0 {
					t.Errorf("%s: planted %q, want %q; when named %q, want %q; unseen %q", how, planted, tt.planted, named, tt.named, c.Unseen)
				}
			}
		})
	}
}

// What a directory above the root, or a home, makes of a path counts, too.
func TestCompareAround(t *testing.T) {
	for _, tt := range []struct {
		name, root, home, commands, planted string
	}{
		{"a home", "", "", "echo x > .bashrc; mkdir -p .ssh; echo x > .ssh/config", ".bashrc .ssh"},
		{"above a home", "", "user", "mkdir user; echo x > user/.bashrc", "user/.bashrc"},
		{"below a home", ".config", "", "mkdir -p .config/autostart; echo x > .config/autostart/x", ".config/autostart"},
		{"a part of a project", ".config", "-", "echo x > .config/lefthook.yml", ".config/lefthook.yml"},
		{"a directory of an editor", ".vscode", "-", "echo x > .vscode/tasks.json", ".vscode/tasks.json"},
		{"a repository", ".git", "-", "mkdir .git/hooks; echo x > .git/config", ".git/config"},
		{"hooks", ".git/hooks", "-", "echo x > .git/hooks/pre-commit", ".git/hooks/pre-commit"},
		{"what is not meant", ".claude/worktrees", "-", "echo x > .claude/worktrees/x; echo x > .claude/worktrees/.envrc", ".claude/worktrees/.envrc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			root := filepath.Join(dir, tt.root)
			if err := os.MkdirAll(root, 0o755); err != nil {
				t.Fatal(err)
			}
			w := Watch{Workspace: dir, Roots: []string{root}}
			if tt.home != "-" {
				w.Homes = []string{filepath.Join(dir, tt.home)}
			}
			before := Take(t.Context(), w)
			host(t, dir, tt.commands)
			if got := found(before.Compare(t.Context()), dir, policy.Unasked); got != tt.planted {
				t.Errorf("%q, want %q", got, tt.planted)
			}
		})
	}
	t.Run("a new repository, where the user's git runs what lies in it", func(t *testing.T) {
		dir := t.TempDir()
		kept, err := Decode(Take(t.Context(), Watch{Workspace: dir, Roots: []string{dir}, Relative: true}).Encode())
		if err != nil {
			t.Fatal(err)
		}
		host(t, dir, gitInit)
		if got := found(kept.CompareWith(t.Context(), map[string]*Snapshot{}), dir, policy.Unasked); got != ".git/config .git/hooks" {
			t.Errorf("%q", got)
		}
	})
	t.Run("links that lead in over a link of the host's", func(t *testing.T) {
		dir := t.TempDir()
		ws := filepath.Join(dir, "ws")
		host(t, dir, "ln -s ws alias; mkdir -p ws/d ws/sub ws/.vscode; cd ws; echo x | tee d/t.json > d/mk; ln -s "+dir+"/alias/d/t.json .vscode/tasks.json; ln -s ../../alias/d/mk sub/Makefile; ln -s /proc/self/root"+ws+"/d/x .envrc")
		before := Take(t.Context(), Watch{Workspace: ws, Roots: []string{ws}})
		host(t, ws, "echo y > d/x; echo y > d/t.json; echo y > d/mk")
		c := before.Compare(t.Context())
		if got := found(c, ws, policy.Unasked); got != "d/t.json d/x" {
			t.Errorf("%q", got)
		}
		if got := found(c, ws, policy.WhenNamed); got != "d/mk" {
			t.Errorf("%q", got)
		}
		if len(c.Unseen) != 1 || !strings.Contains(c.Unseen[0], "/proc/self/root") {
			t.Errorf("%q", c.Unseen)
		}
	})
	t.Run("links that lead elsewhere for each program", func(t *testing.T) {
		ws := t.TempDir()
		before := Take(t.Context(), Watch{Workspace: ws, Roots: []string{ws}})
		host(t, ws, "ln -s /proc/self/cwd/web web; ln -s / up; ln -s up/proc/self/cwd/node_modules/web web2; ln -s ../../../../../../../../../proc/self/root/x web3; "+
			"ln -s /proc/mounts mtab; ln -s /proc/self/fd fd; ln -s /process proc")
		if c := before.Compare(t.Context()); len(c.Unseen) != 3 || !strings.Contains(strings.Join(c.Unseen, " "), "/proc/self/cwd/web") {
			t.Errorf("%q", c.Unseen)
		}
	})
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		host(t, dir, gitInit+"mkdir dotfiles; ln -s dotfiles/rc .bashrc; for f in .envrc Makefile dotfiles/rc tool plain; do echo x > $f; done")
		w := Watch{Workspace: dir, Homes: []string{dir}}
		for _, name := range []string{".envrc", ".git/config", "Makefile", "dotfiles/rc", "tool", "plain"} {
			w.Roots = append(w.Roots, filepath.Join(dir, name))
		}
		for _, name := range []string{"dotfiles/rc", "tool", "plain/x"} {
			w.Also = append(w.Also, policy.Obeyed{Path: filepath.Join(dir, name), Dir: true, Class: policy.Unasked, Why: "a link leads to it, or it is named"})
		}
		before := Take(t.Context(), w)
		kept, err := Decode(before.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if c := before.Compare(t.Context()); len(c.List)+len(c.Unseen) > 0 {
			t.Errorf("before anything: %+v", c)
		}
		host(t, dir, "for f in .envrc .git/config Makefile dotfiles/rc tool plain; do echo y > $f; done")
		for how, c := range map[string]Changes{"in memory": before.Compare(t.Context()), "from a file": kept.CompareWith(t.Context(), map[string]*Snapshot{})} {
			planted, named := found(c, dir, policy.Unasked), found(c, dir, policy.WhenNamed)
			if planted != ".envrc .git/config dotfiles/rc tool" || named != "Makefile" || len(c.Unseen) > 0 {
				t.Errorf("%s: planted %q; when named %q; unseen %q", how, planted, named, c.Unseen)
			}
		}
	})
	t.Run("what is named", func(t *testing.T) {
		dir := t.TempDir()
		host(t, dir, "mkdir -p a b; echo x > a/tool; echo x > b/x")
		w := Watch{Workspace: dir, Roots: []string{dir}}
		for _, name := range []string{"a/tool", "b", "c"} {
			w.Also = append(w.Also, policy.Obeyed{Path: filepath.Join(dir, name), Dir: name == "b", Class: policy.Unasked, Why: "it is named"})
		}
		before := Take(t.Context(), w)
		host(t, dir, "echo y > a/tool; echo y > b/y; echo z > c")
		if got := found(before.Compare(t.Context()), dir, policy.Unasked); got != "a/tool b/y c" {
			t.Errorf("%q", got)
		}
	})
}

// Programs that the host's shells find by PATH count, wherever a directory of it or a link in one leads.
func TestComparePath(t *testing.T) {
	for _, tt := range []struct{ name, before, commands, planted string }{
		{"a directory", "mkdir ws/bin; prog ws/bin/old ws/bin/same", "cd ws/bin; prog new old; echo x > data; mkdir -p sub; prog sub/x", "bin/old bin/new"},
		{"a directory that was not there", "", "mkdir -p ws/bin/empty", ""},
		{"a program in a directory that was not there", "", "mkdir ws/bin; prog ws/bin/x", "bin/x"},
		{"many programs", "mkdir ws/bin", "cd ws/bin; prog a b c d e", "bin"},
		{"a directory that tools fill", "mkdir -p ws/.venv/bin; prog ws/.venv/bin/python", "cd ws/.venv/bin; prog pip pytest; echo x > activate.csh", ".venv/bin/pip .venv/bin/pytest"},
		{"links to programs of packages", "mkdir -p ws/node_modules/.bin", "cd ws/node_modules; for p in a b c d; do mkdir $p; prog $p/cli; ln -s ../$p/cli .bin/$p; done", "node_modules/.bin"},
		{"the workspace", "prog ws/tool; echo x > ws/README", "cd ws; prog tool; mkdir -p src/a; prog src/a/x; echo y > README", "tool"},
		{"a file that becomes a program", "mkdir ws/bin; echo x > ws/bin/x", "chmod +x ws/bin/x", "bin/x"},
		{"a link to a program", "mkdir ws/bin ws/src; prog ws/src/x; ln -s ../src/x ws/bin/x", "prog ws/src/x", "src/x"},
		{"a link to a directory", "mkdir ws/bin ws/src; ln -s ../src ws/bin/src", "prog ws/src/x", ""},
		{"over a link of the host's", "mkdir ws/bin; ln -s ../ws/bin home/bin", "prog ws/bin/x", "bin/x"},
		{"over a link that is made", "mkdir -p ws/v1/bin ws/v2/bin; ln -s v1 ws/cur; prog ws/v1/bin/x ws/v2/bin/x", "ln -sfn v2 ws/cur", "cur v2/bin/x"},
		{"over a link of the host's and one that is made", "mkdir -p ws/v1 ws/v2; ln -s v1 ws/c; ln -s ../ws/c home/bin; prog ws/v1/x ws/v2/x", "ln -sfn v2 ws/c", "c v2/x"},
		{"a program that a link of the host's leads to", "mkdir ws/tools home/bin; prog ws/tools/x ws/tools/y; ln -s ../../ws/tools/x home/bin/x", "prog ws/tools/x ws/tools/y", "tools/x"},
		{"one that was not there", "mkdir home/bin; ln -s ../../ws/tools/x home/bin/x", "mkdir ws/tools; prog ws/tools/x", "tools/x"},
		{"nothing of PATH", "mkdir ws/src", "prog ws/src/x", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			ws := filepath.Join(dir, "ws")
			const prog = "prog() { for f; do echo $RANDOM$f >> $f; chmod +x $f; done; }\n"
			host(t, dir, prog+"mkdir ws home\n"+tt.before)
			w := Watch{Workspace: ws, Roots: []string{ws}}
			for _, at := range []string{"ws/bin", "ws/.venv/bin", "ws/node_modules/.bin", "ws/cur/bin", "home/bin"} {
				w.Search = append(w.Search, filepath.Join(dir, at))
			}
			if tt.name == "the workspace" {
				w.Search = append(w.Search, ws)
			}
			before := Take(t.Context(), w)
			kept, err := Decode(before.Encode())
			if err != nil {
				t.Fatal(err)
			}
			if c := before.Compare(t.Context()); len(c.List)+len(c.Unseen) > 0 {
				t.Errorf("before anything: %+v", c)
			}
			host(t, dir, prog+tt.commands)
			for how, c := range map[string]Changes{"in memory": before.Compare(t.Context()), "from a file": kept.CompareWith(t.Context(), map[string]*Snapshot{})} {
				if got := found(c, ws, policy.Unasked); got != tt.planted || len(c.Unseen) > 0 {
					t.Errorf("%s: %q, want %q; unseen %q", how, got, tt.planted, c.Unseen)
				}
			}
		})
	}
}

// Nothing that commands can make holds a look up, or leads it elsewhere.
func TestCompareHostile(t *testing.T) {
	outside := t.TempDir()
	for name, script := range map[string]string{
		"links out of it":     "ln -s " + outside + " out; ln -s " + outside + " .vscode; ln -s / .git; ln -s /proc/self .config; ln -s " + outside + " .idea",
		"FIFOs and sockets":   "mkdir .git .vscode .husky; for f in .git/config .git/HEAD .vscode/tasks.json .husky/x .envrc HEAD Makefile package.json; do mkfifo $f; done",
		"giants":              "mkdir .git .vscode; for f in .git/config .vscode/x .envrc package.json Makefile; do truncate -s 10G $f; done",
		"directories":         "mkdir -p .git/config/x .envrc/x Makefile/x package.json .mcp.json/y HEAD objects refs config hooks/pre-commit",
		"files":               "touch .git .vscode .husky .config objects refs HEAD hooks",
		"links in circles":    "ln -s .git .git; ln -s .vscode .vscode; mkdir a; ln -s ../a a/a; ln -s . b; ln -s .. .claude",
		"unreadable":          "mkdir -p .git/hooks a; echo x > .git/config; echo x > .envrc; chmod 0 .git/config .envrc .git/hooks a",
		"many names":          "mkdir m; cd m; seq 1 20000 | xargs touch; mkdir ../.vscode; cd ../.vscode; seq 1 3000 | xargs touch",
		"many directories":    "mkdir m; cd m; seq 1 3000 | xargs mkdir",
		"names of any bytes":  `mkdir "$(printf 'a\377\n\033[31m')"; echo x > "$(printf 'a\377\n\033[31m')/.envrc"; touch ./-- './ ' './\'`,
		"repositories inside": "for i in 1 2 3 4 5 6 7 8; do mkdir -p .git/modules/x; touch .git/modules/x/HEAD; cd .git/modules/x; mkdir .git; done",
	} {
		t.Run(name, func(t *testing.T) {
			ws := t.TempDir()
			empty := Take(t.Context(), Watch{Workspace: ws, Roots: []string{ws}})
			host(t, ws, script)
			t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwx", ws).Run() })
			full := Take(t.Context(), Watch{Workspace: ws, Roots: []string{ws}})
			dir, err := os.Open(ws)
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			// Beyond the bounds of what is read, or of what may be.
			beyond := name == "unreadable" && os.Geteuid() != 0
			if (name == "giants" || name == "many names") && !dirfd.KeepsFileTimes(int(dir.Fd())) {
				beyond = true
			}
			if c := full.Compare(t.Context()); len(c.List) > 0 || len(c.Unseen) > 0 != beyond {
				t.Errorf("unchanged, and told: %+v", c)
			}
			c := empty.Compare(t.Context())
			for _, change := range c.List {
				if _, in := hostpath.Within(change.Path, ws); !in {
					t.Errorf("it was led to %s", change.Path)
				}
			}
			if name != "many names" && name != "many directories" && len(c.List) == 0 {
				t.Error("nothing is told")
			}
			if _, err := Decode(full.Encode()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A bound that is reached is told, and what lies above it is compared.
func TestCompareBounds(t *testing.T) {
	ws := t.TempDir()
	before := Take(t.Context(), Watch{Workspace: ws, Roots: []string{ws}})
	// Deeper than a path can be: each level by its own handle.
	at, err := os.OpenRoot(ws)
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		if err := at.Mkdir("d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := at.OpenRoot("d")
		_ = at.Close()
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	_ = at.WriteFile(".envrc", []byte("x"), 0o644)
	_ = at.Close()
	t.Cleanup(func() { _ = exec.Command("rm", "-rf", filepath.Join(ws, "d")).Run() })
	host(t, ws, "echo x > .envrc")
	c := before.Compare(t.Context())
	if got := found(c, ws, policy.Unasked); got != ".envrc" || len(c.Unseen) != 1 || !strings.Contains(c.Unseen[0], "more were not looked at") {
		t.Errorf("planted %q, unseen %q", got, c.Unseen)
	}
	deep := Take(t.Context(), Watch{Workspace: ws, Roots: []string{ws}})
	host(t, ws, "echo y > d/.envrc")
	if got := found(deep.Compare(t.Context()), ws, policy.Unasked); got != "d/.envrc" {
		t.Errorf("planted %q", got)
	}
}

// A directory that can be entered and not read is told of at each end.
func TestCompareUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	ws := t.TempDir()
	host(t, ws, "mkdir d; chmod 311 d")
	for range 2 {
		before := Take(t.Context(), Watch{Workspace: ws, Roots: []string{ws}})
		host(t, ws, "mkdir -p d/x; echo x >> d/x/.envrc")
		kept, err := Decode(before.Encode())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []Changes{before.Compare(t.Context()), kept.CompareWith(t.Context(), map[string]*Snapshot{})} {
			if len(c.Unseen) != 1 || !strings.Contains(c.Unseen[0], filepath.Join(ws, "d")) {
				t.Errorf("unseen %q", c.Unseen)
			}
		}
	}
	host(t, ws, "chmod 755 d")
}

// A caller that gives up gets an answer that says so.
func TestCompareCancelled(t *testing.T) {
	ws := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := Take(ctx, Watch{Workspace: ws, Roots: []string{ws}})
	if c := before.Compare(t.Context()); len(c.Unseen) == 0 {
		t.Error("nothing is said of a look that did not happen")
	}
}

// Whatever is done to a tree, a comparison that leaves out directories which
// have not changed finds what one without that finds.
func TestCompareSkipsNothing(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		ws := t.TempDir()
		pick := func() string {
			dir := ws
			for range r.IntN(4) {
				dir = filepath.Join(dir, []string{"a", "b", ".git", "hooks", "node_modules", "modules", "objects"}[r.IntN(7)])
			}
			return dir
		}
		change := func() {
			dir := pick()
			name := filepath.Join(dir, []string{".envrc", "HEAD", "config", "Makefile", "refs", "objects", "commondir", ".git", "lefthook.yml"}[r.IntN(9)])
			switch r.IntN(8) {
			case 0:
				_ = os.RemoveAll(name)
			case 1:
				_ = os.Rename(name, filepath.Join(pick(), filepath.Base(name)))
			case 2:
				_ = os.Rename(pick(), filepath.Join(pick(), "b"))
			case 3:
				_ = os.Symlink(pick(), name)
			case 4:
				_ = os.Link(name, filepath.Join(pick(), ".envrc"))
			default:
				_ = os.MkdirAll(dir, 0o755)
				_ = os.WriteFile(name, fmt.Append(nil, r.Int()), 0o644)
			}
		}
		for range 60 {
			change()
		}
		// Old enough for equal times to prove something.
		time.Sleep(20 * time.Millisecond) // more than a tick of the kernel's clock
		before := takeAt(t, ws, time.Now().Add(2*margin))
		for range 1 + r.IntN(10) {
			change()
		}
		kept, err := Decode(before.Encode())
		if err != nil {
			t.Fatal(err)
		}
		fast, whole := before.Compare(t.Context()), kept.CompareWith(t.Context(), map[string]*Snapshot{})
		text := func(c Changes) []string {
			var list []string
			for _, o := range c.List {
				list = append(list, o.Path, string(o.By.Class))
			}
			return append(list, c.Unseen...)
		}
		if !slices.Equal(text(fast), text(whole)) {
			t.Errorf("seed %d: %q\nwithout leaving out: %q", seed, text(fast), text(whole))
		}
	}
}

// takeAt is Take at a time to come.
func takeAt(t *testing.T, ws string, now time.Time) *Snapshot {
	t.Helper()
	return takeAll(t.Context(), Watch{Workspace: ws, Roots: []string{ws}}, nil, nil, now)
}

func TestDecode(t *testing.T) {
	ws := t.TempDir()
	host(t, ws, "echo x > .envrc; echo x > 'a\n\"b'; mkdir .vscode; echo y > .vscode/'odd\n\"name'")
	text := Take(t.Context(), Watch{Workspace: ws, Roots: []string{ws, "/x\ny"}, Homes: []string{"/h"}, Also: []policy.Obeyed{{Path: "/p q", Class: policy.Unasked, Why: "\x00"}}}).Encode()
	if s, err := Decode(text); err != nil || len(s.items) != 3 {
		t.Fatalf("%v, %v", s, err)
	}
	for i := range text[:len(text)-1] {
		if s, err := Decode(text[:i]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%d bytes of it: %v, %v", i, s, err)
		}
	}
	for _, damaged := range []string{"", "x", strings.Replace(string(text), "\nend", "\nfin", 1), string(text) + "item\n", strings.Replace(string(text), "\nroot", "\nroof", 1)} {
		if _, err := Decode([]byte(damaged)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: %v", damaged, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(format + "\nroot \"/x\"\nitem \"/x/.envrc\" \"f\" \"644\" \"1\" \"2\"\nend \"1\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Decode(text)
		if err != nil {
			return
		}
		again, err := Decode(s.Encode())
		if err != nil || len(again.items) != len(s.items) {
			t.Errorf("%v", err)
		}
	})
}

// A change of the same size, at once, is seen: the time of the one before may be
// the same, by the kernel's clock.
func TestCompareWithinATick(t *testing.T) {
	for range 50 {
		ws := t.TempDir()
		file := filepath.Join(ws, ".envrc")
		if err := os.WriteFile(file, []byte("a"), 0o644); err != nil {
			t.Fatal(err)
		}
		before := Take(t.Context(), Watch{Workspace: ws, Roots: []string{ws}})
		if err := os.WriteFile(file, []byte("b"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := found(before.Compare(t.Context()), ws, policy.Unasked); got != ".envrc" {
			t.Fatalf("%q", got)
		}
	}
}

// Many changes of what runs by name hide none of what is obeyed unasked.
func TestCompareMany(t *testing.T) {
	ws := t.TempDir()
	before := takeAt(t, ws, time.Now())
	host(t, ws, "i=0; while [ $i -lt 1100 ]; do mkdir a$i; : > a$i/Makefile; i=$((i+1)); done; mkdir z; echo x > z/.envrc")
	c := before.Compare(t.Context())
	if got := found(c, ws, policy.Unasked); got != "z/.envrc" || len(c.List) != MaxChanges || len(c.Unseen) != 1 {
		t.Errorf("planted %q of %d changes; unseen %q", got, len(c.List), c.Unseen)
	}
}

// What is written through a mapping is seen where the file system does not note
// it in any time: tmpfs does not, once a page was read.
func TestCompareMapped(t *testing.T) {
	ws, err := os.MkdirTemp("/dev/shm", "mapped") //nolint:usetesting // t.TempDir is mostly no tmpfs
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(ws) })
	for _, name := range []string{"sub/.envrc", "sub/package.json", "Makefile", "large/.envrc"} {
		file := filepath.Join(ws, name)
		_ = os.MkdirAll(filepath.Dir(file), 0o755)
		text := []byte(`{"scripts": {"a": "b"}}`)
		if strings.HasPrefix(name, "large") {
			text = make([]byte, maxHashed+1)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := takeAt(t, ws, time.Now().Add(2*margin)) // old enough for equal times to prove something
	for _, name := range []string{"sub/.envrc", "sub/package.json", "Makefile"} {
		f, err := os.OpenFile(filepath.Join(ws, name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		var was, is unix.Stat_t
		m, err := unix.Mmap(int(f.Fd()), 0, 23, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil || m[0] != '{' || unix.Fstat(int(f.Fd()), &was) != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // more than a tick of the kernel's clock
		copy(m[17:], "x")
		if unix.Munmap(m) != nil || unix.Fstat(int(f.Fd()), &is) != nil || identity(&was) != identity(&is) {
			t.Skip("this file system notes it")
		}
	}
	c := before.Compare(t.Context())
	if planted, named := found(c, ws, policy.Unasked), found(c, ws, policy.WhenNamed); planted != "sub/.envrc" || named != "Makefile sub/package.json" {
		t.Errorf("planted %q, when named %q", planted, named)
	}
	if len(c.Unseen) != 1 || !strings.Contains(c.Unseen[0], "large/.envrc") {
		t.Errorf("unseen %q", c.Unseen)
	}
}

// manyRepositories are 20,000 plain ones, of which each holds some more.
func manyRepositories() *Snapshot {
	s := &Snapshot{items: map[string]item{}}
	entry := func(name string) *policy.Obeyed {
		all := policy.Inventory()
		return &all[slices.IndexFunc(all, func(o policy.Obeyed) bool { return o.Path == name && (name == ".git") == (o.Under != policy.GitDir) })]
	}
	git, config, held := entry(".git"), entry("config"), entry("modules")
	for i := range 20000 {
		dir := fmt.Sprintf("/w/r%d/.git", i)
		s.items[dir] = item{kind: isGit, by: git, top: dir}
		s.items[dir+"/config"] = item{kind: isFile, harmless: true, by: config, top: dir + "/config"}
		s.items[dir+"/modules"] = item{kind: isDir, by: held, top: dir + "/modules"}
	}
	return s
}

// changesSoon is Snapshot.changes, which ends.
func changesSoon(t *testing.T, before, now *Snapshot) Changes {
	t.Helper()
	done := make(chan Changes, 1)
	go func() { done <- before.changes(now, time.Now().Add(time.Hour)) }()
	select {
	case c := <-done:
		return c
	case <-time.After(time.Minute):
		t.Fatal("a comparison of many repositories does not end")
		return Changes{}
	}
}

// What is quiet is dropped from many repositories as from one, and nothing else is.
func TestCompareManyRepositories(t *testing.T) {
	now := manyRepositories()
	evil := now.items["/w/r7/.git/config"]
	evil.harmless, evil.top = false, "/w/r7/.git/modules/x/config"
	now.items[evil.top] = evil
	if c := changesSoon(t, &Snapshot{}, now); found(c, "/w", policy.Unasked) != "r7/.git/modules" || len(c.Unseen) > 0 {
		t.Errorf("%q, %q", found(c, "/w", policy.Unasked), c.Unseen)
	}
}

// A ".git" is told by what is in it, where it has something, also among many.
func TestCompareManyGitFiles(t *testing.T) {
	now := manyRepositories()
	for full, i := range now.items {
		i.harmless = false
		if i.kind == isGit {
			i.kind = isFile // leads nowhere
		} else if !strings.HasPrefix(full, "/w/r7/") {
			delete(now.items, full)
			continue
		}
		now.items[full] = i
	}
	c := changesSoon(t, &Snapshot{}, now)
	if len(c.List) != MaxChanges || len(c.Unseen) != 1 || !strings.HasPrefix(c.Unseen[0], "19000 more changes") {
		t.Errorf("%d changes, %q", len(c.List), c.Unseen)
	}
	all := shorten([]Change{{Path: "/a/.git", By: policy.Obeyed{Path: ".git"}}, {Path: "/a/.git-x"}, {Path: "/a/.git/config"}, {Path: "/b/.git", By: policy.Obeyed{Path: ".git"}}, {Path: "/b/.gitx"}}, nil, time.Now().Add(time.Hour))
	if got := found(Changes{List: all}, "/", ""); got != "a/.git-x a/.git/config b/.git b/.gitx" {
		t.Errorf("of some: %q", got)
	}
}

// What there is no time to compare is said.
func TestCompareNoTime(t *testing.T) {
	c := (&Snapshot{}).changes(manyRepositories(), time.Now().Add(-time.Second))
	if len(c.List) > 0 || len(c.Unseen) != 1 || !strings.HasPrefix(c.Unseen[0], "60000 of 60000 paths") || !strings.Contains(c.Unseen[0], "not compared") {
		t.Errorf("%d changes, %q", len(c.List), c.Unseen)
	}
}

// What commands opened in the meantime is told of, as what is closed still.
func TestCompareOpened(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	ws := t.TempDir()
	host(t, ws, "mkdir -p a/x b c c-d; chmod 0 a b c c-d")
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "755", ws).Run() })
	before := Take(t.Context(), Watch{Workspace: ws, Roots: []string{ws}, Also: []policy.Obeyed{{Path: ws + "/c/x", Class: policy.Unasked}}})
	host(t, ws, "chmod 755 a; rmdir b")
	var got []string
	for _, u := range before.Compare(t.Context()).Unseen {
		got = append(got, strings.ReplaceAll(u, ws+"/", ""))
	}
	want := []string{`could not look into "a" before the commands: permission denied`, `cannot look into "c": permission denied`, `cannot look into "c-d": permission denied`}
	if !slices.Equal(got, want) {
		t.Errorf("unseen %q, want %q", got, want)
	}
}
