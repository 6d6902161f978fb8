package mcp

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
)

// teller is an output with its own text for models.
type teller interface {
	Tell(w io.Writer) error
}

// tell returns an output as text for a model; say rewords hints for this door.
func tell(o *op.Op, out any, say func(string) string) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = "the answer is in the structured content: it cannot be told as text"
		}
	}()
	var b bytes.Buffer
	var err error
	if t, ok := out.(teller); ok {
		err = t.Tell(&b)
	} else {
		err = o.Render(&b, out)
	}
	if err != nil { // the answer describes a failure
		b.WriteString(errorText(err, say))
	}
	return strings.TrimRight(b.String(), "\n")
}

// plain removes control sequences, and control characters except line feeds and tabs, which a
// terminal would obey. A carriage return becomes a line feed.
func plain(s string) string {
	i := strings.IndexFunc(s, func(r rune) bool { return !clean(r) || r == utf8.RuneError })
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == 0x1b || r == 0x9b:
			size = sequence(s)
		case r == '\r':
			if !strings.HasPrefix(s, "\r\n") {
				b.WriteByte('\n')
			}
		case clean(r):
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// clean reports whether a character neither controls a terminal nor hides.
func clean(r rune) bool { return r == '\n' || r == '\t' || !unicode.IsControl(r) && !text.Hidden(r) }

// sequence returns the length of the control sequence that text begins with.
func sequence(text string) int {
	_, i := utf8.DecodeRuneInString(text)
	if text[0] == 0x1b {
		if i >= len(text) {
			return i
		}
		switch text[i] {
		case '[':
			i++
		case ']', 'P', 'X', '^', '_':
			return stringSequence(text, i+1)
		default:
			for i < len(text) && text[i] >= 0x20 && text[i] <= 0x2f {
				i++
			}
			if i < len(text) && text[i] >= 0x30 && text[i] <= 0x7e {
				i++ // the final byte; any other byte is not part of the sequence
			}
			return i
		}
	}
	for i < len(text) && text[i] >= 0x20 && text[i] <= 0x3f {
		i++
	}
	if i < len(text) && text[i] >= 0x40 && text[i] <= 0x7e {
		i++
	}
	return i
}

// stringSequence returns where a string sequence ends: at BEL or ST, or else with its line.
func stringSequence(text string, i int) int {
	for ; i < len(text) && text[i] != '\n'; i++ {
		switch {
		case text[i] == 7:
			return i + 1
		case text[i] == 0x1b && i+1 < len(text) && text[i+1] == '\\':
			return i + 2
		}
	}
	return i
}

// clip keeps head and tail of a text of more than most characters.
func clip(text string, most int) string {
	n := utf8.RuneCountInString(text)
	if n <= most {
		return text
	}
	note := fmt.Sprintf("\n[… %d characters are not shown: ask for less, or read on where the answer says how …]\n", n-most+120)
	left := max(most-utf8.RuneCountInString(note), 0)
	return runes(text, left*2/3) + note + text[len(text)-len(lastRunes(text, left-left*2/3)):]
}

// runes returns the first n characters.
func runes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// lastRunes returns the last n characters.
func lastRunes(text string, n int) string {
	i := len(text)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(text[:i])
		i -= size
	}
	return text[i:]
}
