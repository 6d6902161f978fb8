package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word judges everything that is executed to make a word out of what is written.
func (c *checker) word(w *syntax.Word) {
	if w != nil {
		c.parts(w.Parts)
	}
}

func (c *checker) parts(parts []syntax.WordPart) {
	for _, part := range parts {
		if c.denial != nil {
			return
		}
		c.part(part)
	}
}

func (c *checker) part(part syntax.WordPart) {
	switch p := part.(type) {
	case *syntax.Lit, *syntax.SglQuoted:
	case *syntax.DblQuoted:
		if p.Dollar {
			c.refuse(offset(p), RuleParse, "", "Failed to parse command: a translation is found at run time, and executed", "leave out the dollar sign in front of the quotes")
			return
		}
		c.quoted(p.Parts)
	case *syntax.CmdSubst:
		if p.TempFile || p.ReplyVar {
			c.refuse(offset(p), RuleParse, "", "Failed to parse command: not every bash knows this kind of substitution", "use $( )")
			return
		}
		c.deeper(offset(p), func() { c.scope(p.Stmts) })
	case *syntax.ProcSubst:
		judge := func() { c.scope(p.Stmts) }
		c.deeper(offset(p), func() {
			if p.Op == syntax.CmdOut {
				c.feeding(judge)
			} else {
				judge()
			}
		})
	case *syntax.ParamExp:
		c.deeper(offset(p), func() { c.param(p) })
	case *syntax.ArithmExp:
		c.arithmetic(p.X)
	case *syntax.ExtGlob:
		c.refuse(offset(p), RuleParse, "", "Failed to parse command: bash knows such patterns with the option extglob alone", "use a plain pattern, or find")
	default:
		c.refuse(offset(p), RuleParse, "", "Failed to parse command: this word is not known here", "")
	}
}

// quoted judges what stands between double quotes. There, single quotes in
// ${x:-'…'} are letters to the shell, whatever the parser makes of them.
func (c *checker) quoted(parts []syntax.WordPart) {
	c.unquotable(parts)
	c.parts(parts)
}

// unquotable refuses such single quotes.
func (c *checker) unquotable(parts []syntax.WordPart) {
	for _, part := range parts {
		p, ok := part.(*syntax.ParamExp)
		if !ok {
			continue
		}
		var words []*syntax.Word
		if p.Exp != nil {
			words = append(words, p.Exp.Word)
		}
		if p.Repl != nil {
			words = append(words, p.Repl.Orig, p.Repl.With)
		}
		for _, w := range words {
			if w == nil {
				continue
			}
			for _, inner := range w.Parts {
				if q, ok := inner.(*syntax.SglQuoted); ok && (q.Dollar || strings.ContainsAny(q.Value, "$`\"\\{}")) {
					c.refuse(offset(q), RuleParse, "", "Failed to parse command: single quotes do not quote here, between double quotes", "put the text into a variable of its own")
					return
				}
			}
			c.unquotable(w.Parts)
		}
	}
}

// deeper guards against nesting beyond the bound.
func (c *checker) deeper(at int, f func()) {
	c.depth++
	if !c.tooDeep(at) {
		f()
	}
	c.depth--
}

// transformations are the letters after @ that only change how a value is
// written; @P executes what is in it.
const transformations = "QUuLEaAKk"

// param judges the expansion of a variable.
func (c *checker) param(p *syntax.ParamExp) {
	at := offset(p)
	if p.NestedParam != nil || p.Flags != nil || p.Width || p.IsSet || len(p.Modifiers) > 0 || p.Param == nil {
		c.refuse(at, RuleParse, "", "Failed to parse command: this is another shell's expansion", "")
		return
	}
	if p.Excl && p.Names == 0 && (!isList(p.Index) || p.Exp != nil || p.Repl != nil || p.Slice != nil) {
		c.refuse(at, RuleArithmetic, "", "${!"+p.Param.Value+"} looks up a name that exists at run time alone, and executes what it holds",
			"name the variable, or use case")
		return
	}
	if p.Index != nil {
		c.index(p.Index)
	}
	if p.Slice != nil {
		c.arithmetic(p.Slice.Offset)
		c.arithmetic(p.Slice.Length)
	}
	if p.Repl != nil {
		c.word(p.Repl.Orig)
		c.word(p.Repl.With)
	}
	if p.Exp != nil {
		c.paramDefault(p, at)
	}
}

func (c *checker) paramDefault(p *syntax.ParamExp, at int) {
	c.word(p.Exp.Word)
	switch p.Exp.Op {
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		c.assignTo(p.Param.Value, at, RuleAssignment)
		if p.Exp.Word != nil && len(p.Exp.Word.Parts) > 0 {
			c.store(p.Param.Value, c.value(p.Exp.Word))
		}
		v := c.variable(p.Param.Value)
		v.array = v.array || p.Index != nil
	case syntax.OtherParamOps:
		letter := ""
		if p.Exp.Word != nil {
			letter = p.Exp.Word.Lit()
		}
		if len(letter) != 1 || !strings.Contains(transformations, letter) {
			c.refuse(at, RuleBuiltin, "", "${"+p.Param.Value+"@"+letter+"} executes what the variable holds", "")
		}
	}
}
