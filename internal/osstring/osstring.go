// Package osstring writes the strings of the kernel as JSON without loss: paths, arguments and
// variables, which are any bytes but NUL.
//
// JSON has characters only. A byte that is not part of one, 0x80 to 0xff, becomes the lone
// surrogate U+DC80 to U+DCFF, as "\udce9" (Python's PEP 383, "surrogateescape").
package osstring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// String is a path, an argument, or the value of a variable.
type String string

// MarshalJSON writes a string.
func (s String) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(s)) {
		return encode(string(s))
	}
	var b bytes.Buffer
	b.WriteByte('"')
	for rest := string(s); rest != ""; {
		n := 0 // how many bytes come before the first invalid one
		for n < len(rest) {
			r, size := utf8.DecodeRuneInString(rest[n:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			n += size
		}
		text, err := encode(rest[:n])
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
	return b.Bytes(), nil
}

// encode returns a value as JSON that is no longer than needed: without escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes()[:b.Len()-1], nil // without its newline
}

// UnmarshalJSON reads a string.
func (s *String) UnmarshalJSON(data []byte) error {
	if data[0] != '"' || !bytes.Contains(data, []byte(`\u`)) {
		return json.Unmarshal(data, (*string)(s))
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
	*s = String(b.String())
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

// hex4 reads a \u escape of four hexadecimal digits, and returns -1 if the text begins with anything else.
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

// Plain returns JSON in which bytes that are not characters are U+FFFD, for readers that refuse
// lone surrogates.
func Plain(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\udc`)) {
		return text
	}
	text = bytes.Clone(text)
	for at := 0; at < len(text); {
		unit, size := escaped(text[at:])
		if 0xdc80 <= unit && unit <= 0xdcff {
			copy(text[at:], `\ufffd`)
		}
		at += size
	}
	return text
}

// Escapes returns where a JSON text has escapes that stand for bytes, and whether another one is half of
// a pair of surrogates.
func Escapes(text []byte) (at []int64, half bool) {
	for i := 0; ; {
		next := bytes.IndexByte(text[i:], '\\')
		if next < 0 {
			return at, false
		}
		i += next
		unit, size := escaped(text[i:])
		switch {
		case unit < 0xd800 || 0xdfff < unit:
		case unit < 0xdc80 || 0xdcff < unit:
			return nil, true
		default:
			at = append(at, int64(i))
		}
		i += size
	}
}

// List is a list of arguments or paths.
type List []string

// MarshalJSON writes a list.
func (l List) MarshalJSON() ([]byte, error) {
	if l == nil || !slices.ContainsFunc(l, invalid) {
		return encode([]string(l))
	}
	list := make([]String, len(l))
	for i, s := range l {
		list[i] = String(s)
	}
	return encode(list)
}

// UnmarshalJSON reads a list.
func (l *List) UnmarshalJSON(data []byte) error {
	var list []String
	if !bytes.Contains(data, []byte(`\u`)) {
		return json.Unmarshal(data, (*[]string)(l))
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*l = make(List, len(list))
	for i, s := range list {
		(*l)[i] = string(s)
	}
	return nil
}

// Map is an environment: variables by name.
type Map map[string]string

// MarshalJSON writes the variables, sorted by name.
func (m Map) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	for i, name := range slices.Sorted(maps.Keys(m)) {
		b.WriteByte("{,"[min(i, 1)])
		for at, s := range []string{name, m[name]} {
			text, err := String(s).MarshalJSON()
			if err != nil {
				return nil, err
			}
			b.Write(text)
			b.WriteString([]string{":", ""}[at])
		}
	}
	if len(m) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads variables.
func (m *Map) UnmarshalJSON(data []byte) error {
	if data[0] != '{' || !bytes.Contains(data, []byte(`\u`)) {
		return json.Unmarshal(data, (*map[string]string)(m))
	}
	all := make(Map)
	dec := json.NewDecoder(bytes.NewReader(data))
	_, err := dec.Token() // {
	for err == nil && dec.More() {
		from := dec.InputOffset()
		if _, err = dec.Token(); err != nil {
			break
		}
		var name, value String
		if err = name.UnmarshalJSON(bytes.TrimLeft(data[from:dec.InputOffset()], ", \t\r\n")); err != nil {
			break
		}
		err = dec.Decode(&value)
		all[string(name)] = string(value)
	}
	if err == nil {
		*m = all
	}
	return err
}

func invalid(s string) bool { return !utf8.ValidString(s) }
