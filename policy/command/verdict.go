package command

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The bounds of a text that can be judged.
const (
	// MaxText is the longest text, and the longest argument list, in bytes.
	MaxText = 64 << 10
	// maxOpeners bounds what may nest, quoted or not: parentheses, brackets,
	// braces, backquotes, if, while and until.
	maxOpeners = 4096
	// maxDepth bounds how deep commands may be nested.
	maxDepth = 64
	// maxCommands bounds the simple commands of one text.
	maxCommands = 4096
	// maxWords bounds the words of all programs together, each counted once
	// for every program that wraps it.
	maxWords = 1 << 15
)

// The rules that a refusal names.
const (
	RuleEmpty       = "empty"       // there is no command
	RuleAllowlist   = "allowlist"   // the program is not on the list
	RuleSubcommand  = "subcommand"  // the program is, and this subcommand is blocked
	RuleParse       = "parse"       // the text is no program of the shell, or not one that can be judged
	RuleText        = "text"        // it holds bytes that no command needs
	RuleSize        = "size"        // it is too long, too deep or too many
	RuleName        = "name"        // the name of a command is known only at run time
	RulePlace       = "place"       // a program outside the fixed directories
	RuleBuiltin     = "builtin"     // the shell does something that cannot be judged
	RuleAssignment  = "assignment"  // a variable that changes what other commands do
	RuleFunction    = "function"    // a function that hides a command, or may not exist
	RuleWrapper     = "wrapper"     // a program starts another in a way that cannot be judged
	RuleArgument    = "argument"    // an argument makes a program start others
	RuleArithmetic  = "arithmetic"  // arithmetic on text, which the shell executes
	RuleRedirection = "redirection" // a connection in the dress of a file
	RulePath        = "path"        // an argument points outside
)

// The dialects of a verdict.
const (
	DialectBash  = "bash"
	DialectPOSIX = "posix"
	DialectArgv  = "argv" // an argument list, for no shell
)

// Position is a place in what was judged. In a text that another command is
// given, it is where that text begins.
type Position struct {
	// Line and Column count from 1, columns in characters. Both are 0 for an
	// argument list.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Offset counts bytes from 0.
	Offset int `json:"offset"`
	// Argument counts the words of an argument list from 0.
	Argument int `json:"argument"`
}

// Verdict is the answer of the rules to one command.
type Verdict struct {
	Allowed bool `json:"allowed"`
	// Rule is the rule that was broken, one of the Rule constants; Reason a
	// sentence about it, and Hint what to do instead, where there is something
	// to say. All are empty where it is allowed.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// Position is where it was broken; nil where that is nowhere in particular.
	Position *Position `json:"position,omitempty"`
	// Command is the name of the command that broke it.
	Command string `json:"command,omitempty"`
	// Notes say what the rules do not cover in an allowed text: interpreters.
	Notes []string `json:"notes,omitempty"`
	// Programs are the base names of all programs that may be started, sorted.
	Programs []string `json:"programs,omitempty"`
	// Script is the text to run: the printed form of the text that was judged. It is
	// empty for an argument list, which is run as it is.
	Script string `json:"script,omitempty"`
	// Dialect is the shell that Script is for: bash or posix, or argv for none.
	Dialect string `json:"dialect"`

	words []pathWord // for Paths
}

// run gathers the results of one check, over all texts inside of one another.
type run struct {
	rules    *Rules
	denial   *Verdict
	commands int
	weight   int // the words of all programs, once for each that wraps them
	notes    []string
	programs map[string]bool
	words    []pathWord
	inner    []*checker // of texts that shells of their own run
}

func (s *run) verdict(dialect, script string) Verdict {
	if s.denial != nil {
		s.denial.Dialect = dialect
		return *s.denial
	}
	return Verdict{
		Allowed: true, Notes: s.notes, Programs: slices.Sorted(maps.Keys(s.programs)),
		Script: script, Dialect: dialect, words: s.words,
	}
}

// note adds a sentence once.
func (s *run) note(text string) {
	if !slices.Contains(s.notes, text) {
		s.notes = append(s.notes, text)
	}
}

// Argv judges an argument list that is executed without a shell.
func (r *Rules) Argv(argv []string) Verdict {
	s := &run{rules: r, programs: make(map[string]bool)}
	c := &checker{run: s, argv: true, process: newProcess(r.given)}
	size := 0
	args := make([]arg, len(argv))
	for i, text := range argv {
		size += len(text) + 1
		args[i] = arg{text: text, constant: true, at: i}
	}
	switch {
	case len(argv) == 0:
		s.denial = &Verdict{Rule: RuleEmpty, Reason: "Empty command", Hint: "give a text for the shell, or a command and its arguments"}
	case size > MaxText:
		s.denial = &Verdict{Rule: RuleSize, Reason: "the command is longer than 64 KiB"}
	default:
		for i, text := range argv {
			if _, bad := badByte(text); bad {
				c.refuse(i, RuleText, "", controlReason, controlHint)
			}
		}
		c.program(args)
		c.checkNeeds()
	}
	return s.verdict(DialectArgv, "")
}

const (
	controlReason = "it holds a control character, or is not valid UTF-8"
	controlHint   = `write it as an escape: printf '\033'`
)

// badByte finds the first byte that no command needs: control characters, NUL,
// and invalid UTF-8.
func badByte(text string) (offset int, found bool) {
	for i, r := range text {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return i, true
		}
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return i, true
		}
	}
	return 0, false
}

// place returns the position of an offset in a text.
func place(text string, offset int) *Position {
	offset = min(max(offset, 0), len(text))
	before := text[:offset]
	line := strings.LastIndexByte(before, '\n') + 1
	return &Position{
		Line:   strings.Count(before, "\n") + 1,
		Column: utf8.RuneCountInString(before[line:]) + 1,
		Offset: offset,
	}
}
