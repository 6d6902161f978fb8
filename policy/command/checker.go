package command

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// checker judges one text, or one argument list.
type checker struct {
	*run
	*process
	text      string
	lang      syntax.LangVariant
	argv      bool     // it is an argument list
	outer     *checker // of the text that contains this one, nil for the outermost
	place     int      // where this text begins there
	depth     int
	stdinText bool // standard input is a text that is made here, or at run time
}

// process holds the functions and variables of one shell. It may run several texts.
type process struct {
	functions map[string]bool
	vars      map[string]*variable
	needs     []need
	unset     map[string]need // the arguments of unset, without -v
	exported  map[string]bool // variables that commands get in their environment
	outer     *process        // the shell whose variables may be in the environment
}

func newProcess(outer *process) *process {
	return &process{
		functions: make(map[string]bool), vars: make(map[string]*variable), unset: make(map[string]need),
		exported: make(map[string]bool), outer: outer,
	}
}

// Shell judges a text for bash.
func (r *Rules) Shell(text string) Verdict { return r.shell(text, syntax.LangBash, DialectBash) }

// ShellPOSIX judges a text for a shell without bash's extensions, as /bin/sh is on
// many systems.
func (r *Rules) ShellPOSIX(text string) Verdict {
	return r.shell(text, syntax.LangPOSIX, DialectPOSIX)
}

// shell judges a text, and then its printed form, since the printed form is executed: the
// verdicts must be the same.
func (r *Rules) shell(text string, lang syntax.LangVariant, dialect string) Verdict {
	script, v := r.pass(text, lang, dialect)
	if !v.Allowed {
		return v
	}
	again, second := r.pass(script, lang, dialect)
	if !second.Allowed || again != script || strings.Join(v.Programs, " ") != strings.Join(second.Programs, " ") {
		return Verdict{
			Rule: RuleParse, Dialect: dialect,
			Reason: "Failed to parse command: it does not mean the same once it is written out",
			Hint:   "write it more simply",
		}
	}
	return v
}

// pass judges a text once, and prints it.
func (r *Rules) pass(text string, lang syntax.LangVariant, dialect string) (script string, v Verdict) {
	s := &run{rules: r, programs: make(map[string]bool)}
	c := &checker{run: s, process: newProcess(r.given), text: text, lang: lang}
	file := c.parse()
	if file == nil {
		return "", s.verdict(dialect, "")
	}
	if len(file.Stmts) == 0 {
		s.denial = &Verdict{Rule: RuleEmpty, Reason: "Empty command", Hint: "give a text for the shell, or a command and its arguments"}
		return "", s.verdict(dialect, "")
	}
	c.top(file.Stmts)
	c.checkNeeds()
	if len(r.allow) == 0 {
		c.refuse(0, RuleAllowlist, "", "the list is empty, so that no command is allowed", "")
	}
	if s.denial != nil {
		return "", s.verdict(dialect, "")
	}
	printer, _ := printers.Get().(*syntax.Printer)
	var b bytes.Buffer
	if err := recovered("it cannot be written out", func() error { return printer.Print(&b, file) }); err != nil {
		c.refuse(0, RuleParse, "", "Failed to parse command: "+err.Error(), "")
		return "", s.verdict(dialect, "")
	}
	printers.Put(printer)
	return b.String(), s.verdict(dialect, b.String())
}

// recovered calls f and makes an error of a panic: no text may end the program.
func recovered(reason string, f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New(reason)
		}
	}()
	return f()
}

// Parsers and printers are reused, because making one costs more than an ordinary check.
var (
	printers = sync.Pool{New: func() any { return syntax.NewPrinter() }}
	parsers  = map[syntax.LangVariant]*sync.Pool{
		syntax.LangBash:  {New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }},
		syntax.LangPOSIX: {New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangPOSIX)) }},
	}
)

// parse returns the tree of the checker's text, or nil if it refuses the text.
func (c *checker) parse() *syntax.File {
	if len(c.text) > MaxText {
		c.refuse(MaxText, RuleSize, "", "the command is longer than 64 KiB", "put it into a file of the workspace")
		return nil
	}
	if at, bad := badByte(c.text); bad {
		c.refuse(at, RuleText, "", controlReason, controlHint)
		return nil
	}
	if at, joined := joinedComment(c.text); joined {
		c.refuse(at, RuleParse, "", "Failed to parse command: a comment must not end with a backslash: whether the next line belongs to it is not sure", "leave out the backslash")
		return nil
	}
	if at, many := openers(c.text); many {
		c.refuse(at, RuleSize, "", "it has more than 4096 parentheses, brackets, braces, backquotes, ifs and loops", "put it into a file of the workspace")
		return nil
	}
	pool := parsers[c.lang]
	parser, _ := pool.Get().(*syntax.Parser)
	var file *syntax.File
	err := recovered("the parser gave up", func() (err error) {
		file, err = parser.Parse(strings.NewReader(c.text), "")
		return err
	})
	if err == nil {
		pool.Put(parser)
		return file
	}
	at, reason := 0, err.Error()
	var syntaxError syntax.ParseError
	var dialectError syntax.LangError
	switch {
	case errors.As(err, &syntaxError):
		at, reason = int(syntaxError.Pos.Offset()), syntaxError.Text
	case errors.As(err, &dialectError):
		at = int(dialectError.Pos.Offset())
	}
	c.refuse(at, RuleParse, "", "Failed to parse command: "+reason, "")
	return nil
}

// joinedComment finds a line that may be a comment and ends with a backslash. The
// parser then joins the next line, and a shell does not.
func joinedComment(text string) (at int, found bool) {
	for line := range strings.Lines(text) {
		if body, ok := strings.CutSuffix(line, "\\\n"); ok {
			for i := range len(body) {
				if body[i] == '#' && (i == 0 || strings.IndexByte(" \t;&|()<>`", body[i-1]) >= 0) {
					return at + i, true
				}
			}
		}
		at += len(line)
	}
	return 0, false
}

// openers finds the place where a text has more opening brackets and keywords than
// allowed. The parser recurses for each, without any bound.
func openers(text string) (at int, many bool) {
	count := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '[', '{', '`':
			count++
		case 'i', 'w', 'u':
			for _, word := range []string{"if", "while", "until"} {
				if strings.HasPrefix(text[i:], word) {
					count++
				}
			}
		}
		if count > maxOpeners {
			return i, true
		}
	}
	return 0, false
}

// refuse records the first refusal.
func (c *checker) refuse(at int, rule, command, reason, hint string) {
	if c.denial != nil {
		return
	}
	c.denial = &Verdict{Rule: rule, Command: command, Reason: reason, Hint: hint, Position: c.position(at)}
}

// position returns the place of an offset, in the outermost text.
func (c *checker) position(at int) *Position {
	switch {
	case c.outer != nil:
		return c.outer.position(c.place)
	case c.argv:
		return &Position{Argument: at}
	default:
		return place(c.text, at)
	}
}

// nested judges a text in an argument, which must be harmless in all of the dialects.
// same means that this shell runs it, later, instead of a separate shell.
func (c *checker) nested(a arg, text string, same bool, dialects ...syntax.LangVariant) {
	for _, lang := range dialects {
		in := &checker{run: c.run, process: c.process, text: text, lang: lang, outer: c, place: a.at, depth: c.depth + 1, stdinText: c.stdinText}
		if !same {
			in.process = newProcess(c.process)
			c.inner = append(c.inner, in)
		}
		if in.tooDeep(0) {
			return
		}
		file := in.parse()
		switch {
		case file == nil:
		case same:
			in.stmts(file.Stmts) // it may run at any later time, so it must not define functions
		default:
			in.top(file.Stmts)
		}
	}
}

// tooDeep refuses a text that is nested too deep, and reports whether it did.
func (c *checker) tooDeep(at int) bool {
	if c.depth <= maxDepth {
		return false
	}
	c.refuse(at, RuleSize, "", "it is nested more than 64 deep", "")
	return true
}

// offset returns where a node begins, in bytes.
func offset(n syntax.Node) int { return int(n.Pos().Offset()) }

// The bounds of a text that can be judged.
const (
	// MaxText is the longest text, and the longest argument list, in bytes.
	MaxText = 64 << 10
	// maxOpeners bounds the number of constructs that may nest, quoted or not:
	// parentheses, brackets, braces, backquotes, if, while and until.
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

// Position is a place in the judged text. For a text in an argument of a command it is the
// beginning of that argument's text.
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
	// Rule is the rule that was broken, one of the Rule constants. Reason is a
	// sentence about it, and Hint says what to do instead, if anything can be done.
	// All are empty if the command is allowed.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// Position is where it was broken; nil if that is nowhere in particular.
	Position *Position `json:"position,omitempty"`
	// Command is the name of the command that broke it.
	Command string `json:"command,omitempty"`
	// Notes name the programs in an allowed text that the rules do not check:
	// interpreters.
	Notes []string `json:"notes,omitempty"`
	// Programs are the base names of all programs that may be started, sorted.
	Programs []string `json:"programs,omitempty"`
	// Script is the text to run: the printed form of the text that was judged. It is
	// empty for an argument list, which runs unchanged.
	Script string `json:"script,omitempty"`
	// Dialect is the shell that Script is for: bash or posix, or argv for none.
	Dialect string `json:"dialect"`

	words []pathWord // for Paths
}

// run collects the results of one check, of a text and all texts inside it.
type run struct {
	rules    *Rules
	denial   *Verdict
	commands int
	weight   int // the words of all programs, once for each that wraps them
	notes    []string
	programs map[string]bool
	words    []pathWord
	inner    []*checker // of texts that other shells run
}

// verdict returns the refusal or, without one, what was found.

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
			if strings.ContainsFunc(text, isControl) {
				c.refuse(i, RuleText, "", "it holds a control character", controlHint)
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

// badByte finds the first byte that no command needs: of a control character, NUL, or
// invalid UTF-8.
func badByte(text string) (offset int, found bool) {
	for i, r := range text {
		if isControl(r) {
			return i, true
		}
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return i, true
		}
	}
	return 0, false
}

// isControl reports whether a character is a control character that no command needs.
func isControl(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }

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
