package agent

import (
	"io"
	"unicode/utf8"
)

// decoder turns bytes into valid UTF-8 as they come: what cannot be part of a
// character becomes U+FFFD, once for each longest beginning of one (Unicode,
// section 3.9, "U+FFFD substitution of maximal subparts"), and a character
// that is split over writes is waited for.
type decoder struct {
	dst  io.Writer
	held []byte // the beginning of a character
	out  []byte
}

var replacement = []byte(string(utf8.RuneError))

// Write decodes p.
func (d *decoder) Write(p []byte) (int, error) {
	n := len(p)
	if len(d.held) == 0 && utf8.Valid(p) {
		return d.dst.Write(p)
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
	if _, err := d.dst.Write(out); err != nil {
		return 0, err
	}
	return n, nil
}

// Close decodes what a character has begun with that never ended.
func (d *decoder) Close() error {
	if len(d.held) == 0 {
		return nil
	}
	d.held = nil
	_, err := d.dst.Write(replacement)
	return err
}

// subpart is how many of p's bytes are the beginning of a character that goes
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
