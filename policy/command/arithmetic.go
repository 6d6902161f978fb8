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

// arithmeticBinary judges a long sum in a loop, since its tree is deep on the left side.
func (c *checker) arithmeticBinary(x *syntax.BinaryArithm) {
	for {
		switch x.Op {
		case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
			syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn,
			syntax.AndBoolAssgn, syntax.OrBoolAssgn, syntax.XorBoolAssgn, syntax.PowAssgn:
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

// arithmeticAssign judges the left side of an assignment: a name, or an
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

// paramOf returns the expansion that is all of an expression, or nil.
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

// arithmeticWord judges a word in an expression, which must be a number.
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

// arithmeticParam judges the expansion of a variable in an expression.
func (c *checker) arithmeticParam(p *syntax.ParamExp) {
	c.param(p)
	name := simpleParam(p)
	switch {
	case isNumberParam(p):
	case isName(name):
		c.requireNumber(name, offset(p))
	case p.Index != nil && p.Param != nil && isName(p.Param.Value) && !p.Excl && p.Exp == nil && p.Repl == nil && p.Slice == nil:
		c.requireNumber(p.Param.Value, offset(p))
	case p.Exp != nil && isName(p.Param.Value) && (p.Exp.Op == syntax.DefaultUnset || p.Exp.Op == syntax.DefaultUnsetOrNull) && p.Exp.Word != nil && p.Exp.Word.Lit() != "" && isNumber(p.Exp.Word.Lit()):
		c.requireNumber(p.Param.Value, offset(p))
	default:
		c.refuseArithmetic(offset(p))
	}
}

// isNumeral reports whether a text is a number as arithmetic writes it: 10, 0x1f, 2#101.
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

// requireNumber refuses an expression if a variable turns out not to be a number.
func (c *checker) requireNumber(name string, at int) {
	c.require(name, wantNumber, at, Verdict{Rule: RuleArithmetic, Reason: arithmeticReason, Hint: arithmeticHint})
}

func (c *checker) refuseArithmetic(at int) {
	c.refuse(at, RuleArithmetic, "", arithmeticReason, arithmeticHint)
}

// test judges [[ … ]]: it compares numbers by arithmetic, and its -v and -R look up
// names.
func (c *checker) test(x syntax.TestExpr) {
	if x == nil || c.denial != nil {
		return
	}
	c.deeper(offset(x), func() {
		switch x := x.(type) {
		case *syntax.ParenTest:
			c.test(x.X)
		case *syntax.UnaryTest:
			if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
				c.testName(x.X)
			}
			c.test(x.X)
		case *syntax.BinaryTest:
			c.testBinary(x)
		case *syntax.Word:
			c.testWord(x)
		default:
			c.refuse(offset(x), RuleParse, "", "Failed to parse command: unknown condition", "")
		}
	})
}

// testBinary judges an operator with two operands.
func (c *checker) testBinary(x *syntax.BinaryTest) {
	switch x.Op {
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		for _, side := range []syntax.TestExpr{x.X, x.Y} {
			w, ok := side.(*syntax.Word)
			if !ok {
				c.refuseArithmetic(offset(side))
				return
			}
			if !isNumber(w.Lit()) || w.Lit() == "" {
				c.arithmeticWord(w)
			}
		}
	default:
		c.test(x.X)
		c.test(x.Y)
	}
}

// testWord judges an operand. In [[ … ]] bash always accepts the patterns of extglob.
func (c *checker) testWord(w *syntax.Word) {
	for _, part := range w.Parts {
		pattern, ok := part.(*syntax.ExtGlob)
		switch {
		case !ok:
			c.part(part)
		case strings.ContainsAny(pattern.Pattern.Value, "$`'\"\\<>"):
			c.refuse(offset(part), RuleParse, "", "Failed to parse command: what such a pattern holds cannot be checked", "use a plain pattern")
		}
	}
}

// testName judges the operand of -v and -R.
func (c *checker) testName(x syntax.TestExpr) {
	w, ok := x.(*syntax.Word)
	if ok {
		if a := c.value(w); a.constant && isName(a.text) {
			return
		}
	}
	c.refuse(offset(x), RuleArithmetic, "", "-v and -R look up a name, and execute what is in its brackets", "write the plain name of a variable")
}

// testOperators are the operators of test and [ between two operands.
var testOperators = map[string]bool{
	"=": true, "==": true, "!=": true, "<": true, ">": true, "-eq": true, "-ne": true, "-lt": true, "-le": true,
	"-gt": true, "-ge": true, "-nt": true, "-ot": true, "-ef": true, "=~": true,
}

// testUnary are the operators of test and [ in front of one operand.
var testUnary = map[string]bool{
	"-a": true, "-b": true, "-c": true, "-d": true, "-e": true, "-f": true, "-g": true, "-h": true, "-k": true, "-p": true,
	"-r": true, "-s": true, "-t": true, "-u": true, "-w": true, "-x": true, "-G": true, "-L": true, "-N": true, "-O": true,
	"-S": true, "-n": true, "-o": true, "-z": true,
}

// testCommand judges test and [: a word that is not constant must be in a place where it
// cannot become the operator -v, which executes code in its operand.
func testCommand(c *checker, args []arg) {
	words := args[1:]
	if n := len(words); args[0].text == "[" && n > 0 && words[n-1].constant && words[n-1].text == "]" {
		words = words[:n-1]
	}
	for i, a := range words {
		switch {
		case a.constant && (a.text == "-v" || a.text == "-R"):
			if i+1 < len(words) && (!words[i+1].constant || !isName(words[i+1].text)) && !isOperator(words, i+1) {
				c.refuse(a.at, RuleArithmetic, args[0].text, "-v and -R look up a name, and execute what is in its brackets", "write the plain name of a variable")
				return
			}
		case a.constant || a.digits:
		case a.many:
			c.requireWord(a, Verdict{ // test would read several as operators
				Rule: RuleArithmetic, Command: args[0].text, Reason: "this may become several words, and operators that execute their operands: " + c.source(a),
				Hint: "put it in double quotes",
			})
		case len(words) > 2 && !isOperator(words, i-1) && !isOperator(words, i+1) && !isUnary(words, i-1):
			c.refuse(a.at, RuleArithmetic, args[0].text, "this may become an operator that executes its operand: "+c.source(a),
				"compare it with = or put an operator such as -n in front of it")
			return
		case len(words) == 2 && i == 0:
			c.refuse(a.at, RuleArithmetic, args[0].text, "this may become an operator that executes its operand: "+c.source(a), "write the operator itself")
			return
		}
	}
}

// isOperator reports whether a word is an operator between two operands.
func isOperator(words []arg, i int) bool {
	return i >= 0 && i < len(words) && words[i].constant && testOperators[words[i].text]
}

// isUnary reports whether a word is an operator in front of one operand.
func isUnary(words []arg, i int) bool {
	if i < 0 || i >= len(words) || !words[i].constant {
		return false
	}
	joins := words[i].text == "-a" || words[i].text == "-o" // two conditions, in this place
	return testUnary[words[i].text] && (!joins || i == 0)
}
