package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arg is a word as a command gets it, as far as that is known.
type arg struct {
	// text is the value, or where that is not constant its constant head.
	text     string
	constant bool
	// split says that it may become several words, or none, of any content.
	split bool
	// many says that it may become several words, or none: split does, and so
	// do patterns and braces, whose words all begin with text.
	many bool
	// lead is the variable that the word begins with and, where whole is
	// true, consists of; empty where it begins otherwise.
	lead  string
	whole bool
	// digits says that the word is a number.
	digits bool
	// home says that it names the home of some user, ~root say.
	home bool
	at   int // offset in the text, or index in an argument list
	word *syntax.Word
}

// value is what a word becomes.
func (c *checker) value(w *syntax.Word) arg {
	v := valuer{constant: true, braced: -1}
	for i, part := range w.Parts {
		v.first = i == 0
		v.part(part)
	}
	if lit, ok := w.Parts[0].(*syntax.Lit); ok && len(w.Parts) == 1 && lit.Value == "[" {
		v.constant, v.many = true, false // the command; no pattern ends
		v.text.Reset()
		v.text.WriteByte('[')
	}
	return arg{
		text: v.text.String(), constant: v.constant, split: v.split, many: v.split || v.many,
		lead: v.lead, whole: v.lead != "" && len(w.Parts) == 1,
		digits: !v.constant && v.digits && len(w.Parts) == 1, home: v.home, at: offset(w), word: w,
	}
}

// valuer puts the constant head of a word together.
type valuer struct {
	text                 strings.Builder
	constant             bool
	split, digits, first bool
	many                 bool
	braced               int // bytes of the head in front of a {} that a comma may open
	lead                 string
	home                 bool
}

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
		v.single(p)
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

// lit takes unquoted text. Patterns and braces make words that share what is
// in front of them.
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
			// Shells know it also in what looks like an assignment, and braces come first.
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
		case ',': // x{},y} is x} and xy
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

// namesUser reports whether what follows a tilde is the name of a user: not nothing,
// which is the own home, and none of the directories that the shell keeps.
func namesUser(s string) bool {
	if end := strings.IndexAny(s, "/:,}"); end >= 0 {
		s = s[:end]
	}
	return strings.Trim(s, "+-0123456789") != "" && !strings.Contains(s, `\`)
}

// vary notes that the word may become several.
func (v *valuer) vary() { v.constant, v.many = false, true }

func (v *valuer) single(p *syntax.SglQuoted) {
	text, ok := p.Value, true
	if p.Dollar {
		text, ok = decodeANSI(p.Value)
	}
	if !ok {
		v.constant = false
	}
	v.add(text)
}

func (v *valuer) double(p *syntax.DblQuoted) {
	if p.Dollar { // translated, to who knows what
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

// param takes a variable. In quotes it is one word, unless it is a list.
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

// simpleParam is the name in $name and ${name}, else empty.
func simpleParam(p *syntax.ParamExp) string {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.IsSet || p.Index != nil || p.Slice != nil ||
		p.Repl != nil || p.Names != 0 || p.Exp != nil || p.Flags != nil || len(p.Modifiers) > 0 {
		return ""
	}
	return p.Param.Value
}

// isNumberParam says whether the shell makes the value, a number.
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

// isList says whether a subscript is @ or *.
func isList(index syntax.ArithmExpr) bool {
	w, ok := index.(*syntax.Word)
	return ok && (w.Lit() == "@" || w.Lit() == "*")
}

// unescapeDouble takes the backslashes out that have a meaning in double quotes.
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

// isName says whether a variable or a function can have this name.
func isName(s string) bool { return syntax.ValidName(s) }
