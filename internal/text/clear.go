package text

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxControl bounds a control sequence, in bytes: what has no end until then is none.
const MaxControl = 4096

// Clear makes text for a model of what a program printed: UTF-8 without
// control sequences, in which lines end with a line feed. It takes as much of
// data as costs at most so much, in characters of encoded JSON, and says how
// many bytes that is. Unless data is final, what may go on behind its end (half
// a character, half a sequence) is left for the next time.
func Clear(data []byte, final bool, cost int) (text string, used int) {
	var b strings.Builder
	for used < len(data) {
		r, n := clearRune(data[used:], final)
		if n == 0 {
			break
		}
		if r >= 0 {
			if cost -= EncodedCost(r); cost < 0 {
				break
			}
			b.WriteRune(r)
		}
		used += n
	}
	return b.String(), used
}

// clearRune takes one character, or one control sequence, which is none (-1). n
// is 0 where its end is missing.
func clearRune(data []byte, final bool) (r rune, n int) {
	switch c := data[0]; {
	case c == '\x1b':
		n, whole := controlLength(data)
		switch {
		case whole:
			return -1, n
		case !final && len(data) < MaxControl:
			return -1, 0
		}
		return -1, 1
	case c == '\r' && len(data) == 1:
		if !final {
			return -1, 0
		}
		return -1, 1
	case c == '\r' && data[1] == '\n':
		return -1, 1
	case c == '\r': // a line that is written over
		return '\n', 1
	case c < utf8.RuneSelf:
		return shown(rune(c)), 1
	}
	if !final && !utf8.FullRune(data) {
		return -1, 0
	}
	r, n = utf8.DecodeRune(data)
	return shown(r), n
}

// shown is the character itself, and -1 for one that moves a cursor, turns the
// direction of text, or is not seen.
func shown(r rune) rune {
	if r != '\n' && r != '\t' && (unicode.IsControl(r) || Hidden(r)) {
		return -1
	}
	return r
}

// controlLength is how long the control sequence is that data begins with (ECMA-48).
func controlLength(data []byte) (n int, whole bool) {
	if len(data) < 2 {
		return 0, false
	}
	switch c := data[1]; {
	case c == '[':
		for i := 2; i < min(len(data), MaxControl); i++ {
			if c := data[i]; c >= 0x40 && c <= 0x7e {
				return i + 1, true
			} else if c < 0x20 || c > 0x7e {
				return i, true // it was broken off
			}
		}
		return 0, false
	case strings.IndexByte("]PX^_", c) >= 0:
		for i := 2; i < min(len(data), MaxControl); i++ {
			switch {
			case data[i] == '\a':
				return i + 1, true
			case data[i] == '\x1b' && i+1 < len(data):
				if data[i+1] == '\\' {
					return i + 2, true
				}
				return i, true
			}
		}
		return 0, false
	case c >= 0x20 && c <= 0x2f:
		return 3, len(data) >= 3
	case c >= 0x30 && c <= 0x7e:
		return 2, true
	}
	return 1, true
}

// EncodedCost is how many characters one takes in JSON, as Go's encoder writes it.
func EncodedCost(r rune) int {
	switch r {
	case '\n', '\t', '"', '\\':
		return 2
	case '<', '>', '&', '\u2028', '\u2029':
		return 6
	}
	return 1
}

// Cost returns how many characters a text takes in JSON.
func Cost(text string) (cost int) {
	for _, r := range text {
		cost += EncodedCost(r)
	}
	return cost
}

// EncodedLen is how long a text is in JSON.
func EncodedLen(text string) int {
	b, err := json.Marshal(text)
	if err != nil {
		return len(text) // strings always encode
	}
	return len(b)
}
