package text

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsInvisible reports whether a character has no form of its own: it changes the direction of a
// text, joins or varies other characters, or is nothing at all. Some file systems leave these
// characters out when they compare names.
func IsInvisible(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, // marks of direction, joiners
		r == 0xad, r == 0x34f, r == 0x61c, r == 0x115f, r == 0x1160, r >= 0x17b4 && r <= 0x17b5, r >= 0x180b && r <= 0x180f, r == 0x2800, r == 0x3164,
		r >= 0x1bca0 && r <= 0x1bca3, r >= 0x1d173 && r <= 0x1d17a, // of shorthand and of music
		r >= 0xfe00 && r <= 0xfe0f, r == 0xfeff, r == 0xffa0, r >= 0xfff0 && r <= 0xfff8, r >= 0xe0000 && r <= 0xe0fff: // variants
		return true
	}
	return false
}

// IsHidden reports whether a character changes the direction of a text, or is invisible.
// Characters that join letters and emoji, or select how an emoji looks, are not hidden: texts need
// them.
func IsHidden(r rune) bool {
	needed := r == 0x200c || r == 0x200d || r >= 0x180b && r <= 0x180f || r >= 0xfe00 && r <= 0xfe0f
	return IsInvisible(r) && !needed
}

// IsShown reports whether a character of a text is visible as it is: a tab, a line feed, or
// any character that is neither a control character nor hidden.
func IsShown(r rune) bool {
	return r == '\t' || r == '\n' || !unicode.IsControl(r) && !IsHidden(r)
}

// QuoteName returns a name or a path for people and models: unchanged if all of it is visible,
// else quoted as in Go and JSON, with the numbers of invisible characters. Otherwise a line feed in
// it could look like another entry, and control sequences or invisible characters could make it look
// like another name. Structured answers have names unchanged.
func QuoteName(name string) string {
	odd := strings.HasPrefix(name, `"`) || strings.TrimSpace(name) != name || strings.ContainsRune(name, utf8.RuneError) // of bad bytes, too
	if odd || strings.ContainsFunc(name, func(r rune) bool { return !isSeen(r) }) {
		return byNumber(strconv.Quote(name))
	}
	return name
}

// isSeen reports whether a character can be printed, and is then seen.
func isSeen(r rune) bool { return strconv.IsPrint(r) && !IsInvisible(r) }

// byNumber returns a quoted text in which invisible characters that could be printed are escaped,
// too.
func byNumber(quoted string) string {
	if !strings.ContainsFunc(quoted, IsInvisible) {
		return quoted
	}
	var b strings.Builder
	for _, r := range quoted {
		if IsInvisible(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Escape returns one line for people, in which what cannot be printed is escaped, as \n, \x1b
// or \u202e.
func Escape(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch _, size := utf8.DecodeRuneInString(s[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !isSeen(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// AppendVisible appends the first character of some text as people see it, and returns the rest of
// the text: a control character but a line feed or a tab as ^[, what is invisible or turns the
// direction of text around as <U+202E>, and a byte that begins no character as <FF>.
func AppendVisible(out, data []byte) (shown, rest []byte) {
	r, n := utf8.DecodeRune(data)
	switch {
	case r == utf8.RuneError && n == 1: // no character
		out = fmt.Appendf(out, "<%02X>", data[0])
	case r >= 0x80 && r < 0xa0: // also two characters: ESC, and this one
		out = append(out, '^', '[', byte(r)-0x40)
	case r < 0x20 && r != '\n' && r != '\t', r == 0x7f:
		out = append(out, '^', byte(r)^0x40)
	case IsInvisible(r):
		out = appendNumber(out, r)
	default:
		out = append(out, data[:n]...)
	}
	return out, data[n:]
}

func appendNumber(out []byte, r rune) []byte { return fmt.Appendf(out, "<U+%04X>", r) }

// Visible returns one line for people who decide about it: characters as [AppendVisible] shows them,
// and all others that are not seen, line feeds and tabs included, by number.
func Visible(s string) string {
	var out []byte
	for data := []byte(s); len(data) > 0; {
		r, n := utf8.DecodeRune(data)
		if isSeen(r) || r == utf8.RuneError || r < 0xa0 && r != '\n' && r != '\t' {
			out, data = AppendVisible(out, data)
		} else {
			out, data = appendNumber(out, r), data[n:]
		}
	}
	return string(out)
}

// Printable returns one line for people, with another character instead of each that cannot be
// printed. Nothing in it steers a terminal or begins another line.
func Printable(s string, instead rune) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return instead
		}
		return r
	}, s)
}

// ControlPictures returns a text in which control characters are visible and have no effect:
// U+001B becomes "␛". Lines end with a line feed alone. Characters that change the direction
// of text become U+FFFD.
func ControlPictures(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ':
			return '␀' + r
		case r == 0x7f:
			return '␡'
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return utf8.RuneError
		}
		return r
	}, s)
}

// Label returns a command as one short line for people.
func Label(s string) string {
	s = strings.Join(strings.Fields(ControlPictures(s)), " ")
	if utf8.RuneCountInString(s) > 100 {
		s = PrefixCharacters(s, 99) + "…"
	}
	return s
}

// hiddenOpen begins the form in which models see a character of a file that is invisible or
// controls a terminal: its number, as in ⟦U+001B⟧. This form is read back as the character. If
// a text has hiddenOpen itself, its first character is shown in this form too, so that the form
// is never ambiguous.
const (
	hiddenOpen  = "⟦U+"
	hiddenClose = "⟧"
)

// EncodeHidden replaces characters of a text that are invisible or control a terminal by their
// numbers. CRLF at the end of a line stays as it is.
func EncodeHidden(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !IsShown(r) }) < 0 && !strings.Contains(s, hiddenOpen) {
		return s
	}
	var b strings.Builder
	for at, r := range s {
		rest := s[at:]
		if !IsShown(r) && !strings.HasPrefix(rest, "\r\n") || strings.HasPrefix(rest, hiddenOpen) {
			fmt.Fprintf(&b, "%s%04X%s", hiddenOpen, r, hiddenClose)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// DecodeHidden returns the text that [EncodeHidden] was given. Numbers of characters that it
// would not replace stay as they are written, and so does NUL: a file with one is not a text.
func DecodeHidden(s string) string {
	var b strings.Builder
	for {
		at := strings.Index(s, hiddenOpen)
		if at < 0 {
			return b.String() + s
		}
		from := at + len(hiddenOpen)
		digits, _, _ := strings.Cut(s[from:min(len(s), from+6+len(hiddenClose))], hiddenClose)
		rest, closed := strings.CutPrefix(s[from+len(digits):], hiddenClose)
		n, err := strconv.ParseInt(digits, 16, 32)
		r := rune(n)
		opens := r == '⟦' && strings.HasPrefix(rest, hiddenOpen[len("⟦"):])
		if !closed || err != nil || len(digits) < 4 || strings.Trim(digits, "0123456789ABCDEF") != "" || r == 0 || IsShown(r) && !opens {
			b.WriteString(s[:at] + "⟦")
			s = s[at+len("⟦"):]
			continue
		}
		b.WriteString(s[:at])
		b.WriteRune(r)
		s = rest
	}
}

// EncodeHiddenDiff is [EncodeHidden] for a unified diff. The ends of lines are shown unless all
// of them are CRLF: they may be all that was changed.
func EncodeHiddenDiff(diff string) string {
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
			b.WriteString(EncodeHidden(line))
		} else {
			b.WriteString(EncodeHidden(strings.TrimSuffix(line, "\n")) + "\n")
		}
	}
	return b.String()
}
