package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Path is a path of the file system: any bytes but NUL. JSON holds characters
// only, so a byte that is not part of one, 0x80 to 0xff, crosses the wire as
// the lone surrogate U+DC80 to U+DCFF (Python's PEP 383, "surrogateescape").
// So every path that an agent sends names its file when it is sent back.
type Path string

// MarshalJSON writes the path.
func (p Path) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return encodeText(string(p))
	}
	var b strings.Builder
	b.WriteByte('"')
	for rest := string(p); rest != ""; {
		n := 0 // how many bytes come before the first invalid one
		for n < len(rest) {
			r, size := utf8.DecodeRuneInString(rest[n:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			n += size
		}
		text, err := encodeText(rest[:n])
		if err != nil {
			return nil, err
		}
		b.Write(text[1 : len(text)-1])
		if rest = rest[n:]; rest != "" {
			fmt.Fprintf(&b, `\udc%02x`, rest[0])
			rest = rest[1:]
		}
	}
	b.WriteByte('"')
	return []byte(b.String()), nil
}

// encodeText returns a string as JSON, without the newline of encode.
func encodeText(s string) ([]byte, error) {
	text, err := encode(s)
	if err != nil {
		return nil, err
	}
	return text[:len(text)-1], nil
}

// UnmarshalJSON reads a path.
func (p *Path) UnmarshalJSON(data []byte) error {
	if data[0] != '"' || !strings.Contains(string(data), `\u`) {
		return json.Unmarshal(data, (*string)(p))
	}
	var b strings.Builder
	from, at, end := 1, 1, len(data)-1
	flush := func() error {
		var text string
		err := json.Unmarshal([]byte(`"`+string(data[from:at])+`"`), &text)
		b.WriteString(text)
		return err
	}
	for at < end {
		unit, size := escaped(data[at:end])
		if unit < 0xdc80 || 0xdcff < unit {
			at += size
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		b.WriteByte(byte(unit))
		at += size
		from = at
	}
	if err := flush(); err != nil {
		return err
	}
	*p = Path(b.String())
	return nil
}

// escaped returns the \u escape that a JSON text begins with, or 0, and how
// many bytes belong together: an escape, a pair of surrogates, or one byte.
func escaped(text []byte) (unit rune, size int) {
	if text[0] != '\\' || len(text) < 2 {
		return 0, 1
	}
	unit = hex4(text)
	switch {
	case unit < 0:
		return 0, 2
	case 0xd800 <= unit && unit < 0xdc00 && len(text) >= 12:
		if low := hex4(text[6:]); 0xdc00 <= low && low < 0xe000 {
			return 0, 12
		}
	}
	return unit, 6
}

// hex4 reads \uXXXX, and returns -1 if the text begins with anything else.
func hex4(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
