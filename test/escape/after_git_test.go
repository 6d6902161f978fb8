//go:build linux

package escape

import (
	"fmt"
	"strings"
)

// gitAttacks are after what git obeys in the repository of the workspace.
func gitAttacks() []later {
	const (
		commit = `commit`
		change = `evil tools/x`
		made   = `harmless tools/x; git add tools; git commit -q -m tools`
	)
	// program is a script of the repository's that git was told to run.
	program := func(name, configure, trigger string) later {
		return later{name: name, want: wantStopped, prepare: made + "\n" + configure, attack: change, trigger: trigger}
	}
	// hooks has core.hooksPath name a directory of the workspace, in some form.
	hooks := func(name, configure string, env ...string) later {
		return later{name: "core.hooksPath " + name, want: wantStopped, prepare: `harmless tools/hooks/pre-commit; git add .; git commit -q -m tools` + "\n" + configure,
			attack: `evil tools/hooks/pre-commit`, trigger: commit, env: env}
	}
	told := func(name, tells, prepare, attack, trigger string) later {
		return later{name: name, want: wantTold, tells: tells, prepare: prepare, attack: attack, trigger: trigger}
	}
	stop := func(name, prepare, attack, trigger string) later {
		return later{name: name, want: wantStopped, prepare: prepare, attack: attack, trigger: trigger}
	}
	attributes := `echo '*.txt filter=tidy diff=tidy merge=tidy' >.gitattributes; git add .gitattributes; git commit -q -m attributes`
	rows := []later{
		stop("a hook is written", `harmless .git/hooks/pre-commit`, `evil .git/hooks/pre-commit`, commit),
		stop("a hook is replaced", `harmless .git/hooks/pre-commit`, `rm -f .git/hooks/pre-commit; evil .git/hooks/pre-commit`, commit),
		stop("a hook is added", `mkdir -p .git/hooks`, `evil .git/hooks/post-checkout`, `git checkout -q -b other`),
		told("the first hook is added", ".git/hooks", `rm -rf .git/hooks`, `evil .git/hooks/pre-commit`, commit),
		stop("the directory of hooks is moved", `harmless .git/hooks/pre-commit`, `mv .git/hooks old; evil .git/hooks/pre-commit`, commit),
		stop("a hook is a link into the workspace", `harmless tools/pre-commit; mkdir -p .git/hooks; ln -s ../../tools/pre-commit .git/hooks/pre-commit`, `evil tools/pre-commit`, commit),
		stop("a hook is a link, whose target is replaced", `harmless tools/pre-commit; mkdir -p .git/hooks; ln -s ../../tools/pre-commit .git/hooks/pre-commit`,
			`rm tools/pre-commit; evil tools/pre-commit`, commit),
		stop("a hook is a link to a link", `harmless tools/real; ln -s real tools/pre-commit; mkdir -p .git/hooks; ln -s ../../tools/pre-commit .git/hooks/pre-commit`,
			`rm tools/pre-commit; evil tools/pre-commit`, commit),
		stop("a hook is a link, below a directory that is moved", `harmless tools/hooks/pre-commit; mkdir -p .git/hooks; ln -s ../../tools/hooks/pre-commit .git/hooks/pre-commit`,
			`mv tools old; evil tools/hooks/pre-commit`, commit),
		told("a hook is a link to what is not there yet", "tools/pre-commit", `mkdir -p tools .git/hooks; ln -s ../../tools/pre-commit .git/hooks/pre-commit`, `evil tools/pre-commit`, commit),
		stop("the directory of hooks is a link into the workspace", `harmless tools/hooks/pre-commit; rm -rf .git/hooks; ln -s ../tools/hooks .git/hooks`, `evil tools/hooks/pre-commit`, commit),
		stop(".git is replaced", `:`, `mv .git old; cp -a old .git; evil .git/hooks/pre-commit`, commit),
		stop(".git/config names a program", `:`, `evil x; git config core.fsmonitor "$WS/x"`, `git status`),
		stop(".git/config gets an alias", `:`, `git config alias.st '!: >"$CANARY"'`, `git st`),
		stop(".git/config is replaced through the link that is there", `:`, `evil x; printf '[core]\n\tfsmonitor = %s\n' "$WS/x" >new; mv -f new "$(readlink .git/config || echo .git/config)"; mv -f new .git/config`, `git status`),
		stop("what was added to .git/config is accepted", `:`, `evil x; git config core.fsmonitor "$WS/x"; git config user.name Ann; git config remote.a.url "ext::sh -c $WS/x"; git config branch.main.remote a; git config branch.main.mergeOptions --strategy=x`,
			`paddock git accept --yes; git status; git -c protocol.ext.allow=always fetch`),
		stop(".git/config.worktree names a program", `git config extensions.worktreeConfig true; echo >.git/config.worktree`, `evil x; git config -f .git/config.worktree core.fsmonitor "$WS/x"`, `git status`),
		told(".git/config.worktree is made", ".git/config.worktree", `git config extensions.worktreeConfig true; rm -f .git/config.worktree`,
			`evil x; git config -f .git/config.worktree core.fsmonitor "$WS/x"`, `git status`),
		told(".git/logs/HEAD is a link out", ".git/logs/HEAD", `:`, `rm -f .git/logs/HEAD; ln -s "$CANARY" .git/logs/HEAD`, commit),
		told(".git/COMMIT_EDITMSG is a link out", ".git/COMMIT_EDITMSG", `:`, `ln -sf "$CANARY" .git/COMMIT_EDITMSG`, commit),
		told(".git/commondir leads elsewhere", ".git/commondir", `:`, `cp -a .git fake; rm -rf fake/hooks; evil fake/hooks/pre-commit; echo ../fake >.git/commondir`, commit),

		hooks("in variables", `:`, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0=tools/hooks"),
		hooks("in what -c handed on", `:`, "GIT_CONFIG_PARAMETERS='core.hooksPath'='tools/hooks'"),
		hooks("in the repository that GIT_DIR names", `cp -a .git "$DIR/store"; git --git-dir="$DIR/store" config core.hooksPath tools/hooks`, "GIT_DIR=$DIR/store"),
		hooks("plainly", `git config core.hooksPath tools/hooks`),
		hooks("as an absolute path", `git config core.hooksPath "$WS/tools/hooks"`),
		hooks("in an included file", `printf '[core]\n\thooksPath = tools/hooks\n' >"$DIR/inc"; git config include.path "$DIR/inc"`),
		hooks("in a file of the workspace that is included", `printf '[core]\n\thooksPath = tools/hooks\n' >gitconfig; git config include.path ../gitconfig`),
		hooks("in a file that an included file includes", `printf '[core]\n\thooksPath = tools/hooks\n' >"$DIR/inc2"; printf '[include]\n\tpath = inc2\n' >"$DIR/inc"; git config include.path "$DIR/inc"`),
		hooks("in a file that is included on a condition", `printf '[core]\n\thooksPath = tools/hooks\n' >"$DIR/inc"; git config "includeIf.onbranch:main.path" "$DIR/inc"`),
		hooks("in config.worktree", `git config extensions.worktreeConfig true; git config --worktree core.hooksPath tools/hooks`),
		hooks("in the user's configuration, beside more that git must read", `printf '[core]\n\thooksPath = %s/tools/\\\nhooks\n' "$WS" >"$HOME/.gitconfig"; for i in $(seq 20); do git init -q v/$i; printf '[user]\n\tname = \\\n%s\n' $i >>v/$i/.git/config; done`),
		hooks("on a continued line", `printf '[core]\n\thooksPath = tools/\\\nhooks\n' >>.git/config`),
		hooks("after a line over 64 KiB", `{ printf '# '; head -c 70000 /dev/zero | tr '\0' x; printf '\n[core]\n\thooksPath = tools/hooks\n'; } >>.git/config`),
		hooks("in quotes, with escapes", `printf '[core]\n\thooksPath = "tools\\"\\"/hooks" ; comment\n' >>.git/config; sed -i 's/\\"\\"//' .git/config`),
		hooks("on the section's line", `printf '[core] hooksPath = tools/hooks\n' >>.git/config`),
		hooks("in the user's configuration", `git config --global core.hooksPath tools/hooks`),
		hooks("in the user's configuration in .config", `mkdir -p "$HOME/.config/git"; printf '[core]\n\thooksPath = tools/hooks\n' >"$HOME/.config/git/config"`),
		hooks("in the user's configuration, for a directory", `printf '[core]\n\thooksPath = tools/hooks\n' >"$HOME/inc"; git config --global "includeIf.gitdir:$DIR/.path" "$HOME/inc"`),
		{name: "core.hooksPath in a worktree whose .git is a file", want: wantStopped, at: "../linked",
			prepare: `harmless tools/hooks/pre-commit; git add .; git commit -q -m tools; git config core.hooksPath tools/hooks; git worktree add -q "$DIR/linked"`,
			attack:  `evil tools/hooks/pre-commit`, trigger: `cd "$DIR/linked" && commit`},
		{name: "core.hooksPath in a worktree's own configuration", want: wantStopped, at: "../linked",
			prepare: `harmless tools/hooks/pre-commit; git add .; git commit -q -m tools; git config extensions.worktreeConfig true; git worktree add -q "$DIR/linked"; git -C "$DIR/linked" config --worktree core.hooksPath tools/hooks`,
			attack:  `evil tools/hooks/pre-commit`, trigger: `cd "$DIR/linked" && commit`},
		{name: "a worktree's .git leads elsewhere", want: wantStopped, at: "../linked",
			prepare: `git worktree add -q "$DIR/linked"`, attack: `git init -q fake; evil fake/.git/hooks/pre-commit; rm -f .git; echo "gitdir: $DIR/linked/fake/.git" >.git`, trigger: `cd "$DIR/linked" && git add . ; git commit -q -m x`},

		program("core.fsmonitor names a script", `git config core.fsmonitor tools/x`, `git status`),
		program("core.fsmonitor names a script and an interpreter", `git config core.fsmonitor 'sh tools/x'`, `git status`),
		program("a filter names a script", `git config filter.tidy.clean 'tools/x; cat'; `+attributes, commit),
		program("a filter that smudges names a script", `git config filter.tidy.smudge 'sh ./tools/x; cat'; `+attributes+`; git rm -q --cached src/a.txt; git reset -q --hard`, `rm src/a.txt; git checkout -q src/a.txt`),
		program("a filter of the user's names a script", `git config --global filter.tidy.clean 'sh tools/x; cat'; `+attributes, commit),
		program("textconv names a script", `git config diff.tidy.textconv 'sh tools/x'; `+attributes, `echo z >>src/a.txt; git diff`),
		program("diff.external names a script", `git config diff.external tools/x`, `echo z >>src/a.txt; git diff`),
		program("a merge driver names a script", `git config merge.tidy.driver 'tools/x %A'; `+attributes+`; git checkout -q -b side; echo s >>src/a.txt; git commit -q -a -m s; git checkout -q main; echo m >>src/a.txt; git commit -q -a -m m`, `git merge -q -m x side`),
		program("gpg.program names a script", `git config commit.gpgSign true; git config gpg.program "$WS/tools/x"`, commit),
		program("core.editor names a script", `git config core.editor "$WS/tools/x"`, `unset GIT_EDITOR; echo z >>src/a.txt; git commit -q -a`),
		program("sequence.editor names a script", `git config sequence.editor "$WS/tools/x"`, `commit; unset GIT_EDITOR; git rebase -q -i HEAD~1`),
		program("a credential helper is a script", `git config credential.helper "$WS/tools/x"`, `printf 'protocol=https\nhost=localhost\n\n' | git credential fill`),
		program("core.sshCommand names a script", `git config core.sshCommand "$WS/tools/x"; git remote add far ssh://localhost/x`, `git fetch -q far`),
		program("a pager is a script", `git config core.pager "$WS/tools/x"`, `script -qec 'git log' /dev/null </dev/null`),
		program("a remote's uploadpack names a script", `git remote add far "$WS"; git config remote.far.uploadpack "$WS/tools/x"`, `git fetch -q far`),

		told("an alias names a script", "tools/x", made+`; git config alias.st '!sh tools/x'`, change, `git st`),
		told("attributes choose a filter of the user's, whose script is made", "tools/x", `git config --global filter.tidy.clean 'sh tools/x; cat'`, change+`; echo '*.txt filter=tidy' >.gitattributes`, commit),
		told(".gitattributes chooses a filter of the user's", ".gitattributes", `git config --global filter.tidy.clean ": >'$CANARY'; cat"`, `echo '*.txt filter=tidy' >.gitattributes`, commit),
		told(".git/info/attributes chooses a filter of the user's", ".git/info", `git config --global filter.tidy.clean ": >'$CANARY'; cat"; rm -rf .git/info; mkdir .git/info`,
			`echo '*.txt filter=tidy' >.git/info/attributes`, commit),
		told("a file that core.attributesFile names chooses a filter", "attrs", `git config --global filter.tidy.clean ": >'$CANARY'; cat"; git config core.attributesFile "$WS/attrs"`,
			`echo '*.txt filter=tidy' >attrs`, commit),
		told("a rebase in progress gets a program", "rebase-merge", `commit; commit; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i HEAD~2`,
			`printf 'exec : >"%s"\n' "$CANARY" >>.git/rebase-merge/git-rebase-todo`, `git rebase --continue`),
		told("a rebase is made up", "rebase-merge", `commit; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i HEAD~1; cp -a .git/rebase-merge src/saved; git rebase --abort`,
			`cp -a src/saved .git/rebase-merge; printf 'exec : >"%s"\n' "$CANARY" >>.git/rebase-merge/git-rebase-todo`, `git rebase --continue`),
		told("a series of picks in progress gets another commit", "sequencer", `git checkout -q -b side; echo s >>src/a.txt; git commit -q -a -m s; echo t >t; git add t; git commit -q -m t; echo u >evil; git add evil; git commit -q -m evil; git checkout -q main; echo m >>src/a.txt; git commit -q -a -m m; git cherry-pick side~2 side~1 2>/dev/null || :`,
			`echo "pick $(git rev-parse side)" >>.git/sequencer/todo`, `git checkout -q --theirs src/a.txt; git add src/a.txt; git cherry-pick --continue; test -f evil && harm`),
		told("bisect goes back to another branch", "BISECT", `git checkout -q -b side; echo u >evil; git add evil; git commit -q -m evil; git checkout -q main; commit; commit; git bisect start HEAD HEAD~2 >/dev/null`,
			`echo side >.git/BISECT_START`, `git bisect reset; test -f evil && harm`),
		told("objects of another repository are borrowed", "alternates", `git init -q -b main "$DIR/secret"; echo secret >"$DIR/secret/s"; git -C "$DIR/secret" add s; git -C "$DIR/secret" commit -q -m secret; git -C "$DIR/secret" rev-parse HEAD:s >src/known`,
			`mkdir -p .git/objects/info; echo "$DIR/secret/.git/objects" >.git/objects/info/alternates`, `git cat-file -p "$(cat src/known)" | grep -q secret && harm`),
		told("info/sparse-checkout hides what is there", "sparse-checkout", `git sparse-checkout set --no-cone '/*' >/dev/null`, `echo '/README.md' >.git/info/sparse-checkout`, `git update-index -q --refresh; git read-tree -mu HEAD; test -f src/a.txt || harm`),

		stop("a submodule's hook in .git/modules", submodule, `evil .git/modules/lib/hooks/post-checkout`, `git -C lib checkout -q -b other`),
		stop("a submodule's configuration in .git/modules", submodule, `evil x; git config -f .git/modules/lib/config core.fsmonitor "$WS/x"`, `git status`),
		stop("a submodule's own directory is moved", submodule, `mv .git/modules/lib old; cp -a old .git/modules/lib; evil .git/modules/lib/hooks/pre-commit`, `git -C lib commit -q --allow-empty -m x`),
		stop(".git/modules is moved", submodule, `mv .git/modules old; cp -a old .git/modules; evil .git/modules/lib/hooks/pre-commit`, `git -C lib commit -q --allow-empty -m x`),
		told("a submodule's .git leads elsewhere", "lib/.git", submodule, `git init -q fake; evil fake/.git/hooks/pre-commit; rm -f lib/.git; echo "gitdir: $WS/fake/.git" >lib/.git`, `git -C lib commit -q --allow-empty -m x`),
		told("a submodule's .git leads to a new one in .git/modules", ".git/modules/new", submodule, `evil x; cp -a .git/modules/lib .git/modules/new; git config -f .git/modules/new/config core.fsmonitor "$WS/x"; echo 'gitdir: ../.git/modules/new' >lib/.git`, `git -C lib status`),
		told("a submodule's commondir leads elsewhere", "lib/commondir", submodule, `cp -a .git/modules/lib fake; evil fake/hooks/pre-commit; echo "$WS/fake" >.git/modules/lib/commondir`, `git -C lib commit -q --allow-empty -m x`),
		told("a submodule's attributes choose a filter of the user's", ".git/modules/lib/info", submodule+`echo x >lib/x; git -C lib add x; git -C lib commit -q -m x; git config --global filter.tidy.clean ": >'$CANARY'; cat"; rm -rf .git/modules/lib/info`,
			`mkdir .git/modules/lib/info; echo '* filter=tidy' >.git/modules/lib/info/attributes`, `echo y >lib/x; git -C lib commit -q -a -m y`),
		stop("a linked worktree's configuration in .git/worktrees", `git config extensions.worktreeConfig true; git worktree add -q "$DIR/linked"; echo >.git/worktrees/linked/config.worktree`,
			`evil x; git config -f .git/worktrees/linked/config.worktree core.fsmonitor "$WS/x"`, `git -C "$DIR/linked" status`),
		told("a linked worktree gets a configuration in .git/worktrees", "linked/config.worktree", `git config extensions.worktreeConfig true; git worktree add -q "$DIR/linked"; rm -f .git/worktrees/linked/config.worktree`,
			`evil x; git config -f .git/worktrees/linked/config.worktree core.fsmonitor "$WS/x"`, `git -C "$DIR/linked" status`),
		told("a linked worktree's commondir leads elsewhere", "linked/commondir", `git worktree add -q "$DIR/linked"`,
			`cp -a .git fake; rm -rf fake/hooks; evil fake/hooks/pre-commit; echo "$WS/fake" >.git/worktrees/linked/commondir`, `cd "$DIR/linked" && commit`),
		told("a worktree is made whose commondir leads elsewhere", "new/.git", `:`,
			`git worktree add -q new; cp -a .git fake; rm -rf fake/hooks; evil fake/hooks/pre-commit; echo "$WS/fake" >.git/worktrees/new/commondir; echo "gitdir: $WS/.git/worktrees/new" >new/.git`, `cd new && commit`),
		told("the first submodule comes with hooks", ".git/modules", `:`, `git init -q lib; git -C lib commit -q --allow-empty -m x; mkdir -p .git/modules; mv lib/.git .git/modules/lib; echo 'gitdir: ../.git/modules/lib' >lib/.git; evil .git/modules/lib/hooks/pre-commit`,
			`cd lib && git commit -q --allow-empty -m x`),
		told("the workspace becomes a repository", ".git", `rm -rf .git`, `git init -q .; evil .git/hooks/pre-commit`, `git add . && git commit -q -m x`),
		told("the workspace becomes a bare repository", "hooks", `rm -rf .git`, `git init -q --bare x; mv x/* .; evil hooks/pre-receive`,
			`git init -q -b main "$DIR/other"; cd "$DIR/other"; git commit -q --allow-empty -m x; git push -q "$WS" main`),
	}
	for i := range rows {
		if strings.Contains(rows[i].trigger, "script -") {
			rows[i].needs = append(rows[i].needs, "script")
		}
	}
	return rows
}

// nestedAttacks make or change repositories in directories below the workspace.
func nestedAttacks() []later {
	const nested = `git init -q -b main vendor/lib; git -C vendor/lib commit -q --allow-empty -m first; rm -f vendor/lib/.git/hooks/*; git add . 2>/dev/null; git commit -q -m vendor`
	row := func(name, tells, prepare, attack, trigger string) later {
		return later{name: name, want: wantTold, tells: tells, prepare: prepare, attack: attack, trigger: trigger}
	}
	rows := []later{
		row("a nested repository gets a hook", "vendor/lib/.git", nested, `evil vendor/lib/.git/hooks/pre-commit`, `git -C vendor/lib commit -q --allow-empty -m x`),
		row("a nested repository's core.hooksPath, behind 300 directories", "zz/repo/hk", `git init -q -b main zz/repo; harmless zz/repo/hk/pre-commit; git -C zz/repo config core.hooksPath hk; i=0; while [ $i -lt 300 ]; do mkdir d$i; i=$((i+1)); done`,
			`evil zz/repo/hk/pre-commit`, `git -C zz/repo commit -q --allow-empty -m x`),
		row("a nested repository's core.fsmonitor, where tools make things", "deps/repo/x", `git init -q -b main deps/repo; harmless deps/repo/x; git -C deps/repo config core.fsmonitor ./x`,
			`evil deps/repo/x`, `git -C deps/repo status`),
		row("a nested repository's core.hooksPath, inside another one", "vendor/lib/in/hk", nested+`; git init -q -b main vendor/lib/in; harmless vendor/lib/in/hk/pre-commit; git -C vendor/lib/in config core.hooksPath hk`,
			`evil vendor/lib/in/hk/pre-commit`, `git -C vendor/lib/in commit -q --allow-empty -m x`),
		row("a nested repository's hook is changed", "vendor/lib/.git", nested+`; harmless vendor/lib/.git/hooks/pre-commit`, `evil vendor/lib/.git/hooks/pre-commit`, `git -C vendor/lib commit -q --allow-empty -m x`),
		row("a nested repository's husky hook is changed", "src/.husky", `git init -q -b main src; git -C src config core.hooksPath .husky/_; printf '. "$(dirname "$0")/../pre-commit"' >husky; chmod +x husky; mkdir -p src/.husky/_; mv husky src/.husky/_/pre-commit; harmless src/.husky/pre-commit`,
			`evil src/.husky/pre-commit`, `git -C src commit -q --allow-empty -m x`),
		row("a nested repository gets core.fsmonitor", "vendor/lib/.git", nested, `evil x; git -C vendor/lib config core.fsmonitor "$WS/x"`, `git -C vendor/lib status`),
		row("a nested repository gets core.fsmonitor, seen by a status of the whole", "vendor/lib/.git", nested, `evil x; git -C vendor/lib config core.fsmonitor "$WS/x"; echo x >vendor/lib/x`, `git status`),
		row("a nested repository gets a pager", "vendor/lib/.git", nested, `git -C vendor/lib config core.pager ": >'$CANARY'; cat"`, `script -qec 'git -C vendor/lib log' /dev/null </dev/null`),
		row("a nested repository gets textconv", "vendor/lib/.git", nested+`; echo x >vendor/lib/x; git -C vendor/lib add .; git -C vendor/lib commit -q -m x`, `git -C vendor/lib config diff.t.textconv ": >'$CANARY'; cat"; echo '* diff=t' >vendor/lib/.gitattributes`, `git -C vendor/lib log -p`),
		row("a nested repository gets a filter", "vendor/lib/.git", nested+`; echo x >vendor/lib/x; git -C vendor/lib add .; git -C vendor/lib commit -q -m x`, `git -C vendor/lib config filter.t.clean ": >'$CANARY'; cat"; echo '* filter=t' >vendor/lib/.git/info/attributes; touch vendor/lib/x`, `echo y >vendor/lib/x; git -C vendor/lib status`),
		row("a nested repository gets submodule.update", "vendor/lib/.git", nested+`; git init -q -b main "$DIR/sub"; git -C "$DIR/sub" commit -q --allow-empty -m first; git -c protocol.file.allow=always -C vendor/lib submodule --quiet add "$DIR/sub" sub; git -C vendor/lib commit -q -m sub`,
			`git -C vendor/lib config submodule.sub.update '!: >"$CANARY"; :'; git -C vendor/lib/sub commit -q --allow-empty -m x`, `git -C vendor/lib submodule update`),
		row("a nested repository's rebase gets a program", "rebase-merge", nested+`; cd vendor/lib; git commit -q --allow-empty -m b; git commit -q --allow-empty -m c; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i HEAD~1`,
			`printf 'exec : >"%s"\n' "$CANARY" >>vendor/lib/.git/rebase-merge/git-rebase-todo`, `git -C vendor/lib rebase --continue`),
		row("a nested repository is made, where a program of the user's is relative", "tools/new/.git", `mkdir tools; git config --global core.fsmonitor tools/x`, `git init -q tools/new; evil tools/new/tools/x`, `git -C tools/new status`),
		{name: "a nested repository's hooks are a link, by the user's configuration", want: wantTold, tells: "h/pre-commit", runs: true, prepare: `git config --global core.hooksPath .githooks; git init -q a/b/sub; ln -s ../../../h a/b/sub/.githooks; mkdir h`,
			attack: `evil h/pre-commit`, trigger: `git -C a/b/sub commit -q --allow-empty -m x`},
		row("a clone is made, whose remote is a command", "tools/new/.git", `mkdir tools; git config --global protocol.ext.allow always`, `git clone -q . tools/new; git -C tools/new config remote.origin.url "ext::sh -c :>$CANARY"`, `git -C tools/new fetch`),
		row("a clone is made, which works elsewhere", "tools/new/.git", `mkdir tools`, `git clone -q . tools/new; cd tools/new; echo x >canary; git add canary; git commit -q -m x; git config core.worktree "$DIR"`, `cd tools/new/.git; git checkout -q -f HEAD; git -C .. checkout -q -f HEAD`),
		row("a nested repository is made", "tools/new/.git", `mkdir tools`, `git init -q tools/new; evil x; git -C tools/new config core.fsmonitor "$WS/x"`, `git -C tools/new status`),
		row("a nested repository is made, and a prompt asks for its state", "src/.git", `:`, `git init -q src; evil x; git -C src config core.fsmonitor "$WS/x"`, `cd src; git status --porcelain`),
		row("a nested repository is made deep below", "a/b/c/d/e/f/g/h/.git", `mkdir -p a/b/c/d/e/f/g/h`, `git init -q a/b/c/d/e/f/g/h; evil x; git -C a/b/c/d/e/f/g/h config core.fsmonitor "$WS/x"`, `git -C a/b/c/d/e/f/g/h status`),
		row("a nested .git is a file that leads elsewhere", "src/.git", `:`, `git init -q hidden; mv hidden/.git store; evil x; git config -f store/config core.fsmonitor "$WS/x"; echo "gitdir: $WS/store" >src/.git`, `git -C src status`),
		row("a nested .git is a link", "src/.git", `:`, `git init -q hidden; mv hidden/.git store; evil x; git config -f store/config core.fsmonitor "$WS/x"; ln -s ../store src/.git`, `git -C src status`),
		row("a nested .git is replaced by a file", "vendor/lib/.git", nested, `mv vendor/lib/.git store; evil x; git config -f store/config core.fsmonitor "$WS/x"; echo "gitdir: $WS/store" >vendor/lib/.git`, `git -C vendor/lib status`),
		row("a nested bare repository is made", "src", `:`, `git init -q --bare x; mv x/* src; evil src/hooks/pre-receive`, `git push -q "$WS/src" main`),
		row("a nested bare repository, and git in it", "src", `:`, `git init -q --bare x; mv x/* src; evil y; git config -f src/config core.fsmonitor "$WS/y"; git config -f src/config core.bare false; git config -f src/config core.worktree "$WS/src"`, `cd src; git status`),
		row("a nested bare repository's configuration is changed", "mirror.git", `git init -q --bare mirror.git; git remote add mirror "$WS/mirror.git"`, `evil x/pre-receive; git -C mirror.git config core.hooksPath "$WS/x"`, `git push -q mirror main`),
		row("a nested repository gets commondir", "vendor/lib/.git", nested, `cp -a vendor/lib/.git store; evil store/hooks/pre-commit; echo "$WS/store" >vendor/lib/.git/commondir`, `git -C vendor/lib commit -q --allow-empty -m x`),
		row("a nested repository among ignored files", "node_modules/lib/.git", `echo node_modules >.gitignore; mkdir -p node_modules/lib`, `git init -q node_modules/lib; evil x; git -C node_modules/lib config core.fsmonitor "$WS/x"`, `git -C node_modules/lib status`),
		row("a nested .git is a file that leads over a link and back", "sub/.git", `:`, `git init -q --bare .git/objects/mod; evil x; c=.git/objects/mod/config; git config -f $c core.bare false; git config -f $c core.worktree "$WS/sub"; git config -f $c core.fsmonitor "$WS/x"; `+
			`mkdir -p sub/mod/objects sub/mod/refs; cp .git/objects/mod/HEAD sub/mod; printf '[core]\n\tworktree = ..\n' >sub/mod/config; ln -s ../.git/objects/info sub/L; echo 'gitdir: L/../mod' >sub/.git`, `cd sub; git status`),
		row("a HEAD beside submodules, and another repository for one", "commondir", `git init -q -b main "$DIR/sub"; git -C "$DIR/sub" commit -q --allow-empty -m first; git -c protocol.file.allow=always submodule --quiet add "$DIR/sub" sub; git commit -q -m sub`,
			`cd .git/modules; cp -r sub ../objects/evil; evil x; git config -f ../objects/evil/config core.worktree "$WS/sub"; git config -f ../objects/evil/config core.fsmonitor "$WS/.git/modules/x"; touch HEAD; echo ../../objects/evil >sub/commondir`, `git -C sub status`),
		row("a nested bare repository is made around another", "game/objects/.git", `mkdir -p game/objects`, `evil x; cd game; echo 'ref: refs/heads/main' >HEAD; mkdir refs; printf '[core]\n\tbare = true\n' >config; git init -q objects; git -C objects config core.fsmonitor "$WS/x"`, `cd game/objects; git status`),
		row("a worktree of the workspace's repository, in it", ".git", `git worktree add -q linked; echo linked >.git/info/exclude`, `git init -q fake; evil fake/.git/hooks/pre-commit; rm linked/.git; echo "gitdir: $WS/fake/.git" >linked/.git`, `cd linked; git commit -q --allow-empty -m x`),
		row("a repository is made in a new directory that is run by name", ".agents/r/.git", `:`, `mkdir -p .agents/r; git init -q .agents/r; evil x; git -C .agents/r config core.fsmonitor "$WS/x"`, `git -C .agents/r status`),
		row("a repository in .git that a .git file finds gets hooks", ".git/own/lib/hooks", `mkdir .git/own; git init -q -b main --separate-git-dir="$WS/.git/own/lib" lib; rm -rf .git/own/lib/hooks`, `evil .git/own/lib/hooks/pre-commit`, `git -C lib commit -q --allow-empty -m x`),
		row("a repository among objects that a .git file finds gets hooks", ".git/objects/lib/hooks", `git init -q -b main --separate-git-dir="$WS/.git/objects/lib" vendor/lib; rm -rf .git/objects/lib/hooks`, `evil .git/objects/lib/hooks/pre-commit`, `git -C vendor/lib commit -q --allow-empty -m x`),
		row("a submodule of the name of an object gets hooks", "objects/ab/hooks", `git init -q -b main "$DIR/sub"; git -C "$DIR/sub" commit -q --allow-empty -m first; git -c protocol.file.allow=always submodule --quiet add --name objects/ab "$DIR/sub" sub; git commit -q -m sub; rm -rf .git/modules/objects/ab/hooks`,
			`evil .git/modules/objects/ab/hooks/pre-commit`, `git -C sub commit -q --allow-empty -m x`),
		row("a repository is made in .git, and one whose remote it is", ".git/foo/e.git/hooks", `:`, `git init -q --bare .git/foo/e.git; evil .git/foo/e.git/hooks/pre-receive; git init -q -b main sub; git -C sub commit -q --allow-empty -m x; git -C sub config remote.origin.url ../.git/foo/e.git`, `cd sub; git push -q origin main`),
		row("a remote is made in the older form", ".git/remotes", `git init -q --bare .git/objects/e.git`, `evil .git/objects/e.git/hooks/pre-receive; mkdir .git/remotes; echo 'URL: .git/objects/e.git' >.git/remotes/origin`, `git push -q origin main`),
	}
	for n := 1; n <= 2; n++ { // more repositories than mounts are made for
		many := map[int]string{1: "first", 2: "last"}[n]
		at := map[int]string{1: "v/1", 2: "v/90"}[n]
		rows = append(rows, row(fmt.Sprintf("the %s of ninety nested repositories gets a hook", many), at+"/.git",
			`git init -q seed; git -C seed commit -q --allow-empty -m x; rm -f seed/.git/hooks/*; mkdir v; for i in $(seq 90); do cp -a seed v/$i; done; rm -rf seed`,
			`evil `+at+`/.git/hooks/pre-commit`, `git -C `+at+` commit -q --allow-empty -m x`))
	}
	for i := range rows {
		if strings.Contains(rows[i].trigger, "script -") {
			rows[i].needs = append(rows[i].needs, "script")
		}
	}
	return rows
}
