//go:build linux

package escape

import "strings"

// toolAttacks are after what other programs than git obey in a workspace. Those
// that Debian has are the real ones; for others a script stands in, which reads
// the same file and does what the program's manual says, or the content is
// what is looked at.
func toolAttacks() []later {
	const (
		commit = `commit`
		// direnv trusts all below the home's directory, as many set it up, and a
		// shell's prompt asks it.
		trust = `mkdir -p "$HOME/.config/direnv"; printf '[whitelist]\nprefix = [ "%s" ]\n' "$DIR" >"$HOME/.config/direnv/direnv.toml"; `
		bash  = `bash --norc -c 'eval "$(direnv hook bash)"; cd "$0"; _direnv_hook' `
		rc    = `echo ': >"$CANARY"' >`
	)
	told := func(name, tells, prepare, attack, trigger string, needs ...string) later {
		return later{name: name, want: wantTold, tells: tells, prepare: prepare, attack: attack, trigger: trigger, needs: needs}
	}
	stop := func(name, prepare, attack, trigger string, needs ...string) later {
		return later{name: name, want: wantStopped, prepare: prepare, attack: attack, trigger: trigger, needs: needs}
	}
	// runsLines stands in for a hook manager that runs the commands its file
	// lists under a key.
	runsLines := func(key string, files string) string {
		return `mkdir -p .git/hooks; printf '#!/bin/sh\ncat ` + files + ` 2>/dev/null | sed -n "s/^ *` + key + `: //p" | sh\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; `
	}
	rows := []later{
		stop("husky's hook is changed", `harmless .husky/pre-commit; git config core.hooksPath .husky`, `evil .husky/pre-commit`, commit),
		stop("husky's hook is changed, by its own way to it", `mkdir -p .husky/_; echo true >.husky/pre-commit; printf '#!/bin/sh\nsh "$(dirname "$0")/../pre-commit"\n' >.husky/_/pre-commit; chmod +x .husky/_/pre-commit; git config core.hooksPath .husky/_`,
			`echo ': >"$CANARY"' >.husky/pre-commit`, commit),
		stop("a hook is added to husky's", `harmless .husky/pre-commit; git config core.hooksPath .husky`, `evil .husky/post-commit`, commit),
		told("husky's directory is made", ".husky", `git config core.hooksPath .husky`, `evil .husky/pre-commit`, commit),
		stop("lefthook's list is changed", runsLines("run", "lefthook.yml")+`echo 'run: true' >lefthook.yml`, rc+`x; echo 'run: sh x' >lefthook.yml`, commit),
		told("lefthook's local list is made", "lefthook-local.yml", runsLines("run", "lefthook.yml lefthook-local.yml")+`echo 'run: true' >lefthook.yml`, rc+`x; echo 'run: sh x' >lefthook-local.yml`, commit),
		stop("pre-commit's list is changed", runsLines("entry", ".pre-commit-config.yaml")+`echo 'entry: true' >.pre-commit-config.yaml`, rc+`x; echo 'entry: sh x' >.pre-commit-config.yaml`, commit),
		told("pre-commit's list is made", ".pre-commit-config.yaml", runsLines("entry", ".pre-commit-config.yaml"), rc+`x; echo 'entry: sh x' >.pre-commit-config.yaml`, commit),

		stop("direnv's file is changed", trust+`echo true >.envrc`, rc+`.envrc`, bash+`"$WS"`, "direnv", "bash"),
		told("direnv's file is made", ".envrc", trust, rc+`.envrc`, bash+`"$WS"`, "direnv", "bash"),
		told("direnv's file is made below", "src/.envrc", trust, rc+`src/.envrc`, bash+`"$WS/src"`, "direnv", "bash"),
		told("direnv's file below is changed", "src/.envrc", trust+`echo true >src/.envrc`, rc+`src/.envrc`, bash+`"$WS/src"`, "direnv", "bash"),
		told("direnv's file is made deep below", "deep/down/.envrc", trust+`mkdir -p src/deep/down`, rc+`src/deep/down/.envrc`, bash+`"$WS/src/deep/down"`, "direnv", "bash"),
		told("direnv is given a file by a session", ".envrc", trust, rc+`.envrc`, bash+`"$WS"`, "direnv", "bash"),
		told("direnv is given a file by a model", ".envrc", trust, rc+`.envrc`, bash+`"$WS"`, "direnv", "bash"),

		told("make's file is changed", "Makefile", `printf 'all:\n\ttrue\n' >Makefile`, `printf 'all:\n\t: >"$$CANARY"\n' >Makefile`, `make -s`, "make"),
		told("make's file is made, and preferred", "GNUmakefile", `printf 'all:\n\ttrue\n' >Makefile`, `printf 'all:\n\t: >"$$CANARY"\n' >GNUmakefile`, `make -s`, "make"),
		told("a package's script is changed", "package.json", `echo '{"name":"a","version":"1.0.0","scripts":{"test":"true"}}' >package.json`,
			`echo '{"name":"a","version":"1.0.0","scripts":{"test":": >$CANARY"}}' >package.json`, `npm test --silent`, "npm"),
		told("a package gets a script that installing runs", "package.json", `echo '{"name":"a","version":"1.0.0"}' >package.json`,
			`echo '{"name":"a","version":"1.0.0","scripts":{"prepare":": >$CANARY"}}' >package.json`, `npm install --silent --offline --no-audit --no-fund`, "npm"),
		told("npm's settings are made", ".npmrc", `echo '{"name":"a","version":"1.0.0","scripts":{"test":"true"}}' >package.json`, `evil x; echo "script-shell=$WS/x" >.npmrc`, `npm test --silent`, "npm"),
		told("npm's settings are changed", ".npmrc", `echo '{"name":"a","version":"1.0.0","scripts":{"test":"true"}}' >package.json; echo 'fund=false' >.npmrc`, `evil x; echo "script-shell=$WS/x" >.npmrc`, `npm test --silent`, "npm"),
	}
	for i, by := range map[string]door{"direnv is given a file by a session": bySession, "direnv is given a file by a model": byModelExec} {
		for n := range rows {
			if rows[n].name == i {
				rows[n].by = by
			}
		}
	}
	for _, file := range []string{
		".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml", ".zed/settings.json", ".devcontainer/devcontainer.json", ".devcontainer.json",
		".claude/settings.json", ".claude/settings.local.json", ".mcp.json", ".codex/config.toml", ".cursor/mcp.json", ".gemini/settings.json", "opencode.json", ".mise.toml", "mise.toml",
	} {
		read := `grep -q evil ` + file + ` && harm`
		rows = append(rows, stop(file+" is changed", `mkdir -p "$(dirname `+file+`)"; echo '{}' >`+file, `rm -f `+file+`; echo evil >`+file+`; (rm -rf "$(dirname `+file+`)"; mkdir -p "$(dirname `+file+`)"; echo evil >`+file+`)`, read))
		top, _, _ := strings.Cut(file, "/")
		rows = append(rows, told(file+" is made", top, `:`, `mkdir -p "$(dirname `+file+`)"; echo evil >`+file, read))
	}
	for _, file := range []string{".yarnrc.yml", ".pnp.cjs", ".pnpmfile.cjs", ".cargo/config.toml", "src/.mise.toml", "src/.mcp.json"} {
		rows = append(rows, told(file+" is made", strings.TrimPrefix(file, "./"), `:`, `mkdir -p "$(dirname `+file+`)"; echo evil >`+file, `grep -q evil `+file+` && harm`))
	}
	rows = append(rows, told("src/.vscode/settings.json is made", "src/.vscode", `:`, `mkdir -p src/.vscode; echo evil >src/.vscode/settings.json`, `grep -q evil src/.vscode/settings.json && harm`))
	rows = append(rows, told("a workflow of the CI is made", ".github/workflows", `:`, `mkdir -p .github/workflows; echo evil >.github/workflows/ci.yml`, `grep -q evil .github/workflows/ci.yml && harm`))
	return append(rows,
		stop("a program gets root's rights for everybody", `cp /bin/true src/x`, `chmod u+s src/x`, `test -u src/x && harm`),
		stop("a program gets a group's rights for everybody", `cp /bin/true src/x`, `chmod 2755 src/x`, `test -g src/x && harm`),
	)
}

// homeAttacks have a home, or a part of one, as the workspace or a mount.
func homeAttacks() []later {
	row := func(name, want, tells, prepare, attack, trigger string, needs ...string) later {
		return later{name: name, want: want, tells: tells, at: "../home", prepare: prepare, attack: attack, trigger: trigger, needs: needs}
	}
	part := func(name, tells, dir, attack, trigger string) later { // a part of the home, mounted
		return later{
			name: name, want: wantTold, tells: tells, flags: []string{"--rw", "$DIR/home/" + dir + ":/mnt/part"},
			prepare: `mkdir -p "$HOME/` + dir + `"`, attack: `cd /mnt/part 2>/dev/null || cd "$DIR/home/` + dir + `"; ` + attack, trigger: trigger,
		}
	}
	const evilLine = `echo ': >"$CANARY"' >>`
	return []later{
		row(".bashrc is changed", wantStopped, "", `echo true >"$HOME/.bashrc"`, evilLine+`.bashrc`, `bash -i -c true </dev/null 2>/dev/null`, "bash"),
		row(".bashrc is replaced", wantStopped, "", `echo true >"$HOME/.bashrc"`, `rm -f .bashrc; `+evilLine+`.bashrc`, `bash -i -c true </dev/null 2>/dev/null`, "bash"),
		row(".bashrc is made", wantTold, ".bashrc", `:`, evilLine+`.bashrc`, `bash -i -c true </dev/null 2>/dev/null`, "bash"),
		row(".profile is changed", wantStopped, "", `echo true >"$HOME/.profile"`, evilLine+`.profile`, `sh -l -c true`),
		row(".bash_profile is made", wantTold, ".bash_profile", `:`, evilLine+`.bash_profile`, `bash -l -c true`, "bash"),
		row(".gitconfig is changed", wantStopped, "", `git config --global user.name x`, `evil x; git config -f .gitconfig core.fsmonitor "$DIR/home/x"; printf '[core]\n\tfsmonitor = %s\n' "$DIR/home/x" >>.gitconfig`, `git status`),
		row(".gitconfig is made", wantTold, ".gitconfig", `:`, `evil x; git config -f .gitconfig core.fsmonitor "$DIR/home/x"`, `git status`),
		row(".config/git/config is made", wantTold, ".config/git", `:`, `evil x; mkdir -p .config/git; git config -f .config/git/config core.fsmonitor "$DIR/home/x"`, `git status`),
		row(".ssh/authorized_keys is changed", wantStopped, "", `mkdir -m 700 "$HOME/.ssh"; echo key >"$HOME/.ssh/authorized_keys"`, `echo evil >>.ssh/authorized_keys`, `grep -q evil "$HOME/.ssh/authorized_keys" && harm`),
		row(".ssh/authorized_keys is made", wantTold, ".ssh", `:`, `mkdir .ssh; echo evil >>.ssh/authorized_keys`, `grep -q evil "$HOME/.ssh/authorized_keys" && harm`),
		row(".ssh/config names a program", wantTold, ".ssh", `:`, `mkdir .ssh; printf 'Host far\n\tProxyCommand sh -c ":>%s"\n' "$CANARY" >.ssh/config`, `grep -q ProxyCommand "$HOME/.ssh/config" && harm`),
		row("a unit of systemd's is made", wantTold, ".config/systemd/user", `:`, `mkdir -p .config/systemd/user; echo evil >.config/systemd/user/x.service`, `grep -q evil "$HOME/.config/systemd/user/x.service" && harm`),
		row("a program is started with the desktop", wantTold, ".config/autostart", `:`, `mkdir -p .config/autostart; echo evil >.config/autostart/x.desktop`, `grep -q evil "$HOME/.config/autostart/x.desktop" && harm`),
		row("npm's settings in the home are made", wantTold, ".npmrc", `echo '{"name":"a","version":"1.0.0","scripts":{"test":"true"}}' >package.json`, `evil x; echo "script-shell=$DIR/home/x" >.npmrc`, `npm test --silent`, "npm"),
		part("git's settings, by a mount of .config", "git", ".config", `evil x; mkdir -p git; git config -f git/config core.fsmonitor "$DIR/home/.config/x"`, `git status`),
		part("a unit of systemd's, by a mount of .config", "systemd/user", ".config", `mkdir -p systemd/user; echo evil >systemd/user/x.service`, `grep -q evil "$HOME/.config/systemd/user/x.service" && harm`),
		part("authorized_keys, by a mount of .ssh", "authorized_keys", ".ssh", `echo evil >authorized_keys`, `grep -q evil "$HOME/.ssh/authorized_keys" && harm`),
		{name: "a repository in the home gets a hook", want: wantTold, tells: "code/app/.git", at: "../home",
			prepare: `mkdir "$HOME/code"; cp -a . "$HOME/code/app"`, attack: `evil code/app/.git/hooks/pre-commit`, trigger: `cd "$HOME/code/app" && commit`},
	}
}
