package install

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Client says how a client of the protocol is set up.
type Client struct {
	// Next is a text for the user: what to do once the server is installed.
	Next string
	// Own is a text for the user: how to turn off the client's own tools for commands and
	// files.
	Own string
	// Below returns a text for the user of a project at dir: where the tools that
	// [Target.Exclusive] turns off are on again. It is nil if there is no such edit.
	Below func(dir string) string
	// Folder is the client's placeholder for the project. It is empty for clients that
	// start servers in the directory that they were started in.
	Folder string

	// Settings is the directory of a project that the client obeys when it starts.
	// Commands in a sandbox cannot write to one that exists, even an empty one.
	Settings string

	// Command returns the client's own command that adds a server, for scopes whose file
	// only the client writes.
	Command func(Server) []string

	scopes    []place // the first is the usual one
	approval  func(name string) (*Change, error)
	exclusive func(dir string) Change
}

// place is where the servers of a scope are configured. file is nil if only the client's own
// command writes there.
type place struct {
	name   Scope
	file   func(dir string) (Change, error)
	format func(dir string) format
}

// Clients returns the names of the clients that can be set up, sorted.
func Clients() []string { return slices.Sorted(maps.Keys(clients)) }

// Has reports whether a client keeps servers in a scope.
func Has(client string, scope Scope) bool {
	return slices.ContainsFunc(clients[client].scopes, func(p place) bool { return p.name == scope })
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
			{Project, projectFile(".mcp.json", 0o644), always(jsonFormat{path: []string{"mcpServers"}, foreign: true})},
			{User, nil, always(jsonFormat{path: []string{"mcpServers"}})},
		},
		Command: func(s Server) []string {
			return append([]string{"claude", "mcp", "add", "--scope", "user", s.Name, "--", s.Command}, s.Args...)
		},
		approval: func(name string) (*Change, error) {
			c, err := userFile("CLAUDE_CONFIG_DIR", ".claude", "settings.json")("")
			return c.list(jsonList{[]string{"permissions", "allow"}, []string{"mcp__" + name}}), err
		},
		Below: func(dir string) string {
			if info, err := os.Lstat(filepath.Join(dir, ".git")); err == nil && info.IsDir() {
				return "in a directory below that is a git repository of its own, which commands can make, claude has its own tools: start it here"
			}
			return "this is not the root of a git repository: started in a directory below it claude has its own tools, since it reads .claude/settings.local.json there; start it here"
		},
		exclusive: func(dir string) Change {
			c, _ := projectFile(filepath.Join(".claude", "settings.local.json"), 0o644)(dir)
			c.Unmarked = true
			return *c.list(jsonList{[]string{"permissions", "deny"}, []string{"Bash", "Edit", "Write", "NotebookEdit"}})
		},
	},
	"codex": {
		Settings: ".codex",
		Next:     "start codex again: /mcp shows the server",
		Own:      "in .codex/config.toml here, which codex reads in projects it trusts: sandbox_mode = \"read-only\" and features.shell_tool = false; elsewhere: codex -c features.shell_tool=false -s read-only",
		scopes: []place{
			{Local, userFile("CODEX_HOME", ".codex", "config.toml"), always(tomlFormat{})},
			{Project, projectFile(filepath.Join(".codex", "config.toml"), 0o600), always(tomlFormat{foreign: true})},
			{User, userFile("CODEX_HOME", ".codex", "config.toml"), always(tomlFormat{})},
		},
		Below: func(string) string {
			return "codex obeys .codex/config.toml in projects that it trusts, and before it one in a directory below, which commands can make, where it is started there: start it here, or with codex -c features.shell_tool=false -s read-only"
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
			{Project, projectFile(filepath.Join(".cursor", "mcp.json"), 0o644), always(jsonFormat{path: []string{"mcpServers"}, foreign: true})},
			{User, userFile("", ".cursor", "mcp.json"), always(jsonFormat{path: []string{"mcpServers"}})},
		},
	},
	"gemini": {
		Settings: ".gemini",
		Next:     "start gemini here, in a folder that it trusts: /mcp shows the server",
		Own:      `in .gemini/settings.json here: {"tools": {"exclude": ["run_shell_command", "write_file", "replace"]}}`,
		scopes: []place{
			{Local, userFile("", ".gemini", "settings.json"), always(jsonFormat{path: []string{"mcpServers"}, trusts: true})},
			{Project, projectFile(filepath.Join(".gemini", "settings.json"), 0o644), always(jsonFormat{path: []string{"mcpServers"}, foreign: true})},
			{User, userFile("", ".gemini", "settings.json"), always(jsonFormat{path: []string{"mcpServers"}})},
		},
		Below: func(string) string {
			return "gemini reads .gemini/settings.json of the directory that it is started in: start it here"
		},
		exclusive: func(dir string) Change {
			c, _ := projectFile(filepath.Join(".gemini", "settings.json"), 0o644)(dir)
			c.Unmarked = true
			return *c.list(jsonList{[]string{"tools", "exclude"}, []string{"run_shell_command", "write_file", "replace"}})
		},
	},
	"vscode": {
		Next:   "open the folder, and start the server: MCP: List Servers",
		Own:    "in the chat's list of tools: switch off runInTerminal and editFiles; no file here says that",
		Folder: "${workspaceFolder}",
		scopes: []place{
			{Project, projectFile(filepath.Join(".vscode", "mcp.json"), 0o644), always(jsonFormat{path: []string{"servers"}, kind: "stdio", foreign: true})},
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

// userFile returns a file in the directory that an environment variable names, or else
// in the directory sub of the home.
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

// claudeProject returns the path under which Claude Code stores the project of a directory:
// the root of its repository (for a worktree, of the main one), or else the directory itself.
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

// mainWorktree returns the main worktree that the .git file of dir leads to, or dir. The
// answer only chooses the key under which a server is written that works in its own
// project alone, so a forged .git file gains nothing.
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
