package op

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hiddenForm is how the text of a file shows models a character that cannot be
// seen, or that a terminal would obey, by its number: ⟦U+001B⟧. It is taken back
// as that character.
var hiddenForm = regexp.MustCompile(`⟦U\+([0-9A-F]{4,6})⟧`)

// hiddenOpen begins it. Where a text has that itself, its first character is shown
// by number, so that nothing is shown in one way and means another.
const hiddenOpen = "⟦U+"

// reveal shows what a line has that cannot be seen; tabs are as they are.
func reveal(line string) string {
	hidden := func(r rune) bool { return r != '\t' && (unicode.IsControl(r) || Hidden(r)) }
	if strings.IndexFunc(line, hidden) < 0 && !strings.Contains(line, hiddenOpen) {
		return line
	}
	var b strings.Builder
	for at, r := range line {
		if hidden(r) || strings.HasPrefix(line[at:], hiddenOpen) {
			fmt.Fprintf(&b, "%s%04X⟧", hiddenOpen, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unreveal is the text that reveal has shown so.
func unreveal(text string) string {
	return hiddenForm.ReplaceAllStringFunc(text, func(form string) string {
		n, err := strconv.ParseUint(hiddenForm.FindStringSubmatch(form)[1], 16, 32)
		if err != nil || n == 0 || !utf8.ValidRune(rune(n)) {
			return form // a file with a NUL is no text
		}
		return string(rune(n))
	})
}
