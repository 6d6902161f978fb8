package search

import (
	"bytes"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// literal is a text that must be in a line that matches.
type literal struct {
	text []byte
	fold bool // in small letters, and stands for capitals too
	rare int  // the place in it of the byte that is expected least often
}

const (
	maxLiterals = 8 // more are no faster to look for than the expression
	minLiteral  = 2 // bytes: what is shorter is everywhere
)

// common are letters by how often they come in text and programs, most often
// first. What is not among them is rarer.
const common = " etaoinsrlcdupmfhgybvw_.,()"

// required gives texts one of which must be in whatever an expression matches;
// none where there is nothing of the kind.
func required(re *syntax.Regexp) []literal {
	switch re.Op {
	case syntax.OpLiteral:
		if l, ok := newLiteral(re); ok {
			return []literal{l}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []literal
		for _, sub := range re.Sub {
			if some := required(sub); worth(some) > worth(best) {
				best = some
			}
		}
		return best
	case syntax.OpAlternate:
		var all []literal
		for _, sub := range re.Sub {
			some := required(sub)
			if len(some) == 0 || len(all)+len(some) > maxLiterals {
				return nil
			}
			all = append(all, some...)
		}
		return all
	default:
	}
	return nil
}

// worth is how good texts are to look for: the shortest counts.
func worth(some []literal) int {
	if len(some) == 0 {
		return 0
	}
	least := 1 << 20
	for _, l := range some {
		least = min(least, 16*len(l.text))
	}
	return least - len(some) + 1
}

// newLiteral makes one of an expression's text.
func newLiteral(re *syntax.Regexp) (l literal, ok bool) {
	text := string(re.Rune)
	if strings.ContainsRune(text, utf8.RuneError) { // it stands for bytes that are no UTF-8 too
		return l, false
	}
	if re.Flags&syntax.FoldCase != 0 {
		l.fold = true
		text = longestFolding(strings.ToLower(text))
	}
	l.text = []byte(text)
	for i := range l.text {
		if rarity(l.text[i]) > rarity(l.text[l.rare]) {
			l.rare = i
		}
	}
	return l, len(l.text) >= minLiteral
}

// longestFolding is the longest part of a text that has other forms in ASCII
// alone: k and s have one beyond it.
func longestFolding(text string) (longest string) {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf || r == 'k' || r == 's' }) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

func rarity(b byte) int {
	if i := strings.IndexByte(common, b); i >= 0 {
		return i
	}
	return len(common)
}

// finder finds literals in one buffer, from left to right, and looks at no part
// of it twice.
type finder struct {
	literals []literal
	places   []places
}

// places are where something comes next: a literal, and its rarest letter in
// both forms.
type places struct{ next, low, high int }

// reset begins with another buffer.
func (f *finder) reset() {
	for i := range f.places {
		f.places[i] = places{-1, -1, -1}
	}
}

// from is where the first literal from at on is, len(b) where there is none.
// Without literals anything may match.
func (f *finder) from(b []byte, at int) int {
	if len(f.literals) == 0 {
		return at
	}
	first := len(b)
	for i := range f.literals {
		p := &f.places[i]
		if p.next < at {
			p.next = f.literals[i].from(b, at, p)
		}
		first = min(first, p.next)
	}
	return first
}

// from is where the literal comes next, or len(b).
func (l *literal) from(b []byte, at int, p *places) int {
	if !l.fold {
		if i := bytes.Index(b[at:], l.text); i >= 0 {
			return at + i
		}
		return len(b)
	}
	letter := l.text[l.rare]
	for at += l.rare; at < len(b); at++ {
		if p.low < at {
			p.low = indexFrom(b, letter, at)
		}
		if p.high < at {
			p.high = indexFrom(b, capital(letter), at)
		}
		at = min(p.low, p.high)
		if from := at - l.rare; from+len(l.text) <= len(b) && equalFold(b[from:from+len(l.text)], l.text) {
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

func capital(b byte) byte {
	if 'a' <= b && b <= 'z' {
		return b - 'a' + 'A'
	}
	return b
}

// equalFold compares with a text in small letters of ASCII.
func equalFold(b, small []byte) bool {
	for i, c := range small {
		if b[i] != c && b[i] != capital(c) {
			return false
		}
	}
	return true
}
