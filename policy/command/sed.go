package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// sedWords judges sed: its scripts must be constant, and execute nothing.
func sedWords(c *checker, base string, args []arg) {
	g := grammar{
		short: "nErszu", optional: "i", valued: "l",
		long:   "quiet silent regexp-extended separate null-data unbuffered posix debug sandbox follow-symlinks in-place help version",
		longOf: "line-length",
	}
	given, files := false, []arg(nil)
	for rest := args[1:]; len(rest) > 0 && c.denial == nil; {
		a := rest[0]
		rest = rest[1:]
		if a.constant && a.text == "--" {
			files = append(files, rest...)
			break
		}
		if a.text == "" && !a.constant || len(a.text) < 2 || a.text[0] != '-' {
			if len(files) > 0 || given {
				c.noOption(a, base)
			}
			files = append(files, a)
			continue
		}
		script, is := sedOption(a)
		switch {
		case is && script.text == "" && script.constant && len(rest) > 0:
			script, rest = rest[0], rest[1:]
			fallthrough
		case is:
			if !given && len(files) > 0 { // the first word was a file, then
				c.noOption(files[0], base)
			}
			given = true
			c.sedScript(script, base)
		default:
			value, known := g.option(a.text)
			if !known || !a.constant {
				c.refuse(a.at, RuleArgument, base, "the option "+quote(a.text)+" of "+base+" is not known here, or loads a script that is not judged", "give "+base+" its script as an argument")
				return
			}
			if value && len(rest) > 0 {
				rest = rest[1:]
			}
		}
	}
	if !given && len(files) > 0 {
		c.sedScript(files[0], base)
	}
}

// sedOption says whether an option holds a script, or announces one: -e, also
// behind letters without a value.
func sedOption(a arg) (script arg, is bool) {
	script = a
	script.word = nil // it is but a part of the word
	if text, ok := strings.CutPrefix(a.text, "--expression"); ok {
		script.text = strings.TrimPrefix(text, "=")
		return script, true
	}
	if strings.HasPrefix(a.text, "--") {
		return script, false
	}
	letters := strings.TrimLeft(a.text[1:], "nErszu")
	if text, ok := strings.CutPrefix(letters, "e"); ok {
		script.text = text
		return script, true
	}
	return script, false
}

func (c *checker) sedScript(a arg, base string) {
	text := a.text
	if !a.constant {
		var ok bool
		if text, ok = c.numbered(a); !ok {
			c.refuseScript(a, base)
			return
		}
	}
	if what := sedStarts(text); what != "" {
		c.refuse(a.at, RuleArgument, base, what, "use plain commands of sed, one script a command")
	}
}

// sedParser reads a script as far as it must to find its commands.
type sedParser struct {
	s string
	i int
}

// sedStarts says what in a script executes a program, or cannot be told not
// to. Empty: nothing.
func sedStarts(script string) string {
	p := &sedParser{s: script}
	for {
		p.skip(" \t\n;{}")
		if p.i >= len(p.s) {
			return ""
		}
		if what := p.command(); what != "" {
			return what
		}
	}
}

const sedUnknown = "the script of sed is not one that can be judged"

func (p *sedParser) skip(set string) {
	for p.i < len(p.s) && strings.IndexByte(set, p.s[p.i]) >= 0 {
		p.i++
	}
}

// until skips to one of the bytes of a set; a backslash keeps the byte behind
// it from counting where that is so.
func (p *sedParser) until(set string, escapes bool) {
	for p.i < len(p.s) && strings.IndexByte(set, p.s[p.i]) < 0 {
		if escapes && p.s[p.i] == '\\' {
			p.i++
		}
		p.i++
	}
	p.i = min(p.i, len(p.s))
}

func (p *sedParser) command() string {
	if !p.addresses() || p.i >= len(p.s) {
		return sedUnknown
	}
	b := p.s[p.i]
	p.i++
	switch b {
	case 'e':
		return "with the command e sed starts other programs"
	case 's':
		return p.substitute()
	case 'y':
		if !p.delimited(2) {
			return sedUnknown
		}
	case 'a', 'i', 'c':
		p.until("\n", true)
	case '#', 'r', 'R', 'w', 'W':
		p.until("\n", false)
	case ':', 'b', 't', 'T':
		return p.label()
	case '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F', 'l', 'L', 'q', 'Q':
		p.skip(" \t0123456789")
	case '{', '}':
		return ""
	default:
		return sedUnknown
	}
	return p.end()
}

// label skips a plain label. Versions of sed differ about a brace behind it,
// so that the label must end there in any case; a command may follow.
func (p *sedParser) label() string {
	p.skip(" \t")
	for p.i < len(p.s) && (isWordByte(p.s[p.i]) || strings.IndexByte(".-", p.s[p.i]) >= 0) {
		p.i++
	}
	p.skip("}")
	if p.i < len(p.s) && strings.IndexByte("\n; \t", p.s[p.i]) < 0 {
		return sedUnknown
	}
	return ""
}

// end wants nothing more of the command.
func (p *sedParser) end() string {
	p.skip(" \t")
	if p.i < len(p.s) && strings.IndexByte("\n;}#", p.s[p.i]) < 0 {
		return sedUnknown
	}
	return ""
}

// addresses skips 1,5! and /x/I,$ and their like.
func (p *sedParser) addresses() bool {
	for p.i < len(p.s) {
		switch b := p.s[p.i]; {
		case strings.IndexByte(" \t0123456789$,!~+", b) >= 0:
			p.i++
		case b == '/':
			if !p.delimited(1) {
				return false
			}
			p.skip("IM")
		case b == '\\':
			p.i++
			if !p.delimited(1) {
				return false
			}
			p.skip("IM")
		default:
			return true
		}
	}
	return true
}

// delimited skips a delimiter, and so many parts that it ends. A bracket may
// hold the delimiter in some versions and not in others, so that it is refused.
func (p *sedParser) delimited(parts int) bool {
	if p.i >= len(p.s) {
		return false
	}
	mark := p.s[p.i]
	if mark == '\\' || mark == '\n' || isWordByte(mark) || mark >= 0x80 {
		return false
	}
	bracket, first := false, parts
	for p.i++; p.i < len(p.s); p.i++ {
		switch b := p.s[p.i]; {
		case b == '\\':
			p.i++
		case b == '[':
			bracket = parts == first
		case b == ']':
			bracket = false
		case b == mark && bracket && strings.IndexByte(p.s[p.i:], ']') >= 0:
			return false
		case b == mark:
			bracket = false
			if parts--; parts == 0 {
				p.i++
				return true
			}
		}
	}
	return false
}

// substitute judges the flags of s.
func (p *sedParser) substitute() string {
	if !p.delimited(2) {
		return sedUnknown
	}
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case 'e':
			return "with the flag e of s sed starts other programs"
		case 'w':
			p.until("\n", false)
			return ""
		case 'g', 'p', 'i', 'I', 'm', 'M', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', ' ', '\t', '}':
			if p.s[p.i] == '}' {
				return ""
			}
			p.i++
		case '\n', ';', '#':
			return ""
		default:
			return sedUnknown
		}
	}
	return ""
}

// numbered is the text of a word in which all that is not constant are
// numbers, with a 1 for each.
func (c *checker) numbered(a arg) (text string, ok bool) {
	if a.word == nil {
		return "", false
	}
	var b strings.Builder
	for _, part := range a.word.Parts {
		inner := []syntax.WordPart{part}
		q, quoted := part.(*syntax.DblQuoted)
		if quoted {
			inner = q.Parts
		}
		for _, p := range inner {
			piece, known := c.numberedPart(p, quoted)
			if !known {
				return "", false
			}
			b.WriteString(piece)
		}
	}
	return b.String(), true
}

func (c *checker) numberedPart(part syntax.WordPart, quoted bool) (text string, ok bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		if quoted {
			return unescapeDouble(p.Value), true
		}
		return p.Value, !strings.ContainsAny(p.Value, `\*?[{~`)
	case *syntax.SglQuoted:
		return p.Value, !p.Dollar
	case *syntax.ArithmExp:
		return "1", true
	case *syntax.ParamExp:
		name := simpleParam(p)
		if isNumberParam(p) {
			return "1", true
		}
		if isName(name) {
			c.require(name, wantNumber, offset(p), Verdict{
				Rule: RuleArgument, Reason: "the script must be constant: $" + name + " is not sure to be a number here", Hint: "put the script in single quotes",
			})
			return "1", true
		}
	}
	return "", false
}
