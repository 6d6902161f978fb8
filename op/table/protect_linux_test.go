package table

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op/internal/exec"
)

// host runs a shell command on the host, with a home of its own.
func hostGit(t *testing.T, dir, home, text string) {
	t.Helper()
	cmd := osexec.CommandContext(t.Context(), "sh", "-ec", text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+home, "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@localhost", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@localhost")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
}

// What git's configuration and links name in a workspace cannot be changed,
// however they name it; opened, each of it is run by the host's own git.
func TestWhatGitRuns(t *testing.T) {
	if _, err := osexec.LookPath("git"); err != nil {
		t.Skip("git is not there to be misled")
	}
	const commit = "git commit -q --allow-empty -m x"
	hook := func(at string) string {
		return "mkdir -p " + filepath.Dir(at) + "; printf '#!/bin/sh\\n' > " + at + "; chmod 755 " + at + "; "
	}
	for name, tt := range map[string]struct{ before, file, after string }{
		"a hook that is a link":  {hook("scripts/pc") + "ln -s ../../scripts/pc .git/hooks/pre-commit", "scripts/pc", commit},
		"an included file":       {hook("h/pre-commit") + "printf '[core]\\nhooksPath = h\\n' > inc; git config include.path ../inc", "h/pre-commit", commit},
		"the included file":      {"echo > inc; git config include.path ../inc; " + hook("unseen/pre-commit"), "inc", commit},
		"config.worktree":        {hook("h/pre-commit") + "git config extensions.worktreeConfig true; git config --worktree core.hooksPath h", "h/pre-commit", commit},
		"a continued line":       {hook("h/pre-commit") + "printf '[core]\\nhooksPath = \\\\\\nh\\n' >> .git/config", "h/pre-commit", commit},
		"after a long line":      {hook("h/pre-commit") + "(printf '#'; head -c 70000 /dev/zero | tr '\\0' x; printf '\\n[core]\\nhooksPath = h\\n') >> .git/config", "h/pre-commit", commit},
		"the user's own":         {hook("h/pre-commit") + "git config --global core.hooksPath h", "h/pre-commit", commit},
		"core.fsmonitor":         {hook("tools/m") + "git config core.fsmonitor 'sh tools/m'", "tools/m", "git status >&2"},
		"a filter":               {hook("tools/f") + "echo '*.x filter=f' > .gitattributes; git config filter.f.clean 'sh tools/f %f'", "tools/f", "echo > a.x; git add a.x"},
		"an external diff":       {hook("tools/d") + "git config diff.external tools/d; echo a > a; git add a; echo b > a", "tools/d", "git diff"},
		"a nested repository":    {hook("h/pre-commit") + "git init -q n; mkdir -p n/.git/hooks", "n/.git/hooks/pre-commit", "cd n; " + commit},
		"its configured hooks":   {"git init -q n; " + hook("n/h/pre-commit") + "git -C n config core.hooksPath h", "n/h/pre-commit", "cd n; " + commit},
		"ext:: as a remote":      {hook("tools/r") + "git remote add o 'ext::sh tools/r'; git config protocol.ext.allow always", "tools/r", "git fetch o || true"},
		"an ordinary repository": {hook(".husky/pre-commit") + "git config core.hooksPath .husky", ".husky/pre-commit", commit},
	} {
		t.Run(name, func(t *testing.T) {
			env := lasting(t)
			ws, home, ran := env.Default.Workspace.Source, t.TempDir(), filepath.Join(t.TempDir(), "ran")
			t.Setenv("HOME", home)
			t.Setenv("XDG_CONFIG_HOME", "")
			hostGit(t, ws, home, "git init -q .; mkdir -p .git/hooks; "+tt.before)
			evil := "printf '#!/bin/sh\\ntouch " + ran + "\\n' > " + tt.file + "; chmod 755 " + tt.file
			if tt.file == "inc" {
				evil = "printf '[core]\\nhooksPath = unseen\\n' > inc; mkdir -p unseen; printf '#!/bin/sh\\ntouch " + ran + "\\n' > unseen/pre-commit; chmod 755 unseen/pre-commit"
			}
			// All that an attacker tries when a write fails.
			evil = "(" + evil + "); mv " + tt.file + " gone; (" + evil + "); rm -rf " + filepath.Dir(tt.file) + "/* " + tt.file + "; (" + evil + "); true"
			for _, control := range []bool{false, true} {
				in := fields{"argv": []string{"sh", "-c", evil}}
				if control {
					in["unprotect"] = []string{"*"}
				}
				well[exec.RunOutput](t, env, "run", in)
				hostGit(t, ws, home, tt.after)
				if _, err := os.Stat(ran); (err == nil) != control {
					t.Errorf("opened %v: %v", control, err)
				}
			}
		})
	}
}

// Daily work goes on in a repository with all that is protected.
func TestDailyWork(t *testing.T) {
	if _, err := osexec.LookPath("git"); err != nil {
		t.Skip("git is not there to work with")
	}
	env := lasting(t)
	ws, home := env.Default.Workspace.Source, t.TempDir()
	t.Setenv("HOME", home)
	hostGit(t, ws, home, `git init -q .; mkdir -p .git/hooks .husky scripts .vscode
printf '#!/bin/sh\ntrue\n' > scripts/pc; chmod 755 scripts/pc; ln -s ../../scripts/pc .git/hooks/pre-commit
printf '#!/bin/sh\ntrue\n' > .husky/pre-push; echo true > .envrc; echo '{}' > .vscode/settings.json; echo '{}' > package.json
git init -q sub; git -C sub commit -q --allow-empty -m s; echo /wt >> .gitignore; echo /node_modules >> .gitignore
git add -A . ':!sub'; git commit -q -m first; git branch other; git worktree add -q wt other
mkdir -p node_modules/.bin vendor/x build; git init -q vendor/x; echo > node_modules/.bin/p`)
	for _, work := range []string{
		"git status", "echo a > a; git add a; git commit -q -m second", "git checkout -q -b third; git checkout -q -; git merge -q third",
		"echo b > a; git stash -q; git stash pop -q", "git checkout -q a; git rebase -q HEAD~1", "git clean -qfdx -e sub -e wt", "rm -rf node_modules vendor build; mkdir -p node_modules/.bin; echo > node_modules/.bin/p",
		"echo c > Makefile; mkdir .github; echo > package.json; echo > scripts/other", "cd sub; echo > x; git add x; git commit -q -m x", "git repack -adq",
		"git init -q fresh; cd fresh; git commit -q --allow-empty -m x; cd ..; rm -rf fresh",
	} {
		out := well[exec.RunOutput](t, env, "run", fields{"argv": []string{"sh", "-ec", "export HOME=/tmp; git config --global user.name t; git config --global user.email t@localhost; git config --global safe.directory '*'; " + work}})
		if out.ExitCode != 0 {
			t.Errorf("%s: status %d: %s %s", work, out.ExitCode, out.Stdout, out.Stderr)
		}
	}
}

// A nested checkout cannot be removed, and the answer says what opens it.
// Opened, it is compared.
func TestNestedCheckout(t *testing.T) {
	if _, err := osexec.LookPath("git"); err != nil {
		t.Skip("git is not there to work with")
	}
	env := lasting(t)
	ws, home := env.Default.Workspace.Source, t.TempDir()
	t.Setenv("HOME", home)
	hostGit(t, ws, home, "git init -q .; git init -q sub; git init -q other; mkdir -p sub/.git/hooks; rm -f sub/.git/hooks/*")
	out := well[exec.RunOutput](t, env, "run", fields{"argv": []string{"sh", "-c", "git config user.name x && rm -rf sub"}})
	if out.ExitCode == 0 || len(out.Denials) == 0 || !strings.Contains(out.Denials[len(out.Denials)-1].Hint, "DIR/.git") {
		t.Errorf("status %d, %+v", out.ExitCode, out.Denials)
	}
	opened := fields{"argv": []string{"sh", "-c", "mkdir -p sub/.git/hooks; echo x > sub/.git/hooks/pre-commit"}, "unprotect": []string{"sub/.git"}}
	if out = well[exec.RunOutput](t, env, "run", opened); out.ExitCode != 0 || !slices.Equal(out.Planted, []string{"sub/.git/hooks/pre-commit"}) {
		t.Errorf("opened: status %d, %s, planted %q", out.ExitCode, out.Stderr, out.Planted)
	}
	opened["argv"] = []string{"sh", "-c", "rm -rf sub; ! rm -rf other"}
	if out = well[exec.RunOutput](t, env, "run", opened); out.ExitCode != 0 || len(out.Planted) > 0 {
		t.Errorf("opened: status %d, %s, planted %q", out.ExitCode, out.Stderr, out.Planted)
	}
}

// A branch switch inside leaves what is protected as it is, and says why. Opened, it
// is changed and reported.
func TestBranchSwitch(t *testing.T) {
	if _, err := osexec.LookPath("git"); err != nil {
		t.Skip("git is not there to work with")
	}
	env := lasting(t)
	ws, home := env.Default.Workspace.Source, t.TempDir()
	t.Setenv("HOME", home)
	hostGit(t, ws, home, `git init -q -b main .; mkdir .vscode; echo old > .vscode/settings.json; git add .; git commit -q -m a
git checkout -q -b other; echo new > .vscode/settings.json; echo new > f; git add .; git commit -q -m b; git checkout -q main`)
	for _, tt := range []struct {
		unprotect, planted []string
		settings           string
	}{
		{[]string{}, nil, "old"},
		{[]string{".vscode"}, []string{".vscode/settings.json"}, "new"},
	} {
		out := well[exec.RunOutput](t, env, "run", fields{"unprotect": tt.unprotect, "argv": []string{"sh", "-c",
			"export HOME=/tmp; git config --global safe.directory '*'; git checkout -q -f other; cat f .vscode/settings.json"}})
		if out.Stdout != "new\n"+tt.settings+"\n" || strings.Contains(out.Stderr, "Read-only file system") != (tt.settings == "old") || !slices.Equal(out.Planted, tt.planted) {
			t.Errorf("%q: %q, %s, planted %q", tt.unprotect, out.Stdout, out.Stderr, out.Planted)
		}
	}
}

// What git resumes is one line for a repository, and what a fresh clone holds
// is none.
func TestLittleIsReported(t *testing.T) {
	if _, err := osexec.LookPath("git"); err != nil {
		t.Skip("git is not there to work with")
	}
	for name, tt := range map[string]struct {
		work string
		want []string
	}{
		"a rebase that stops":      {"git rebase main side", []string{".git/rebase-merge"}},
		"a merge that stops":       {"git merge side", []string{".git/MERGE_HEAD"}},
		"a pick that stops":        {"git cherry-pick side", []string{".git/CHERRY_PICK_HEAD"}},
		"a bisection":              {"git bisect start HEAD HEAD~1; false", []string{".git/BISECT_ANCESTORS_OK", ".git/BISECT_START"}},
		"a clone and a repository": {"git clone -q . clone; git init -q fresh; git -C fresh commit -q --allow-empty -m x; false", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if commands, _ := osexec.CommandContext(t.Context(), "git", "--list-cmds=main").Output(); strings.HasPrefix(tt.work, "git bisect") && !strings.Contains(string(commands), "\nbisect\n") {
				t.Skip("git bisect is not installed here")
			}
			env := lasting(t)
			ws, home := env.Default.Workspace.Source, t.TempDir()
			t.Setenv("HOME", home)
			hostGit(t, ws, home, "git init -q -b main .; git commit -q --allow-empty -m x; git branch side; echo a > a; git add a; git commit -q -m a; git checkout -q side; echo b > a; git add a; git commit -q -m b; git checkout -q main")
			out := well[exec.RunOutput](t, env, "run", fields{"argv": []string{"sh", "-c", "export HOME=/tmp; git config --global user.name t; git config --global user.email t@localhost; git config --global safe.directory '*'; " + tt.work}})
			if len(out.Planted) > 0 || len(out.ChangedPrograms) > 1 || len(tt.want) == 0 != (len(out.ChangedPrograms) == 0) || len(tt.want) > 0 && !slices.Contains(tt.want, out.ChangedPrograms[0]) {
				t.Errorf("planted %q, programs %q: %s", out.Planted, out.ChangedPrograms, out.Stderr)
			}
		})
	}
}
