package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arithmetic judges an expression. Words in it must be numbers, or variables
// that hold nothing else.
func (c *checker) arithmetic(x syntax.ArithmExpr) {
	if x == nil || c.denial != nil {
		return
	}
	c.deeper(offset(x), func() {
		switch x := x.(type) {
		case *syntax.BinaryArithm:
			c.arithmeticBinary(x)
		case *syntax.UnaryArithm:
			if x.Op == syntax.Inc || x.Op == syntax.Dec {
				c.arithmeticAssign(x.X)
			}
			c.arithmetic(x.X)
		case *syntax.ParenArithm:
			c.arithmetic(x.X)
		case *syntax.Word:
			c.arithmeticWord(x)
		default:
			c.refuseArithmetic(offset(x))
		}
	})
}

// arithmeticBinary follows long sums to the left without going deeper.
func (c *checker) arithmeticBinary(x *syntax.BinaryArithm) {
	for {
		if isAssignment(x.Op) {
			c.arithmeticAssign(x.X)
		}
		c.arithmetic(x.Y)
		left, ok := x.X.(*syntax.BinaryArithm)
		if !ok {
			break
		}
		x = left
	}
	if x.Op != syntax.Assgn {
		c.arithmetic(x.X)
	} else if p := paramOf(x.X); p != nil && p.Index != nil {
		c.index(p.Index)
	}
}

func isAssignment(op syntax.BinAritOperator) bool {
	switch op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
		syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn,
		syntax.AndBoolAssgn, syntax.OrBoolAssgn, syntax.XorBoolAssgn, syntax.PowAssgn:
		return true
	}
	return false
}

// arithmeticAssign judges what is on the left of an assignment: a name, or an
// element. It becomes a number.
func (c *checker) arithmeticAssign(x syntax.ArithmExpr) {
	w, ok := x.(*syntax.Word)
	if !ok {
		c.refuseArithmetic(offset(x))
		return
	}
	name, element := w.Lit(), false
	if p := paramOf(x); p != nil && p.Param != nil && !p.Dollar.IsValid() {
		name, element = p.Param.Value, true
	}
	if !isName(name) {
		c.refuseArithmetic(offset(x))
		return
	}
	c.assignTo(name, offset(x), RuleAssignment)
	v := c.variable(name)
	v.array = v.array || element
}

func paramOf(x syntax.ArithmExpr) *syntax.ParamExp {
	if w, ok := x.(*syntax.Word); ok && len(w.Parts) == 1 {
		p, _ := w.Parts[0].(*syntax.ParamExp)
		return p
	}
	return nil
}

// index judges a subscript.
func (c *checker) index(x syntax.ArithmExpr) {
	if !isList(x) {
		c.arithmetic(x)
	}
}

func (c *checker) arithmeticWord(w *syntax.Word) {
	if lit := w.Lit(); isName(lit) {
		c.requireNumber(lit, offset(w))
		return
	}
	for _, part := range w.Parts {
		c.arithmeticPart(part)
	}
}

func (c *checker) arithmeticPart(part syntax.WordPart) {
	switch p := part.(type) {
	case *syntax.Lit:
		if !isNumeral(p.Value) {
			c.refuseArithmetic(offset(p))
		}
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			c.arithmeticPart(inner)
		}
	case *syntax.ArithmExp:
		c.arithmetic(p.X)
	case *syntax.CmdSubst:
		c.part(p)
		if !printsNumber(p) {
			c.refuseArithmetic(offset(p))
		}
	case *syntax.ParamExp:
		c.arithmeticParam(p)
	default:
		c.refuseArithmetic(offset(p))
	}
}

func (c *checker) arithmeticParam(p *syntax.ParamExp) {
	c.param(p)
	name := simpleParam(p)
	switch {
	case isNumberParam(p):
	case isName(name):
		c.requireNumber(name, offset(p))
	case p.Index != nil && p.Param != nil && isName(p.Param.Value) && !p.Excl && p.Exp == nil && p.Repl == nil && p.Slice == nil:
		c.requireNumber(p.Param.Value, offset(p))
	case p.Exp != nil && isName(p.Param.Value) && isDefault(p.Exp.Op) && p.Exp.Word != nil && p.Exp.Word.Lit() != "" && isNumber(p.Exp.Word.Lit()):
		c.requireNumber(p.Param.Value, offset(p))
	default:
		c.refuseArithmetic(offset(p))
	}
}

func isDefault(op syntax.ParExpOperator) bool {
	return op == syntax.DefaultUnset || op == syntax.DefaultUnsetOrNull
}

// isNumeral says whether the text is a number as arithmetic writes it: 10,
// 0x1f, 2#101.
func isNumeral(s string) bool {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return false
	}
	return strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ#") == ""
}

const (
	arithmeticReason = "arithmetic executes what the text in it holds, and here it is not sure to be a number"
	arithmeticHint   = `give the variable a number in this text first, or compare with [ "$x" -gt 0 ]`
)

func (c *checker) requireNumber(name string, at int) {
	c.require(name, wantNumber, at, Verdict{Rule: RuleArithmetic, Reason: arithmeticReason, Hint: arithmeticHint})
}

func (c *checker) refuseArithmetic(at int) {
	c.refuse(at, RuleArithmetic, "", arithmeticReason, arithmeticHint)
}
