package search

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/redact"
)

// Bounds of a pattern: what it costs to search a line grows with both.
const (
	MaxPattern = 1 << 10 // bytes
	maxProgram = 4 << 10 // instructions
)

// PatternError is the error of a pattern that cannot be used.
type PatternError struct {
	Offset int // of the mistake, in bytes from 0; -1 if it is not known
	Reason string
}

func (e *PatternError) Error() string {
	if e.Offset < 0 {
		return e.Reason
	}
	return fmt.Sprintf("%s, at byte %d", e.Reason, e.Offset+1)
}

// Matcher finds a pattern in lines. It is safe for concurrent use.
type Matcher struct {
	re   *regexp.Regexp
	tree *syntax.Regexp
	ends bool // the pattern asks for the end of a line
}

// NewMatcher compiles a pattern. An error is a *PatternError.
func NewMatcher(pattern string, fixed, ignoreCase, word bool) (*Matcher, error) {
	switch {
	case len(pattern) > MaxPattern:
		return nil, &PatternError{-1, fmt.Sprintf("it is longer than %d bytes", MaxPattern)}
	case !utf8.ValidString(pattern):
		return nil, &PatternError{-1, "it is not valid UTF-8"}
	case fixed && strings.Contains(pattern, "\n"):
		return nil, &PatternError{strings.IndexByte(pattern, '\n'), errNewline}
	}
	text := pattern
	if fixed {
		text = regexp.QuoteMeta(pattern)
	}
	flags := syntax.Perl
	if ignoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(text, flags)
	if err != nil {
		return nil, patternError(pattern, err)
	}
	if anyPart(tree, func(re *syntax.Regexp) bool {
		return re.Op == syntax.OpLiteral && strings.ContainsRune(string(re.Rune), '\n')
	}) {
		return nil, &PatternError{-1, errNewline}
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, &PatternError{-1, "it is too large"}
	}
	if word {
		// Plain text may begin or end with a character that is not part of a word. It needs
		// no border there.
		before, after := `\b`, `\b`
		if fixed && !isWord(pattern[0]) {
			before = ""
		}
		if fixed && !isWord(pattern[len(pattern)-1]) {
			after = ""
		}
		text = before + "(?:" + text + ")" + after
	}
	if ignoreCase {
		text = "(?i)" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, patternError(pattern, err)
	}
	ends := anyPart(tree, func(re *syntax.Regexp) bool { return re.Op == syntax.OpEndLine || re.Op == syntax.OpEndText })
	return &Matcher{re: re, tree: tree, ends: ends}, nil
}

const errNewline = "it has a line feed, and lines are searched one by one"

func isWord(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// patternError returns an error with its place in the pattern.
func patternError(pattern string, err error) error {
	e, ok := err.(*syntax.Error) //nolint:errorlint // the package never wraps it
	if !ok {
		return &PatternError{-1, err.Error()}
	}
	if e.Expr == "" || e.Expr == pattern || !strings.Contains(pattern, e.Expr) {
		return &PatternError{-1, e.Code.String()}
	}
	return &PatternError{strings.Index(pattern, e.Expr), e.Code.String() + ": " + e.Expr}
}

// line finds the first match in a line, which has no line feed. A carriage return at its end
// belongs to the end of the line, unless the pattern matches only with it.
func (m *Matcher) line(ctx context.Context, line []byte) (loc []int) {
	if n := len(line) - 1; n >= 0 && line[n] == '\r' {
		if loc := m.find(ctx, line[:n]); loc != nil {
			return loc
		}
	}
	return m.find(ctx, line)
}

// patience is the length of the longest line whose search is not interrupted, in bytes. A byte
// takes at worst as many steps as the program has instructions.
const patience = 16 << 10

func (m *Matcher) find(ctx context.Context, line []byte) (loc []int) {
	if len(line) <= patience {
		return m.re.FindIndex(line)
	}
	return m.re.FindReaderIndex(&heldLine{ctx: ctx, rest: line})
}

// heldLine reads the characters of a line until ctx ends.
type heldLine struct {
	ctx  context.Context
	rest []byte
	read int
}

// ReadRune reads a character.
func (h *heldLine) ReadRune() (r rune, size int, err error) {
	if h.read++; len(h.rest) == 0 || h.read%256 == 0 && h.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRune(h.rest)
	h.rest = h.rest[size:]
	return r, size, nil
}

// finder finds the lines of a buffer that may match, and skips most others.
type finder struct {
	literal []byte         // what every match has; empty if unknown
	rare    int            // index of the byte in it that is expected least often
	table   *redact.Finder // nil if it is of no use
}

// minLiteral is the length from which a literal is looked for, in bytes: shorter ones are
// everywhere.
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
	// The table does not know that a carriage return may come before the end of a line.
	if !m.ends && !anyPart(m.tree, asksInvalid) {
		f.table, _ = redact.NewFinder(m.re.String()) // it only saves time
	}
	return f
}

// asksInvalid reports whether an expression matches U+FFFD, which stands for bytes that are not
// UTF-8, without matching nearly everything: in the table, only an expression that matches
// nearly everything matches such bytes.
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

// anyPart reports whether something is true of any part of an expression. It does without
// package slices, which would link the code that prints expressions.
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

// next returns the beginning of the first line that may match, or len(b). The search starts
// at the line that begins at at.
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

// index returns where the literal is found next, or len(b).
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

// common are characters of text and programs, the most frequent first. All others are rarer.
const common = " etaoinsrlcdupmfhgybvw_.,()"

func rarity(b byte) int {
	if i := strings.IndexByte(common, b); i >= 0 {
		return i
	}
	return len(common)
}

// required returns the longest literal that every match of an expression has.
func required(re *syntax.Regexp) (longest string) {
	switch re.Op {
	case syntax.OpLiteral:
		// U+FFFD also stands for bytes that are not UTF-8.
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
