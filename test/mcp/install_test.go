//go:build linux

package mcp

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// install runs paddock mcp install in a directory, and gives what it said.
func install(t *testing.T, dir string, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), append([]string{"mcp", "install"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "CODEX_HOME=")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	got, exit := 0, (*exec.ExitError)(nil)
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != status {
		t.Fatalf("install %v: status %d, want %d\n%s%s", args, got, status, &out, &errs)
	}
	return out.String(), errs.String()
}

// TestInstalled starts the server as the file that was written says.
func TestInstalled(t *testing.T) {
	requireWalls(t)
	dir := publicDir(t)
	for _, want := range []string{"wrote the server paddock into ", "has the server paddock already"} {
		if out, _ := install(t, dir, 0, "--client", "claude-code", "--workspace", dir, "--profile", "run"); !strings.Contains(out, want) {
			t.Errorf("it says %s, want %s", out, want)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, ".mcp.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file.Servers["paddock"].Command, file.Servers["paddock"].Args...)
	cmd.Dir, cmd.Env = "/", setup{state: t.TempDir()}.env()
	session, err := newClient(clientOptions).Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{session: session, log: &notes{}}
	got := c.call(t, "run", map[string]any{"argv": []string{"ls", "-A"}})
	if !strings.Contains(textOf(c.try(t, "run", map[string]any{"argv": []string{"ls", "-A"}})), ".mcp.json") {
		t.Errorf("another workspace: %v", got)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// TestInstallSays is what it prints, and what it refuses.
func TestInstallSays(t *testing.T) {
	dir := t.TempDir()
	paddock := filepath.Join(binDir, "paddock")
	if err := os.WriteFile(filepath.Join(dir, "odd.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args           []string
		status         int
		stdout, stderr string
	}{
		"claude-code":     {[]string{"--client", "claude-code", "--print"}, 0, `{"mcpServers":{"paddock":{"command":"` + paddock + `","args":["mcp"]}}}`, "this belongs into " + dir + "/.mcp.json"},
		"its user's":      {[]string{"--client", "claude-code", "--scope", "user"}, 0, "claudemcpadd--scopeuserpaddock--" + paddock + "mcp", "run this"},
		"codex":           {[]string{"--client", "codex", "--print", "--workspace", dir}, 0, `[mcp_servers.paddock]command="` + paddock + `"args=["mcp","--workspace","` + dir + `"]`, dir + "/.codex/config.toml"},
		"vscode":          {[]string{"--client", "vscode", "--print", "--name", "box"}, 0, `{"servers":{"box":{"type":"stdio","command":"` + paddock + `","args":["mcp","--workspace","${workspaceFolder}"]}}}`, ".vscode/mcp.json"},
		"another program": {[]string{"--client", "codex", "--print", "--command", "paddock", "--profile", "full"}, 0, `[mcp_servers.paddock]command="paddock"args=["mcp","--profile","full"]`, ""},
		"no client":       {nil, 125, "", "it is missing"},
		"another client":  {[]string{"--client", "vi"}, 125, "", "claude-code, codex or vscode"},
		"another scope":   {[]string{"--client", "codex", "--scope", "all"}, 125, "", "project or user"},
		"no profile":      {[]string{"--client", "codex", "--profile", "all"}, 125, "", "there is no such profile"},
		"no directory":    {[]string{"--client", "codex", "--workspace", "odd.json"}, 125, "", "it is no directory"},
		"no name":         {[]string{"--client", "codex", "--name", "a.b"}, 125, "", "--name"},
		"an argument":     {[]string{"codex"}, 125, "", "there is no such command"},
	} {
		t.Run(name, func(t *testing.T) {
			out, said := install(t, dir, tt.status, tt.args...)
			if strings.Join(strings.Fields(out), "") != strings.ReplaceAll(tt.stdout, " ", "") || !strings.Contains(said, tt.stderr) {
				t.Errorf("%s\n%s\nwant %s\n%s", out, said, tt.stdout, tt.stderr)
			}
		})
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("something was written: %v", entries)
	}
}

// TestInstallLeavesAlone: what is another's, or cannot be read, stays, and what to
// add is printed.
func TestInstallLeavesAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".mcp.json")
	for name, tt := range map[string]struct {
		text, stdout, stderr string
	}{
		"another server": {`{"mcpServers": {"paddock": {"command": "other"}}}`, "", "another one has this name"},
		"no JSON":        {`{"mcpServers": {`, `"mcpServers"`, "cannot edit " + path + " safely: line 1"},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, said := install(t, dir, 125, "--client", "claude-code")
		if !strings.Contains(out, tt.stdout) || !strings.Contains(said, tt.stderr) || !strings.Contains(said, "paddock: hint: ") {
			t.Errorf("%s: %s\n%s", name, out, said)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != tt.text {
			t.Errorf("%s: %s, %v", name, data, err)
		}
	}
}

// TestInstallOverLinks: a link that commands of a sandbox made leads the installation
// nowhere; one of the user's own does.
func TestInstallOverLinks(t *testing.T) {
	requireWalls(t)
	for name, tt := range map[string]struct {
		client, scope string
		plant         string // by whoever makes the link
		kept          string // where it leads
	}{
		"a directory of the project":    {"vscode", "project", "ln -s notes .vscode", "notes/mcp.json"},
		"a file of the project":         {"claude-code", "project", "ln -s notes/x.json .mcp.json", "notes/x.json"},
		"the user's, kept in a project": {"codex", "user", "mkdir -p home; ln -s ../notes home/.codex", "notes/config.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, planted := range []bool{true, false} {
				dir := publicDir(t)
				if err := os.Mkdir(filepath.Join(dir, "notes"), 0o755); err != nil {
					t.Fatal(err)
				}
				link := exec.CommandContext(t.Context(), "sh", "-c", tt.plant)
				if planted {
					link = exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), "run", "--", "sh", "-c", tt.plant)
				}
				env := append(os.Environ(), "PADDOCK_STATE_DIR="+filepath.Join(t.TempDir(), "state"))
				link.Dir, link.Env = dir, env
				if out, err := link.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), "mcp", "install", "--client", tt.client, "--scope", tt.scope)
				cmd.Dir, cmd.Env = dir, append(env, "HOME="+filepath.Join(dir, "home"), "CODEX_HOME=")
				out, err := cmd.CombinedOutput()
				_, missing := os.Stat(filepath.Join(dir, tt.kept))
				switch {
				case planted && (err == nil || missing == nil || !strings.Contains(string(out), "commands of a sandbox could have made it") || !strings.Contains(string(out), "hint: remove the link")):
					t.Errorf("over a link of commands: %v, %v\n%s", err, missing, out)
				case !planted && tt.client == "claude-code": // a file that is a link is left alone in projects
				case !planted && (err != nil || missing != nil):
					t.Errorf("over the user's own link: %v, %v\n%s", err, missing, out)
				}
			}
		})
	}
}
