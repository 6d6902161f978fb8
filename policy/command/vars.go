package command

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Shells execute what they find in variables in more places than one would
// think: the number in $((n)) may be the text 'a[$(command)]'. So what each
// variable can hold is gathered, wherever it is assigned, and uses that need
// a number, or a word that is no option, are checked at the end.

// variable is all that a variable may hold in one process.
type variable struct {
	values  []arg
	unknown bool // it may hold anything
	array   bool // it may be a list
}

// variable is what is known of a name that the text assigns.
func (p *process) variable(name string) *variable {
	v := p.vars[name]
	if v == nil {
		v = &variable{}
		p.vars[name] = v
	}
	return v
}

// store notes a value.
func (p *process) store(name string, a arg) {
	v := p.variable(name)
	v.values = append(v.values, a)
}

// want is what a use makes of a variable.
type want uint8

const (
	wantNumber want = iota
	wantWord        // one word that is no option
	wantScalar      // no list
)

// need is a use of a variable that not every value suits.
type need struct {
	name    string
	want    want
	in      *checker
	at      int
	refusal Verdict
}

// numberVars are the variables that the shell sets to numbers by itself.
var numberVars = map[string]bool{
	"RANDOM": true, "SRANDOM": true, "SECONDS": true, "LINENO": true, "UID": true, "EUID": true,
	"PPID": true, "BASHPID": true, "EPOCHSECONDS": true,
}

// lists are the variables that are lists from the start.
var lists = map[string]bool{"PIPESTATUS": true, "MAPFILE": true, "COPROC": true, "DIRSTACK": true, "GROUPS": true, "FUNCNAME": true}

// pathVars are the variables that hold an absolute path from the start.
var pathVars = map[string]bool{"HOME": true, "PWD": true, "OLDPWD": true}

// require notes what a variable must be.
func (c *checker) require(name string, w want, at int, refusal Verdict) {
	if w == wantNumber && numberVars[name] {
		return
	}
	c.needs = append(c.needs, need{name, w, c, at, refusal})
}

// settle checks what was required of variables, once all is known.
func (c *checker) settle() {
	c.settleOne()
	for _, in := range c.inner {
		in.settleOne()
	}
}

func (c *checker) settleOne() {
	for _, n := range c.needs {
		if c.denial == nil && !c.holds(n.name, n.want, 0) {
			n.refusal.Position = n.in.position(n.at)
			c.denial = &n.refusal
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.unset)) {
		if n := c.unset[name]; c.functions[name] {
			n.in.refuse(n.at, RuleFunction, name, "unset may take the function "+name+" away, and a program of that name is left", "use unset -v")
		}
	}
}

// holds says whether all that a variable may hold is of the wanted kind. One
// that the text does not assign comes from the environment, and may be anything.
func (p *process) holds(name string, w want, depth int) bool {
	v := p.vars[name]
	switch {
	case w == wantScalar:
		return !lists[name] && (v == nil || !v.array)
	case w == wantWord && pathVars[name] && v == nil:
		return p.outer.hands(name, w, depth)
	case v == nil || v.unknown || depth > 8:
		return false
	}
	for _, a := range v.values {
		if !p.suits(a, w, depth) {
			return false
		}
	}
	return p.outer.hands(name, w, depth)
}

// hands says whether what a shell that is started may find in its environment
// is of the wanted kind, as far as the shell that starts it assigns it.
func (p *process) hands(name string, w want, depth int) bool {
	if p == nil {
		return true
	}
	return !p.handed[name] && (p.vars[name] == nil || p.holds(name, w, depth+1)) && p.outer.hands(name, w, depth)
}

func (p *process) suits(a arg, w want, depth int) bool {
	switch {
	case a.digits:
		return true
	case a.whole:
		return p.holds(a.lead, w, depth+1)
	case w == wantNumber:
		return isNumber(a.text) && (a.constant || isRange(a)) || numericOutput(a.word)
	case a.constant:
		return a.text != "" && a.text[0] != '-' && a.text != ";" && !strings.ContainsAny(a.text, " \t\n*?[")
	default:
		return !a.split && a.text != "" && a.text[0] != '-'
	}
}

// isNumber says whether the text is a whole number, or nothing, which counts as 0.
func isNumber(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return len(digits) < 19 && strings.Trim(digits, "0123456789") == "" && (s == "" || digits != "")
}

// isRange says whether a word is {1..10}.
func isRange(a arg) bool {
	if a.word == nil {
		return false
	}
	lit, ok := strings.CutPrefix(a.word.Lit(), "{")
	lit, closed := strings.CutSuffix(lit, "}")
	if !ok || !closed {
		return false
	}
	for _, end := range strings.Split(lit, "..") {
		if end == "" || !isNumber(end) {
			return false
		}
	}
	return strings.Contains(lit, "..")
}

// numericOutput says whether a word is the output of a command that prints one
// number and nothing else.
func numericOutput(w *syntax.Word) bool {
	if w == nil || len(w.Parts) != 1 {
		return false
	}
	part := w.Parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 && !q.Dollar {
		part = q.Parts[0]
	}
	s, ok := part.(*syntax.CmdSubst)
	return ok && printsNumber(s)
}

func printsNumber(s *syntax.CmdSubst) bool {
	if len(s.Stmts) != 1 {
		return false
	}
	cmd := s.Stmts[0].Cmd
	for {
		pipe, ok := cmd.(*syntax.BinaryCmd)
		if !ok || pipe.Op != syntax.Pipe {
			break
		}
		cmd = pipe.Y.Cmd
	}
	call, ok := cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	words := make([]string, len(call.Args))
	for i, w := range call.Args {
		if words[i] = w.Lit(); words[i] == "" {
			return false
		}
	}
	switch words[0] {
	case "wc": // of its input: the name of a file would be printed too
		return len(words) == 2 && (words[1] == "-l" || words[1] == "-c" || words[1] == "-w")
	case "date":
		return len(words) == 2 && words[1] == "+%s"
	}
	return false
}
