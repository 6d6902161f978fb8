package policy

import (
	"maps"
	"slices"
	"strings"
)

// The bounds of [Commands].
const (
	maxCommands    = 1024
	maxCommandName = 255 // bytes
)

// Commands lists the programs that command texts may start. It is a guard-rail for
// those who mean well: the wall is what holds against others.
type Commands struct {
	// Allow are base names of programs, at most 1024. An empty list refuses
	// every command.
	Allow []string `json:"allow,omitempty"`
	// Subcommands are the first words that are refused, by program:
	// {pip: [install]}. They do not allow the program.
	Subcommands map[string][]string `json:"subcommands,omitempty"`
}

// DefaultCommands returns the list for a spec that asks for rules and names no
// programs.
func DefaultCommands() Commands {
	pip := []string{"install", "uninstall", "download"}
	return Commands{
		Allow: []string{
			"python", "python3", "node", "ls", "cat", "head", "tail", "grep", "find", "wc", "pwd", "echo", "date",
			"env", "which", "file", "sort", "uniq", "diff", "tr", "cut", "awk", "sed", "serve",
		},
		Subcommands: map[string][]string{
			"pip": pip, "pip3": slices.Clone(pip),
			"npm":  {"install", "uninstall", "i", "ci", "add", "remove"},
			"npx":  {"install"},
			"yarn": {"add", "remove", "install"},
			"pnpm": {"add", "remove", "install", "i"},
		},
	}
}

// Clone returns a copy that shares nothing with c.
func (c Commands) Clone() Commands {
	all := Commands{Allow: slices.Clone(c.Allow)}
	if c.Subcommands != nil {
		all.Subcommands = make(map[string][]string, len(c.Subcommands))
	}
	for name, words := range c.Subcommands {
		all.Subcommands[name] = slices.Clone(words)
	}
	return all
}

// Check returns one [*FieldError] for each invalid name, with field paths below
// "commands".
func (c Commands) Check() []*FieldError {
	var errs []*FieldError
	refuse := func(field, value, reason string) {
		errs = append(errs, &FieldError{Field: field, Value: value, Reason: reason})
	}
	if len(c.Allow) > maxCommands || len(c.Subcommands) > maxCommands {
		refuse("commands", "", "it has more than 1024 entries")
		return errs
	}
	for i, name := range c.Allow {
		if reason := checkCommandName(name); reason != "" {
			refuse(index("commands.allow", i), name, reason)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Subcommands)) {
		field, words := FieldPath("commands.subcommands", name), c.Subcommands[name]
		if reason := checkCommandName(name); reason != "" {
			refuse(field, "", reason)
		}
		if len(words) > maxCommands {
			refuse(field, "", "it has more than 1024 entries")
			continue
		}
		for i, word := range words {
			if reason := checkCommandName(word); reason != "" {
				refuse(index(field, i), word, reason)
			}
		}
	}
	return errs
}

// checkCommandName returns the reason why the base name of a program, or a subcommand, is
// invalid, or "".
func checkCommandName(name string) (reason string) {
	switch {
	case name == "":
		return "it is empty"
	case name == "." || name == "..":
		return "it names a directory"
	case len(name) > maxCommandName:
		return "it is longer than 255 bytes"
	case strings.Contains(name, "/"):
		return "it is a path: the list holds base names, which are looked up in fixed directories"
	case strings.HasPrefix(name, "-"):
		return "it looks like an option"
	}
	for _, r := range name {
		if !isLetterOrDigit(r) && !strings.ContainsRune("._+-@[:", r) {
			return "a name is letters, digits and . _ + - @ : ["
		}
	}
	return ""
}

func isLetterOrDigit(r rune) bool {
	return r < 0x80 && (isLetter(byte(r)) || isDigit(byte(r)))
}
