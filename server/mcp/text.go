package mcp

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
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

// plain returns a text without what a terminal would obey: control sequences, and control
// characters except line feeds and tabs. A carriage return becomes a line feed.
func plain(s string) string {
	shown, _ := text.Clear([]byte(s), true, math.MaxInt)
	return shown
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
