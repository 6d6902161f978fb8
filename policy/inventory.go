package policy

import (
	"slices"
	"strings"
	"sync"
)

// Obeyed is a file or directory that programs of the host execute or obey.
type Obeyed struct {
	// Path is relative to what Under says. It has no patterns.
	Path string
	// Ending means that the last name of Path is how names end. Such an entry is never
	// read-only; below a directory it counts in the changes of an overlay alone.
	Ending bool
	Under  Under
	// Dir means that the entry is a directory. A directory with the name of a file does
	// not count, and vice versa.
	Dir   bool
	Class Class
	// Nested says that it counts in every directory of a workspace that holds it, not
	// only at the root of a project.
	Nested bool
	// Everywhere says that it also counts in directories that tools fill
	// (node_modules, vendor), where people do not work.
	Everywhere bool
	// Repositories means that it contains repositories' own directories, at any depth.
	// The entry itself is writable; the files in each of these directories count.
	Repositories bool
	// Resumes says that git continues an operation from it when a person asks. All
	// such entries of a repository are reported as one change.
	Resumes bool
	// Except are names directly below a Dir that do not count: people work there.
	Except []string
	// With are siblings that must exist too, or it means nothing. An entry with
	// siblings is compared and never read-only: where all of them exist they are in
	// daily use.
	With []string
	// Remade says that a program of the host makes it anew as it runs, so that it is compared and
	// never read-only.
	Remade bool
	// Source means that people write it as they write programs, and run it by its name. A
	// change of one is marked, and not held back, when changes are committed from a layer. With
	// Everywhere a tool writes it, once: a change of one that was there is held back.
	Source bool
	// Tool is the program that obeys it. Why says when it does, or how.
	Tool, Why string
}

// Under is the directory that the path of an [Obeyed] is relative to.
type Under string

// What paths are relative to.
const (
	// Project is the root of a workspace, and any directory that a tool treats as the
	// root of a project.
	Project Under = "project"
	// GitDir is a repository's own directory: ".git", a bare repository, the
	// directory of a linked worktree or of a submodule.
	GitDir Under = "gitdir"
	// Home is the home of a user of the host.
	Home Under = "home"
)

// Class says when the host obeys something.
type Class string

// Classes.
const (
	// Unasked entries are obeyed although no user asks for it. They are read-only if they
	// exist when a sandbox starts, and compared when it has ended.
	Unasked Class = "unasked"
	// WhenNamed entries are obeyed when a person names them, or names the program that
	// runs them. They are never read-only, since daily work changes them; they are compared.
	WhenNamed Class = "when-named"
)

// Name returns the path as [Workspace].Unprotected names it: relative to the root of
// the project, or to the home.
func (o Obeyed) Name() string {
	if o.Under == GitDir {
		return ".git/" + o.Path
	}
	return o.Path
}

// ReadOnly reports whether it is made read-only if it exists.
func (o Obeyed) ReadOnly() bool { return o.Class == Unasked && o.With == nil && !o.Ending && !o.Remade }

// ProtectedPaths returns the names of the paths that are read-only inside a sandbox unless
// [Workspace].Unprotected opens them: first those of a repository's own directory, then of
// projects, then of homes. ".git" opens all of the repository's.
func ProtectedPaths() []string {
	var names []string
	for _, o := range inventory() {
		if name := o.Name(); o.ReadOnly() && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Inventory lists the files that programs of the host execute or obey. It decides which
// files are read-only in a sandbox, and which are compared after it. Texts that a model
// merely reads are not in it. Files that a repository's configuration names, and targets of
// links, are found at each start.
//
// A list of paths has limits. Only what exists at the start of a sandbox is read-only,
// and only as long as its parents stay in place, which the backend must ensure.
//
// All callers get the same list, which they must not change.
func Inventory() []Obeyed { return slices.Clip(inventory()) }

// Agents lists the part of [Inventory] that coding agents obey unasked when they are started
// in a project.
func Agents() []Obeyed {
	return slices.DeleteFunc(projectAgents(), func(o Obeyed) bool { return o.Class != Unasked })
}

var (
	inventoryOnce sync.Once
	inventoryList []Obeyed
)

// inventory makes the list at its first call. It is not a variable with a value,
// because the agent links this package and never needs the list: the linker leaves the
// functions out.
func inventory() []Obeyed {
	inventoryOnce.Do(func() {
		inventoryList = slices.Concat(gitDirEntries(), projectGit(), projectVersions(), projectHooks(), projectEditors(), projectAgents(),
			projectTools(), projectStarts(), projectCheckers(), projectBuilds(), projectScripts(), homeSessions(), homeTools())
	})
	return inventoryList
}

func unasked(under Under, tool, why string, paths ...string) []Obeyed {
	return entries(Obeyed{Under: under, Class: Unasked, Tool: tool, Why: why}, paths)
}

func unaskedDirs(under Under, tool, why string, paths ...string) []Obeyed {
	return entries(Obeyed{Under: under, Class: Unasked, Dir: true, Tool: tool, Why: why}, paths)
}

func named(under Under, tool, why string, paths ...string) []Obeyed {
	return entries(Obeyed{Under: under, Class: WhenNamed, Tool: tool, Why: why}, paths)
}

func namedDirs(under Under, tool, why string, paths ...string) []Obeyed {
	return entries(Obeyed{Under: under, Class: WhenNamed, Dir: true, Tool: tool, Why: why}, paths)
}

// entries returns a copy of one entry for each path.
func entries(one Obeyed, paths []string) []Obeyed {
	list := make([]Obeyed, len(paths))
	for i, p := range paths {
		list[i] = one
		list[i].Path = p
	}
	return list
}

// nested marks entries as counting in every directory.
func nested(list []Obeyed) []Obeyed {
	for i := range list {
		list[i].Nested = true
	}
	return list
}

// everywhere marks entries as counting in every directory, also in those that tools
// fill.
func everywhere(list []Obeyed) []Obeyed {
	for i := range list {
		list[i].Nested, list[i].Everywhere = true, true
	}
	return list
}

// without sets the names below directories that do not count.
func without(list []Obeyed, names ...string) []Obeyed {
	for i := range list {
		list[i].Except = names
	}
	return list
}

// source marks entries as what people write and run by name.
func source(list []Obeyed) []Obeyed {
	for i := range list {
		list[i].Source = true
	}
	return list
}

// ending marks entries as how names end.
func ending(list []Obeyed) []Obeyed {
	for i := range list {
		list[i].Ending = true
	}
	return list
}

// scripts are the endings of programs that node, deno and bun run.
var scripts = []string{"js", "mjs", "cjs", "ts", "mts", "cts"}

// forms returns the names that a file has in different languages; "" is the name itself.
func forms(name string, endings ...string) []string {
	names := make([]string, len(endings))
	for i, e := range endings {
		names[i] = strings.TrimSuffix(name+"."+e, ".")
	}
	return names
}

// gitDirEntries returns the entries of a repository's own directory, which count
// wherever such a directory is. MERGE_MSG, which an editor shows, and AUTO_MERGE, which
// git diff compares with, are not among them: their content never makes a program run.
func gitDirEntries() []Obeyed {
	resumes := slices.Concat(
		namedDirs(GitDir, "git", "git rebase --continue runs the commands it lists", "rebase-merge", "rebase-apply"),
		namedDirs(GitDir, "git", "git cherry-pick and revert go on with what it lists", "sequencer"),
		named(GitDir, "git", "git bisect goes on with what they say", "BISECT_START", "BISECT_LOG", "BISECT_NAMES", "BISECT_TERMS", "BISECT_RUN", "BISECT_EXPECTED_REV", "BISECT_ANCESTORS_OK"),
		named(GitDir, "git", "git commit and merge --continue finish with what they say", "MERGE_HEAD", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD"),
	)
	for i := range resumes {
		resumes[i].Resumes = true
	}
	return everywhere(slices.Concat(
		unaskedDirs(GitDir, "git", "git runs hooks at commit, checkout, merge and push", "hooks"),
		unasked(GitDir, "git", "git runs the programs it names: fsmonitor, pager, editor, filters, aliases", "config"),
		unasked(GitDir, "git", "git reads it like config where worktrees have their own configuration", "config.worktree"),
		unasked(GitDir, "git", "git takes its whole configuration from where it leads", "commondir"),
		[]Obeyed{
			{Path: "fsmonitor--daemon.ipc", Under: GitDir, Remade: true, Class: Unasked, Tool: "git", Why: "git status connects to it, and believes what it says of changes"},
			{Path: "modules", Under: GitDir, Dir: true, Repositories: true, Class: Unasked, Tool: "git", Why: "git reads the configuration and hooks of submodules here, also for a status of the whole"},
			{Path: "worktrees", Under: GitDir, Dir: true, Repositories: true, Class: Unasked, Tool: "git", Why: "git finds the configuration of linked worktrees, which lie elsewhere, through it"},
		},
		unasked(GitDir, "git", "it selects the filters and drivers that git runs for files", "info/attributes"),
		unasked(GitDir, "git", "git reads objects from the directories it names", "objects/info/alternates"),
		unasked(GitDir, "git", "git fetches objects from the places it names", "objects/info/http-alternates"),
		unasked(GitDir, "Sapling", "sl runs the hooks, extensions and programs it names, also for a status", "sl/config"),
		namedDirs(GitDir, "git", "git fetches from and pushes to the places it names", "remotes", "branches"),
		named(GitDir, "git", "git checks out what it selects", "info/sparse-checkout"),
		named(GitDir, "git", "git replaces commits by what it says", "info/grafts"),
		resumes,
	))
}

// projectGit returns the files that git obeys in a project.
func projectGit() []Obeyed {
	return append(everywhere(append(
		unasked(Project, "git", "git finds the repository through it", ".git"),
		Obeyed{
			Path: "HEAD", Under: Project, Class: Unasked, With: []string{"objects", "refs"}, Tool: "git",
			Why: "git takes the directory itself for a repository, and obeys its config and hooks",
		},
		Obeyed{
			Path: "commondir", Under: Project, Class: Unasked, With: []string{"HEAD"}, Tool: "git",
			Why: "git takes the directory itself for a worktree, whose whole configuration lies where it leads",
		},
	)), nested(slices.Concat(
		named(Project, "git", "it selects the filters and drivers that git runs for files", ".gitattributes"),
		named(Project, "git", "git submodule update fetches from where it says", ".gitmodules"),
		named(Project, "git-lfs", "git-lfs sends and fetches files where it says", ".lfsconfig"),
	))...)
}

// projectVersions returns the files that other version control systems than git obey in a project.
// Prompts of shells ask each of them for a status. What they write themselves at each command
// is not among them.
func projectVersions() []Obeyed {
	return append(everywhere(slices.Concat(
		unasked(Project, "Mercurial", "hg runs the hooks, extensions and programs it names, also for a status", ".hg/hgrc", ".hg/hgrc-not-shared"),
		unasked(Project, "Mercurial", "hg takes the repository, with its configuration, from where it leads", ".hg/sharedpath", ".hg/requires"),
		unasked(Project, "Sapling", "sl runs the hooks, extensions and programs it names, also for a status", ".sl/config"),
		unasked(Project, "Sapling", "sl takes the repository, with its configuration, from where it leads", ".sl/sharedpath", ".sl/requires"),
		unasked(Project, "jj", "jj runs the programs it names, also for a status", ".jj/repo/config.toml", ".jj/workspace-config.toml"),
		unasked(Project, "jj", "it selects the configuration that jj takes from the user's own directory", ".jj/repo/config-id", ".jj/workspace-config-id"),
		unasked(Project, "jj", "jj takes the repository, with its configuration, from where it leads", ".jj/repo", ".jj/repo/store/git_target"),
		unasked(Project, "Breezy", "brz runs the programs it names", ".bzr/branch/branch.conf"),
		unasked(Project, "Breezy", "brz takes the branch, with its configuration, from where it leads", ".bzr/branch/location"),
		unasked(Project, "Pijul", "pijul runs the hooks it names", ".pijul/config"),
		unasked(Project, "Darcs", "darcs runs the hooks and tests it names", "_darcs/prefs/defaults", "_darcs/prefs/prefs"),
	)), nested(append(
		named(Project, "Mercurial", "hg updates the repositories it names, with their configuration", ".hgsub"),
		named(Project, "Perforce", "p4 runs the editor and the programs it names, where P4CONFIG is set to it", ".p4config")...,
	))...)
}

// projectHooks returns what git hooks run in a project.
func projectHooks() []Obeyed {
	return slices.Concat(
		unaskedDirs(Project, "husky", "git runs it where husky has set core.hooksPath", ".husky"),
		unaskedDirs(Project, "git", "git runs it where core.hooksPath is set to it, by custom", ".githooks", ".git-hooks"),
		unasked(Project, "pre-commit", "the pre-commit hook runs what it lists at each commit", ".pre-commit-config.yaml", "prek.toml"),
		unasked(Project, "lefthook", "the lefthook hook runs what it lists at each commit",
			"lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json",
			".lefthook.yml", ".lefthook.yaml", ".lefthook.toml", ".lefthook.json",
			"lefthook-local.yml", "lefthook-local.yaml", "lefthook-local.toml", "lefthook-local.json",
			".lefthook-local.yml", ".lefthook-local.yaml", ".lefthook-local.toml", ".lefthook-local.json",
			".config/lefthook.yml", ".config/lefthook.yaml", ".config/lefthook.toml", ".config/lefthook.json"),
		unaskedDirs(Project, "lefthook", "the lefthook hook runs its scripts at each commit", ".lefthook", ".lefthook-local"),
		unasked(Project, "husky", "hooks that an older husky has installed run what it lists at each commit", ".huskyrc", ".huskyrc.json", ".huskyrc.yaml", ".huskyrc.yml", ".huskyrc.js"),
		unasked(Project, "trunk", "trunk's hooks and editors run the actions and linters it names", ".trunk/trunk.yaml", ".trunk/user.yaml"),
		named(Project, "commitlint", "a hook that calls commitlint loads it", append(forms(".commitlintrc", append(scripts, "", "json", "yaml", "yml")...), forms("commitlint.config", scripts...)...)...),
		unasked(Project, "overcommit", "the overcommit hook runs what it lists at each commit", ".overcommit.yml"),
		unasked(Project, "captainhook", "the captainhook hook runs what it lists at each commit", "captainhook.json"),
		unasked(Project, "grumphp", "the grumphp hook runs what it lists at each commit", "grumphp.yml", "grumphp.yml.dist", "grumphp.yaml", "grumphp.yaml.dist"),
		unasked(Project, "hk", "the hk hook runs what it lists at each commit", "hk.pkl"),
		named(Project, "lint-staged", "a hook that calls lint-staged runs what it lists",
			append(forms(".lintstagedrc", append(scripts, "", "json", "yaml", "yml")...), forms("lint-staged.config", scripts...)...)...),
		named(Project, "nano-staged", "a hook that calls nano-staged runs what it lists", append(forms(".nano-staged", "json", "js", "cjs", "mjs"), forms("nano-staged", "json", "js", "cjs", "mjs")...)...),
		named(Project, "simple-git-hooks", "it becomes hooks when simple-git-hooks is run", append(forms(".simple-git-hooks", "json", "js", "cjs", "mjs"), forms("simple-git-hooks", "json", "js", "cjs", "mjs")...)...),
	)
}

// projectEditors returns the files that shells, editors and Paddock itself obey in a project.
func projectEditors() []Obeyed {
	shells := everywhere(slices.Concat(
		unasked(Project, "direnv", "direnv runs it when a shell enters the directory", ".envrc", ".envrc.local", ".envrc.private"),
		ending(unasked(Project, "nix-direnv", "direnv runs it when a shell enters the directory", ".direnv/.rc")),
		unasked(Project, "shells", "autoenv, rvm and pkgx run it when a shell enters the directory", ".autoenv", ".autoenv.zsh", ".rvmrc", ".pkgx.yaml", ".pkgx.yml", "pkgx.yaml", "pkgx.yml"),
		unasked(Project, "mise", "mise runs its hooks when a shell enters the directory",
			".mise.toml", "mise.toml", ".mise.local.toml", "mise.local.toml", ".config/mise.toml", ".config/mise.local.toml", "mise/config.toml", "mise/config.local.toml", ".rtx.toml", ".rtx.local.toml"),
		unaskedDirs(Project, "mise", "mise runs its hooks when a shell enters the directory", ".mise", ".config/mise"),
	))
	return slices.Concat(shells, nested(slices.Concat(
		unasked(Project, "Paddock", "sandboxes over the directory are made as it says, once it is trusted", ".paddock.yaml"),
		named(Project, "mise, asdf", "it chooses the versions of the programs that a shell finds", ".tool-versions"),
		namedDirs(Project, "mise", "mise run runs its files", "mise-tasks", ".mise-tasks"),
		named(Project, "nix", "nix, and direnv where .envrc says so, evaluate it", "flake.nix", "shell.nix", "default.nix", "devenv.nix", "devenv.local.nix", "devenv.yaml", "devenv.local.yaml"),
		named(Project, "devbox", "devbox, and direnv where .envrc says so, run its hooks", "devbox.json"),
		namedDirs(Project, "flox", "flox runs its hooks", ".flox/env"),
		named(Project, "shells", "shims run the versions it names, from where it says", ".prototools", "aqua.yaml", ".aqua.yaml"),
		named(Project, "hermit", "shells take programs and variables from it", "bin/hermit", "bin/activate-hermit"),
		named(Project, "tmux", "tmuxinator and tmuxp run its commands", ".tmuxinator.yml", ".tmuxp.yaml", ".tmuxp.yml", ".tmuxp.json"),
		source(named(Project, "shells", "tools and plugins of shells take variables from it", ".env")),
		unaskedDirs(Project, "VS Code", "VS Code runs its tasks, and programs its settings name, when the folder opens", ".vscode"),
		unaskedDirs(Project, "JetBrains", "JetBrains editors run its start-up tasks and tools", ".idea"),
		unaskedDirs(Project, "Zed", "Zed runs the language servers and tasks it names", ".zed"),
		unaskedDirs(Project, "Helix", "Helix runs the language servers and formatters it names", ".helix"),
		unaskedDirs(Project, "editors", "editors run its initializeCommand on the host", ".devcontainer"),
		unasked(Project, "editors", "editors run its initializeCommand on the host", ".devcontainer.json"),
		unasked(Project, "Vim", "Vim and Neovim run it where exrc is set", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua"),
		unasked(Project, "Vim", "plugins of Vim and Neovim run it, or the language servers it names, when a file beside or below it is opened",
			".lazy.lua", ".lvimrc", ".local.vimrc", ".ycm_extra_conf.py", ".neoconf.json", ".vim/coc-settings.json"),
		unaskedDirs(Project, "Theia", "Theia runs the tasks and programs it names", ".theia"),
		unaskedDirs(Project, "Visual Studio", "Visual Studio runs the tasks it names", ".vs"),
		unasked(Project, "Kate", "Kate starts the language servers it names", ".kateproject"),
		unasked(Project, "lua", "editors' language server loads the plugin it names", ".luarc.json", ".luarc.jsonc"),
		unasked(Project, "rust-analyzer", "rust-analyzer runs the commands it names in editors", "rust-analyzer.toml", ".rust-analyzer.toml"),
		unasked(Project, "haskell", "editors' language server runs the commands it names", "hie.yaml"),
		unasked(Project, "clojure", "editors' language server runs the commands it names", ".lsp/config.edn"),
		unasked(Project, "Swift", "editors start the build server it names", "buildServer.json"),
		namedDirs(Project, "editors", "editors start the build servers it names", ".bsp"),
		namedDirs(Project, "JetBrains", "JetBrains editors offer its run configurations", ".run", ".fleet"),
		named(Project, "Vim", "Vim runs it with -S, and plugins when a directory is opened", "Session.vim"),
		named(Project, "Vim", "plugins of Vim run the commands and debuggers it names", ".vimspector.json", ".projections.json"),
		ending(named(Project, "VS Code", "VS Code runs its tasks, and programs its settings name, once it is opened", ".code-workspace")),
		ending(named(Project, "Sublime Text", "Sublime Text runs its build systems and language servers, once it is opened", ".sublime-project")),
		ending(named(Project, "desktop", "the desktop runs the command it names, once it is opened", ".desktop")),
		unasked(Project, "Emacs", "Emacs obeys it when a file beside or below it is opened", ".dir-locals.el", ".dir-locals-2.el"),
	)))
}

// projectAgents returns the files that coding agents obey in a project.
func projectAgents() []Obeyed {
	return nested(slices.Concat(
		without(unaskedDirs(Project, "Claude Code", "Claude Code runs the hooks and commands it names", ".claude"), "worktrees"),
		unasked(Project, "coding agents", "coding agents start the MCP servers it names", ".mcp.json"),
		without(unaskedDirs(Project, "Cursor", "Cursor runs the hooks and MCP servers it names", ".cursor"), "worktrees"),
		without(unaskedDirs(Project, "Codex", "Codex obeys its settings and starts the MCP servers it names", ".codex"), "worktrees"),
		without(unaskedDirs(Project, "Windsurf", "Windsurf runs the hooks and workflows it names", ".windsurf"), "worktrees"),
		without(unaskedDirs(Project, "Gemini CLI", "Gemini CLI runs the tools and MCP servers it names", ".gemini"), "tmp"),
		unaskedDirs(Project, "opencode", "opencode loads its plugins and commands", ".opencode"),
		unasked(Project, "opencode", "opencode starts the MCP servers and formatters it names", "opencode.json", "opencode.jsonc"),
		unasked(Project, "aider", "aider runs the lint and test commands it names", ".aider.conf.yml"),
		unaskedDirs(Project, "Copilot", "Copilot runs the hooks it names", ".github/hooks"),
		unaskedDirs(Project, "Amp", "Amp starts the MCP servers it names", ".amp"),
		unaskedDirs(Project, "Kiro", "Kiro runs the hooks and MCP servers it names", ".kiro"),
		unaskedDirs(Project, "Cline", "Cline runs the hooks in it", ".clinerules/hooks"),
		unaskedDirs(Project, "Roo Code", "Roo Code starts the MCP servers it names", ".roo"),
		unaskedDirs(Project, "Kilo Code", "Kilo Code starts the MCP servers it names", ".kilocode"),
		unaskedDirs(Project, "Continue", "Continue starts the MCP servers it names", ".continue"),
		unaskedDirs(Project, "Qwen Code", "Qwen Code runs the tools and MCP servers it names", ".qwen"),
		unaskedDirs(Project, "Droid", "Droid runs the hooks and MCP servers it names", ".factory"),
		unaskedDirs(Project, "Junie", "Junie starts the MCP servers it names", ".junie"),
		unaskedDirs(Project, "Amazon Q", "Amazon Q starts the MCP servers it names", ".amazonq"),
		unaskedDirs(Project, "Trae", "Trae starts the MCP servers it names", ".trae"),
		unaskedDirs(Project, "Augment", "Augment runs the commands and MCP servers it names", ".augment"),
		unaskedDirs(Project, "OpenHands", "OpenHands runs its scripts", ".openhands"),
		unaskedDirs(Project, "pi", "pi loads its extensions", ".pi"),
		unaskedDirs(Project, "Antigravity", "Antigravity obeys its workflows", ".agent"),
		unaskedDirs(Project, "Tabnine", "Tabnine starts the MCP servers it names", ".tabnine"),
		named(Project, "Conductor", "Conductor runs its scripts for each worktree", "conductor.json"),
		unasked(Project, "Crush", "Crush starts the MCP and language servers it names", "crush.json", ".crush.json"),
		namedDirs(Project, "coding agents", "coding agents run the scripts of skills in it", ".agents"),
	))
}

// projectTools returns the files that package managers obey in a project, and those that a
// person runs there, with the program that runs them.
func projectTools() []Obeyed {
	return slices.Concat(
		nested(unasked(Project, "npm", "npm and pnpm run the shell and the git it names, whatever they are called for", ".npmrc")),
		unasked(Project, "yarn", "yarn runs the release and the plugins it names, whatever it is called for", ".yarnrc.yml", ".yarnrc"),
		unaskedDirs(Project, "yarn", "yarn runs what is in it, whatever it is called for", ".yarn/releases", ".yarn/plugins"),
		unasked(Project, "pnpm", "pnpm runs it at each installation, also without scripts", ".pnpmfile.cjs", ".pnpmfile.mjs", "pnpmfile.js"),
		nested(named(Project, "pnpm", "pnpm runs the shell and the hooks it names, and the scripts of the packages it lists", "pnpm-workspace.yaml")),
		unasked(Project, "bun", "bun loads the programs it names", "bunfig.toml", ".bunfig.toml"),
		nested(unasked(Project, "cargo", "cargo, also when an editor calls it, runs the compilers and wrappers it names", ".cargo/config.toml", ".cargo/config")),
		named(Project, "yarn", "node loads it for what yarn starts", ".pnp.cjs", ".pnp.js", ".pnp.loader.mjs"),
		nested(named(Project, "rustup", "it chooses the compiler, which may be a directory beside it", "rust-toolchain.toml", "rust-toolchain")),
		namedDirs(Project, "bundler", "bundler takes its settings from it", ".bundle"),
		namedDirs(Project, "maven", "maven loads the extensions and options it names", ".mvn"),
		namedDirs(Project, "gradle", "the wrapper runs what is in it", "gradle/wrapper"),
		named(Project, "pip", "pip takes packages from where it says", "pip.conf", "uv.toml", "poetry.toml", "pdm.toml", ".pixi/config.toml"),
		source(nested(named(Project, "make", "make runs its commands", "Makefile", "makefile", "GNUmakefile"))),
		source(nested(named(Project, "just", "just runs its commands", "justfile", "Justfile", ".justfile"))),
		source(nested(named(Project, "task", "task runs its commands", "Taskfile.yml", "Taskfile.yaml"))),
		nested(named(Project, "npm", "npm, pnpm, yarn and bun run its scripts, some of them at installation", "package.json", "package.json5", "package.yaml")),
		nested(named(Project, "npm", "bower and vlt run the programs it names, whatever they are called for", ".bowerrc", "vlt.json")),
		nested(named(Project, "npm", "npm builds by it at installation, and runs the commands in it", "binding.gyp")),
		nested(named(Project, "python", "pip and test runners run it", "setup.py", "conftest.py")),
		source(nested(named(Project, "python", "pip and test runners run it", "setup.cfg", "pyproject.toml", "noxfile.py", "tox.ini", "tasks.py", "pytest.ini", ".pytest.ini", ".coveragerc", "manage.py", "fabfile.py", "dodo.py", "hatch_build.py", "Pipfile", "pixi.toml"))),
		everywhere(named(Project, "python", "python runs it when it starts, where it searches for modules", "sitecustomize.py", "usercustomize.py")),
		source(everywhere(ending(named(Project, "python", "python runs its lines that begin with import when it starts", "site-packages/.pth", "dist-packages/.pth")))),
		source(everywhere(named(Project, "python", "python takes its home and modules from where it says, and editors run that python", "pyvenv.cfg"))),
		source(everywhere(named(Project, "python", "shells run it when the environment is entered, and editors in each terminal",
			"bin/activate", "bin/activate.csh", "bin/activate.fish", "bin/activate.nu", "bin/activate.xsh", "bin/activate_this.py", "bin/Activate.ps1", "bin/activate.ps1"))),
		nested(named(Project, "python", "uv runs the python it names, which may be a file beside it", ".python-version", ".python-versions")),
		named(Project, "pdm", "pdm runs the python it names", ".pdm-python"),
		nested(named(Project, "cargo", "cargo runs it when it builds", "build.rs")),
		source(nested(named(Project, "cmake", "cmake runs its commands", "CMakeLists.txt", "CMakePresets.json", "CMakeUserPresets.json"))),
		source(nested(named(Project, "meson", "meson runs its commands", "meson.build"))),
		source(nested(named(Project, "bazel", "bazel runs its rules", "BUILD", "BUILD.bazel", "MODULE.bazel", "WORKSPACE", "WORKSPACE.bazel"))),
		named(Project, "bazel", "bazel obeys its options, whatever it is called for", ".bazelrc"),
		named(Project, "bazel", "bazelisk runs it, or the bazel it names, instead of bazel", "tools/bazel", ".bazeliskrc", ".bazelversion"),
		source(nested(named(Project, "gradle", "gradle runs it", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.properties", "gradlew"))),
		source(nested(named(Project, "maven", "maven runs its plugins", "pom.xml", "mvnw"))),
		source(nested(named(Project, "rake", "rake and bundler run it", "Rakefile", "Gemfile"))),
		nested(named(Project, "composer", "composer runs its scripts", "composer.json")),
		source(nested(named(Project, "docker", "docker runs its commands, or mounts what it names", "Dockerfile", "Containerfile", "compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml", "docker-bake.hcl"))),
		nested(named(Project, "docker", "docker compose adds it to the file beside it, and mounts what it names", "compose.override.yaml", "compose.override.yml", "docker-compose.override.yml", "docker-compose.override.yaml")),
		source(named(Project, "vagrant", "vagrant runs it", "Vagrantfile")),
		named(Project, "CI", "a machine of the project runs it", ".gitlab-ci.yml", ".travis.yml", "Jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", ".drone.yml", ".woodpecker.yml", "appveyor.yml", "cloudbuild.yaml"),
		namedDirs(Project, "CI", "a machine of the project runs it", ".github/workflows", ".github/actions", ".gitea/workflows", ".forgejo/workflows", ".circleci", ".buildkite", ".woodpecker", ".ci"),
		named(Project, "CI", "a machine of the project runs it when somebody opens it there", ".gitpod.yml", ".gitpod.Dockerfile", ".replit", ".idx/dev.nix", ".codesandbox/tasks.json"),
		named(Project, "pre-commit", "other projects' hooks run what it lists", ".pre-commit-hooks.yaml"),
	)
}

// homeSessions returns the files that shells, logins and desktops obey in a home.
func homeSessions() []Obeyed {
	return slices.Concat(
		unasked(Home, "bash", "bash runs it when it starts or ends", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_completion"),
		unasked(Home, "sh", "shells and desktops run it at login", ".profile"),
		unasked(Home, "readline", "shells obey the keys it binds", ".inputrc"),
		unasked(Home, "zsh", "zsh runs it when it starts or ends", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"),
		unaskedDirs(Home, "zsh", "zsh loads what is in it", ".zsh", ".config/zsh", ".oh-my-zsh"),
		unaskedDirs(Home, "fish", "fish runs it when it starts", ".config/fish", ".local/share/fish/vendor_conf.d"),
		unasked(Home, "ksh", "ksh runs it when it starts", ".kshrc", ".mkshrc"),
		unasked(Home, "csh", "csh and tcsh run it when they start or end", ".cshrc", ".tcshrc", ".login", ".logout"),
		unaskedDirs(Home, "shells", "shells load it", ".config/nushell", ".config/bash", ".bashrc.d", ".bash_completion.d"),
		unaskedDirs(Home, "direnv", "direnv runs it, and trusts what it lists", ".config/direnv", ".local/share/direnv"),
		unasked(Home, "direnv", "direnv runs it", ".direnvrc"),
		unaskedDirs(Home, "mise", "mise runs its hooks in every shell", ".config/mise"),
		unasked(Home, "asdf", "asdf runs the hooks it names", ".asdfrc"),
		unasked(Home, "cargo", "shells run it when they start", ".cargo/env"),
		unaskedDirs(Home, "ssh", "ssh runs the commands of its config, and sshd lets in who it lists", ".ssh"),
		unaskedDirs(Home, "GnuPG", "gpg and its agent run the programs it names", ".gnupg"),
		unaskedDirs(Home, "systemd", "systemd runs its units at login", ".config/systemd/user", ".local/share/systemd/user"),
		unaskedDirs(Home, "systemd", "every session takes its variables from it", ".config/environment.d"),
		unaskedDirs(Home, "desktop", "the desktop runs it at login", ".config/autostart", ".config/autostart-scripts", ".config/plasma-workspace/env", ".config/upstart"),
		unaskedDirs(Home, "desktop", "the desktop runs the programs it names for files and menus", ".local/share/applications"),
		unaskedDirs(Home, "D-Bus", "D-Bus starts the services it names", ".local/share/dbus-1/services"),
		unaskedDirs(Home, "desktop", "the window manager runs it at login", ".config/i3", ".config/sway", ".config/hypr", ".config/openbox", ".config/awesome", ".config/bspwm"),
		unasked(Home, "X", "X runs it at login", ".xinitrc", ".xsession", ".xsessionrc", ".xprofile", ".xserverrc"),
		unasked(Home, "PAM", "every login takes its variables from it", ".pam_environment"),
		unaskedDirs(Home, "cron", "cron runs it", ".cron", ".config/cron"),
		unasked(Home, "ssh", "rsh and sshd let in who it lists", ".rhosts", ".shosts"),
		unasked(Home, "tmux", "tmux runs it when it starts", ".tmux.conf"),
		unaskedDirs(Home, "tmux", "tmux runs it when it starts", ".config/tmux", ".tmux"),
		unasked(Home, "screen", "screen runs it when it starts", ".screenrc"),
		namedDirs(Home, "shells", "shells find programs in it", "bin", ".local/bin", ".cargo/bin", "go/bin", ".bun/bin", ".deno/bin"),
	)
}

// homeTools returns the files that tools obey in a home.
func homeTools() []Obeyed {
	return slices.Concat(
		unasked(Home, "git", "git runs the programs it names in every repository", ".gitconfig"),
		unaskedDirs(Home, "git", "git runs the programs it names in every repository", ".config/git"),
		unasked(Home, "Vim", "Vim runs it when it starts", ".vimrc", ".gvimrc", ".exrc", ".ideavimrc"),
		unaskedDirs(Home, "Vim", "Vim and Neovim run it when they start", ".vim", ".config/nvim", ".local/share/nvim"),
		unasked(Home, "Emacs", "Emacs runs it when it starts", ".emacs", ".emacs.el"),
		unaskedDirs(Home, "Emacs", "Emacs runs it when it starts", ".emacs.d", ".config/emacs", ".doom.d", ".config/doom"),
		unasked(Home, "nano", "nano runs the programs it names", ".nanorc"),
		unaskedDirs(Home, "editors", "the editor runs the extensions, tasks and servers it names", ".vscode", ".vscode-server", ".config/Code/User", ".config/Cursor/User", ".config/helix", ".config/zed", ".config/JetBrains"),
		without(unaskedDirs(Home, "Claude Code", "Claude Code runs the hooks and commands it names", ".claude"), "worktrees"),
		unasked(Home, "Claude Code", "Claude Code starts the MCP servers it names", ".claude.json"),
		without(unaskedDirs(Home, "coding agents", "coding agents run the hooks and MCP servers it names", ".codex", ".cursor", ".windsurf"), "worktrees"),
		without(unaskedDirs(Home, "Gemini CLI", "Gemini CLI runs the tools and MCP servers it names", ".gemini"), "tmp"),
		unaskedDirs(Home, "coding agents", "coding agents run the hooks and MCP servers it names",
			".config/opencode", ".config/amp", ".config/goose", ".config/crush", ".config/github-copilot", ".copilot", ".codeium", ".continue", ".factory", ".qwen", ".kiro", ".aws/amazonq"),
		unasked(Home, "aider", "aider runs the lint and test commands it names", ".aider.conf.yml"),
		unasked(Home, "npm", "npm and pnpm run the shell and the git it names, whatever they are called for", ".npmrc"),
		unasked(Home, "yarn", "yarn runs the release and the plugins it names, whatever it is called for", ".yarnrc.yml", ".yarnrc"),
		unasked(Home, "bun", "bun loads the programs it names", ".bunfig.toml"),
		unasked(Home, "cargo", "cargo runs the compilers and wrappers it names", ".cargo/config.toml", ".cargo/config"),
		unasked(Home, "gradle", "gradle runs it in every project", ".gradle/init.gradle", ".gradle/init.gradle.kts", ".gradle/gradle.properties"),
		unaskedDirs(Home, "gradle", "gradle runs it in every project", ".gradle/init.d"),
		unasked(Home, "maven", "maven obeys it in every project", ".m2/settings.xml", ".m2/extensions.xml", ".mavenrc"),
		unaskedDirs(Home, "pip", "pip takes packages from where it says", ".config/pip", ".pip", ".config/uv"),
		unasked(Home, "python", "python and its tools obey it when they start", ".pythonrc", ".pypirc", ".pdbrc"),
		unaskedDirs(Home, "ipython", "ipython runs it when it starts", ".ipython/profile_default"),
		unasked(Home, "ruby", "ruby's tools run it when they start", ".irbrc", ".gemrc", ".pryrc"),
		unasked(Home, "gdb", "gdb and lldb run it when they start", ".gdbinit", ".lldbinit"),
		unaskedDirs(Home, "docker", "docker runs the credential helpers and plugins it names", ".docker"),
		unaskedDirs(Home, "kubectl", "kubectl runs the credential helpers it names", ".kube"),
	)
}
