package command

import (
	"strings"
)

// awkWords judges awk: its program must be constant, and start no others.
func awkWords(c *checker, base string, args []arg) {
	g := grammar{
		short: "bcCghIkMnNOPrsStV", valued: "Fv", optional: "dopL",
		long: "characters-as-bytes traditional copyright gen-pot help bignum use-lc-numeric non-decimal-data optimize posix re-interval " +
			"no-optimize sandbox lint-old version csv",
		longOf: "field-separator assign source",
	}
	given := false
	for rest := args[1:]; len(rest) > 0 && c.denial == nil; {
		a := rest[0]
		if !a.constant && a.text == "" && !a.whole {
			break // the program, or an option
		}
		if len(a.text) < 2 || a.text[0] != '-' || a.text == "--" {
			break
		}
		rest = rest[1:]
		if !a.constant && !strings.HasPrefix(a.text, "-v") && !strings.HasPrefix(a.text, "-F") || a.split {
			c.refuseScript(a, base)
			return
		}
		if source, ok := strings.CutPrefix(a.text, "--source="); ok {
			given = true
			c.awkProgram(arg{text: source, constant: a.constant, at: a.at, word: a.word}, base)
			args = append(args[:1:1], rest...)
			continue
		}
		if a.text == "-e" || a.text == "--source" {
			if given = true; len(rest) > 0 {
				c.awkProgram(rest[0], base)
				rest = rest[1:]
			}
			args = append(args[:1:1], rest...)
			continue
		}
		value, known := g.option(a.text)
		if !known {
			c.refuse(a.at, RuleArgument, base, "the option "+quote(a.text)+" of "+base+" is not known here, or loads code that is not judged", "give "+base+" its program as an argument")
			return
		}
		if value && len(rest) > 0 {
			if rest[0].many {
				c.refuseScript(rest[0], base)
				return
			}
			rest = rest[1:]
		}
		args = append(args[:1:1], rest...)
	}
	if !given {
		c.awkOperand(base, args[1:])
	} else if len(args) > 1 && !args[1].constant {
		c.noOption(args[1], base)
	}
}

// awkOperand judges the program, which is the first word that is no option.
func (c *checker) awkOperand(base string, rest []arg) {
	if len(rest) > 0 && rest[0].constant && rest[0].text == "--" {
		rest = rest[1:]
	}
	if len(rest) > 0 {
		c.awkProgram(rest[0], base)
	}
}

func (c *checker) refuseScript(a arg, base string) {
	c.refuse(a.at, RuleArgument, base, "the script of "+base+" must be constant: "+c.source(a)+" exists at run time alone",
		"put it in single quotes; awk takes values with -v name=\"$value\"")
}

func (c *checker) awkProgram(a arg, base string) {
	if !a.constant {
		c.refuseScript(a, base)
		return
	}
	if what := awkStarts(a.text); what != "" {
		c.refuse(a.at, RuleArgument, base, "with "+what+" "+base+" starts other programs, or may", "leave it out")
	}
}

// awkStarts finds what can start a program in the text of an awk program:
// system, a pipe, an extension, a network connection. Empty: nothing.
func awkStarts(text string) string {
	operand := true // what stands here is an operand: a slash begins a pattern
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b == '"':
			end := awkString(text, i+1)
			if strings.Contains(text[i:end], "/inet") {
				return "/inet"
			}
			i, operand = end, false
			continue
		case b == '#':
			if end := strings.IndexByte(text[i:], '\n'); end >= 0 {
				i += end
				continue
			}
			return ""
		case b == '\\' && strings.HasPrefix(text[i+1:], "\n"): // the line goes on
			i++
		case b == '/' && operand:
			end, plain := awkPattern(text, i+1)
			if !plain {
				return awkRaw(text[i:])
			}
			i, operand = end, false
			continue
		case b == '/' && awkUnsure(text[:i]):
			return awkRaw(text[i:])
		case b == '|' && strings.HasPrefix(text[i:], "||"):
			i++
			operand = true
		case b == '|':
			return "|"
		case b == '@':
			return "@"
		case isWordByte(b):
			end := i
			for end < len(text) && isWordByte(text[end]) {
				end++
			}
			word := text[i:end]
			if word == "system" || word == "extension" {
				return word
			}
			i, operand = end, awkKeywords[word]
			continue
		case strings.IndexByte(")]$+-.", b) >= 0:
			operand = false
		case b != ' ' && b != '\t' && b != '\\':
			operand = true
		}
		i++
	}
	return ""
}

// awkKeywords are the words behind which an operand stands.
var awkKeywords = map[string]bool{
	"print": true, "printf": true, "return": true, "in": true, "else": true, "do": true, "exit": true, "case": true,
	"delete": true,
}

// awkString is behind the end of a string. It ends with the line, too.
func awkString(text string, i int) int {
	for ; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\n':
			return i
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// awkPattern is behind the end of a pattern. plain is false where versions of
// awk may differ about it: about a slash in brackets, and brackets in brackets.
func awkPattern(text string, i int) (end int, plain bool) {
	bracket := false
	for ; i < len(text); i++ {
		switch b := text[i]; {
		case b == '\\':
			i++
		case b == '\n':
			return i, !bracket
		case b == '[' && (bracket || strings.HasPrefix(text[i:], "[]") || strings.HasPrefix(text[i:], "[^]")):
			return 0, false
		case b == '[':
			bracket = true
		case b == ']':
			bracket = false
		case b == '/':
			return i + 1, !bracket
		}
	}
	return len(text), true
}

// awkUnsure says whether a slash may begin a pattern as well as divide.
func awkUnsure(before string) bool {
	before = strings.TrimRight(before, " \t\\\n")
	for _, end := range []string{")", "+", "-", "getline"} {
		if strings.HasSuffix(before, end) {
			return true
		}
	}
	return false
}

// awkRaw is awkStarts where strings and patterns cannot be told from code.
func awkRaw(text string) string {
	for _, what := range []string{"system", "extension", "@", "/inet"} {
		if strings.Contains(text, what) {
			return what
		}
	}
	if strings.Contains(strings.ReplaceAll(text, "||", ""), "|") {
		return "|"
	}
	return ""
}

func isWordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
