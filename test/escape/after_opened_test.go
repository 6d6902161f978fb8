//go:build linux

package escape

import (
	"os"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// openedAttacks change what git's configuration and links name where no mount makes
// it read-only: at other levels and backends, and where the operator has opened the
// path that names it.
func openedAttacks() []later {
	ways := [][]string{{"--wrapper", "env"}, {"--unprotect", "*"}}
	if confine.LandlockABI() >= confine.LandlockScopesABI {
		ways = append(ways, []string{"--level", policy.LevelLandlock, "--allow-degraded", "identity"})
	}
	if os.Geteuid() == 0 { // who else may not grant it
		ways = append(ways, []string{"--backend", policy.BackendHost})
	}
	const (
		hooks   = `harmless tools/hooks/pre-commit; git add .; git commit -q -m tools; `
		monitor = `harmless s/fm; printf '[core]\n\tfsmonitor = s/fm\n' >gc; git add .; git commit -q -m s; git config include.path ../gc; `
		prompt  = `bash -i -c true </dev/null 2>/dev/null`
	)
	var rows []later
	for _, c := range []struct {
		later
		opens []string
	}{
		{later{name: "core.hooksPath", tells: "tools/hooks/pre-commit", prepare: hooks + `git config core.hooksPath tools/hooks`, attack: `evil tools/hooks/pre-commit`, trigger: `commit`}, []string{".git/config", ".git"}},
		{later{name: "core.hooksPath of the user's", tells: "tools/hooks/pre-commit", prepare: hooks + `git config --global core.hooksPath tools/hooks`, attack: `evil tools/hooks/pre-commit`, trigger: `commit`}, []string{".gitconfig"}},
		{later{name: "core.hooksPath of a linked worktree", tells: "tools/hooks/pre-commit", at: "../linked", prepare: hooks + `git config core.hooksPath tools/hooks; git worktree add -q "$DIR/linked"`,
			attack: `evil tools/hooks/pre-commit`, trigger: `cd "$DIR/linked" && commit`}, []string{".git/config", ".git"}},
		{later{name: "a file that is included", tells: "gc", prepare: monitor, attack: `evil s/gm; printf '[core]\n\tfsmonitor = s/gm\n' >gc`, trigger: `git status`}, []string{".git/config", ".git"}},
		{later{name: "a program that an included file names", tells: "s/fm", prepare: monitor, attack: `evil s/fm`, trigger: `git status`}, []string{".git/config", ".git"}},
		{later{name: "what a hook is a link to", tells: "tools/x", prepare: `harmless tools/x; mkdir -p .git/hooks; ln -s ../../tools/x .git/hooks/pre-commit`, attack: `evil tools/x`, trigger: `commit`}, []string{".git/hooks", ".git"}},
		{later{name: "what .git is a link to", tells: "store", prepare: `mv .git store; ln -s store .git; mkdir -p store/hooks`, attack: `evil store/hooks/pre-commit`, trigger: `commit`}, []string{".git"}},
		{later{name: "what .bashrc is a link to", tells: "dot/bashrc", needs: []string{"bash"}, prepare: `mkdir dot; echo true >dot/bashrc; ln -s "$WS/dot/bashrc" "$HOME/.bashrc"`, attack: `echo ': >"$CANARY"' >dot/bashrc`, trigger: prompt}, []string{".bashrc"}},
		{later{name: "what .bashrc is a link to, and is not there", tells: "dot/bashrc", needs: []string{"bash"}, prepare: `mkdir dot; ln -s "$WS/dot/bashrc" "$HOME/.bashrc"`, attack: `echo ': >"$CANARY"' >dot/bashrc`, trigger: prompt}, []string{".bashrc"}},
		{later{name: "what the .envrc above is a link to", tells: "e", at: "sub", prepare: `mkdir sub; echo true >sub/e; ln -s sub/e .envrc`, attack: `echo ': >"$CANARY"' >e`, trigger: `. ./.envrc`}, []string{".envrc"}},
	} {
		all := ways
		for _, path := range c.opens {
			all = append(slices.Clip(all), []string{"--unprotect", path})
		}
		for _, flags := range all {
			row := c.later
			row.name, row.want, row.flags = row.name+", "+strings.Join(flags[:2], " "), wantTold, flags
			row.prepare += "\n[ \"$(id -u)\" != 0 ] || paddock privilege grant user:root UNSANDBOXED_EXEC"
			row.runs = !strings.HasPrefix(row.name, "what .git is") || flags[0] == "--unprotect"
			rows = append(rows, row)
		}
	}
	return rows
}
