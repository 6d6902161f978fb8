//go:build linux

package escape

// closedAttacks close, in one sandbox, what leads to a program of the host's, so that the
// next one would not find it, and open it there again.
func closedAttacks() []later {
	const status = `git status`
	var rows []later
	for _, mode := range []string{"000", "311"} {
		row := func(name, prepare, closed, evil, trigger string) later {
			return later{name: name + ", " + mode, want: wantStopped, prepare: prepare + "\npaddock run -- chmod " + mode + " " + closed,
				attack: "chmod 755 " + closed + "; evil " + evil, trigger: "chmod 755 " + closed + "; " + trigger}
		}
		rows = append(rows,
			row("the directory of a file that git includes", `mkdir conf; printf '[core]\n\tfsmonitor = tools/x\n' >conf/team; harmless tools/x; git config include.path ../conf/team`, "conf", "tools/x", status),
			row("the directory of a program", `harmless tools/x; git config core.fsmonitor tools/x`, "tools", "tools/x", status),
			row("the directory of a program, far below", `harmless a/b/c/d/e/f/g/x; git config core.fsmonitor a/b/c/d/e/f/g/x`, "a/b/c/d/e/f", "a/b/c/d/e/f/g/x", status),
			row("the directory of hooks", `harmless tools/hooks/pre-commit; git config core.hooksPath tools/hooks`, "tools", "tools/hooks/pre-commit", `commit`),
			row("the directory that a hook leads to", `harmless tools/pc; mkdir -p .git/hooks; ln -s ../../tools/pc .git/hooks/pre-commit`, "tools", "tools/pc", `commit`),
			row("the directory that a link of the home leads to", `harmless dot/bashrc; ln -s "$WS/dot/bashrc" "$HOME/.bashrc"`, "dot", "dot/bashrc", `sh "$HOME/.bashrc"`),
			row("the repository", `harmless x; git config core.fsmonitor ./x`, ".git", "x", status),
			row("a directory with a repository", `git init -q g/h; harmless g/h/x; git -C g/h config core.fsmonitor ./x`, "g", "g/h/x", `git -C g/h status`),
		)
		made := row("a directory with a repository, where tools make things", `git init -q vendor/g/h; harmless vendor/g/h/x; git -C vendor/g/h config core.fsmonitor ./x`, "vendor/g", "vendor/g/h/x", `git -C vendor/g/h status`)
		made.want, made.tells = wantTold, "vendor/g"
		rows = append(rows, made)
	}
	// Nobody's attack: what lies above the workspace may be passed through alone.
	above := func(name, configure, attack, trigger string) later {
		return later{name: name + ", below a directory that cannot be read", want: wantStopped, at: "../up/app", runs: true,
			prepare: `mkdir "$DIR/up"; cp -a . "$DIR/up/app"; cd "$DIR/up/app"; ` + configure + `; chmod 311 "$DIR/up"`,
			attack:  attack, trigger: `cd "$DIR/up/app"; ` + trigger + `; chmod 755 "$DIR/up"`}
	}
	return append(rows,
		above("core.fsmonitor", `harmless x; git config core.fsmonitor ./x`, `evil x`, status),
		above("core.hooksPath", `harmless tools/q/pre-commit; git config core.hooksPath tools/q`, `evil tools/q/pre-commit`, `commit`),
	)
}
