package command

import (
	"bytes"
	"errors"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// checker judges one text, or one argument list.
type checker struct {
	*run
	*process
	text      string
	lang      syntax.LangVariant
	argv      bool     // it is an argument list
	outer     *checker // of the text in which this one stands, nil for the outermost
	place     int      // where it stands there
	depth     int
	stdinText bool // standard input is a text that is made here, or at run time
}

// process holds the functions and variables of one shell, which may run several texts.
type process struct {
	functions map[string]bool
	vars      map[string]*variable
	needs     []need
	unset     map[string]need // what unset was told, without -v
	exported  map[string]bool // variables that commands are given in their environment
	outer     *process        // the shell whose variables may be in the environment
}

func newProcess(outer *process) *process {
	return &process{
		functions: make(map[string]bool), vars: make(map[string]*variable), unset: make(map[string]need),
		exported: make(map[string]bool), outer: outer,
	}
}

// Shell judges a text that bash is to run.
func (r *Rules) Shell(text string) Verdict { return r.shell(text, syntax.LangBash, DialectBash) }

// ShellPOSIX judges a text that a shell without bash's extensions is to run,
// as /bin/sh is on many systems.
func (r *Rules) ShellPOSIX(text string) Verdict {
	return r.shell(text, syntax.LangPOSIX, DialectPOSIX)
}

// shell judges a text and then, since the printed form is what runs, the printed
// form: the verdicts must be the same.
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
	if s.denial == nil {
		script = c.print(file)
	}
	return script, s.verdict(dialect, script)
}

var printers = sync.Pool{New: func() any { return syntax.NewPrinter() }}

// parsers and printers are kept: making them costs more than an ordinary check.
var parsers = map[syntax.LangVariant]*sync.Pool{
	syntax.LangBash:  {New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }},
	syntax.LangPOSIX: {New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangPOSIX)) }},
}

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
	file, err := parse(parser, c.text)
	if err != nil {
		c.refuseParse(err)
		return nil
	}
	pool.Put(parser)
	return file
}

// parse turns a panic of the parser into an error: no text may end the program.
func parse(parser *syntax.Parser, text string) (file *syntax.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the parser gave up")
		}
	}()
	return parser.Parse(strings.NewReader(text), "")
}

// joinedComment finds a line that may be a comment and ends with a backslash,
// which joins the next line for the parser, and not for a shell.
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

// openers finds the place where a text has more opening brackets and keywords
// than it may. The parser recurses for each, without a bound of its own.
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

func (c *checker) refuseParse(err error) {
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
}

// print writes the tree out again.
func (c *checker) print(file *syntax.File) string {
	printer, _ := printers.Get().(*syntax.Printer)
	var b bytes.Buffer
	if err := printFile(printer, &b, file); err != nil {
		c.refuse(0, RuleParse, "", "Failed to parse command: "+err.Error(), "")
		return ""
	}
	printers.Put(printer)
	return b.String()
}

func printFile(printer *syntax.Printer, b *bytes.Buffer, file *syntax.File) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("it cannot be written out")
		}
	}()
	return printer.Print(b, file)
}

// refuse records the first refusal.
func (c *checker) refuse(at int, rule, command, reason, hint string) {
	if c.denial != nil {
		return
	}
	c.denial = &Verdict{Rule: rule, Command: command, Reason: reason, Hint: hint, Position: c.position(at)}
}

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

// nested judges a text that stands in an argument. Where no shell is named
// that is sure to be bash, it must be harmless in both dialects.
func (c *checker) nested(a arg, text string, same bool, dialectsOf ...syntax.LangVariant) {
	for _, lang := range dialectsOf {
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
			in.stmts(file.Stmts) // nobody knows when it runs: it defines nothing
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
