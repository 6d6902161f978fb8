package text

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// OrDash returns the text, "-" where it is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Count is a number of things.
func Count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// OrNone returns a list in one line, "none" where it is empty.
func OrNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// FirstOf is the beginning of a text, LastOf its end; what is cut is marked.
func FirstOf(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// LastOf begins at a line's beginning where there is one near.
func LastOf(text string, n int) string {
	if len(text) <= n {
		return text
	}
	end := text[len(text)-n:]
	if line := strings.IndexByte(end, '\n'); line >= 0 && line < n/2 {
		return end[line+1:]
	}
	for end != "" && !utf8.RuneStart(end[0]) {
		end = end[1:]
	}
	return end
}
