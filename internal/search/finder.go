package search

import (
	"bytes"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/redact"
)

// finder finds the lines of a buffer that may match, and leaves out most others.
type finder struct {
	literal []byte         // what every match has; nothing is known where empty
	rare    int            // the place in it of the byte that is expected least often
	table   *redact.Finder // nil where it is of no use
}

// minLiteral is how long a text must be to be looked for, in bytes: what is
// shorter is everywhere.
const minLiteral = 3

func (m *Matcher) finder() *finder {
	f := &finder{}
	if l := required(m.tree); len(l) >= minLiteral {
		f.literal = []byte(l)
		for i := range f.literal {
			if rarity(f.literal[i]) > rarity(f.literal[f.rare]) {
				f.rare = i
			}
		}
	}
	// A carriage return may come before an end, which the table does not know.
	if !m.ends && !anyPart(m.tree, asksInvalid) {
		f.table, _ = redact.NewFinder(m.re.String()) // it is not needed
	}
	return f
}

// asksEnd says whether an expression asks for the end of a line.
func asksEnd(re *syntax.Regexp) bool { return re.Op == syntax.OpEndLine || re.Op == syntax.OpEndText }

// asksInvalid says whether an expression takes U+FFFD, which stands for bytes that
// are no UTF-8, and does not take nearly everything: the table has only the
// latter take such bytes.
func asksInvalid(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return strings.ContainsRune(string(re.Rune), utf8.RuneError)
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			if re.Rune[i] <= utf8.RuneError && utf8.RuneError <= re.Rune[i+1] {
				return re.Rune[i+1] != utf8.MaxRune
			}
		}
	}
	return false
}

// anyPart says whether something is true of any part of an expression. It is not
// written with package slices, which would link what prints expressions.
func anyPart(re *syntax.Regexp, is func(*syntax.Regexp) bool) bool {
	if is(re) {
		return true
	}
	for _, sub := range re.Sub {
		if anyPart(sub, is) {
			return true
		}
	}
	return false
}

// next gives the place of the first line from at on that may match, len(b) where
// there is none; at is where a line begins.
func (f *finder) next(b []byte, at int) int {
	for at < len(b) {
		from, to := at, len(b)
		if f.literal != nil {
			place := f.index(b, at)
			if place == len(b) {
				return place
			}
			from = bytes.LastIndexByte(b[at:place], '\n') + 1 + at
			to = indexFrom(b, '\n', place)
		}
		if f.table == nil {
			return from
		}
		end, ok := f.table.End(b[from:to])
		switch {
		case !ok:
			f.table = nil
			return from
		case end >= 0: // the match has a last byte
			return bytes.LastIndexByte(b[from:max(from, from+end-1)], '\n') + 1 + from
		}
		at = to + 1
	}
	return len(b)
}

// index is where the literal comes next, or len(b).
func (f *finder) index(b []byte, at int) int {
	for at += f.rare; at < len(b); at++ {
		at = indexFrom(b, f.literal[f.rare], at)
		if from := at - f.rare; bytes.HasPrefix(b[from:], f.literal) {
			return from
		}
	}
	return len(b)
}

func indexFrom(b []byte, c byte, at int) int {
	if i := bytes.IndexByte(b[at:], c); i >= 0 {
		return at + i
	}
	return len(b)
}

// common are letters by how often they come in text and programs, most often
// first. What is not among them is rarer.
const common = " etaoinsrlcdupmfhgybvw_.,()"

func rarity(b byte) int {
	if i := strings.IndexByte(common, b); i >= 0 {
		return i
	}
	return len(common)
}

// required is the longest text that must be in whatever an expression matches.
func required(re *syntax.Regexp) (longest string) {
	switch re.Op {
	case syntax.OpLiteral:
		// U+FFFD stands for bytes that are no UTF-8, too.
		if text := string(re.Rune); re.Flags&syntax.FoldCase == 0 && !strings.ContainsRune(text, utf8.RuneError) {
			return text
		}
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpCapture, syntax.OpPlus, syntax.OpConcat:
		for _, sub := range re.Sub {
			if text := required(sub); len(text) > len(longest) {
				longest = text
			}
		}
	}
	return longest
}
