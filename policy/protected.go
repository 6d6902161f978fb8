package policy

// Protected is a path in a workspace that programs on the host execute or
// obey without being told to, and why it is one.
type Protected struct {
	// Path is relative to the workspace.
	Path string
	// Dir says that the path is a directory where it exists.
	Dir bool
	// Why says who executes or obeys it, and when.
	Why string
}

// Protections lists what is read-only inside a bind workspace unless
// [Workspace].Unprotected opens it. Files that run only when a person names
// them (a Makefile, a test) are not in it, nor are texts that a model merely
// reads.
//
// A list of paths has limits, which a backend must know. It holds for the
// root of the workspace, not for repositories nested deeper. It holds only as
// long as the parents of its paths stay in place: a backend keeps ".git" from
// being renamed or replaced, also where it is a file (a linked worktree), and
// ".git/commondir", which redirects all of git's configuration, from being
// made.
func Protections() []Protected {
	return []Protected{
		{".git/hooks", true, "git runs hooks at commit, checkout, merge and push"},
		{".git/config", false, "git runs the programs it names: fsmonitor, pager, editor, filters, aliases"},
		{".git/config.worktree", false, "git reads it like .git/config where worktrees have their own configuration"},
		{".git/modules", true, "git reads the configuration and hooks of submodules here, also for a status of the whole"},
		{".git/worktrees", true, "git finds the configuration of linked worktrees, which lie elsewhere, through it"},
		{".husky", true, "git runs it where husky has set core.hooksPath"},
		{".githooks", true, "git runs it where core.hooksPath is set to it, by custom"},
		{".pre-commit-config.yaml", false, "the pre-commit hook runs what it lists at each commit"},
		{"lefthook.yml", false, "the lefthook hook runs what it lists at each commit"},
		{"lefthook.yaml", false, "the lefthook hook runs what it lists at each commit"},
		{"lefthook.toml", false, "the lefthook hook runs what it lists at each commit"},
		{"lefthook.json", false, "the lefthook hook runs what it lists at each commit"},
		{".lefthook.yml", false, "the lefthook hook runs what it lists at each commit"},
		{".lefthook.yaml", false, "the lefthook hook runs what it lists at each commit"},
		{".lefthook.toml", false, "the lefthook hook runs what it lists at each commit"},
		{".lefthook.json", false, "the lefthook hook runs what it lists at each commit"},
		{"lefthook-local.yml", false, "the lefthook hook runs what it lists at each commit"},
		{"lefthook-local.yaml", false, "the lefthook hook runs what it lists at each commit"},
		{".envrc", false, "direnv runs it when a shell enters the directory"},
		{".mise.toml", false, "mise runs its hooks when a shell enters the directory"},
		{"mise.toml", false, "mise runs its hooks when a shell enters the directory"},
		{".mise.local.toml", false, "mise runs its hooks when a shell enters the directory"},
		{"mise.local.toml", false, "mise runs its hooks when a shell enters the directory"},
		{".mise", true, "mise runs its hooks when a shell enters the directory"},
		{".config/mise", true, "mise runs its hooks when a shell enters the directory"},
		{".config/mise.toml", false, "mise runs its hooks when a shell enters the directory"},
		{".vscode", true, "VS Code runs its tasks, and programs its settings name, when the folder opens"},
		{".idea", true, "JetBrains editors run its start-up tasks and tools"},
		{".zed", true, "Zed runs the language servers and tasks it names"},
		{".devcontainer", true, "editors run its initializeCommand on the host"},
		{".devcontainer.json", false, "editors run its initializeCommand on the host"},
		{".cursor", true, "Cursor runs the hooks and MCP servers it names"},
		{".windsurf", true, "Windsurf runs the hooks and workflows it names"},
		{".claude", true, "Claude Code runs the hooks and commands it names"},
		{".mcp.json", false, "coding agents start the MCP servers it names"},
		{".gemini", true, "Gemini CLI runs the tools and MCP servers it names"},
		{".codex", true, "Codex obeys its settings and starts the MCP servers it names"},
		{".opencode", true, "opencode loads its plugins and commands"},
		{"opencode.json", false, "opencode starts the MCP servers and formatters it names"},
		{".aider.conf.yml", false, "aider runs the lint and test commands it names"},
	}
}

// Planting is what programs on the host obey once commands have made it, but
// what cannot be read-only where it exists, as it is in daily use there.
type Planting struct {
	// Path is relative to the workspace.
	Path string
	// With are paths that must be there too, or it means nothing.
	With []string
	// Why says who obeys it, and when.
	Why string
}

// Plantings lists what a backend reports where it was not there before, and
// never protects.
func Plantings() []Planting {
	return []Planting{
		{"HEAD", []string{"objects", "refs"}, "git takes the directory itself for a repository, and obeys its config and hooks"},
		{"commondir", []string{"HEAD"}, "git takes the directory itself for a worktree, whose whole configuration lies where it leads"},
	}
}

// ProtectedPaths returns the paths of [Protections], in the same order.
func ProtectedPaths() []string {
	all := Protections()
	paths := make([]string, len(all))
	for i, p := range all {
		paths[i] = p.Path
	}
	return paths
}
