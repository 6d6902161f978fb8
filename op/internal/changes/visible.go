package changes

import (
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/paddock-dev/paddock/internal/text"
)

// visible is a writer to a terminal that shows control characters, as ^[, and what is invisible or
// turns the direction of text around, as <U+202E>, instead of having the terminal obey them: files
// of a layer can hold any, and could hide what is said of them. [visible.Close] ends it.
type visible struct {
	to   io.Writer
	half []byte // the beginning of a character, until the rest is written
}

// shown returns w, or what shows such characters if w is a terminal, and what ends it.
func shown(w io.Writer) (io.Writer, func() error) {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		v := &visible{to: w}
		return v, v.Close
	}
	return w, func() error { return nil }
}

// Write writes text. It keeps line feeds and tabs.
func (v *visible) Write(p []byte) (int, error) {
	data := slices.Concat(v.half, p)
	out := make([]byte, 0, len(data)+16)
	for len(data) > 0 && utf8.FullRune(data) {
		out, data = text.AppendVisible(out, data)
	}
	v.half = slices.Clone(data)
	if _, err := v.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what is there of a character whose rest never came.
func (v *visible) Close() error {
	var out []byte
	for len(v.half) > 0 {
		out, v.half = text.AppendVisible(out, v.half)
	}
	_, err := v.to.Write(out)
	return err
}
