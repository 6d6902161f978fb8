package search

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Bounds of a pattern: what it costs to search a line grows with both.
const (
	MaxPattern = 1 << 10 // bytes
	maxProgram = 4 << 10 // instructions
)

// PatternError is a pattern that cannot be used.
type PatternError struct {
	Offset int // of what is wrong, in bytes from 0; -1 where that is not known
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
	ends bool // it asks for the end of a line
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
	if anyPart(tree, asksNewline) {
		return nil, &PatternError{-1, errNewline}
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, &PatternError{-1, "it is too large"}
	}
	if word {
		text = words(text, pattern, fixed)
	}
	if ignoreCase {
		text = "(?i)" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, patternError(pattern, err)
	}
	return &Matcher{re: re, tree: tree, ends: anyPart(tree, asksEnd)}, nil
}

const errNewline = "it has a line feed, and lines are searched one by one"

// words makes an expression match whole words. Plain text may begin or end with
// what is no part of a word, and then needs no border there.
func words(text, pattern string, fixed bool) string {
	before, after := `\b`, `\b`
	if fixed {
		if !isWord(pattern[0]) {
			before = ""
		}
		if !isWord(pattern[len(pattern)-1]) {
			after = ""
		}
	}
	return before + "(?:" + text + ")" + after
}

func isWord(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// patternError says where in the pattern an error is.
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

// asksNewline says whether an expression asks for a line feed.
func asksNewline(re *syntax.Regexp) bool {
	if re.Op != syntax.OpLiteral {
		return false
	}
	for _, r := range re.Rune {
		if r == '\n' {
			return true
		}
	}
	return false
}

// line finds the first match in a line, which has no line feed. A carriage
// return at its end belongs to the line's end, unless it is what is looked for.
func (m *Matcher) line(ctx context.Context, line []byte) (loc []int) {
	if n := len(line) - 1; n >= 0 && line[n] == '\r' {
		if loc := m.find(ctx, line[:n]); loc != nil {
			return loc
		}
	}
	return m.find(ctx, line)
}

// patience is how long a line may be for a search of it to be waited for, in
// bytes: that takes at worst as many steps as the program is long, for each.
const patience = 16 << 10

func (m *Matcher) find(ctx context.Context, line []byte) (loc []int) {
	if len(line) <= patience {
		return m.re.FindIndex(line)
	}
	return m.re.FindReaderIndex(&heldLine{ctx: ctx, rest: line})
}

// heldLine reads the characters of a line, until ctx ends.
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
