package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// assign judges name=value.
func (c *checker) assign(a *syntax.Assign) {
	if a.Name == nil {
		c.word(a.Value)
		return
	}
	name := a.Name.Value
	c.assignTo(name, offset(a), RuleAssignment)
	c.assignValue(name, a)
}

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

// assignTo refuses variables that steer, and names that no variable has.
func (c *checker) assignTo(name string, at int, rule string) {
	switch {
	case !isName(name):
		c.refuse(at, rule, "", "the name of a variable must be letters, digits and underscores: "+quote(name), "")
	case steers(name):
		c.refuse(at, rule, name, "setting "+name+" would steer what other commands are or do", "")
	}
}

// environment judges NAME=VALUE as programs take it, and says whether a is one.
func (c *checker) environment(a arg) bool {
	name, _, ok := strings.Cut(a.text, "=")
	if !ok {
		return false
	}
	if steers(name) {
		c.refuse(a.at, RuleAssignment, name, "setting "+name+" would steer what other commands are or do", "")
	}
	c.handed[name] = true
	return true
}

// declaration is how far a declaration was read.
type declaration struct {
	command string
	options bool // options may still follow
	array   bool // the names that follow become lists
}

// declare judges declare, export, local, readonly and typeset.
func (c *checker) declare(x *syntax.DeclClause) {
	d := declaration{command: x.Variant.Value, options: true}
	if d.command == "nameref" {
		c.refuse(offset(x), RuleBuiltin, d.command, "a name reference makes one variable stand for another", "")
		return
	}
	for _, a := range x.Args {
		switch {
		case a.Name != nil:
			d.options = false
			name := a.Name.Value
			c.assignTo(name, offset(a), RuleAssignment)
			if !a.Naked || a.Index != nil || d.command != "export" && d.command != "readonly" { // else the value stays
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

// declared notes that a name is a list.
func (c *checker) declared(d *declaration, name string) {
	if d.array && isName(name) {
		c.variable(name).array = true
	}
}

// mayBeList says whether a value may begin with a parenthesis: for a list the
// builtin evaluates what follows.
func mayBeList(v arg) bool {
	if v.text == "" {
		return !v.constant && !v.digits
	}
	return v.text[0] == '('
}

func (c *checker) requireScalar(d *declaration, name string, at int) {
	c.require(name, wantScalar, at, Verdict{
		Rule: RuleBuiltin, Command: d.command, Reason: d.command + " executes what a value in parentheses holds where " + name + " is a list",
		Hint: "assign it without " + d.command,
	})
}

// declareWord judges a word of a declaration as the builtin gets it.
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
		c.refuse(a.at, RuleBuiltin, d.command, d.command+" must be told plain names: "+quote(a.text), "write "+d.command+` name="value"`)
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

// quote shows a text in a reason, shortened.
func quote(s string) string {
	if len(s) > 40 {
		s = strings.ToValidUTF8(s[:40], "") + "…"
	}
	return "'" + s + "'"
}
