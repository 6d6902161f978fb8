package mcp

import (
	"bytes"
	"fmt"
	"io"
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

// plain returns a text without characters that control a terminal or are invisible.
func plain(s string) string { return text.Strip(s) }

// clip keeps head and tail of a text of more than most characters.
func clip(s string, most int) string {
	n := utf8.RuneCountInString(s)
	if n <= most {
		return s
	}
	note := fmt.Sprintf("\n[… %d characters are not shown: ask for less, or read on where the answer says how …]\n", n-most+120)
	return text.CutMiddle(s, max(most-utf8.RuneCountInString(note), 0), note)
}
