package text

import (
	"io"
	"unicode/utf8"
)

// Decoder is a writer that turns a stream of bytes into valid UTF-8. Bytes that cannot be part
// of a character become U+FFFD, once for each longest beginning of a character (Unicode,
// section 3.9, "U+FFFD substitution of maximal subparts"). If a character is split over writes,
// Decoder waits for the rest.
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
			out, size = append(out, replacement...), maximalSubpart(p)
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

// Close decodes the beginning of a character that never ended.
func (d *Decoder) Close() error {
	if len(d.held) == 0 {
		return nil
	}
	d.held = nil
	_, err := d.Dst.Write(replacement)
	return err
}

// maximalSubpart returns how many of p's bytes are the beginning of a character that does not
// go on; 1 if no character begins there.
func maximalSubpart(p []byte) int {
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

// JSONSize returns how many bytes a text takes in JSON, without the quotes around it, as the
// wire and the server for models write it: characters that are special only in HTML are not
// escaped.
func JSONSize(s string) (size int) {
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		size += runeJSONSize(r, n)
		s = s[n:]
	}
	return size
}

// TailWithinJSON returns the longest end of a text that takes at most room bytes in JSON.
func TailWithinJSON(s string, room int) string {
	at := len(s)
	for at > 0 {
		r, n := utf8.DecodeLastRuneInString(s[:at])
		if room -= runeJSONSize(r, n); room < 0 {
			break
		}
		at -= n
	}
	return s[at:]
}

func runeJSONSize(r rune, n int) int {
	switch {
	case r == '"', r == '\\', '\b' <= r && r <= '\r' && r != '\v':
		return 2
	case r < ' ', r == '\u2028', r == '\u2029', r == utf8.RuneError && n == 1:
		return len(`\u0000`)
	}
	return n
}

// Cost returns how many characters a text takes in JSON as Go writes it by default, with
// escapes for HTML. It is what budgets of answers count.
func Cost(s string) (cost int) {
	for _, r := range s {
		cost += runeCost(r)
	}
	return cost
}

// PrefixWithin returns the longest beginning of a text that costs so much at most.
func PrefixWithin(s string, cost int) string {
	for i, r := range s {
		if cost -= runeCost(r); cost < 0 {
			return s[:i]
		}
	}
	return s
}

func runeCost(r rune) int {
	switch {
	case r == '\n', r == '\t', r == '"', r == '\\':
		return 2
	case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029':
		return len(`\u0000`)
	}
	return 1
}
