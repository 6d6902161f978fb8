//go:build linux

package linux

import (
	"slices"
	"testing"
)

func TestGitConfigPaths(t *testing.T) {
	ws := t.TempDir()
	writeFile(t, ws+"/.git/config", `[core]
	repositoryformatversion = 0
	HooksPath = "tools/git hooks" # by custom
[include]
	path = ../team.gitconfig ; and
	path = /etc/gitconfig
	path = ~/mine
[includeIf "gitdir:~/work/"] path = local.inc
[remote "core"]
	hooksPath = not/this
[core "x"]
	hookspath = ../outside
`)
	want := []string{"tools/git hooks", "team.gitconfig", ".git/local.inc"}
	if got := gitConfigPaths(ws); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := gitConfigPaths(t.TempDir()); got != nil {
		t.Errorf("without a repository: %q", got)
	}
}
