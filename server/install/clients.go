package install

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Client is how one of them is set up.
type Client struct {
	// Next is what to do when the server is there.
	Next string
	// Own says how the client's own tools for commands and files are turned off.
	Own string
	// Folder stands for the project in the configuration of a client that starts
	// servers elsewhere; empty for those that start them where they were started.
	Folder string

	// Settings is the directory of a project that the client obeys when it starts. A
	// sandbox keeps commands out of one that is there, also where it is empty.
	Settings string

	// Command is what adds a server where the client keeps them itself.
	Command func(Server) []string

	scopes    []place // the first is the usual one
	approval  func(name string) (*Change, error)
	exclusive func(dir string) Change
}

// place is where the servers of a scope are; file is nil where the client's own
// command has to write them.
type place struct {
	name   Scope
	file   func(dir string) (Change, error)
	format func(dir string) format
}

// Clients are the names of those that can be set up.
func Clients() []string { return slices.Sorted(maps.Keys(clients)) }

// Has reports whether a client keeps servers in a scope.
func Has(client string, scope Scope) bool {
	return slices.ContainsFunc(clients[client].scopes, func(p place) bool { return p.name == scope })
}

// names lists the clients.
func names() string {
	all := Clients()
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

var clients = map[string]Client{
	"claude-code": {
		Settings: ".claude",
		Next:     "start claude here: /mcp shows the server",
		Own:      `in .claude/settings.local.json here: {"permissions": {"deny": ["Bash", "Edit", "Write", "NotebookEdit"]}}`,
		scopes: []place{
			{Local, userFile("CLAUDE_CONFIG_DIR", "", ".claude.json"), func(dir string) format {
				return jsonFormat{path: []string{"projects", claudeProject(dir), "mcpServers"}, kind: "stdio"}
			}},
			{Project, projectFile(".mcp.json", 0o644), always(jsonFormat{path: []string{"mcpServers"}})},
			{User, nil, always(jsonFormat{path: []string{"mcpServers"}})},
		},
		Command: func(s Server) []string {
			return append([]string{"claude", "mcp", "add", "--scope", "user", s.Name, "--", s.Command}, s.Args...)
		},
		approval: func(name string) (*Change, error) {
			c, err := userFile("CLAUDE_CONFIG_DIR", ".claude", "settings.json")("")
			return c.list(jsonList{[]string{"permissions", "allow"}, []string{"mcp__" + name}}), err
		},
		exclusive: func(dir string) Change {
			c, _ := projectFile(filepath.Join(".claude", "settings.local.json"), 0o644)(dir)
			return *c.list(jsonList{[]string{"permissions", "deny"}, []string{"Bash", "Edit", "Write", "NotebookEdit"}})
		},
	},
	"codex": {
		Settings: ".codex",
		Next:     "start codex again: /mcp shows the server",
		Own:      "in .codex/config.toml here, which codex reads in projects it trusts: sandbox_mode = \"read-only\" and features.shell_tool = false; elsewhere: codex -c features.shell_tool=false -s read-only",
		scopes: []place{
			{Local, userFile("CODEX_HOME", ".codex", "config.toml"), always(tomlFormat{})},
			{Project, projectFile(filepath.Join(".codex", "config.toml"), 0o600), always(tomlFormat{})},
			{User, userFile("CODEX_HOME", ".codex", "config.toml"), always(tomlFormat{})},
		},
		exclusive: func(dir string) Change {
			c, _ := projectFile(filepath.Join(".codex", "config.toml"), 0o600)(dir)
			lines := tomlLines{{"features", "shell_tool", "false"}, {"", "sandbox_mode", `"read-only"`}}
			c.Text, c.put, c.drop = lines.snippet(), lines.put, lines.drop
			return c
		},
	},
	"cursor": {
		Next:   "open the folder, and switch the server on: Cursor Settings, MCP",
		Own:    "in Cursor's settings, Agents: let it ask before it runs a command or edits a file; no file here says that",
		Folder: "${workspaceFolder}",
		scopes: []place{
			{Project, projectFile(filepath.Join(".cursor", "mcp.json"), 0o644), always(jsonFormat{path: []string{"mcpServers"}})},
			{User, userFile("", ".cursor", "mcp.json"), always(jsonFormat{path: []string{"mcpServers"}})},
		},
	},
	"gemini": {
		Settings: ".gemini",
		Next:     "start gemini here, in a folder that it trusts: /mcp shows the server",
		Own:      `in .gemini/settings.json here: {"tools": {"exclude": ["run_shell_command", "write_file", "replace"]}}`,
		scopes: []place{
			{Local, userFile("", ".gemini", "settings.json"), always(jsonFormat{path: []string{"mcpServers"}, trusts: true})},
			{Project, projectFile(filepath.Join(".gemini", "settings.json"), 0o644), always(jsonFormat{path: []string{"mcpServers"}})},
			{User, userFile("", ".gemini", "settings.json"), always(jsonFormat{path: []string{"mcpServers"}})},
		},
		exclusive: func(dir string) Change {
			c, _ := projectFile(filepath.Join(".gemini", "settings.json"), 0o644)(dir)
			return *c.list(jsonList{[]string{"tools", "exclude"}, []string{"run_shell_command", "write_file", "replace"}})
		},
	},
	"vscode": {
		Next:   "open the folder, and start the server: MCP: List Servers",
		Own:    "in the chat's list of tools: switch off runInTerminal and editFiles; no file here says that",
		Folder: "${workspaceFolder}",
		scopes: []place{
			{Project, projectFile(filepath.Join(".vscode", "mcp.json"), 0o644), always(jsonFormat{path: []string{"servers"}, kind: "stdio"})},
			{User, nil, always(jsonFormat{path: []string{"servers"}, kind: "stdio"})},
		},
		Command: func(s Server) []string {
			text, _ := json.Marshal(map[string]any{"name": s.Name, "command": s.Command, "args": s.Args}) // strings alone
			return []string{"code", "--add-mcp", string(text)}
		},
	},
}

func always(f format) func(string) format { return func(string) format { return f } }

func projectFile(sub string, mode os.FileMode) func(string) (Change, error) {
	return func(dir string) (Change, error) {
		return Change{Path: filepath.Join(dir, sub), dir: dir, sub: sub, mode: mode}, nil
	}
}

// userFile is a file below the directory that a variable names, or else below a
// directory of the home.
func userFile(variable, sub, name string) func(string) (Change, error) {
	return func(string) (Change, error) {
		dir := ""
		if variable != "" {
			dir = os.Getenv(variable)
		}
		if dir == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return Change{}, err
			}
			dir = filepath.Join(home, sub)
		}
		return Change{Path: filepath.Join(dir, name), mode: 0o600}, nil
	}
}

func (c Change) list(f jsonList) *Change {
	c.Text, c.put, c.drop = f.snippet(), f.put, f.drop
	return &c
}

// claudeProject is what Claude Code calls the project that a directory belongs to:
// the root of its repository, for a worktree that of the main one, or else the
// directory.
func claudeProject(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Lstat(filepath.Join(at, ".git"))
		switch {
		case err == nil && info.IsDir():
			return at
		case err == nil && info.Mode().IsRegular():
			return mainWorktree(at)
		case at == filepath.Dir(at):
			return dir
		}
	}
}

// mainWorktree reads the .git file of a worktree. It only chooses the name under
// which a server is written that works in its own project alone.
func mainWorktree(dir string) string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return dir
	}
	defer root.Close()
	text, _, err := read(root, ".git")
	if err != nil {
		return dir
	}
	gitdir, found := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if !found || !filepath.IsAbs(gitdir) {
		return dir
	}
	repository := filepath.Dir(filepath.Dir(filepath.Clean(gitdir)))
	if filepath.Base(filepath.Dir(filepath.Clean(gitdir))) != "worktrees" || filepath.Base(repository) != ".git" {
		return dir
	}
	if _, err := os.Stat(repository); err != nil {
		return dir
	}
	return filepath.Dir(repository)
}
