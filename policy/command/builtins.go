package command

import "strings"

// builtin is a command of the shell itself.
type builtin struct {
	never string // why it is always refused
	hint  string
	bash  bool // only bash has it; other shells look for a program of this name
	check func(c *checker, args []arg)
}

// builtins are the builtins of bash. A builtin with neither a reason nor a check starts no
// program, whatever its arguments are.
var builtins map[string]builtin

func init() {
	const (
		runs  = "it executes text that is put together at run time"
		file  = "it executes what a file holds at run time"
		means = "it changes what the names of commands mean"
	)
	builtins = map[string]builtin{
		":": {}, "true": {}, "false": {}, "cd": {check: changeDir}, "pwd": {}, "echo": {}, "exit": {}, "return": {}, "break": {},
		"continue": {}, "shift": {}, "umask": {}, "times": {}, "type": {}, "kill": {}, "ulimit": {}, "bg": {}, "fg": {},
		"caller": {bash: true}, "dirs": {bash: true}, "disown": {bash: true}, "help": {bash: true}, "logout": {bash: true},
		"popd": {bash: true, check: changeDir}, "pushd": {bash: true, check: changeDir},
		"test": {check: testCommand}, "[": {check: testCommand},
		"read": {check: readNames}, "mapfile": {bash: true, check: mapfileNames}, "readarray": {bash: true, check: mapfileNames},
		"printf": {check: printfFormat}, "getopts": {check: getoptsName}, "unset": {check: unsetNames},
		"set": {check: setOptions}, "shopt": {bash: true, check: shoptNames}, "trap": {check: trapText},
		"command": {check: commandWords}, "wait": {check: waitWords},
		"jobs":   {check: func(c *checker, args []arg) { _, _, _ = c.flags(args, "lnprs", "") }},
		"hash":   {check: func(c *checker, args []arg) { _, _, _ = c.flags(args, "rt", "") }},
		"export": {check: declareWords}, "readonly": {check: declareWords}, "local": {check: declareWords},
		"declare": {bash: true, check: declareWords}, "typeset": {bash: true, check: declareWords},

		"eval":     {never: "eval is never allowed: " + runs, hint: "write the command itself"},
		"source":   {never: "source is never allowed: " + file, hint: "write the commands themselves", bash: true},
		".":        {never: ". is never allowed: " + file, hint: "write the commands themselves"},
		"exec":     {never: "exec is never allowed: it puts another program, or other files, in the place of the shell", hint: "leave exec out"},
		"alias":    {never: "alias is never allowed: " + means},
		"unalias":  {never: "unalias is never allowed: " + means},
		"builtin":  {never: "builtin is never allowed: it is only of use where names of commands are changed", hint: "leave it out", bash: true},
		"enable":   {never: "enable is never allowed: " + means, bash: true},
		"bind":     {never: "bind is never allowed: it ties commands to keys", bash: true},
		"complete": {never: "complete is never allowed: it names commands that run later", bash: true},
		"compgen":  {never: "compgen is never allowed: " + runs, bash: true},
		"compopt":  {never: "compopt is never allowed: it names commands that run later", bash: true},
		"fc":       {never: "fc is never allowed: " + runs},
		"history":  {never: "history is never allowed: " + runs, bash: true},
		"suspend":  {never: "suspend is never allowed: nobody wakes the shell", bash: true},
		"let":      {never: "let is never allowed: it evaluates words as arithmetic", hint: "use $(( ))", bash: true},
	}
}

// names refuses words that are not plain names of variables, and notes that these may
// hold anything.
func (c *checker) names(command string, args []arg) {
	for _, a := range args {
		if !a.constant || !isName(a.text) {
			c.refuse(a.at, RuleBuiltin, command, command+" takes only plain names of variables: "+quote(a.text), "")
			return
		}
		c.assignTo(a.text, a.at, RuleAssignment)
		c.variable(a.text).unknown = true
	}
}

// flags splits off the options of a builtin, which must be constant: plain letters, and
// valued ones. It returns their values by letter.
func (c *checker) flags(args []arg, plain, valued string) (values map[byte]arg, rest []arg, ok bool) {
	name := args[0].text
	values = make(map[byte]arg)
	for rest = args[1:]; len(rest) > 0; {
		a := rest[0]
		if !a.constant && !c.requireNotOption(a, name) {
			return nil, nil, false
		}
		if !a.constant || len(a.text) < 2 || a.text[0] != '-' {
			return values, rest, true
		}
		rest = rest[1:]
		if a.text == "--" {
			return values, rest, true
		}
		for i := 1; i < len(a.text); i++ {
			letter := a.text[i]
			if strings.IndexByte(plain, letter) >= 0 {
				values[letter] = a
				continue
			}
			if strings.IndexByte(valued, letter) < 0 {
				c.refuse(a.at, RuleBuiltin, name, "the option -"+string(letter)+" of "+name+" cannot be judged", "")
				return nil, nil, false
			}
			value := arg{text: a.text[i+1:], constant: true, at: a.at}
			if value.text == "" && len(rest) > 0 {
				value, rest = rest[0], rest[1:]
			}
			if value.many {
				c.refuse(value.at, RuleBuiltin, name, "this may become several words, and options of "+name+": "+c.source(value), "put it in double quotes")
				return nil, nil, false
			}
			values[letter] = value
			break
		}
	}
	return values, rest, true
}

// requireNotOption reports whether a word that is not constant is one word and not an
// option. For a variable this is checked once all its values are known.
func (c *checker) requireNotOption(a arg, command string) bool {
	refusal := Verdict{
		Rule: RuleArgument, Command: command,
		Reason: "an argument of " + command + " is known only at run time, and may be an option that starts programs: " + c.source(a),
		Hint:   "put -- in front of it, or ./ where it is a file",
	}
	switch {
	case a.constant || a.digits:
		return true
	case a.lead != "" && (a.whole || !a.split):
		c.require(a.lead, wantWord, a.at, refusal)
		return true
	case !a.split && a.text != "" && a.text[0] != '-':
		return true
	}
	c.refuse(a.at, refusal.Rule, command, refusal.Reason, refusal.Hint)
	return false
}

// source returns a word as it is written, quoted and shortened.
func (c *checker) source(a arg) string {
	if a.word == nil {
		return quote(a.text)
	}
	from, to := offset(a.word), int(a.word.End().Offset())
	if from > to || to > len(c.text) {
		return quote(a.text)
	}
	return quote(c.text[from:to])
}

// homeOf returns a word as it is written if it names the home of some user, else "".
func (c *checker) homeOf(a arg) string {
	if !a.home {
		return ""
	}
	return strings.Trim(c.source(a), "'")
}

// changeDir notes where cd, pushd and popd go, for [Paths].
func changeDir(c *checker, args []arg) {
	target := pathWord{kind: pathChange, command: args[0].text, in: c, at: args[0].at}
	for _, a := range args[1:] {
		if a.constant && len(a.text) > 1 && a.text[0] == '-' {
			continue
		}
		target.text, target.constant, target.home, target.at = a.text, a.constant, c.homeOf(a), a.at
		break
	}
	c.words = append(c.words, target)
}

// readNames judges read.
func readNames(c *checker, args []arg) {
	values, names, ok := c.flags(args, "ers", "adinNptu")
	if !ok {
		return
	}
	if list, given := values['a']; given {
		names = append([]arg{list}, names...)
		c.variable(list.text).array = true
	}
	c.names("read", names)
	c.variable("REPLY").unknown = true
}

// mapfileNames judges mapfile and readarray.
func mapfileNames(c *checker, args []arg) {
	if _, names, ok := c.flags(args, "t", "dnOsu"); ok {
		c.names(args[0].text, names)
		for _, a := range names {
			c.variable(a.text).array = true
		}
		c.variable("MAPFILE").unknown = true
	}
}

// printfFormat judges printf, which can assign to a variable.
func printfFormat(c *checker, args []arg) {
	values, rest, ok := c.flags(args, "", "v")
	if !ok {
		return
	}
	if len(rest) > 0 && rest[0].many {
		c.refuse(rest[0].at, RuleBuiltin, "printf", "the format of printf may be an option: "+c.source(rest[0]), "put it in double quotes, after --")
	}
	if name, given := values['v']; given {
		c.names("printf", []arg{name})
	}
}

// getoptsName judges getopts.
func getoptsName(c *checker, args []arg) {
	if len(args) > 1 && args[1].many || len(args) > 2 && !args[2].constant {
		c.refuse(args[1].at, RuleBuiltin, "getopts", "getopts takes only constant words", "")
		return
	}
	if len(args) > 2 {
		c.names("getopts", args[2:3])
		c.variable("OPTARG").unknown = true
	}
}

// unsetNames judges unset, which can remove functions too.
func unsetNames(c *checker, args []arg) {
	values, names, ok := c.flags(args, "v", "")
	if !ok {
		return
	}
	for _, a := range names {
		if !a.constant || !isName(a.text) || DangerousVariable(a.text) {
			c.refuse(a.at, RuleBuiltin, "unset", "unset takes only plain names of harmless variables: "+quote(a.text), "")
			return
		}
		if _, variables := values['v']; !variables {
			c.unset[a.text] = need{name: a.text, in: c, at: a.at}
		}
	}
}

// declareWords judges a declaration that the parser has parsed as a plain command.
func declareWords(c *checker, args []arg) {
	d := declaration{command: args[0].text, options: true}
	for _, a := range args[1:] {
		c.declareWord(&d, a)
	}
}

// trapText judges the text that a trap executes later, in this shell.
func trapText(c *checker, args []arg) {
	_, rest, ok := c.flags(args, "lp", "")
	if !ok || len(rest) < 2 {
		return
	}
	action := rest[0]
	if !action.constant {
		c.refuse(action.at, RuleBuiltin, "trap", "the text of a trap must be constant", "put it in single quotes")
		return
	}
	if action.text != "-" {
		c.nested(action, action.text, true, c.lang)
	}
}

// commandWords judges the program that the builtin command starts, which is never a function.
func commandWords(c *checker, args []arg) {
	values, rest, ok := c.flags(args, "vV", "")
	if !ok || len(values) > 0 || len(rest) == 0 {
		return
	}
	c.simple(rest, false)
}

// waitWords judges wait, which can assign to a variable.
func waitWords(c *checker, args []arg) {
	if values, _, ok := c.flags(args, "fn", "p"); ok && values['p'].at > 0 {
		c.names("wait", []arg{values['p']})
	}
}

// The options of the shell that change neither the meaning of a text nor which programs run.
var (
	setLetters = "abCefhmnuvxET"
	setNames   = map[string]bool{
		"allexport": true, "errexit": true, "errtrace": true, "functrace": true, "hashall": true, "monitor": true,
		"noclobber": true, "noexec": true, "noglob": true, "notify": true, "nounset": true, "pipefail": true,
		"verbose": true, "xtrace": true,
	}
	shoptHarmless = map[string]bool{
		"nullglob": true, "globstar": true, "dotglob": true, "nocaseglob": true, "nocasematch": true, "failglob": true,
		"inherit_errexit": true, "lastpipe": true, "globasciiranges": true,
	}
)

// setOptions judges the options of set. The positional parameters follow them.
func setOptions(c *checker, args []arg) {
	for rest := args[1:]; len(rest) > 0; {
		a := rest[0]
		if !a.constant {
			c.requireNotOption(a, "set")
			return
		}
		if a.text == "--" || a.text == "-" || len(a.text) < 2 || a.text[0] != '-' && a.text[0] != '+' {
			return
		}
		rest = rest[1:]
		letters := strings.TrimSuffix(a.text[1:], "o")
		if bad := strings.Trim(letters, setLetters); bad != "" {
			c.refuseOption(a, "set", a.text[:1]+bad[:1])
			return
		}
		if letters == a.text[1:] {
			continue
		}
		if len(rest) == 0 {
			return // it prints all options
		}
		if !rest[0].constant || !setNames[rest[0].text] {
			c.refuseOption(rest[0], "set", a.text[:1]+"o "+rest[0].text)
			return
		}
		rest = rest[1:]
	}
}

// refuseOption refuses an option that changes the meaning of texts.
func (c *checker) refuseOption(a arg, command, option string) {
	c.refuse(a.at, RuleBuiltin, command, command+" "+option+" changes what texts mean", "")
}

// shoptNames refuses the options of shopt that are not known to be harmless.
func shoptNames(c *checker, args []arg) {
	values, names, ok := c.flags(args, "pqsuo", "")
	if !ok {
		return
	}
	for _, a := range names {
		known := shoptHarmless[a.text]
		if _, set := values['o']; set {
			known = setNames[a.text]
		}
		if !a.constant || !known {
			c.refuseOption(a, "shopt", a.text)
			return
		}
	}
}
