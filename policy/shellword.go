package policy

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,~-]+$`)

// ShellWord returns a word as it is written in a shell, for commands that people paste:
// in quotes where a shell would take something in it for more than text. Characters that
// cannot be seen, and bytes that are no UTF-8, are written by number, as $'\ooo', which
// bash, zsh and ksh read.
func ShellWord(word string) string {
	if plainWord.MatchString(word) && word[0] != '~' {
		return word
	}
	if utf8.ValidString(word) && !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for len(word) > 0 {
		r, n := utf8.DecodeRuneInString(word)
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + word[:n])
		case unicode.IsPrint(r) && (r != utf8.RuneError || n > 1):
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
