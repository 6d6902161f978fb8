//go:build linux

package escape

// namedAttacks name what the host obeys, or a part of it, as a workspace or as
// a writable mount, in place of the tree that it belongs to.
func namedAttacks() []later {
	const (
		hook     = `evil pre-commit`
		commit   = `commit`
		bare     = `git init -q --bare mirror.git; git remote add mirror "$WS/mirror.git"; rm -f mirror.git/hooks/*`
		push     = `git push -q mirror main`
		worktree = `git config extensions.worktreeConfig true; git worktree add -q "$DIR/linked"`
		husky    = `harmless .husky/pre-commit; git config core.hooksPath .husky`
	)
	monitor := func(dir string) string {
		return `printf '#!/bin/sh\n: >"%s"\n' "$CANARY" >monitor; chmod +x monitor; git config -f config core.fsmonitor "$WS/` + dir + `/monitor"`
	}
	mounted := func(dir, attack string) string { // the attack in a mount, that has another name without Paddock
		return `cd /mnt/named 2>/dev/null || cd "` + dir + `"; ` + attack
	}
	return []later{
		{name: "a model runs in .git/hooks", want: wantStopped, at: ".git/hooks", by: byModelRun, attack: hook, trigger: commit},
		{name: "a model opens a session in .git/hooks", want: wantStopped, at: ".git/hooks", by: byModelSession, attack: hook, trigger: commit},
		{name: "a model makes a sandbox in .git/hooks", want: wantStopped, at: ".git/hooks", by: byModelSandbox, attack: hook, trigger: commit},
		{name: "a model runs in .git", want: wantStopped, at: ".git", by: byModelRun, attack: monitor(".git"), trigger: `git status`},
		{name: "a model opens a session in .git", want: wantStopped, at: ".git", by: byModelSession, attack: monitor(".git"), trigger: `git status`},
		{name: "a model makes a sandbox in .git", want: wantStopped, at: ".git", by: byModelSandbox, attack: monitor(".git"), trigger: `git status`},
		{name: "a model opens a session in .git/info", want: wantTold, tells: "attributes", at: ".git/info", by: byModelSession,
			prepare: `mkdir -p .git/info; git config --global filter.tidy.clean ": >'$CANARY'; cat"`, attack: `echo '*.txt filter=tidy' >attributes`, trigger: commit},
		{name: "a model opens a session in .git/modules/lib", want: wantStopped, at: ".git/modules/lib", by: byModelSession, prepare: submodule,
			attack: `evil hooks/pre-commit`, trigger: `cd lib && echo x >x && git add x && git commit -q -m x`},
		{name: "a model opens a session in .git/worktrees/linked", want: wantStopped, at: ".git/worktrees/linked", by: byModelSession, prepare: worktree,
			attack: `evil monitor; git config -f config.worktree core.fsmonitor "$WS/.git/worktrees/linked/monitor"`, trigger: `git -C "$DIR/linked" status`},
		{name: "a model runs in .husky", want: wantStopped, at: ".husky", by: byModelRun, prepare: husky, attack: hook, trigger: commit},
		{name: "a model runs in what an enclosing core.hooksPath names", want: wantStopped, at: "tools/hooks", by: byModelRun,
			prepare: `harmless tools/hooks/pre-commit; git config core.hooksPath tools/hooks`, attack: hook, trigger: commit},
		{name: "a model opens a session above what an enclosing core.hooksPath names", want: wantStopped, at: "tools", by: byModelSession,
			prepare: `harmless tools/hooks/pre-commit; git config core.hooksPath tools/hooks`, attack: `evil hooks/pre-commit`, trigger: commit},
		{name: "a model runs in .vscode", want: wantStopped, at: ".vscode", by: byModelRun, prepare: `mkdir .vscode; echo '{}' >.vscode/tasks.json`,
			attack: `echo evil >tasks.json`, trigger: `grep -q evil .vscode/tasks.json && harm`},
		{name: "a model runs in .claude", want: wantStopped, at: ".claude", by: byModelRun, prepare: `mkdir .claude; echo '{}' >.claude/settings.json`,
			attack: `echo evil >settings.json`, trigger: `grep -q evil .claude/settings.json && harm`},
		{name: "a model runs in a bare repository", want: wantStopped, at: "mirror.git", by: byModelRun, prepare: bare,
			attack: `evil hooks/pre-receive`, trigger: push},
		{name: "a model opens a session in a bare repository's hooks", want: wantStopped, at: "mirror.git/hooks", by: byModelSession, prepare: bare,
			attack: `evil pre-receive`, trigger: push},
		{name: "a model configures a bare repository", want: wantStopped, at: "mirror.git", by: byModelSandbox, prepare: bare,
			attack: `evil x/pre-receive; git config -f config core.hooksPath "$WS/mirror.git/x"`, trigger: push},
		{name: "a model in .git makes up a rebase", want: wantTold, tells: "rebase-merge", at: ".git", by: byModelRun,
			prepare: `commit; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i HEAD~1; cp -a .git/rebase-merge .git/saved; git rebase --abort`,
			attack:  `cp -a saved rebase-merge; printf 'exec : >"%s"\n' "$CANARY" >>rebase-merge/git-rebase-todo`, trigger: `git rebase --continue`},
		{name: "a model in .git has its configuration lie elsewhere", want: wantTold, tells: "commondir", at: ".git", by: byModelSession,
			attack: `mkdir fake; cp -a HEAD config objects refs fake; evil fake/hooks/pre-commit; echo fake >commondir`, trigger: commit},
		{name: "a model in .git adds attributes", want: wantTold, tells: "attributes", at: ".git", by: byModelSandbox,
			prepare: `git config --global filter.tidy.clean ": >'$CANARY'; cat"`, attack: `mkdir -p info; echo '*.txt filter=tidy' >info/attributes`, trigger: commit},
		{name: "a model runs below the repository, and makes another there", want: wantTold, tells: ".git", at: "src", by: byModelRun,
			attack: `git init -q .; evil x; git config core.fsmonitor "$WS/src/x"`, trigger: `cd src; git status`},
		{name: "a model names .git/hooks by another spelling", want: wantStopped, at: "src/.././/.git/hooks/", by: byModelRun, attack: hook, trigger: commit},
		{name: "a model names .git/hooks by a link", want: wantStopped, at: "src/h", by: byModelRun, prepare: `ln -s ../.git/hooks src/h`, attack: hook, trigger: commit},
		{name: "a model opens a session in what .git/hooks is a link to", want: wantStopped, at: "githooks2", by: byModelSession,
			prepare: `rm -rf .git/hooks; mkdir githooks2; ln -s ../githooks2 .git/hooks`, attack: hook, trigger: commit},
		{name: "a model runs in what .vscode is a link to", want: wantStopped, at: "cfg/vscode", by: byModelRun, prepare: `mkdir -p cfg/vscode; ln -s cfg/vscode .vscode; echo '{}' >.vscode/tasks.json`,
			attack: `echo evil >tasks.json`, trigger: `grep -q evil .vscode/tasks.json && harm`},
		{name: "a model runs in init.templateDir", want: wantStopped, at: "tmpl", by: byModelRun, prepare: `mkdir -p tmpl/hooks; git config --global init.templateDir "$WS/tmpl"`,
			attack: `evil hooks/post-checkout`, trigger: `git clone -q . "$DIR/cloned"`},
		{name: "a model mounts what a hook is a link to", want: wantStopped, by: byModelMount("$WS/tools/pre-commit:/mnt/named"), prepare: `harmless tools/pre-commit; mkdir -p .git/hooks; ln -s ../../tools/pre-commit .git/hooks/pre-commit`,
			attack: `f=/mnt/named; test -e $f || f=tools/pre-commit; evil x; cat x >$f`, trigger: commit},
		{name: "a model mounts .git/hooks", want: wantStopped, by: byModelMount("$WS/.git/hooks:/mnt/named"), attack: mounted(".git/hooks", hook), trigger: commit},
		{name: "a model mounts .git", want: wantStopped, by: byModelMount("$WS/.git:/mnt/named"), attack: mounted(".git", monitor(".git")), trigger: `git status`},
		{name: "a model mounts the repository beside itself", want: wantStopped, by: byModelMount("$WS:/mnt/named"), attack: mounted(".", `evil .git/hooks/pre-commit`), trigger: commit},

		{name: "a model runs in .git/hooks, over HTTP", want: wantStopped, at: ".git/hooks", by: byHTTP("http", "run", map[string]any{"argv": "{argv}", "workspace": "{at}"}),
			attack: hook, trigger: commit},
		{name: "a model runs in .git, over HTTP", want: wantStopped, at: ".git", by: byHTTP("http", "run", map[string]any{"argv": "{argv}", "workspace": "{at}"}),
			attack: monitor(".git"), trigger: `git status`},
		{name: "-w .git/hooks", want: wantStopped, at: ".git/hooks", attack: hook, trigger: commit},
		{name: "-w .git", want: wantStopped, at: ".git", attack: monitor(".git"), trigger: `git status`},
		{name: "a session over .git/hooks", want: wantStopped, at: ".git/hooks", by: bySession, attack: hook, trigger: commit},
		{name: "-w above what an enclosing core.hooksPath names", want: wantStopped, at: "tools",
			prepare: `harmless tools/hooks/pre-commit; git config core.hooksPath tools/hooks`, attack: `evil hooks/pre-commit`, trigger: commit},
		{name: "-w a bare repository", want: wantStopped, at: "mirror.git", prepare: bare, attack: `evil hooks/pre-receive`, trigger: push},
		{name: "--rw .git/hooks", want: wantTold, tells: ".git/hooks", flags: []string{"--rw", "$WS/.git/hooks:/mnt/named"},
			attack: mounted(".git/hooks", hook), trigger: commit},
		{name: "--rw .git of another repository", want: wantTold, tells: ".git", flags: []string{"--rw", "$DIR/other/.git:/mnt/named"},
			prepare: `git clone -q . "$DIR/other"`, attack: mounted("$DIR/other/.git", `evil hooks/pre-commit`), trigger: `cd "$DIR/other" && commit`},
		{name: "--rw another repository", want: wantStopped, flags: []string{"--rw", "$DIR/other:/mnt/named"},
			prepare: `git clone -q . "$DIR/other"; harmless "$DIR/other/.git/hooks/pre-commit"`, attack: mounted("$DIR/other", `evil .git/hooks/pre-commit`),
			trigger: `cd "$DIR/other" && commit`},
		{name: "--rw what holds another repository", want: wantTold, tells: "pre-commit", flags: []string{"--rw", "$DIR/shelf:/mnt/named"},
			prepare: `mkdir "$DIR/shelf"; git clone -q . "$DIR/shelf/other"; mkdir -p "$DIR/shelf/other/.git/hooks"`,
			attack:  mounted("$DIR/shelf", `evil other/.git/hooks/pre-commit`), trigger: `cd "$DIR/shelf/other" && commit`},
		{name: "--rw what holds the workspace", want: wantStopped, flags: []string{"--rw", "$DIR/shelf:/mnt/named"}, at: "../shelf/app",
			prepare: `mkdir "$DIR/shelf"; git clone -q . "$DIR/shelf/app"; harmless "$DIR/shelf/app/.git/hooks/pre-commit"`,
			attack:  mounted("$DIR/shelf", `evil app/.git/hooks/pre-commit`), trigger: `cd "$DIR/shelf/app" && commit`},
		{name: "--rw a part of an enclosing repository", want: wantStopped, flags: []string{"--rw", "$DIR/other/tools:/mnt/named"},
			prepare: `git clone -q . "$DIR/other"; harmless "$DIR/other/tools/hooks/pre-commit"; git -C "$DIR/other" config core.hooksPath tools/hooks`,
			attack:  mounted("$DIR/other/tools", `evil hooks/pre-commit`), trigger: `cd "$DIR/other" && commit`},
	}
}

// submodule makes lib a submodule, whose repository lies in .git/modules.
const submodule = `
git init -q -b main "$DIR/lib"; git -C "$DIR/lib" commit -q --allow-empty -m first
git -c protocol.file.allow=always submodule --quiet add "$DIR/lib" lib; git commit -q -m lib
rm -f .git/modules/lib/hooks/*
`
