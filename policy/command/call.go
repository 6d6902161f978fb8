package command

import (
	"mvdan.cc/sh/v3/syntax"
)

// call judges a simple command of the shell.
func (c *checker) call(x *syntax.CallExpr) {
	args := make([]arg, len(x.Args))
	for i, w := range x.Args {
		c.word(w)
		args[i] = c.value(w)
	}
	reads := len(args) > 0 && args[0].constant && args[0].text == "read"
	for _, a := range x.Assigns {
		if reads && a.Name.Value == "IFS" { // for this command alone, and it starts none
			c.word(a.Value)
			continue
		}
		c.assign(a)
	}
	if len(args) > 0 && c.denial == nil {
		c.simple(args, true)
	}
}

// simple judges a command by its words; functions says whether its name may be
// that of a function.
func (c *checker) simple(args []arg, functions bool) {
	name := args[0]
	if !c.named(name) || !c.counted(name.at) {
		return
	}
	if functions && c.functions[name.text] {
		return
	}
	if len(c.rules.allow) == 0 { // refuses what need not be listed, too
		c.allowed(name.text, name)
		return
	}
	b, ok := builtins[name.text]
	if !ok || c.lang == syntax.LangPOSIX && b.bash {
		c.program(args)
		return
	}
	switch {
	case b.never != "":
		c.refuse(name.at, RuleBuiltin, name.text, b.never, b.hint)
	case b.check != nil:
		b.check(c, args)
	}
}

// named refuses a command whose name is not written out.
func (c *checker) named(name arg) bool {
	if name.constant {
		return true
	}
	c.refuse(name.at, RuleName, name.text, "the name of a command must be written out: this one exists at run time alone",
		"write the name of the program itself")
	return false
}

// counted bounds the commands of one text.
func (c *checker) counted(at int) bool {
	if c.commands++; c.commands <= maxCommands {
		return true
	}
	c.refuse(at, RuleSize, "", "it has more than 4096 commands", "put it into a file of the workspace")
	return false
}
