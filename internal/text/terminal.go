package text

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxControl bounds a control sequence, in bytes. A longer text without an end is none.
const MaxControl = 4096

// csi is the character that begins some control sequences, as ESC [ does.
const csi = "\u009b"

// begins reports whether a control sequence begins here, and with how many bytes.
func begins[T ~string | ~[]byte](s T) int {
	switch {
	case len(s) > 0 && s[0] == '\x1b':
		return 1
	case len(s) > 1 && s[0] == csi[0] && s[1] == csi[1]:
		return len(csi)
	}
	return 0
}

// sequence returns the length of the control sequence that s begins with (ECMA-48), and
// whether it is complete. One that is broken off ends where it cannot go on.
func sequence[T ~string | ~[]byte](s T) (n int, complete bool) {
	s = s[:min(len(s), MaxControl)]
	kind, i := byte('['), 2
	switch {
	case len(s) < 2:
		return 0, false
	case s[0] == '\x1b':
		kind = s[1]
	}
	switch {
	case kind == '[':
		for ; i < len(s); i++ {
			if c := s[i]; c >= 0x40 && c <= 0x7e {
				return i + 1, true
			} else if c < 0x20 || c > 0x7e {
				return i, true
			}
		}
		return 0, false
	case strings.IndexByte("]PX^_", kind) >= 0:
		for ; i < len(s); i++ {
			switch {
			case s[i] == '\a':
				return i + 1, true
			case s[i] == '\x1b' && i+1 < len(s):
				if s[i+1] == '\\' {
					return i + 2, true
				}
				return i, true
			}
		}
		return 0, false
	}
	for i = 1; i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f; i++ {
		continue
	}
	switch {
	case i == len(s):
		return 0, false
	case s[i] >= 0x30 && s[i] <= 0x7e:
		i++
	}
	return i, true
}

// Unfinished returns where a control sequence begins that a text ends within, or the text's
// length if it does not end within one.
func Unfinished(s string) int {
	at := max(0, len(s)-MaxControl)
	for {
		i := strings.IndexByte(s[at:], '\x1b')
		if i < 0 {
			return len(s)
		}
		at += i
		n, complete := sequence(s[at:])
		if !complete {
			return at
		}
		at += n
	}
}

// Strip returns a text without control sequences, and without characters that are invisible or
// control a terminal. Lines end with a line feed, and bytes that are not UTF-8 become U+FFFD.
func Strip(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !IsShown(r) || r == utf8.RuneError }) {
		return s
	}
	s, _ = StripPart([]byte(s), true, math.MaxInt)
	return s
}

// StripPart is [Strip] for a part of a stream. It reads data up to the given cost ([Cost]),
// and returns how many bytes it has read. Unless data is final, it leaves an incomplete
// character or sequence at the end of data for the next call.
func StripPart(data []byte, final bool, cost int) (text string, used int) {
	var b strings.Builder
	for used < len(data) {
		r, n := stripRune(data[used:], final)
		if n == 0 {
			break
		}
		if r >= 0 {
			if cost -= runeCost(r); cost < 0 {
				break
			}
			b.WriteRune(r)
		}
		used += n
	}
	return b.String(), used
}

// stripRune returns the first character of data, or -1 if nothing is shown of its first n
// bytes. n is 0 if their end is missing.
func stripRune(data []byte, final bool) (r rune, n int) {
	switch c := data[0]; {
	case begins(data) > 0:
		switch n, complete := sequence(data); {
		case complete:
			return -1, n
		case c == '\x1b' && !final && len(data) < MaxControl:
			return -1, 0
		}
		return -1, begins(data)
	case c == '\r' && len(data) == 1:
		if !final {
			return -1, 0
		}
		return -1, 1
	case c == '\r' && data[1] == '\n':
		return -1, 1
	case c == '\r': // a line that is written over
		return '\n', 1
	case !final && !utf8.FullRune(data):
		return -1, 0
	}
	if r, n = utf8.DecodeRune(data); !IsShown(r) {
		return -1, n
	}
	return r, n
}

// screen is the line of a terminal that is being written.
type screen struct {
	done strings.Builder
	line []rune
	col  int
}

// maxColumn bounds the length of a line, which a movement of the cursor can extend.
const maxColumn = 4096

// RenderTerminal returns what a terminal would show of a text: lines that were written over
// are as they ended, and control sequences are left out.
func RenderTerminal(s string) string {
	t := screen{}
	for s != "" {
		if n := begins(s); n > 0 {
			if whole, complete := sequence(s); complete {
				n = whole
				t.obey(s[:n])
			}
			s = s[n:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		t.put(r)
		s = s[n:]
	}
	t.done.WriteString(string(t.line))
	return t.done.String()
}

// put writes a character, or executes a control character.
func (t *screen) put(r rune) {
	switch {
	case r == '\n':
		t.done.WriteString(strings.TrimRight(string(t.line), " "))
		t.done.WriteByte('\n')
		t.line, t.col = t.line[:0], 0
	case r == '\r':
		t.col = 0
	case r == '\b':
		t.col = max(0, t.col-1)
	case IsShown(r):
		for len(t.line) < t.col {
			t.line = append(t.line, ' ')
		}
		if t.col < len(t.line) {
			t.line[t.col] = r
		} else {
			t.line = append(t.line, r)
		}
		t.col++
	}
}

// obey executes a control sequence, if it matters to the line that the cursor is in.
func (t *screen) obey(seq string) {
	if len(seq) < 3 || seq[1] != '[' {
		return
	}
	n, err := strconv.Atoi(seq[2 : len(seq)-1])
	if err != nil || n < 0 {
		n = 0
	}
	count := min(max(n, 1), maxColumn)
	rest := min(t.col, len(t.line))
	switch seq[len(seq)-1] {
	case 'C':
		t.col = min(t.col+count, maxColumn)
	case 'D':
		t.col = max(0, t.col-count)
	case 'G':
		t.col = count - 1
	case 'P': // characters are taken out
		t.line = append(t.line[:rest], t.line[min(len(t.line), rest+count):]...)
	case 'K': // a part of the line is erased
		switch n {
		case 0:
			t.line = t.line[:rest]
		case 1:
			for i := range rest {
				t.line[i] = ' '
			}
		case 2:
			t.line = t.line[:0]
		}
	case 'H', 'J', 'd': // elsewhere on the screen: another line, for the reader of a text
		if len(t.line) > 0 {
			t.put('\n')
		}
	}
}
