package command

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/paddock-dev/paddock/internal/text"
)

// Shells execute the values of variables in unexpected places: the number in $((n)) may
// be the text 'a[$(command)]'. So the values that each variable can have are collected
// wherever it is assigned. A use that is safe only with a number, or only with a word that
// is not an option, is checked at the end.

// variable holds the values that a variable may have in one process.
type variable struct {
	values  []arg
	unknown bool // it may hold anything
	array   bool // it may be a list
}

// variable returns the record of a variable that the text assigns. It adds one if needed.
func (p *process) variable(name string) *variable {
	v := p.vars[name]
	if v == nil {
		v = &variable{}
		p.vars[name] = v
	}
	return v
}

// store adds a value that a variable may have.
func (p *process) store(name string, a arg) {
	v := p.variable(name)
	v.values = append(v.values, a)
}

// want is a kind of value that a use of a variable requires.
type want uint8

const (
	wantNumber want = iota
	wantWord        // one word that is not an option
	wantScalar      // not a list
)

// need is a use of a variable that requires something of its values.
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

// require records which kind of value a variable must have, for checkNeeds.
func (c *checker) require(name string, w want, at int, refusal Verdict) {
	if w == wantNumber && numberVars[name] {
		return
	}
	c.needs = append(c.needs, need{name, w, c, at, refusal})
}

// requireWord reports whether a word that is not constant is one word and not an option.
// For a variable this is checked once all its values are known.
func (c *checker) requireWord(a arg, refusal Verdict) bool {
	switch {
	case a.digits:
		return true
	case a.whole:
		c.require(a.lead, wantWord, a.at, refusal)
		return true
	}
	c.refuse(a.at, refusal.Rule, refusal.Command, refusal.Reason, refusal.Hint)
	return false
}

// checkNeeds checks the uses of variables, once all their values are known.
func (c *checker) checkNeeds() {
	check := func(one *checker) {
		for _, n := range one.needs {
			if c.denial == nil && !one.holds(n.name, n.want, 0) {
				n.refusal.Position = n.in.position(n.at)
				c.denial = &n.refusal
			}
		}
		for _, name := range slices.Sorted(maps.Keys(one.unset)) {
			if n := one.unset[name]; one.functions[name] {
				n.in.refuse(n.at, RuleFunction, name, "unset may remove the function "+name+", and then a program of that name would run", "use unset -v")
			}
		}
	}
	check(c)
	for _, in := range c.inner {
		check(in)
	}
}

// holds reports whether all values that a variable may have are of the wanted kind. A
// variable that the text does not assign comes from the environment, and may hold
// anything.
func (p *process) holds(name string, w want, depth int) bool {
	v := p.vars[name]
	switch {
	case w == wantScalar:
		return !lists[name] && (v == nil || !v.array)
	case w == wantWord && pathVars[name] && v == nil:
		return p.outer.inheritedHolds(name, w, depth)
	case v == nil || v.unknown || depth > 8:
		return false
	}
	for _, a := range v.values {
		if !p.valueSuits(a, w, depth) {
			return false
		}
	}
	return p.outer.inheritedHolds(name, w, depth)
}

// inheritedHolds reports whether the values that a shell may inherit from p are of the
// wanted kind, as far as p and the shells that started it assign them.
func (p *process) inheritedHolds(name string, w want, depth int) bool {
	if p == nil {
		return true
	}
	return !p.exported[name] && (p.vars[name] == nil || p.holds(name, w, depth+1)) && p.outer.inheritedHolds(name, w, depth)
}

// valueSuits reports whether a value is of the wanted kind.
func (p *process) valueSuits(a arg, w want, depth int) bool {
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

// isNumber reports whether a text is a whole number, or empty, which counts as 0.
func isNumber(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return len(digits) < 19 && strings.Trim(digits, "0123456789") == "" && (s == "" || digits != "")
}

// isRange reports whether a word is {1..10}.
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

// numericOutput reports whether a word is the output of a command that prints one
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

// printsNumber reports whether the last command of a substitution prints one number and
// nothing else.
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
	case "wc": // only of its input, since it also prints the name of a file
		return len(words) == 2 && (words[1] == "-l" || words[1] == "-c" || words[1] == "-w")
	case "date":
		return len(words) == 2 && words[1] == "+%s"
	}
	return false
}

// assignValue judges the value of an assignment, and stores it.
func (c *checker) assignValue(name string, a *syntax.Assign) {
	if a.Index != nil {
		c.index(a.Index)
	}
	if a.Index != nil || a.Array != nil {
		c.variable(name).array = true
	}
	c.word(a.Value)
	switch {
	case a.Array != nil:
		c.variable(name)
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				c.index(e.Index)
			}
			if e.Value != nil {
				c.word(e.Value)
				c.store(name, c.value(e.Value))
			}
		}
	case a.Value != nil:
		v := c.value(a.Value)
		if a.Append && !v.constant {
			c.variable(name).unknown = true
		}
		c.store(name, v)
	default:
		c.variable(name) // empty
	}
}

// assignTo refuses an assignment to a dangerous variable, or to an impossible name.
func (c *checker) assignTo(name string, at int, rule string) {
	switch {
	case !isName(name):
		c.refuse(at, rule, "", "the name of a variable must be letters, digits and underscores: "+quote(name), "")
	case DangerousVariable(name):
		c.refuse(at, rule, name, "setting "+name+" would change which programs run or what they do", "")
	}
}

// environment checks NAME=VALUE in front of a program, and reports whether a has that form.
func (c *checker) environment(a arg) bool {
	name, _, ok := strings.Cut(a.text, "=")
	if !ok {
		return false
	}
	if DangerousVariable(name) {
		c.refuse(a.at, RuleAssignment, name, "setting "+name+" would change which programs run or what they do", "")
	}
	c.exported[name] = true
	return true
}

// declaration is the state while the words of a declaration are checked.
type declaration struct {
	command string
	options bool // options may still follow
	array   bool // the names that follow become lists
}

// declare judges declare, export, local, readonly and typeset.
func (c *checker) declare(x *syntax.DeclClause) {
	d := declaration{command: x.Variant.Value, options: true}
	if d.command == "nameref" {
		c.refuse(offset(x), RuleBuiltin, d.command, "a name reference makes a variable an alias of another", "")
		return
	}
	for _, a := range x.Args {
		switch {
		case a.Name != nil:
			d.options = false
			name := a.Name.Value
			c.assignTo(name, offset(a), RuleAssignment)
			if !a.Naked || a.Index != nil || d.command != "export" && d.command != "readonly" { // export NAME and readonly NAME keep the value
				c.assignValue(name, a)
			}
			c.declared(&d, name)
			if a.Value != nil && mayBeList(c.value(a.Value)) {
				c.requireScalar(&d, name, offset(a))
			}
		case a.Value != nil:
			c.word(a.Value)
			c.declareWord(&d, c.value(a.Value))
		}
	}
}

// declared records that a name is a list, if the options of the declaration say so.
func (c *checker) declared(d *declaration, name string) {
	if d.array && isName(name) {
		c.variable(name).array = true
	}
}

// mayBeList reports whether a value may begin with a parenthesis. The builtin evaluates
// such a value as the elements of a list.
func mayBeList(v arg) bool {
	if v.text == "" {
		return !v.constant && !v.digits
	}
	return v.text[0] == '('
}

// requireScalar refuses a declaration if the name turns out to be a list.
func (c *checker) requireScalar(d *declaration, name string, at int) {
	c.require(name, wantScalar, at, Verdict{
		Rule: RuleBuiltin, Command: d.command, Reason: d.command + " executes commands in a value in parentheses if " + name + " is a list",
		Hint: "assign it without " + d.command,
	})
}

// declareWord checks a word of a declaration that the builtin parses, not the shell.
func (c *checker) declareWord(d *declaration, a arg) {
	if d.options && a.constant && len(a.text) > 1 && (a.text[0] == '-' || a.text[0] == '+') {
		if a.text == "--" {
			d.options = false
			return
		}
		if bad := strings.Trim(a.text[1:], "aAgprxlu"); bad != "" {
			c.refuse(a.at, RuleBuiltin, d.command, "the option -"+bad[:1]+" of "+d.command+" changes what names or values mean", "")
		}
		d.array = d.array || strings.ContainsAny(a.text, "aA")
		return
	}
	d.options = false
	name, value, ok := strings.Cut(a.text, "=")
	name = strings.TrimSuffix(name, "+")
	if !a.constant && !ok || a.many || !isName(name) {
		c.refuse(a.at, RuleBuiltin, d.command, d.command+" takes only plain names: "+quote(a.text), "write "+d.command+` name="value"`)
		return
	}
	c.assignTo(name, a.at, RuleAssignment)
	c.declared(d, name)
	if !ok {
		return
	}
	c.variable(name).unknown = true
	if mayBeList(arg{text: value, constant: a.constant}) {
		c.requireScalar(d, name, a.at)
	}
}

// quote quotes a text for a reason, shortened.
func quote(s string) string {
	return "'" + text.Truncate(s, 40) + "'"
}

// dangerousNames are the variables that decide which programs run, how the shell reads
// a text, or what other programs load and start.
var dangerousNames = map[string]bool{
	"PATH": true, "ENV": true, "SHELL": true, "IFS": true, "CDPATH": true, "HOME": true, "GLOBIGNORE": true,
	"EXECIGNORE": true, "POSIXLY_CORRECT": true, "SHELLOPTS": true, "PROMPT_COMMAND": true, "PROMPT_DIRTRIM": true,
	"PS0": true, "PS1": true, "PS2": true, "PS4": true, "HISTFILE": true, "HISTCMD": true, "HOSTFILE": true,
	"INPUTRC": true, "FCEDIT": true, "FUNCNEST": true, "DIRSTACK": true, "GROUPS": true, "FUNCNAME": true,
	// integers by nature: the shell evaluates values that are assigned to them
	"RANDOM": true, "SRANDOM": true, "SECONDS": true, "LINENO": true, "UID": true, "EUID": true, "PPID": true,
	"EPOCHSECONDS": true, "EPOCHREALTIME": true, "OPTIND": true,
	// editors, pagers, browsers
	"EDITOR": true, "VISUAL": true, "PAGER": true, "BROWSER": true, "MANOPT": true, "MANPATH": true, "LESS": true, "MORE": true, "EXINIT": true, "VIMINIT": true,
	// languages
	"NODE_OPTIONS": true, "NODE_PATH": true, "NODE_REPL_EXTERNAL_MODULE": true, "JAVA_TOOL_OPTIONS": true,
	"_JAVA_OPTIONS": true, "JDK_JAVA_OPTIONS": true, "CLASSPATH": true, "GOFLAGS": true, "GOENV": true, "GOTOOLCHAIN": true, "PHPRC": true, "PHP_INI_SCAN_DIR": true,
	"AWKPATH": true, "AWKLIBPATH": true, "TCLLIBPATH": true, "M4PATH": true, "MAKEFLAGS": true, "MAKEFILES": true, "MFLAGS": true, "GNUMAKEFLAGS": true,
	// the C library and similar ones
	"GCONV_PATH": true, "LOCPATH": true, "NLSPATH": true, "TERMINFO": true, "TERMINFO_DIRS": true, "TERMCAP": true,
	"GLIBC_TUNABLES": true, "HOSTALIASES": true, "RES_OPTIONS": true, "OPENSSL_CONF": true, "OPENSSL_ENGINES": true, "OPENSSL_MODULES": true,
	// programs that read options from the environment
	"TAR_OPTIONS": true, "ZIPOPT": true, "RSYNC_RSH": true, "CVS_RSH": true, "SSH_ASKPASS": true, "SUDO_ASKPASS": true,
	"XDG_CONFIG_HOME": true, "XDG_CONFIG_DIRS": true, "XDG_DATA_HOME": true, "XDG_DATA_DIRS": true, "CURL_HOME": true, "WGETRC": true, "NETRC": true,
}

// dangerousPrefixes are the beginnings of names of families of such variables.
var dangerousPrefixes = []string{
	"LD_", "DYLD_", "BASH", "GIT_", "GREP_", "LESS", "PERL", "RUBY", "PYTHON", "LUA_", "RUSTC", "CARGO_", "GPG_", "PIP_CONFIG",
	"RSYNC_", "SSH_", "COMP_", "MALLOC_",
}

// harmlessNames are members of those families that are not dangerous.
var harmlessNames = map[string]bool{
	"PYTHONUNBUFFERED": true, "PYTHONDONTWRITEBYTECODE": true, "PYTHONIOENCODING": true, "PYTHONUTF8": true,
	"PYTHONHASHSEED": true, "PYTHONOPTIMIZE": true, "PYTHONFAULTHANDLER": true, "PYTHONDEVMODE": true,
	"GIT_AUTHOR_NAME": true, "GIT_AUTHOR_EMAIL": true, "GIT_AUTHOR_DATE": true, "GIT_COMMITTER_NAME": true,
	"GIT_COMMITTER_EMAIL": true, "GIT_COMMITTER_DATE": true, "GIT_TERMINAL_PROMPT": true, "GREP_COLOR": true, "GREP_COLORS": true,
	"CARGO_TERM_COLOR": true, "LESSCHARSET": true,
}

// DangerousVariable reports whether a variable decides which programs run or what they
// do, as PATH and LD_PRELOAD do. A text that assigns it is refused, and the caller should
// not set it for a text either. The tables hold the known variables of this kind, and
// cannot be complete.
func DangerousVariable(name string) bool {
	if harmlessNames[name] {
		return false
	}
	if dangerousNames[name] || strings.HasSuffix(name, "PAGER") || strings.HasSuffix(name, "EDITOR") {
		return true
	}
	for _, prefix := range dangerousPrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasPrefix(strings.ToLower(name), "npm_config_")
}
