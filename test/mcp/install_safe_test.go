//go:build linux

package mcp

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInstallWithin: nothing is approved where commands could change what the client
// obeys or starts, or more than the workspace.
func TestInstallWithin(t *testing.T) {
	repository := func(dir string) error {
		main := filepath.Join(filepath.Dir(dir), "main")
		for _, args := range [][]string{{"init", "-q", main}, {"-C", main, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm1", "--allow-empty"}, {"-C", main, "worktree", "add", "-q", dir}} {
			if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		return nil
	}
	program := func(at string) error {
		return errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte("#!/bin/sh\n"), 0o755))
	}
	for name, tt := range map[string]struct {
		prepare func(dir string) error
		client  string
		env     string // as NAME=VALUE, with @ for the project
		args    []string
		said    string // empty: it is approved
	}{
		"a linked worktree": {repository, "codex", "", nil, "not approved: this is a linked worktree, and commands could also change the repository"},
		"codex's home":      {nil, "codex", "CODEX_HOME=@/cfg", nil, "the client's own configuration"},
		"claude's home":     {nil, "claude-code", "CLAUDE_CONFIG_DIR=@/cfg", nil, "the client's own configuration"},
		"a link to a home": {func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/cfg", 0o755), os.Symlink(dir+"/cfg", dir+"-link"))
		}, "codex", "CODEX_HOME=@-link", nil, "the client's own configuration"},
		"a home elsewhere":      {nil, "codex", "CODEX_HOME=@-cfg", nil, ""},
		"a program in the path": {func(dir string) error { return program(dir + "/bin/server") }, "codex", "PATH=@/bin:/usr/bin:/bin", []string{"--command", "server"}, "or PATH leads into the workspace first"},
		"a place before it":     {func(dir string) error { return program(dir + "-bin/server") }, "codex", "PATH=@/bin:@-bin", []string{"--command", "server"}, "or PATH leads into the workspace first"},
		"a place through it": {func(dir string) error {
			return errors.Join(program(dir+"-bin/server"), os.Symlink(dir+"-bin", dir+"/bin"))
		}, "codex", "PATH=@/bin", []string{"--command", "server"}, "or PATH leads into the workspace first"},
		"a place that is not named": {func(dir string) error { return program(dir + "-bin/server") }, "codex", "PATH=:@-bin", []string{"--command", "server"}, "or PATH leads into the workspace first"},
		"a program elsewhere":       {func(dir string) error { return program(dir + "-bin/server") }, "codex", "PATH=@-bin:@/bin", []string{"--command", "server"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(publicDir(t), "project")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if tt.prepare != nil {
				if err := tt.prepare(dir); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), append([]string{"mcp", "install", "--client", tt.client}, tt.args...)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+homeOf(dir), "CODEX_HOME=", "CLAUDE_CONFIG_DIR=", "PADDOCK_STATE_DIR="+filepath.Join(t.TempDir(), "state"), strings.ReplaceAll(tt.env, "@", dir))
			out, err := cmd.CombinedOutput()
			written := ""
			for _, text := range tree(t, filepath.Dir(dir)) {
				written += text
			}
			approved := strings.Contains(written, `= "approve"`) || strings.Contains(written, `"mcp__`)
			if err != nil || approved != (tt.said == "") || tt.said != "" && (!strings.Contains(string(out), "not approved: ") || !strings.Contains(string(out), tt.said)) {
				t.Errorf("%v: approved %v, want %q\n%s", err, approved, tt.said, out)
			}
		})
	}
}

// TestInstallRestrictsFirst: where the client's own tools cannot be turned off, no server
// is written and none is approved.
func TestInstallRestrictsFirst(t *testing.T) {
	for client, own := range map[string][2]string{
		"codex":       {".codex/config.toml", "sandbox_mode = \"danger-full-access\"\n"},
		"claude-code": {".claude/settings.local.json", `{"permissions": {"deny": "x"}}`},
		"gemini":      {".gemini/settings.json", `{"tools": []}`},
	} {
		t.Run(client, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, own[0])
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Mkdir(homeOf(dir), 0o755), os.WriteFile(path, []byte(own[1]), 0o644)); err != nil {
				t.Fatal(err)
			}
			out, said := install(t, dir, 125, "--client", client, "--exclusive")
			if strings.Contains(out, "wrote") || !strings.Contains(said, "cannot edit "+path+" safely") || !strings.Contains(said, "hint: add by hand what was printed") {
				t.Errorf("%s\n%s", out, said)
			}
			if left := tree(t, homeOf(dir)); len(left) > 0 {
				t.Errorf("something was written: %v", left)
			}
		})
	}
}

// TestUninstallLeaves: what turns a client's own tools off is taken out where install has
// written it, and else left as it is.
func TestUninstallLeaves(t *testing.T) {
	for client, own := range map[string][2]string{
		"claude-code": {".claude/settings.local.json", `{"permissions":{"deny":["Bash","Edit","Write","NotebookEdit"]}}`},
		"gemini":      {".gemini/settings.json", `{"tools":{"exclude":["run_shell_command","write_file","replace"]}}`},
	} {
		for name, tt := range map[string]struct {
			theirs string
			before [][]string // installations
			said   string
		}{
			"nothing was installed":     {own[1], nil, "nothing of paddock's is in "},
			"not exclusively":           {own[1], [][]string{nil}, "took the server "},
			"it was there before":       {own[1], [][]string{{"--exclusive"}}, "took the server "},
			"and once more":             {own[1], [][]string{{"--exclusive"}, {"--exclusive", "--ask"}}, "took the server "},
			"install has written it":    {"", [][]string{{"--exclusive"}, nil}, "took what turns the client's own tools off out of "},
			"it was removed since then": {"", [][]string{{"--exclusive"}}, "took the server "},
		} {
			t.Run(client+" "+name, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, own[0])
				if tt.theirs != "" {
					if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(tt.theirs), 0o644)); err != nil {
						t.Fatal(err)
					}
				}
				for _, more := range tt.before {
					install(t, dir, 0, append([]string{"--client", client}, more...)...)
				}
				if strings.Contains(name, "removed") {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
				out, _ := setUp(t, dir, 0, "uninstall", "--client", client)
				by := "left in " + path + " what turns the client's own tools off, as nothing says that install wrote it; to turn them on again, remove by hand:\n{"
				if tree(t, dir)[own[0]] != tt.theirs || !strings.Contains(out, tt.said) || strings.Contains(out, by) != (tt.theirs != "") {
					t.Errorf("%q\n%s", tree(t, dir), out)
				}
			})
		}
	}
}

// TestInstallAtOnce: of installations at the same time each waits for the others.
func TestInstallAtOnce(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(t.TempDir(), "state")
	var all []*exec.Cmd
	for range 6 {
		cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), "mcp", "install", "--client", "claude-code", "--exclusive")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+homeOf(dir), "CLAUDE_CONFIG_DIR=", "PADDOCK_STATE_DIR="+state)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	files := tree(t, homeOf(dir))
	if strings.Count(files[".claude.json"], `"--project"`) != 1 || strings.Count(files[".claude/settings.json"], "mcp__paddock_") != 1 {
		t.Errorf("%v", files)
	}
}

// TestUninstallMoved: a server and its approval are taken back, or replaced, under
// whichever project the client keeps them, and also when the directory is gone.
func TestUninstallMoved(t *testing.T) {
	git := func(dir, to string) error {
		return errors.Join(os.MkdirAll(filepath.Join(to, ".git", "worktrees", "y"), 0o755),
			os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: "+filepath.Join(to, ".git", "worktrees", "y")+"\n"), 0o644))
	}
	for name, tt := range map[string]struct{ before, after func(dir, other string) error }{
		"a file that commands made":         {nil, git},
		"a file that was there":             {git, func(dir, _ string) error { return os.Remove(filepath.Join(dir, ".git")) }},
		"a repository that was made":        {nil, func(dir, _ string) error { return os.Mkdir(filepath.Join(dir, ".git"), 0o755) }},
		"a directory that was removed":      {nil, func(dir, _ string) error { return os.RemoveAll(dir) }},
		"a repository, and nothing of that": {func(dir, _ string) error { return os.Mkdir(filepath.Join(dir, ".git"), 0o755) }, func(dir, _ string) error { return os.RemoveAll(dir) }},
	} {
		t.Run(name, func(t *testing.T) {
			for _, again := range []bool{false, true} {
				base, err := filepath.EvalSymlinks(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				dir, project := filepath.Join(base, "from"), filepath.Join(base, "project")
				for _, at := range []string{dir, project} {
					if err := os.Mkdir(at, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				if tt.before != nil {
					if err := tt.before(project, filepath.Join(base, "other")); err != nil {
						t.Fatal(err)
					}
				}
				args := []string{"--client", "claude-code", "--workspace", project}
				install(t, dir, 0, args...)
				if err := tt.after(project, filepath.Join(base, "other")); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(project); again && err == nil {
					install(t, dir, 0, args...)
					if text := tree(t, homeOf(dir))[".claude.json"]; strings.Count(text, `"--project"`) != 1 {
						t.Errorf("installed again: %s", text)
					}
				}
				out, _ := setUp(t, dir, 0, append([]string{"uninstall"}, args...)...)
				for path, text := range tree(t, homeOf(dir)) {
					if strings.Contains(text, "paddock") {
						t.Errorf("%s is left: %s\n%s", path, text, out)
					}
				}
			}
		})
	}
}

// TestInstallNames: what is approved has a name that nobody can know, whatever the server
// was called before, and one that the user has chosen is not approved later.
func TestInstallNames(t *testing.T) {
	for client, file := range map[string]string{"codex": ".codex/config.toml", "gemini": ".gemini/settings.json", "claude-code": ".claude.json"} {
		t.Run(client, func(t *testing.T) {
			dir := t.TempDir()
			install(t, dir, 0, "--client", client, "--ask", "--name", "box")
			if _, said := install(t, dir, 125, "--client", client, "--ask", "--name", "paddock_aaaaaaaaaa"); !strings.Contains(said, "names of this form are made up") {
				t.Errorf("a known name of the form: %s", said)
			}
			out, _ := install(t, dir, 0, "--client", client)
			files := tree(t, homeOf(dir))
			for path, text := range files {
				if strings.Contains(text, "box") {
					t.Errorf("%s: %s", path, text)
				}
			}
			if !strings.Contains(out, "took the server box out of ") || !regexp.MustCompile(`paddock_[a-z2-7]{10}`).MatchString(files[file]) {
				t.Errorf("%s\n%v", out, files)
			}
			install(t, dir, 0, "--client", client, "--ask", "--name", "box")
			if text := tree(t, homeOf(dir))[file]; !strings.Contains(text, "box") || strings.Contains(text, "paddock_") {
				t.Errorf("under a name again: %s", text)
			}
		})
	}
	dir := t.TempDir()
	other := "[mcp_servers.box]\ncommand = \"mine\"\n"
	path := filepath.Join(homeOf(dir), ".codex", "config.toml")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(other), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, said := install(t, dir, 125, "--client", "codex", "--ask", "--name", "box"); !strings.Contains(said, "another server has this name") {
		t.Errorf("over another program: %s", said)
	}
}

// TestInstallUnwritten: where an approval cannot be taken back, nothing that may do more
// is written, and nothing else is said.
func TestInstallUnwritten(t *testing.T) {
	for client, kept := range map[string]string{"codex": ".codex/config.toml", "gemini": ".gemini/settings.json", "claude-code": ".claude/settings.json"} {
		t.Run(client, func(t *testing.T) {
			dir := t.TempDir()
			install(t, dir, 0, "--client", client)
			// Beside a file of this name there is room for no other, for root neither.
			file, moved := filepath.Join(homeOf(dir), kept), filepath.Join(homeOf(dir), strings.Repeat("x", 250))
			if err := errors.Join(os.Rename(file, moved), os.Symlink(moved, file)); err != nil {
				t.Fatal(err)
			}
			was := tree(t, homeOf(dir))
			for _, args := range [][]string{{"install", "--network", "host"}, {"install", "--ask"}, {"uninstall"}} {
				out, said := setUp(t, dir, 125, append(args, "--client", client)...)
				if strings.Contains(out, "not approved") || strings.Contains(out, "took") || !strings.Contains(said, "cannot edit "+file) {
					t.Errorf("%v: %s\n%s", args, out, said)
				}
			}
			if diff := cmp.Diff(was, tree(t, homeOf(dir))); diff != "" {
				t.Errorf("-was +is\n%s", diff)
			}
		})
	}
}

// TestUninstallOther: a program whose name only begins like Paddock's is taken out where
// the user says so.
func TestUninstallOther(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".mcp.json")
	text := `{"mcpServers": {"paddock": {"command": "/opt/paddock-evil", "args": ["mcp"]}}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, said := setUp(t, dir, 125, "uninstall", "--client", "claude-code"); !strings.Contains(said, "it starts another program") || tree(t, dir)[".mcp.json"] != text {
		t.Errorf("%s\n%v", said, tree(t, dir))
	}
	setUp(t, dir, 0, "uninstall", "--client", "claude-code", "--force")
	if left := tree(t, dir); len(left) > 0 {
		t.Errorf("%v", left)
	}
}
