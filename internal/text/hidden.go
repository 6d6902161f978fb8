package text

import (
	"fmt"
	"regexp"
	"slices"
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

// hides says whether a character of a file is shown by number. Tabs and line feeds are
// as they are.
func hides(r rune) bool { return r != '\t' && r != '\n' && (unicode.IsControl(r) || Hidden(r)) }

// Reveal shows what a text has that cannot be seen, or that a terminal would obey. Of
// lines that end in CRLF the end is as it is.
func Reveal(text string) string {
	if strings.IndexFunc(text, hides) < 0 && !strings.Contains(text, hiddenOpen) {
		return text
	}
	var b strings.Builder
	for at, r := range text {
		rest := text[at:]
		if hides(r) && !strings.HasPrefix(rest, "\r\n") || strings.HasPrefix(rest, hiddenOpen) {
			fmt.Fprintf(&b, "%s%04X⟧", hiddenOpen, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Unreveal is the text that Reveal has shown so. What it would not show by number is
// left as it is written, and so is NUL: a file with one is no text.
func Unreveal(text string) string {
	var b strings.Builder
	at := 0
	for _, form := range hiddenForm.FindAllStringSubmatchIndex(text, -1) {
		n, err := strconv.ParseInt(text[form[2]:form[3]], 16, 32)
		r := rune(n)
		opens := r == '⟦' && strings.HasPrefix(text[form[1]:], hiddenOpen[len("⟦"):])
		if err != nil || r == 0 || !hides(r) && !opens {
			continue
		}
		b.WriteString(text[at:form[0]])
		b.WriteRune(r)
		at = form[1]
	}
	return b.String() + text[at:]
}

// RevealDiff does so for a unified diff. How lines end is shown where not all of them
// end in CRLF: it may be all that was changed.
func RevealDiff(diff string) string {
	lines := slices.Collect(strings.Lines(diff))
	crlf := true
	for i, line := range lines {
		last := i+1 < len(lines) && lines[i+1][0] == '\\' // the file ends there, without
		if line[0] != '@' && line[0] != '\\' && !last {
			crlf = crlf && strings.HasSuffix(line, "\r\n")
		}
	}
	var b strings.Builder
	for _, line := range lines {
		if crlf {
			b.WriteString(Reveal(line))
		} else {
			b.WriteString(Reveal(strings.TrimSuffix(line, "\n")) + "\n")
		}
	}
	return b.String()
}

// Visible puts escapes in place of what would not be seen, or be obeyed.
func Visible(s string) string {
	var b strings.Builder
	for _, c := range s {
		if c == ' ' || unicode.IsPrint(c) {
			b.WriteRune(c)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(c), "'"))
	}
	return b.String()
}

// Label is a command for people, in one short line.
func Label(text string) string {
	text = strings.Join(strings.Fields(Harmless(text)), " ")
	if utf8.RuneCountInString(text) > 100 {
		text = string([]rune(text)[:99]) + "…"
	}
	return text
}

// Harmless makes control characters visible instead of effective, and ends
// lines with a line feed alone. What turns the direction of text is left out.
func Harmless(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t':
			return c
		case c < ' ':
			return 0x2400 + c // the symbol for it
		case c == 0x7f:
			return 0x2421
		case unicode.IsControl(c), unicode.Is(unicode.Bidi_Control, c):
			return utf8.RuneError
		}
		return c
	}, text)
}
