package command

import (
	"strconv"
	"strings"
)

// ansiEscapes are the escapes of $'…' that stand for one byte.
var ansiEscapes = map[byte]byte{
	'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'n': 10, 'r': 13, 't': 9, 'v': 11, '\\': '\\', '\'': '\'', '"': '"', '?': '?',
}

// decodeANSI is the value of $'s'. ok is false for what depends on the locale,
// for a NUL, which would cut the value, and for escapes that are not known.
func decodeANSI(s string) (value string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", false
		}
		if plain, known := ansiEscapes[s[i]]; known {
			b.WriteByte(plain)
			continue
		}
		number, length := ansiNumber(s[i:])
		if length == 0 || number == 0 || number > 0x7f {
			return "", false
		}
		b.WriteByte(byte(number))
		i += length - 1
	}
	return b.String(), true
}

// ansiNumber reads nnn, xHH, uHHHH and UHHHHHHHH, and says how long they are.
func ansiNumber(s string) (number uint64, length int) {
	base, most, skip := 8, 3, 0
	switch s[0] {
	case 'x':
		base, most, skip = 16, 2, 1
	case 'u':
		base, most, skip = 16, 4, 1
	case 'U':
		base, most, skip = 16, 8, 1
	}
	end := skip
	for end < len(s) && end-skip < most && strings.IndexByte("0123456789abcdef"[:base], s[end]|0x20) >= 0 {
		end++
	}
	number, err := strconv.ParseUint(s[skip:end], base, 64)
	if err != nil {
		return 0, 0
	}
	return number, end
}
