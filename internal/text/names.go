// Package text has what every door needs to show text from inside: names in one
// line ([NameText]), characters that are not seen ([Hidden], [Reveal] and back),
// terminal output without control sequences ([PlainText], [Clear]), and cuts that
// never split a character ([FirstOf], [LastOf]).
//
// Nothing in it is trusted: commands have made what it is given.
package text

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
	if odd || strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) || Hidden(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// Hidden says whether a character turns the direction of a text, or is one that
// nobody sees: they are left out of what is shown. Those that join letters and emoji,
// and choose how an emoji looks, are none.
func Hidden(r rune) bool {
	if r < 0xad {
		return false
	}
	return r == 0xad || r >= 0x2060 && r <= 0x206f || r == 0x200b || r == '\ufeff' || r >= 0xe0000 && r <= 0xe0fff ||
		unicode.In(r, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point)
}
