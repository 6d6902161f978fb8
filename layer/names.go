package layer

import (
	"strings"
	"unicode"
)

// ignored are the characters that some file systems leave out when they compare names.
func ignored(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff
}

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
			if !ignored(r) {
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
