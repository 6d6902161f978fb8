package text

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Unfinished is where a control sequence begins that a text ends within, and the
// text's length where it ends within none.
func Unfinished(text string) int {
	at := max(0, len(text)-MaxControl)
	for {
		i := strings.IndexByte(text[at:], '\x1b')
		if i < 0 {
			return len(text)
		}
		at += i
		n := sequence(text[at:])
		if n == 0 {
			return at
		}
		at += n
	}
}

// sequence is how long the control sequence is that a text begins with, 0 where
// its end is missing.
func sequence(text string) int {
	n, whole := controlLength([]byte(text[:min(len(text), MaxControl)]))
	if !whole {
		return 0
	}
	return max(n, 1)
}

// screen makes plain text of what a terminal would show: lines that were
// written over are told as they ended, and all colour and movement is left out.
type screen struct {
	done strings.Builder
	line []rune
	col  int
}

// maxColumn bounds what a movement can make of a line.
const maxColumn = 4096

// PlainText is what a terminal would show of a text, without control sequences.
func PlainText(text string) string {
	s := screen{}
	for text != "" {
		if text[0] == '\x1b' {
			n := sequence(text)
			if n == 0 {
				n = 1
			} else {
				s.obey(text[:n])
			}
			text = text[n:]
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		s.put(r)
		text = text[n:]
	}
	s.done.WriteString(string(s.line))
	return s.done.String()
}

func (s *screen) put(r rune) {
	switch {
	case r == '\n':
		s.done.WriteString(strings.TrimRight(string(s.line), " "))
		s.done.WriteByte('\n')
		s.line, s.col = s.line[:0], 0
	case r == '\r':
		s.col = 0
	case r == '\b':
		s.col = max(0, s.col-1)
	case r == '\t':
		s.write(r)
	case r < 0x20 || r >= 0x7f && r < 0xa0 || Hidden(r): // bells, and the like
	default:
		s.write(r)
	}
}

func (s *screen) write(r rune) {
	for len(s.line) < s.col {
		s.line = append(s.line, ' ')
	}
	if s.col < len(s.line) {
		s.line[s.col] = r
	} else {
		s.line = append(s.line, r)
	}
	s.col++
}

// obey does what matters to the line that the cursor is in.
func (s *screen) obey(seq string) {
	if len(seq) < 3 || seq[1] != '[' {
		return
	}
	n, err := strconv.Atoi(seq[2 : len(seq)-1])
	if err != nil || n < 0 {
		n = 0
	}
	count := min(max(n, 1), maxColumn)
	rest := min(s.col, len(s.line))
	switch seq[len(seq)-1] {
	case 'C':
		s.col = min(s.col+count, maxColumn)
	case 'D':
		s.col = max(0, s.col-count)
	case 'G':
		s.col = count - 1
	case 'P': // characters are taken out
		s.line = append(s.line[:rest], s.line[min(len(s.line), rest+count):]...)
	case 'K':
		s.erase(n, rest)
	case 'H', 'J', 'd': // elsewhere on the screen: another line, to who reads a text
		if len(s.line) > 0 {
			s.put('\n')
		}
	}
}

// erase is what the sequence K does to a line.
func (s *screen) erase(what, rest int) {
	switch what {
	case 0:
		s.line = s.line[:rest]
	case 1:
		for i := range rest {
			s.line[i] = ' '
		}
	case 2:
		s.line = s.line[:0]
	}
}
