package op

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NameText is a name or a path in a text for people and models: as it is where all
// of it can be seen, else quoted as Go and JSON do it, so that neither a line feed
// in it makes an entry that is not there, nor what a terminal obeys or nobody sees
// another name of it. Structured answers have names as they are.
func NameText(name string) string {
	odd := strings.HasPrefix(name, `"`) || strings.TrimSpace(name) != name || strings.ContainsRune(name, utf8.RuneError) // of bad bytes, too
	if odd || strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// Hidden says whether a character turns the direction of a text, or is one that
// nobody sees: they are left out of what is shown.
func Hidden(r rune) bool {
	return unicode.Is(unicode.Bidi_Control, r) || r == '\ufeff' || r >= 0xe0000 && r <= 0xe007f
}

// clearLine is a line of a file without what a terminal would obey.
func clearLine(text string) string {
	clean, _ := clearText([]byte(text), true, 6*len(text)) // no byte costs more
	return strings.ReplaceAll(clean, "\n", "")
}

// clearLines does so for many. How they end is told as it is: it may be all that
// was changed.
func clearLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		b.WriteString(clearLine(body))
		b.WriteString(line[len(body):])
	}
	return b.String()
}
