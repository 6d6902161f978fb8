package policy

// Commands say which programs commands may call.
type Commands struct {
	// Allow lists the names of programs.
	Allow []string `json:"allow"`
	// Subcommands lists, by program, first arguments that are refused.
	Subcommands map[string][]string `json:"subcommands"`
}

// DefaultCommands are those of the command executor.
func DefaultCommands() Commands {
	return Commands{
		Allow: []string{"python", "python3", "node", "ls", "cat", "head", "tail", "grep", "find", "wc", "pwd", "echo", "date",
			"env", "which", "file", "sort", "uniq", "diff", "tr", "cut", "awk", "sed", "serve"},
	}
}
