package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/lazyregexp"
)

// maxShown bounds how much of a refused value an error repeats, in bytes.
const maxShown = 80

// FieldError is a field of a spec that is invalid, and why.
type FieldError struct {
	// Field is the path of the field, "mounts[1].target". It is empty if the
	// document as a whole cannot be read.
	Field string
	// Value is the invalid value. It is empty if no value was given, and for the values of
	// environment variables, which may be secret.
	Value string
	// Reason completes the sentence "cannot use FIELD VALUE: …".
	Reason string
	// Hint says what to do about it, if anything can be done. As in every hint, a
	// field of a spec is its path in backquotes: see [RenderHint].
	Hint string
	// File and Line say where it is written: the name of the spec file and the
	// line, from 1; empty and 0 if they are not known.
	File string
	Line int
}

// Error returns `cannot use FIELD "VALUE": REASON`, after FILE:LINE if these are
// known. A long value is cut short.
func (e *FieldError) Error() string {
	var b strings.Builder
	switch line := strconv.Itoa(e.Line); {
	case e.File != "" && e.Line > 0:
		b.WriteString(e.File + ":" + line + ": ")
	case e.File != "":
		b.WriteString(e.File + ": ")
	case e.Line > 0:
		b.WriteString("line " + line + ": ")
	}
	if e.Field == "" {
		b.WriteString("cannot read the spec")
	} else {
		b.WriteString("cannot use " + e.Field)
	}
	if e.Value != "" {
		b.WriteString(" " + quoteShort(e.Value))
	}
	b.WriteString(": " + e.Reason)
	return b.String()
}

// FieldErrors returns every [FieldError] that err is, joins or wraps, in order.
func FieldErrors(err error) []*FieldError {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself, to find every one
	case *FieldError:
		return []*FieldError{e}
	case interface{ Unwrap() error }:
		return FieldErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		var found []*FieldError
		for _, one := range e.Unwrap() {
			found = append(found, FieldErrors(one)...)
		}
		return found
	}
	return nil
}

// FieldPath returns the path of the field that key names inside parent. A key that is
// not a plain word is quoted, so that a path always is one short line.
func FieldPath(parent, key string) string {
	if !isPlainKey(key) {
		key = quoteShort(key)
	}
	if parent == "" {
		return key
	}
	return parent + "." + key
}

// isPlainKey reports whether a key is letters, digits, underscores and hyphens, and
// short.
func isPlainKey(key string) bool {
	for i := 0; i < len(key); i++ {
		if !isLetter(key[i]) && !isDigit(key[i]) && key[i] != '_' && key[i] != '-' {
			return false
		}
	}
	return key != "" && len(key) <= maxShown
}

// quoteShort quotes at most maxShown bytes of s, without splitting a rune.
func quoteShort(s string) string {
	if len(s) <= maxShown {
		return strconv.Quote(s)
	}
	cut := maxShown
	for cut > maxShown-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "…"
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// OfCeiling begins a path in a hint: the field after it is one of the spec that a ceiling is
// made of, which callers below the ceiling cannot set.
const OfCeiling = "ceiling."

// hintPath is a field of a spec in a hint.
var hintPath = lazyregexp.New("`([a-z_.]+)`")

// RenderHint returns a hint with name(path) in place of each path of a spec's field in
// backquotes, such as `limits.memory`: a command line says --memory, and a tool memory.
func RenderHint(hint string, name func(path string) string) string {
	return hintPath().ReplaceAllStringFunc(hint, func(quoted string) string { return name(quoted[1 : len(quoted)-1]) })
}

// Nearest returns the known name that an unknown word probably stands for: the first
// that is at most two changes away, or "".
func Nearest(word string, known []string) (name string) {
	least, word := 3, strings.ToLower(word)
	for _, k := range known {
		if d := distance(word, k); d < least && d < len(k) {
			name, least = k, d
		}
	}
	return name
}

// distance returns the number of insertions, deletions, changes and swaps of
// neighbours that lead from a to b, or a large number if the lengths alone show that
// the two are far apart.
func distance(a, b string) int {
	if len(a) > len(b)+2 || len(b) > len(a)+2 {
		return len(a) + len(b)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}

var plainWord = lazyregexp.New(`^[A-Za-z0-9_./:=@%+,~-]+$`)

// ShellWord returns a word as it is written in a shell, for commands that people paste:
// quoted if a shell would not take all of it as text. Characters that cannot be seen,
// and bytes that are not UTF-8, are written by number, as $'\ooo', which bash, zsh and
// ksh read. No backquote in it is followed by a letter: [RenderHint] takes no part of a
// name for a field.
func ShellWord(word string) string {
	if plainWord().MatchString(word) && word[0] != '~' {
		return word
	}
	if utf8.ValidString(word) && !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "'" + strings.NewReplacer("'", `'\''`, "`", "'\\`'").Replace(word) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for len(word) > 0 {
		r, n := utf8.DecodeRuneInString(word)
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + word[:n])
		case r != '`' && unicode.IsPrint(r) && (r != utf8.RuneError || n > 1):
			b.WriteString(word[:n])
		default:
			for i := range n {
				fmt.Fprintf(&b, `\%03o`, word[i])
			}
		}
		word = word[n:]
	}
	return b.String() + "'"
}
