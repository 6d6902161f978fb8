package obeyed

import (
	"strings"
	"unicode"

	"github.com/paddock-dev/paddock/internal/text"
)

// expanded are the characters that some file systems compare as several letters of ASCII.
var expanded = map[rune]string{'ß': "ss", 'ẞ': "ss", 'ﬀ': "ff", 'ﬁ': "fi", 'ﬂ': "fl", 'ﬃ': "ffi", 'ﬄ': "ffl", 'ﬅ': "st", 'ﬆ': "st"}

// foldName returns a name as the least particular file systems compare it: in one case, without
// invisible characters, blanks and dots at its end, and names of streams. The short names that
// they give to ".git" are ".git".
func foldName(name string) string {
	name, _, _ = strings.Cut(name, ":")
	plain := true
	for i := range len(name) {
		if b := name[i]; b >= 0x80 || b >= 'A' && b <= 'Z' {
			plain = false
			break
		}
	}
	if !plain {
		var b strings.Builder
		for _, r := range name {
			if many, ok := expanded[r]; ok {
				b.WriteString(many)
			} else if !text.IsInvisible(r) {
				b.WriteRune(foldRune(r))
			}
		}
		name = b.String()
	}
	name = strings.TrimRight(name, ". ")
	if short, number, ok := strings.Cut(name, "~"); ok && (short == "git" || strings.HasPrefix(short, "gi7eb")) && number != "" && strings.Trim(number, "0123456789") == "" {
		return ".git"
	}
	return name
}

// foldRune returns the smallest character that differs from one in case alone, in lower case if it
// is a letter of ASCII.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	if least >= 'A' && least <= 'Z' {
		least += 'a' - 'A'
	}
	return least
}
