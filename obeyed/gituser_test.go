package obeyed

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestGitUser(t *testing.T) {
	who := func(name, email string) map[string]string {
		return map[string]string{"GIT_AUTHOR_NAME": name, "GIT_COMMITTER_NAME": name, "GIT_AUTHOR_EMAIL": email, "GIT_COMMITTER_EMAIL": email}
	}
	const ann = "[user]\n\tname = Ann\n\temail = ann@example.com\n"
	for name, tt := range map[string]struct {
		files map[string]string // $ is the home, @ the workspace
		want  map[string]string
	}{
		"none":                       {nil, nil},
		"the user's":                 {map[string]string{"$/.gitconfig": ann}, who("Ann", "ann@example.com")},
		"in the other place":         {map[string]string{"$/.config/git/config": ann}, who("Ann", "ann@example.com")},
		"the repository's":           {map[string]string{"$/.gitconfig": ann, "@/.git/config": "[user]\nemail = work@example.com\n"}, who("Ann", "work@example.com")},
		"included":                   {map[string]string{"$/.gitconfig": "[include]\npath = who\n", "$/who": ann}, who("Ann", "ann@example.com")},
		"included from home":         {map[string]string{"$/.gitconfig": "[include]\npath = ~/x/who\n", "$/x/who": ann}, who("Ann", "ann@example.com")},
		"of another role":            {map[string]string{"$/.gitconfig": ann + "[author]\nname = A\n"}, map[string]string{"GIT_AUTHOR_NAME": "A", "GIT_COMMITTER_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.com", "GIT_COMMITTER_EMAIL": "ann@example.com"}},
		"where it holds":             {map[string]string{"$/.gitconfig": ann + "[includeIf \"gitdir:$/\"]\npath = who\n[includeIf \"gitdir:@/\"]\npath = work\n", "$/who": "[user]\nname = No\n", "$/work": "[user]\nemail = work@example.com\n", "@/.git/HEAD": ""}, who("Ann", "work@example.com")},
		"where nobody knows":         {map[string]string{"$/.gitconfig": ann + "[includeIf \"onbranch:x\"]\npath = who\n", "$/who": ann}, nil},
		"of no matter":               {map[string]string{"$/.gitconfig": ann + "[includeIf \"onbranch:x\"]\npath = who\n", "$/who": "[core]\npager = less\n"}, who("Ann", "ann@example.com")},
		"of another form":            {map[string]string{"$/.gitconfig": ann + "[a]\nb = \\\nc\n"}, nil},
		"what cannot be seen":        {map[string]string{"$/.gitconfig": "[user]\nname = \"A\\nB\"\nemail = ann@example.com\n"}, map[string]string{"GIT_AUTHOR_EMAIL": "ann@example.com", "GIT_COMMITTER_EMAIL": "ann@example.com"}},
		"an include of a repository": {map[string]string{"$/.gitconfig": ann, "@/.git/config": "[include]\npath = $/secret\n", "$/secret": "[user]\nname = Secret\n"}, nil},
		"a repository elsewhere":     {map[string]string{"$/.gitconfig": ann, "@/.git": "gitdir: $/r\n", "$/r/config": "[user]\nname = Sub\n"}, who("Sub", "ann@example.com")},
		"no repository":              {map[string]string{"$/.gitconfig": ann, "@/.git": "nonsense"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			home, ws := t.TempDir(), t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("XDG_CONFIG_HOME", "")
			t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			t.Setenv("GIT_CONFIG_GLOBAL", "")
			expand := strings.NewReplacer("$/", home+"/", "@/", ws+"/").Replace
			for at, text := range tt.files {
				at = expand(at)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(expand(text)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := GitUser(t.Context(), ws); !maps.Equal(got, tt.want) {
				t.Errorf("%q", got)
			}
		})
	}
	t.Run("a FIFO", func(t *testing.T) {
		home := t.TempDir()
		t.Setenv("HOME", home)
		t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
		if err := unix.Mkfifo(home+"/.gitconfig", 0o600); err != nil {
			t.Fatal(err)
		}
		if got := GitUser(t.Context(), t.TempDir()); len(got) > 0 {
			t.Errorf("%q", got)
		}
	})
}
