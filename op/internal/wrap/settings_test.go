package wrap

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// copied reads the settings of an agent in a home, as wrap does, and lists the copy.
func copied(t *testing.T, a *agent, c *settings, standIn string) ([]string, error) {
	t.Helper()
	err := c.read(t.Context(), a)
	if err == nil && standIn == "" {
		err = c.readLogin(t.Context(), a)
	}
	if err == nil && a.prepare != nil {
		err = a.prepare(t.Context(), c, standIn)
	}
	var list []string
	for _, f := range c.files {
		list = append(list, fmt.Sprintf("%s %o %s", f.name, f.mode, strings.Join(strings.Fields(string(f.text)), "")))
	}
	slices.Sort(list)
	return list, err
}

func home(t *testing.T, variables map[string]string, files map[string]string) (*settings, *agent) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	for name, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		testkit.Write(t, path.Join(dir, name), strings.ReplaceAll(text, "$HOME", dir), mode)
	}
	a := agentOf([]string{"claude"})
	c, err := newSettings(a, func(name string) (string, bool) {
		v, ok := variables[name]
		return strings.ReplaceAll(v, "$HOME", dir), ok
	}, path.Join(dir, "state"), policy.Spec{Workspace: policy.Workspace{Source: path.Join(dir, "ws")}})
	if err != nil {
		t.Fatal(err)
	}
	return c, a
}

// TestCopy: the copy has what the table lists, what concerns this project, and no keys.
func TestCopy(t *testing.T) {
	files := map[string]string{
		".claude/settings.json":            `{"env":{"ANTHROPIC_API_KEY":"sk-real","A":"b"},"apiKeyHelper":"/bin/key","model":"x"}`,
		".claude/.credentials.json":        `{"claudeAiOauth":{}}`,
		".claude/hooks/a.sh":               "#!/bin/sh",
		".claude/projects/other/log.jsonl": "secret talk",
		".claude/history.jsonl":            "what was typed",
		".claude/plugins/.git/config":      "x",
		".claude.json":                     `{"primaryApiKey":"sk-real","customApiKeyResponses":{"approved":["end"]},"theme":"dark","projects":{"/other":{"x":1},"$HOME/ws":{"history":["typed"],"allowedTools":["y"]}}}`,
	}
	const state = `{"projects":{"/workspace":{"allowedTools":["y"]}},"theme":"dark"}`
	c, a := home(t, nil, files)
	got, err := copied(t, a, c, "")
	want := []string{
		".claude.json 600 " + state,
		".claude/.credentials.json 600 " + `{"claudeAiOauth":{}}`,
		".claude/hooks/a.sh 700 #!/bin/sh",
		".claude/settings.json 600 " + `{"env":{"A":"b"},"model":"x"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("with a login: %v (-want +got):\n%s", err, diff)
	}
	c, a = home(t, nil, files)
	got, err = copied(t, a, c, a.keys[0].standIn)
	want[0] = `.claude.json 600 {"customApiKeyResponses":{"approved":["ide-of-this-sandbox"]},"projects":{"/workspace":{"allowedTools":["y"]}},"theme":"dark"}`
	want[0] = strings.Replace(want[0], "ide-of-this-sandbox", a.keys[0].standIn[len(a.keys[0].standIn)-20:], 1)
	if diff := cmp.Diff(slices.Delete(want, 1, 2), got); diff != "" || err != nil {
		t.Errorf("with a key: %v (-want +got):\n%s", err, diff)
	}
	c, a = home(t, nil, files)
	c.bare = true
	got, err = copied(t, a, c, "")
	want = []string{`.claude.json 600 {"projects":{"/workspace":{}},"theme":"dark"}`, `.claude/.credentials.json 600 {"claudeAiOauth":{}}`}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("without settings: %v (-want +got):\n%s", err, diff)
	}
}

// TestCopyElsewhere: a variable names another directory.
func TestCopyElsewhere(t *testing.T) {
	c, a := home(t, map[string]string{"CLAUDE_CONFIG_DIR": "$HOME/conf/"}, map[string]string{"conf/CLAUDE.md": "own", "conf/.claude.json": `{"theme":"dark"}`, ".claude.json": `{"theme":"other"}`})
	got, err := copied(t, a, c, "")
	want := []string{`.claude.json 600 {"projects":{"/workspace":{}},"theme":"dark"}`, ".claude/CLAUDE.md 600 own"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestCopyHostile: nothing hangs, no link of a sandbox's is followed, and bounds hold.
func TestCopyHostile(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(t *testing.T, dir string)
		want string // of the error
	}{
		"a FIFO":               {func(t *testing.T, dir string) { must(t, unix.Mkfifo(dir+"/.claude/CLAUDE.md", 0o600)) }, ""},
		"a FIFO for the login": {func(t *testing.T, dir string) { must(t, unix.Mkfifo(dir+"/.claude/.credentials.json", 0o600)) }, "not a regular file"},
		"a loop of links": {func(t *testing.T, dir string) {
			must(t, os.MkdirAll(dir+"/.claude/skills", 0o700))
			must(t, os.Symlink(".", dir+"/.claude/skills/again"))
		}, "deeper than 16 directories"},
		"many files": {func(t *testing.T, dir string) {
			for i := range maxFiles + 1 {
				testkit.Write(t, fmt.Sprintf("%s/.claude/agents/%d", dir, i), "", 0o600)
			}
		}, "more than 4096 files"},
		"a huge login": {func(t *testing.T, dir string) {
			testkit.Write(t, dir+"/.claude/.credentials.json", strings.Repeat(" ", maxLogin+1), 0o600)
		}, "too large"},
		"settings that are no JSON": {func(t *testing.T, dir string) {
			testkit.Write(t, dir+"/.claude/settings.json", "// ANTHROPIC_API_KEY", 0o600)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, a := home(t, nil, map[string]string{".claude/x": ""})
			tt.make(t, c.home)
			got, err := copied(t, a, c, "")
			if tt.want == "" && (err != nil || len(got) != 1) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("copied %v, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// TestCopyLinks: links of the user's own may lead anywhere; those that came with a repository,
// which nobody has used as a workspace yet, show nothing else of the home.
func TestCopyLinks(t *testing.T) {
	c, a := home(t, nil, map[string]string{
		".ssh/id": "secret", "dotfiles/md": "own", "repo/skills/SKILL.md": "cloned", "repo/skills/sub/x": "cloned",
		".claude/plugins/cloned/x/a": "plugin", ".claude/skills/x": "own",
	})
	for at, to := range map[string]string{
		".claude/CLAUDE.md": "$HOME/dotfiles/md", ".claude/skills/cloned": "$HOME/repo/skills", // the user's
		"repo/skills/key": "$HOME/.ssh/id", "repo/skills/dir": "../../.ssh", "repo/skills/inner": "sub", "repo/hooks": "../.ssh", // the repository's
		".claude/hooks": "$HOME/repo/hooks", ".claude/plugins/cloned/x/key": "../../../../.ssh/id", ".claude/plugins/cloned/x/b": "a",
	} {
		must(t, os.Symlink(strings.ReplaceAll(to, "$HOME", c.home), path.Join(c.home, at)))
	}
	got, err := copied(t, a, c, a.keys[0].standIn)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		".claude/CLAUDE.md 600 own", ".claude/plugins/cloned/x/a 600 plugin", ".claude/plugins/cloned/x/b 600 plugin",
		".claude/skills/cloned/SKILL.md 600 cloned", ".claude/skills/cloned/inner/x 600 cloned", ".claude/skills/cloned/sub/x 600 cloned", ".claude/skills/x 600 own",
	}
	if diff := cmp.Diff(want, got[1:]); diff != "" { // the first is .claude.json
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(c.notes) != 4 || !strings.Contains(strings.Join(c.notes, "\n"), "~/.claude/skills/cloned/key is left out: it is a link to ") {
		t.Errorf("notes: %q", c.notes)
	}
}

// TestLoginInWorkspace: a login in what commands can change is not written to: they could have
// replaced the directories above it.
func TestLoginInWorkspace(t *testing.T) {
	c, a := home(t, map[string]string{"CLAUDE_CONFIG_DIR": "$HOME/ws/conf"}, map[string]string{"ws/conf/.credentials.json": `{"claudeAiOauth":{"accessToken":"a"}}`})
	must(t, c.readLogin(t.Context(), a))
	if err := c.replace(t.Context(), []byte("{}")); err == nil || !strings.Contains(err.Error(), "commands can change it") {
		t.Errorf("written: %v", err)
	}
}
