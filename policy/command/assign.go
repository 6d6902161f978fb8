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
	return true
}

// declare judges declare, export, local, readonly and typeset.
func (c *checker) declare(d *syntax.DeclClause) {
	name := d.Variant.Value
	if name == "nameref" {
		c.refuse(offset(d), RuleBuiltin, name, "a name reference makes one variable stand for another", "")
		return
	}
	options := true
	for _, a := range d.Args {
		switch {
		case a.Name != nil:
			options = false
			c.assignTo(a.Name.Value, offset(a), RuleAssignment)
			if a.Naked && a.Index == nil && (name == "export" || name == "readonly") {
				continue // the value stays
			}
			c.assignValue(a.Name.Value, a)
		case a.Value != nil:
			c.word(a.Value)
			v := c.value(a.Value)
			options = c.declareWord(name, v, options)
		}
	}
}

// declareWord judges a word of a declaration as the builtin gets it, and says
// whether options may still follow.
func (c *checker) declareWord(command string, a arg, options bool) bool {
	if options && a.constant && a.text == "--" {
		return false
	}
	if options && a.constant && len(a.text) > 1 && (a.text[0] == '-' || a.text[0] == '+') {
		if bad := strings.Trim(a.text[1:], "aAgprxlu"); bad != "" {
			c.refuse(a.at, RuleBuiltin, command, "the option -"+bad[:1]+" of "+command+" changes what names or values mean", "")
		}
		return true
	}
	name, _, ok := strings.Cut(a.text, "=")
	name = strings.TrimSuffix(name, "+")
	if !a.constant && !ok || a.split || !isName(name) {
		c.refuse(a.at, RuleBuiltin, command, command+" must be told plain names: "+quote(a.text), "write "+command+` name="value"`)
		return false
	}
	c.assignTo(name, a.at, RuleAssignment)
	if ok {
		c.variable(name).unknown = true
	}
	return false
}

// quote shows a text in a reason, shortened.
func quote(s string) string {
	if len(s) > 40 {
		s = strings.ToValidUTF8(s[:40], "") + "…"
	}
	return "'" + s + "'"
}
