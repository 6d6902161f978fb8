package command

import "strings"

// danger lists the options with which a program starts others.
type danger struct {
	short  string   // letters
	valued string   // other letters that take a value, so that it is not read as letters
	long   []string // names; every abbreviation counts
	words  []string // beginnings of any word
	bundle bool     // the first word may be a bundle of letters without a dash, as tar accepts it
}

// dangerous are the programs with such options.
var dangerous = map[string]danger{
	"sort":  {long: []string{"compress-program"}},
	"split": {long: []string{"filter"}},
	"tar": {short: "IF", valued: "bfCgHKLNTVX", bundle: true, long: []string{
		"checkpoint-action", "to-command", "use-compress-program", "rsh-command", "rmt-command", "info-script", "new-volume-script",
	}},
	"cpio":    {long: []string{"rsh-command"}},
	"rsync":   {short: "e", valued: "BMTf", long: []string{"rsh", "rsync-path"}},
	"zip":     {long: []string{"unzip-command"}, words: []string{"-TT"}},
	"ssh":     {short: "oFIS", valued: "BbcDEeiJLlmOpQRWw"},
	"scp":     {short: "oFSD", valued: "ciJlPX"},
	"man":     {short: "PHX", valued: "CRLmMSserEp", long: []string{"pager", "html", "gxditview", "config-file", "preprocessor"}},
	"less":    {short: "k", long: []string{"lesskey-file", "lesskey-src", "lesskey-content"}, words: []string{"+"}},
	"more":    {words: []string{"+"}},
	"vim":     {short: "cSsuUWw", long: []string{"cmd", "startuptime"}, words: []string{"+"}},
	"emacs":   {words: []string{"-"}},
	"gdb":     {words: []string{"-"}},
	"wget":    {long: []string{"use-askpass", "execute", "config"}, short: "e", valued: "aoOBPUQTtwiDIRAlX"},
	"ip":      {short: "b", long: []string{"batch"}, words: []string{"exec", "netn"}},
	"sqlite3": {words: []string{".", "-cmd", "-init", "--cmd", "--init"}},
	"openssl": {words: []string{"-engine", "-provider"}},
	"rg":      {long: []string{"pre", "hostname-bin"}},
	"fd":      {short: "xX", valued: "deEStcjoH", long: []string{"exec", "exec-batch"}},
	"fdfind":  {short: "xX", valued: "deEStcjoH", long: []string{"exec", "exec-batch"}},
	"install": {long: []string{"strip-program"}},
	"diff3":   {long: []string{"diff-program"}},
	"sdiff":   {long: []string{"diff-program"}},
}

// options refuses the options of d, and words that may turn out to be one.
func (c *checker) options(base string, d danger, args []arg) {
	skip := false
	for i, a := range args[1:] {
		if c.denial != nil {
			return
		}
		if skip && !a.many { // the value of an option, whatever it is
			skip = false
			continue
		}
		skip = false
		if a.constant && a.text == "--" && len(d.words) == 0 && !strings.HasPrefix(args[i].text, "-") {
			return // after an option it may be the option's value
		}
		named := !a.many && strings.HasPrefix(a.text, "--") && strings.Contains(a.text, "=") // --name=value: the name is sure
		if !a.constant && !named {
			c.requireNotOption(a, base)
		}
		for _, word := range d.words {
			if strings.HasPrefix(a.text, word) {
				c.refuseArgument(a, base, word)
			}
		}
		bundle := d.bundle && i == 0 && !strings.HasPrefix(a.text, "-")
		switch {
		case strings.HasPrefix(a.text, "--"):
			given, _, _ := strings.Cut(a.text[2:], "=")
			for _, name := range d.long {
				if given != "" && strings.HasPrefix(name, given) { // in full or shortened
					c.refuseArgument(a, base, "--"+name)
				}
			}
		case bundle:
			c.shortOptions(base, d, a, a.text)
		case len(a.text) > 1 && a.text[0] == '-':
			skip = c.shortOptions(base, d, a, a.text[1:])
		}
	}
}

// shortOptions refuses dangerous letters, and reports whether the next word is a value.
func (c *checker) shortOptions(base string, d danger, a arg, letters string) bool {
	for i := range len(letters) {
		if strings.IndexByte(d.short, letters[i]) >= 0 {
			c.refuseArgument(a, base, "-"+letters[i:i+1])
			return false
		}
		if strings.IndexByte(d.valued, letters[i]) >= 0 {
			return i == len(letters)-1
		}
	}
	return false
}

// refuseArgument refuses an argument that makes a program start others.
func (c *checker) refuseArgument(a arg, base, what string) {
	c.refuse(a.at, RuleArgument, base, "with "+what+" "+base+" starts other programs, or lets others be started", "leave it out")
}

// grammar says where a wrapper's own words end and the command begins.
type grammar struct {
	short    string // letters without a value
	valued   string // letters with one
	optional string // letters whose value, if any, is attached
	long     string // names without a value, with spaces between them
	longOf   string // names with one
	operands int    // words in front of the command
	assigns  bool   // NAME=value may stand in front of the command
	digits   bool   // -5 is an option
}

// wrapper judges the command that a wrapper starts.
func (c *checker) wrapper(base string, g grammar, args []arg) {
	if inner, ok := c.unwrap(base, g, args); ok && len(inner) > 0 {
		c.program(inner)
	}
}

// unwrap returns the words that follow a wrapper's own. It refuses an unknown option: the
// word after it may be its value or the command.
func (c *checker) unwrap(base string, g grammar, args []arg) (inner []arg, ok bool) {
	rest := args[1:]
	for len(rest) > 0 {
		a := rest[0]
		if !a.constant {
			if g.assigns && !a.split && strings.Contains(a.text, "=") && a.text[0] != '-' || g.operands > 0 && c.requireNotOption(a, base) {
				break
			}
			c.refuseWrapped(a, base)
			return nil, false
		}
		if len(a.text) < 2 || a.text[0] != '-' {
			break
		}
		rest = rest[1:]
		if a.text == "--" {
			break
		}
		if g.digits && isNumber(a.text[1:]) {
			continue
		}
		value, known := g.option(a.text)
		if !known {
			c.refuse(a.at, RuleWrapper, base, "the option "+quote(a.text)+" of "+base+" is unknown, so that what it starts cannot be checked", "")
			return nil, false
		}
		if value && len(rest) > 0 {
			if rest[0].many {
				c.refuseWrapped(rest[0], base)
				return nil, false
			}
			rest = rest[1:]
		}
	}
	for g.assigns && len(rest) > 0 && c.environment(rest[0]) {
		if rest[0].split {
			c.refuseWrapped(rest[0], base)
			return nil, false
		}
		rest = rest[1:]
	}
	for range g.operands {
		if len(rest) > 0 {
			if rest[0].many {
				c.refuseWrapped(rest[0], base)
				return nil, false
			}
			rest = rest[1:]
		}
	}
	return rest, c.denial == nil
}

// refuseWrapped refuses a word that is not constant, and may be the command.
func (c *checker) refuseWrapped(a arg, base string) {
	c.refuse(a.at, RuleName, base, "what "+base+" starts must be written out: "+c.source(a)+" is known only at run time", "")
}

// option reports whether an option is known, and whether the next word is its value.
func (g grammar) option(text string) (value, known bool) {
	if name, ok := strings.CutPrefix(text, "--"); ok {
		name, _, attached := strings.Cut(name, "=")
		switch {
		case hasWord(g.long, name):
			return false, true
		case hasWord(g.longOf, name):
			return !attached, true
		}
		return false, false
	}
	for i := 1; i < len(text); i++ {
		letter := text[i]
		switch {
		case strings.IndexByte(g.short, letter) >= 0:
		case strings.IndexByte(g.valued, letter) >= 0:
			return i == len(text)-1, true
		case strings.IndexByte(g.optional, letter) >= 0:
			return false, true
		default:
			return false, false
		}
	}
	return false, true
}

// hasWord reports whether a word is in a list with spaces between the words.
func hasWord(list, word string) bool {
	return strings.Contains(" "+list+" ", " "+word+" ") && word != ""
}
