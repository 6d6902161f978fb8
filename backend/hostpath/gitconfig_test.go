package hostpath

import (
	"os"
	"slices"
	"testing"
)

func TestGitConfigPaths(t *testing.T) {
	ws := t.TempDir()
	if err := os.Mkdir(ws+"/.git", 0o700); err != nil {
		t.Fatal(err)
	}
	config := `[core]
	repositoryformatversion = 0
	HooksPath = "tools/git hooks" # by custom
[include]
	path = ../team.gitconfig ; and
	path = /etc/gitconfig
	path = ~/mine
[includeIf "gitdir:~/src/"] path = local.inc
[remote "core"]
	hooksPath = not/this
[core "x"]
	hookspath = ../outside
`
	if err := os.WriteFile(ws+"/.git/config", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{"tools/git hooks", "team.gitconfig", ".git/local.inc"}
	if got := GitConfigPaths(ws); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := GitConfigPaths(t.TempDir()); got != nil {
		t.Errorf("without a repository: %q", got)
	}
}
