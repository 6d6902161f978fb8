//go:build linux

package escape

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// everyday is daily work, which must go on as it does without a sandbox: the
// second control of the attacks that act later. Nothing of it is reported.
type everyday struct {
	name    string
	needs   []string
	prepare string // on the host
	inside  string // must succeed
	by      door   // by default paddock run
	at      string
	flags   []string
	env     []string
	after   string // on the host; must succeed
	told    string // is in the one line that is reported each time; by default none is
}

// TestAfterOrdinary does ordinary work in ordinary trees.
func TestAfterOrdinary(t *testing.T) {
	requireWalls(t, policy.LevelFull)
	for _, o := range everydayWork() {
		t.Run(strings.ReplaceAll(o.name, "/", "."), func(t *testing.T) {
			t.Parallel()
			for _, program := range o.needs {
				if _, err := exec.LookPath(program); err != nil {
					t.Skip(program + " is not installed here")
				}
			}
			s := newScene(t)
			s.must(t, o.prepare)
			for _, time := range []string{"first", "second"} {
				// What the work prints is shown where it fails.
				work := later{at: o.at, by: o.by, flags: o.flags, env: o.env, attack: `( set -eu; PASS=` + time + "\n" + o.inside + "\n) >.work 2>&1; test $? = 0 || exit 1; rm -f .work"}
				ran, said := work.enter(t, s)
				if !ran {
					t.Fatalf("it fails inside, the %s time: %s%s", time, said, s.shell(t, `cat .work "`+o.at+`/.work" 2>/dev/null`, nil))
				}
				lines := strings.Count(said, "paddock: ")
				if o.told == "" && lines > 0 || o.told != "" && (lines != 1 || !strings.Contains(said, o.told)) {
					t.Errorf("what is reported, the %s time: %s, want %q", time, said, o.told)
				}
			}
			if out, err := s.host(t.Context(), "set -eu\n"+o.after, o.env).CombinedOutput(); err != nil {
				t.Errorf("the host cannot go on: %v\n%s", err, out)
			}
		})
	}
}

func everydayWork() []everyday {
	const (
		// daily is what people and agents do in a repository.
		daily = `
echo "$PASS" >>src/a.txt; echo new >"new-$PASS"
git status --short; git add .; git commit -q -m "work $PASS"
git checkout -q -b "branch-$PASS"; echo x >>src/a.txt; git commit -q -a -m x; git checkout -q -
git merge -q --no-ff -m merged "branch-$PASS"
echo stashed >>src/a.txt; git stash -q; git stash pop -q; git checkout -q src/a.txt
git checkout -q -b "topic-$PASS" HEAD~1; echo t >"topic-$PASS"; git add .; git commit -q -m topic; git rebase -q -; git checkout -q -; git merge -q "topic-$PASS"
GIT_SEQUENCE_EDITOR="sed -i 1s/pick/reword/" git rebase -q -i HEAD~1
git tag "v-$PASS"; git log --oneline >/dev/null; git diff HEAD~1 >/dev/null; git cherry-pick --no-commit "branch-$PASS" >/dev/null 2>&1 || git cherry-pick --abort 2>/dev/null || true
git reset -q --hard; git clean -q -fdx -e .work; git fsck
`
		goOn     = `git status --short; echo host >>src/a.txt; git add .; git commit -q -m host; test "$(git log --oneline | wc -l)" -gt 5`
		packages = `
mkdir -p pkgs/a/bin pkgs/b; echo '{"name":"a","version":"1.0.0","bin":{"a":"bin/a.js"},"dependencies":{}}' >pkgs/a/package.json
printf '#!/usr/bin/env node\nconsole.log("a")\n' >pkgs/a/bin/a.js
echo '{"name":"b","version":"1.0.0","scripts":{"install":"node -e 0"}}' >pkgs/b/package.json
(cd pkgs && npm pack --silent ./a ./b >/dev/null)
echo '{"name":"app","version":"1.0.0","scripts":{"test":"a"},"dependencies":{"a":"file:pkgs/a-1.0.0.tgz","b":"file:pkgs/b-1.0.0.tgz"}}' >package.json
npm install --silent --offline --no-audit --no-fund
echo node_modules >.gitignore; git add .; git commit -q -m packages`
	)
	husky := `mkdir .husky; printf '#!/bin/sh\ntest -f src/a.txt\n' >.husky/pre-commit; chmod +x .husky/pre-commit; git config core.hooksPath .husky; git add .; git commit -q -m husky`
	install := `rm -rf .husky/_; harmless .husky/_/pre-commit; harmless .husky/_/h; git config core.hooksPath .husky/_` + "\n"
	installed := install + `git add .; git commit -q -m husky`
	nested := `git clone -q . vendor/lib; git clone -q . vendor/other; harmless vendor/lib/.git/hooks/pre-commit; echo vendor >.gitignore; git add .gitignore; git commit -q -m ignore`
	return []everyday{
		{name: "a plain repository", inside: daily + `git gc -q; git repack -q -a -d`, after: goOn},
		{name: "a plain repository, in a session", by: bySession, inside: daily, after: goOn},
		{name: "a plain repository, by a model", by: byModelExec, inside: daily, after: goOn},
		{name: "a plain repository, in a model's session", by: byModelSession, inside: daily, after: goOn},
		{name: "husky", prepare: husky, inside: daily, after: goOn + `; rm src/a.txt; ! git commit -q -a -m refused 2>/dev/null`},
		{name: "husky, installed anew", prepare: installed, flags: []string{"--unprotect", ".husky", "--unprotect", ".git/config"}, inside: install + daily, after: goOn},
		{name: "hooks of one's own, installed anew, where all is opened", prepare: strings.ReplaceAll(installed, ".husky/_", "tools/hooks"), flags: []string{"--unprotect", "*"},
			inside: strings.ReplaceAll(install, ".husky/_", "tools/hooks") + daily, after: goOn},
		{name: "hooks that are links", prepare: `harmless tools/pre-commit; mkdir -p .git/hooks; ln -s ../../tools/pre-commit .git/hooks/pre-commit; git add .; git commit -q -m tools`, inside: daily, after: goOn},
		{name: "a configuration in several files", prepare: `printf '[alias]\n\tst = status\n' >"$DIR/inc"; git config include.path "$DIR/inc"; git config --global alias.co checkout; git config --global core.pager cat`, inside: daily, after: goOn},
		{name: "a filter of the user's", prepare: `git config --global filter.tidy.clean cat; git config --global filter.tidy.smudge cat; echo '*.txt filter=tidy' >.gitattributes; git add .; git commit -q -m attributes`, inside: daily, after: goOn},
		{name: "a submodule", prepare: submodule, inside: daily + `git submodule status; git -C lib log --oneline`, after: goOn + `; git submodule status; git -C lib commit -q --allow-empty -m x`},
		{name: "work in a submodule", prepare: submodule, inside: `cd lib; echo "$PASS" >>f; git add f; git commit -q -m f; git stash -q 2>/dev/null || :; git checkout -q -b "x-$PASS"; git checkout -q -; git gc -q; cd ..; git add lib; git commit -q -m bump; git submodule status; git status --short`,
			after: `git submodule status; git -C lib commit -q --allow-empty -m x`},
		{name: "a submodule is removed", prepare: `git branch without; ` + submodule, inside: `rm -rf lib; git checkout -q without; git checkout -q -; git clean -q -ffdx -e .work; git rm -q lib; git reset -q --hard`,
			after: `git -c protocol.file.allow=always submodule update -q; git -C lib commit -q --allow-empty -m x`},
		{name: "a submodule is removed, and comes back", flags: []string{"--unprotect", ".git/modules"}, prepare: `git branch without; ` + submodule, inside: `rm -rf lib; git submodule update -q; test -e lib/.git; rm -rf lib; git checkout -q without; test ! -e lib; git checkout -q -; git submodule update -q; git clean -q -ffdx -e .work; git rm -q lib; test ! -e lib; git reset -q --hard; git submodule update -q`,
			after: `test -e lib/.git; git -C lib commit -q --allow-empty -m x`},
		{name: "worktrees come and go", prepare: `git worktree add -q "$DIR/linked"; git worktree add -q old; git worktree add -q older`, inside: `git worktree add -q new; (cd new; echo x >x; git add x; git commit -q -m x); git worktree remove new; git gc -q; git branch -q -D new; rm -rf old; git worktree list`,
			after: `test ! -e old; git -C older status; git -C "$DIR/linked" status; git worktree prune`},
		{name: "linked worktrees beside it", prepare: `git worktree add -q "$DIR/linked"`, inside: daily, after: goOn + `; git -C "$DIR/linked" status`},
		{name: "a linked worktree", prepare: `git worktree add -q "$DIR/linked"`, at: "../linked", inside: `echo "$PASS" >>src/a.txt; mkdir -p "out/$PASS"; rm -f README.md`, after: `cd "$DIR/linked"; git add .; git commit -q -m linked`},
		{name: "a nested checkout", prepare: nested, inside: daily + `test -d vendor/lib || exit 0; cd vendor/lib; echo n >>src/a.txt; git commit -q -a -m n; git checkout -q -b "x-$PASS"`, after: goOn},
		{name: "a checkout among the sources", prepare: `git clone -q . sub`, inside: `git clean -q -fdx -e .work; echo u >u; echo s >>src/a.txt; git stash -q -u; git stash pop -q; rm u; git checkout -q .; git checkout -q -b "x-$PASS"; git checkout -q -; (cd sub; echo x >>src/a.txt; git commit -q -a -m x; git gc -q); test -d sub/.git`,
			after: `test -f sub/.git/config`},
		{name: "a checkout that is opened is removed", prepare: `git clone -q . sub`, flags: []string{"--unprotect", "sub/.git"}, inside: `git clean -q -ffdx -e .work; test ! -e sub`, after: `git status`},
		{name: "new repositories", inside: `git init -q "fresh-$PASS"; git -C "fresh-$PASS" commit -q --allow-empty -m x; git clone -q . "clone-$PASS"; git init -q --bare "bare-$PASS"; git -C "clone-$PASS" push -q "../bare-$PASS" main`,
			after: `git -C clone-first status; git -C fresh-second log`},
		{name: "nested checkouts are removed", prepare: nested, inside: `rm -rf vendor; mkdir vendor; echo x >vendor/x; rm -rf vendor`, after: `test ! -e vendor; git status`},
		{name: "nested checkouts are cleaned away", prepare: nested, inside: `git clean -q -ffdx -e .work`, after: `test ! -e vendor`},
		{name: "nested checkouts are moved", prepare: nested, inside: `if [ -d vendor ]; then mv vendor moved; mv moved vendor; mv vendor/lib vendor/third; mv vendor/third vendor/lib; fi`, after: `git -C vendor/lib status`},
		{name: "a branch without the hooks' directory", prepare: `git branch bare; ` + husky, inside: `git log --oneline; git diff --stat HEAD~1; git show --stat HEAD`, after: goOn2},
		{name: "packages are installed", needs: []string{"npm"}, prepare: packages, inside: `npm ci --silent --offline --no-audit --no-fund; npm test --silent; rm -rf node_modules; npm ci --silent --offline --no-audit --no-fund; ` +
			`git status --short; echo x >>src/a.txt; git commit -q -a -m x; git clean -q -fdx -e .work; npm ci --silent --offline --no-audit --no-fund`, after: `npm test --silent; git status`},
		{name: "husky, a submodule, a nested checkout and packages", needs: []string{"npm"}, prepare: husky + "\n" + submodule + "\n" + nested + "\n" + packages, inside: daily + `npm ci --silent --offline --no-audit --no-fund; rm -rf vendor node_modules`,
			after: goOn + `; npm ci --silent --offline --no-audit --no-fund; git submodule status`},
		{name: "a build by make", needs: []string{"make", "gcc"}, prepare: `printf 'all: x\nx: x.c\n\tgcc -o x x.c\nclean:\n\trm -f x\n' >Makefile; echo 'int main(void){return 0;}' >x.c; git add .; git commit -q -m build`,
			inside: `make; ./x; make clean; make`, after: `make clean all; ./x`},
		{name: "a mirror of one's own", prepare: `git init -q --bare mirror.git; git remote add mirror "$WS/mirror.git"`, inside: `git push -q ./mirror.git HEAD:"refs/heads/x-$PASS"`, after: `git push -q mirror main`},
		{name: "a bisection and a rebase that end", prepare: `for i in 1 2 3 4 5; do echo $i >>src/a.txt; git commit -q -a -m $i; done`,
			inside: `git bisect start HEAD HEAD~4; git bisect run true; git bisect reset; GIT_SEQUENCE_EDITOR="sed -i 1s/pick/edit/" git rebase -q -i HEAD~2; git rebase --continue; git rebase -q --exec true HEAD~1`, after: goOn2},
		{name: "a link of one's own", prepare: `ln -s "$WS" "$HOME/link"; paddock run -- true`, at: "../home/link", inside: daily, after: goOn},
		{name: "a mount through a link of one's own", prepare: `mkdir "$DIR/data"; ln -s "$DIR/data" "$HOME/data"; paddock run -- true`, flags: []string{"--rw", "$DIR/home/data:/mnt/data"},
			inside: `echo "$PASS" >>/mnt/data/x`, after: `test "$(cat "$DIR/data/x" | wc -l)" = 2`},
		{name: "Paddock's programs in the workspace", prepare: `mkdir bin; cp "$BIN/paddock" "$BIN/paddock-agent" bin; echo bin >.gitignore; git add .gitignore; git commit -q -m bin`, by: byOwn("bin/paddock"),
			inside: `echo x >>src/a.txt; git commit -q -a -m x`, after: `bin/paddock run -- true`},
		{name: "a spec in the workspace", prepare: `echo 'network: none' >spec.yaml; git add .; git commit -q -m spec`, flags: []string{"--spec", "$WS/spec.yaml"}, inside: `echo x >>src/a.txt; git commit -q -a -m x`, after: `echo '# more' >>spec.yaml`},
		{name: "the home as the workspace", prepare: `echo true >"$HOME/.bashrc"; mkdir "$HOME/notes"`, at: "../home", inside: `echo "$PASS" >>notes/x; mkdir -p new`, after: `test -f "$HOME/notes/x"`, told: "keeping commands out of your home"},
		{name: "servers with sockets of their own", prepare: serving + `echo src/ask >.gitignore; mkdir -p tmp/sockets; serving unix "$WS/tmp/sockets/web"; kill $!; serving unixgram "$WS/log"; kill $!; test -S tmp/sockets/web; test -S log`,
			inside: serves + `served unix "$PWD/tmp/sockets/web"; served unixgram "$PWD/log"; served unix "$PWD/src/new-$PASS"; rm "src/new-$PASS"`, after: serving + `serving unix "$WS/tmp/sockets/web"; src/ask ask unix "$WS/tmp/sockets/web"; kill $!`},
		{name: "servers in a session", by: bySession, prepare: serving + `echo src/ask >.gitignore`, inside: serves + `served unix "$PWD/web"; served unixgram "$PWD/log"`, after: `test -S web`},
		{name: "tmux", needs: []string{"tmux"}, inside: `export TERM=xterm; tmux -f /dev/null -S "$PWD/t" new-session -d "sleep 60"; tmux -S "$PWD/t" run-shell ": >$PWD/made"; test -e made; rm made; tmux -S "$PWD/t" kill-server`, after: `git status`},
		{name: "tmux that was killed", needs: []string{"tmux"}, prepare: `export TERM=xterm; tmux -f /dev/null -S "$WS/t" new-session -d "sleep 60"; kill -9 "$(tmux -S "$WS/t" display-message -p '#{pid}')"; test -S t`,
			inside: `export TERM=xterm; tmux -f /dev/null -S "$PWD/t" new-session -d "sleep 60"; tmux -S "$PWD/t" list-sessions; kill -9 "$(tmux -S "$PWD/t" display-message -p '#{pid}')"`, after: `test -S t; export TERM=xterm; tmux -f /dev/null -S "$WS/t" new-session -d true`},
		{name: "git's own monitor", prepare: `git config core.fsmonitor true`, inside: daily, after: goOn},
		{name: "direnv", needs: []string{"direnv"}, prepare: `echo 'export WHO=me' >.envrc; git add .; git commit -q -m env`, inside: `direnv allow; direnv exec . sh -c 'test "$WHO" = me'`, after: `direnv allow; direnv exec . git status`},
		{name: "puma", needs: []string{"puma", "curl"}, prepare: `mkdir -p tmp/sockets; echo 'run ->(env) { [200, {"content-type" => "text/plain"}, ["served\n"]] }' >config.ru`,
			inside: `puma -q -b "unix://$PWD/tmp/sockets/puma.sock" config.ru >tmp/log 2>&1 & i=0; until [ "$(curl -sS --unix-socket tmp/sockets/puma.sock http://app/)" = served ]; do sleep 0.1; i=$((i+1)); test $i -lt 300; done; kill -9 $!`, after: `test -S tmp/sockets/puma.sock`},
		{name: "no repository at all", prepare: `rm -rf .git`, inside: `echo x >>src/a.txt; mkdir -p d/e/f; touch d/e/f/g; ln -sf a.txt src/link; mkfifo pipe; rm pipe`, after: `test -f d/e/f/g`},
	}
}

const goOn2 = `git status --short; echo host >>src/a.txt; git add .; git commit -q -m host`
