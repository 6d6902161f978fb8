package obeyed

import (
	"strings"
	"unicode"
)

// ignored are the characters that some file systems leave out when they compare names.
func ignored(r rune) bool {
	switch {
	case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, // marks of direction, joiners
		r == 0xad, r == 0x34f, r == 0x61c, r == 0x115f, r == 0x1160, r >= 0x17b4 && r <= 0x17b5, r >= 0x180b && r <= 0x180f, r == 0x3164,
		r >= 0xfe00 && r <= 0xfe0f, r == 0xfeff, r == 0xffa0, r >= 0xfff0 && r <= 0xfff8, r >= 0xe0000 && r <= 0xe0fff: // variants
		return true
	}
	return false
}

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
			} else if !ignored(r) {
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
