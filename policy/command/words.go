package command

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arg is a word as a command gets it, as far as that is known.
type arg struct {
	// text is the value or, if that is not constant, its constant head.
	text     string
	constant bool
	// split says that it may become several words, or none, of any content.
	split bool
	// many says that it may become several words, or none: because of split, or of
	// patterns and braces, whose words all begin with text.
	many bool
	// lead is the variable that the word begins with, if any. whole says that the word
	// is nothing else.
	lead  string
	whole bool
	// digits says that the word is a number.
	digits bool
	// home says that it names the home of another user, for example ~root.
	home bool
	at   int // offset in the text, or index in an argument list
	word *syntax.Word
}

// value returns the expansion of a word, as far as it is known.
func (c *checker) value(w *syntax.Word) arg {
	v := newValuer()
	v.read(w)
	if lit, ok := w.Parts[0].(*syntax.Lit); ok && len(w.Parts) == 1 && lit.Value == "[" {
		v.constant, v.many = true, false // it is the command, not the start of a pattern
		v.text.Reset()
		v.text.WriteByte('[')
	}
	return arg{
		text: v.text.String(), constant: v.constant, split: v.split, many: v.split || v.many,
		lead: v.lead, whole: v.lead != "" && len(w.Parts) == 1,
		digits: !v.constant && v.digits && len(w.Parts) == 1, home: v.home, at: offset(w), word: w,
	}
}

// valuer finds the constant head of a word, and what else is known of its value.
type valuer struct {
	text                 strings.Builder
	constant             bool
	split, digits, first bool
	many                 bool
	braced               int // bytes of the head in front of a {} that a comma may open
	lead                 string
	home                 bool
}

func newValuer() valuer { return valuer{constant: true, braced: -1} }

// read reads a word part by part.
func (v *valuer) read(w *syntax.Word) {
	for i, part := range w.Parts {
		v.first = i == 0
		v.part(part)
	}
}

// add adds to the constant head, unless it has ended.
func (v *valuer) add(s string) {
	if v.constant {
		v.text.WriteString(s)
	}
}

func (v *valuer) part(part syntax.WordPart) {
	switch p := part.(type) {
	case *syntax.Lit:
		v.lit(p.Value)
	case *syntax.SglQuoted:
		text, ok := p.Value, true
		if p.Dollar {
			text, ok = decodeANSI(p.Value)
		}
		v.constant = v.constant && ok
		v.add(text)
	case *syntax.DblQuoted:
		v.double(p)
	case *syntax.ArithmExp:
		v.constant, v.digits = false, true
	case *syntax.ParamExp:
		v.param(p, true)
	case *syntax.ProcSubst:
		v.add("/dev/fd/")
		v.constant = false
	default: // a command's output, a pattern
		v.constant, v.split = false, true
	}
}

// lit adds unquoted text. The words that patterns and braces make share the text in front of
// them.
func (v *valuer) lit(s string) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i < len(s) {
				v.add(s[i : i+1])
			}
			continue
		case '*', '?', '[':
			v.vary()
		case '~':
			// Shells also expand it in what looks like an assignment, and braces come first.
			begins := v.first && i == 0
			v.home = v.home || namesUser(s[i+1:]) && (begins || i > 0 && (s[i-1] == '=' || s[i-1] == ':' || v.many && (s[i-1] == '{' || s[i-1] == ',')))
			if begins {
				v.add("~")
				v.constant = false
			}
		case '{':
			switch {
			case !strings.HasPrefix(s[i:], "{}"):
				v.vary()
			case v.braced < 0 && (!v.first || i > 0):
				v.braced = v.text.Len()
			}
		case ',': // x{},y} becomes x} and xy
			if v.braced >= 0 && v.constant {
				head := v.text.String()[:v.braced]
				v.text.Reset()
				v.text.WriteString(head)
			}
			if v.braced >= 0 {
				v.vary()
			}
		}
		v.add(s[i : i+1])
	}
}

// namesUser reports whether the text after a tilde is the name of a user: nothing means
// the own home, and numbers and signs mean directories that the shell remembers.
func namesUser(s string) bool {
	if end := strings.IndexAny(s, "/:,}"); end >= 0 {
		s = s[:end]
	}
	return strings.Trim(s, "+-0123456789") != "" && !strings.Contains(s, `\`)
}

// vary notes that the word may become several.
func (v *valuer) vary() { v.constant, v.many = false, true }

// double adds the text between double quotes.
func (v *valuer) double(p *syntax.DblQuoted) {
	if p.Dollar { // it is translated at run time
		v.constant = false
		return
	}
	for _, part := range p.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			v.add(unescapeDouble(part.Value))
		case *syntax.ParamExp:
			v.param(part, false)
			v.first = false
		case *syntax.ArithmExp:
			v.constant, v.digits = false, true
		default:
			v.constant = false
		}
	}
	v.digits = v.digits && len(p.Parts) == 1
}

// param adds a variable. In quotes it is one word, unless it is a list.
func (v *valuer) param(p *syntax.ParamExp, unquoted bool) {
	name := simpleParam(p)
	if v.constant && v.first && v.text.Len() == 0 && isName(name) {
		v.lead = name
	}
	v.digits = isNumberParam(p) && (simpleParam(p) != "!" || !unquoted) // $! may be nothing
	v.constant = false
	list := p.Param != nil && p.Param.Value == "@" || isList(p.Index) || p.Names != 0
	if list || unquoted && !v.digits {
		v.split = true
	}
}

// simpleParam returns the name in $name and ${name}, else "".
func simpleParam(p *syntax.ParamExp) string {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.IsSet || p.Index != nil || p.Slice != nil ||
		p.Repl != nil || p.Names != 0 || p.Exp != nil || p.Flags != nil || len(p.Modifiers) > 0 {
		return ""
	}
	return p.Param.Value
}

// isNumberParam reports whether the value is a number that the shell makes.
func isNumberParam(p *syntax.ParamExp) bool {
	if p.Length {
		return true
	}
	switch simpleParam(p) {
	case "#", "?", "$", "!":
		return true
	}
	return numberVars[simpleParam(p)]
}

// isList reports whether a subscript is @ or *.
func isList(index syntax.ArithmExpr) bool {
	w, ok := index.(*syntax.Word)
	return ok && (w.Lit() == "@" || w.Lit() == "*")
}

// unescapeDouble removes the backslashes that have a meaning in double quotes.
func unescapeDouble(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case '\n':
				i++
				continue
			case '$', '`', '"', '\\':
				i++
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// isName reports whether a variable or a function can have this name.
func isName(s string) bool { return syntax.ValidName(s) }

// word judges everything that is executed to expand a word.
func (c *checker) word(w *syntax.Word) {
	if w != nil {
		c.parts(w.Parts)
	}
}

// parts judges parts of a word.
func (c *checker) parts(parts []syntax.WordPart) {
	for _, part := range parts {
		if c.denial != nil {
			return
		}
		c.part(part)
	}
}

// part judges a part of a word.
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
				c.withStdinText(judge)
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
		c.refuse(offset(p), RuleParse, "", "Failed to parse command: unknown kind of word", "")
	}
}

// quoted judges the text between double quotes. There, single quotes in ${x:-'…'} are
// plain characters for the shell, and quotes for the parser.
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

// transformations are the letters after @ that only change how a value is written; @P
// executes what is in it.
const transformations = "QUuLEaAKk"

// param judges the expansion of a variable.
func (c *checker) param(p *syntax.ParamExp) {
	at := offset(p)
	if p.NestedParam != nil || p.Flags != nil || p.Width || p.IsSet || len(p.Modifiers) > 0 || p.Param == nil {
		c.refuse(at, RuleParse, "", "Failed to parse command: this is another shell's expansion", "")
		return
	}
	if p.Excl && p.Names == 0 && (!isList(p.Index) || p.Exp != nil || p.Repl != nil || p.Slice != nil) {
		c.refuse(at, RuleArithmetic, "", "${!"+p.Param.Value+"} looks up a name that is known only at run time, and executes what it holds",
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
	if p.Exp == nil {
		return
	}
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

// ansiEscapes are the escapes of $'…' that stand for one byte.
var ansiEscapes = map[byte]byte{
	'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'n': 10, 'r': 13, 't': 9, 'v': 11, '\\': '\\', '\'': '\'', '"': '"', '?': '?',
}

// decodeANSI returns the value of $'s'. ok is false for characters that depend on the
// locale, for a NUL, which would end the value, and for unknown escapes.
func decodeANSI(s string) (value string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", false
		}
		if plain, known := ansiEscapes[s[i]]; known {
			b.WriteByte(plain)
			continue
		}
		number, length := ansiNumber(s[i:])
		if length == 0 || number == 0 || number > 0x7f {
			return "", false
		}
		b.WriteByte(byte(number))
		i += length - 1
	}
	return b.String(), true
}

// ansiNumber reads nnn, xHH, uHHHH or UHHHHHHHH, and returns its length too, 0 if there
// is none.
func ansiNumber(s string) (number uint64, length int) {
	base, most, skip := 8, 3, 0
	switch s[0] {
	case 'x':
		base, most, skip = 16, 2, 1
	case 'u':
		base, most, skip = 16, 4, 1
	case 'U':
		base, most, skip = 16, 8, 1
	}
	end := skip
	for end < len(s) && end-skip < most && strings.IndexByte("0123456789abcdef"[:base], s[end]|0x20) >= 0 {
		end++
	}
	number, err := strconv.ParseUint(s[skip:end], base, 64)
	if err != nil {
		return 0, 0
	}
	return number, end
}
