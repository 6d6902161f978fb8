package policy

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxShown bounds how much of a refused value an error repeats, in bytes.
const maxShown = 80

// FieldError is one thing in a spec that cannot be used, and why.
type FieldError struct {
	// Field is the path of the field, "mounts[1].target". It is empty where
	// the document as a whole cannot be read.
	Field string
	// Value is what was written. It is empty where nothing was, and for the
	// values of environment variables, which may be secret.
	Value string
	// Reason completes the sentence "cannot use FIELD VALUE: …".
	Reason string
	// Hint says what to do about it, where there is something to say. As in every
	// hint, a field of a spec is its path in backquotes: see [RenderHint].
	Hint string
	// File and Line say where it is written: the name of the spec file and
	// the line, from 1; empty and 0 where they are not known.
	File string
	Line int
}

// Error returns `cannot use FIELD "VALUE": REASON`, behind FILE:LINE where
// these are known. A long value is cut short.
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

// FieldPath returns the path of the field that key names inside parent. A key
// that is no plain word is quoted, so that a path always is one short line.
func FieldPath(parent, key string) string {
	if !isPlainKey(key) {
		key = quoteShort(key)
	}
	if parent == "" {
		return key
	}
	return parent + "." + key
}

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

// hintPath is a field of a spec in a hint.
var hintPath = regexp.MustCompile("`([a-z_.]+)`")

// RenderHint returns a hint with name(path) in place of each path of a spec's field in
// backquotes, such as `limits.memory`: a command line says --memory, and a tool memory.
func RenderHint(hint string, name func(path string) string) string {
	return hintPath.ReplaceAllStringFunc(hint, func(quoted string) string { return name(quoted[1 : len(quoted)-1]) })
}
