package core

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Decoder turns bytes into valid UTF-8 as they come: what cannot be part of a
// character becomes U+FFFD, once for each longest beginning of one (Unicode,
// section 3.9, "U+FFFD substitution of maximal subparts"), and a character
// that is split over writes is waited for.
type Decoder struct {
	Dst  io.Writer
	held []byte // the beginning of a character
	out  []byte
}

var replacement = []byte(string(utf8.RuneError))

// Write decodes p.
func (d *Decoder) Write(p []byte) (int, error) {
	n := len(p)
	if len(d.held) == 0 && utf8.Valid(p) {
		return d.Dst.Write(p)
	}
	if len(d.held) > 0 {
		p = append(d.held, p...)
		d.held = nil
	}
	out := d.out[:0]
	for len(p) > 0 {
		if !utf8.FullRune(p) {
			d.held = append([]byte(nil), p...)
			break
		}
		r, size := utf8.DecodeRune(p)
		if r == utf8.RuneError && size == 1 {
			out, size = append(out, replacement...), subpart(p)
		} else {
			out = append(out, p[:size]...)
		}
		p = p[size:]
	}
	d.out = out
	if len(out) == 0 {
		return n, nil
	}
	if _, err := d.Dst.Write(out); err != nil {
		return 0, err
	}
	return n, nil
}

// Close decodes what a character has begun with that never ended.
func (d *Decoder) Close() error {
	if len(d.held) == 0 {
		return nil
	}
	d.held = nil
	_, err := d.Dst.Write(replacement)
	return err
}

// subpart returns how many of p's bytes are the beginning of a character that goes
// on otherwise; 1 where none begins.
func subpart(p []byte) int {
	need, low, high := 0, byte(0x80), byte(0xbf)
	switch c := p[0]; {
	case 0xc2 <= c && c <= 0xdf:
		need = 1
	case 0xe0 <= c && c <= 0xef:
		need = 2
	case 0xf0 <= c && c <= 0xf4:
		need = 3
	}
	switch p[0] {
	case 0xe0:
		low = 0xa0
	case 0xed:
		high = 0x9f
	case 0xf0:
		low = 0x90
	case 0xf4:
		high = 0x8f
	}
	n := 1
	for n <= need && n < len(p) && low <= p[n] && p[n] <= high {
		n++
		low, high = 0x80, 0xbf
	}
	return n
}

// TrimPartialStart drops the end of a character whose beginning is missing.
func TrimPartialStart(p []byte) []byte {
	for range utf8.UTFMax - 1 {
		if len(p) == 0 || utf8.RuneStart(p[0]) {
			break
		}
		p = p[1:]
	}
	return p
}

// TrimPartialEnd drops the beginning of a character whose rest is missing.
func TrimPartialEnd(p []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax, len(p)); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return p[:len(p)-i]
			}
			break
		}
	}
	return p
}

// PyRepr quotes a text as the errors of the contract do, which is how Python
// writes a string.
func PyRepr(s string) string {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}

// maxName bounds the name of an entry, in bytes.
const maxName = 256

// ShortName cuts a name that has more than maxName bytes, at a character.
func ShortName(name string) string { return Shorten(name, maxName) }

// Shorten cuts a text that has more than limit bytes, at a character.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
