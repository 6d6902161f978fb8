package changes

import (
	"io"
	"os"

	"golang.org/x/term"
)

// visible is a writer to a terminal that shows control characters, as ^[, instead of having the
// terminal obey them: files of a layer can hold any, and could hide what is said of them.
type visible struct {
	to   io.Writer
	half bool // the first byte of a control character of two was written last
}

// shown returns w, or what shows control characters if w is a terminal.
func shown(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &visible{to: w}
	}
	return w
}

// Write writes text. It keeps line feeds and tabs.
func (v *visible) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p)+16)
	for _, b := range p {
		switch {
		case v.half && b >= 0x80 && b < 0xa0: // U+0080 to U+009F
			out = append(out[:max(0, len(out)-1)], '^', '[', b-0x40)
		case b < 0x20 && b != '\n' && b != '\t', b == 0x7f:
			out = append(out, '^', b^0x40)
		default:
			out = append(out, b)
		}
		v.half = b == 0xc2
	}
	if _, err := v.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
