package redact

import "github.com/paddock-dev/paddock/policy"

// lookBehind is how many bytes before what is still looked at stay in memory,
// for what scanners look back at. An address of mail has the most.
const lookBehind = 72

// window is the part of a stream that scanners can see.
type window struct {
	b    []byte
	base int64 // the position of b[0]
	last bool  // nothing comes after b
}

func (w *window) end() int64 { return w.base + int64(len(w.b)) }

// at is the byte at an index, 0 outside.
func (w *window) at(i int) byte {
	if i < 0 || i >= len(w.b) {
		return 0
	}
	return w.b[i]
}

// scanner looks for the matches of one rule, or of one form of it.
type scanner interface {
	// scan looks at what it has not looked at yet, and adds matches to m.
	// It returns the position from which on it may still find matches, which
	// is also how much of the window, and lookBehind before it, must stay.
	// What it finds depends on the text alone, never on where windows end.
	scan(w *window, m *matches) (safe int64)
}

// match is a part of the stream. The rest of a match that became too long to
// be kept follows as such, with more set.
type match struct {
	start, end int64
	more       bool
}

// matches are what one scanner found and nobody has used yet, in order,
// without overlaps.
type matches struct{ list []match }

// add adds a match. Those that it overlaps become one with it.
func (m *matches) add(start, end int64) {
	for n := len(m.list); n > 0 && m.list[n-1].end > start && !m.list[n-1].more; n-- {
		start, end = min(start, m.list[n-1].start), max(end, m.list[n-1].end)
		m.list = m.list[:n-1]
	}
	m.list = append(m.list, match{start: start, end: end})
}

// newScanners makes the scanners of a rule.
func newScanners(r *rule) []scanner {
	switch r.Type {
	case policy.RedactEmail:
		return []scanner{&emails{}}
	case policy.RedactCreditCard:
		return []scanner{&cards{}}
	case policy.RedactIP:
		return []scanner{&ipv4s{}, &ipv6s{}}
	case policy.RedactMACAddress:
		return []scanner{&macs{separator: ':', digits: 2}, &macs{separator: '-', digits: 2}, &macs{separator: '.', digits: 4}}
	case policy.RedactURL:
		return []scanner{&urls{}}
	default:
		return []scanner{newMatcher(r.program)}
	}
}

// Classes of bytes.
const (
	digit byte = 1 << iota
	hexLetter
	letter
	underscore
	mailMark   // besides letters and digits in the name of an address of mail
	hostMark   // besides those in a host's name
	schemeMark // besides those in the scheme of a URL
	urlStop    // ends a URL
)

var class = func() (t [256]byte) {
	mark := func(text string, c byte) {
		for i := range len(text) {
			t[text[i]] |= c
		}
	}
	for b := range 256 {
		switch {
		case '0' <= b && b <= '9':
			t[b] |= digit
		case 'a' <= b|0x20 && b|0x20 <= 'z':
			t[b] |= letter
			if b|0x20 <= 'f' {
				t[b] |= hexLetter
			}
		case b >= 0x80:
			t[b] |= mailMark | hostMark
		case b <= ' ' || b == 0x7f:
			t[b] |= urlStop
		}
	}
	mark("_", underscore)
	mark("._%+-", mailMark)
	mark(".-", hostMark)
	mark("+.-", schemeMark)
	mark("\"<>\\^`{|}", urlStop)
	return t
}()

func isDigit(b byte) bool  { return b-'0' <= 9 }
func isHex(b byte) bool    { return class[b]&(digit|hexLetter) != 0 }
func isLetter(b byte) bool { return class[b]&letter != 0 }

// isWord says whether a byte goes on a word, which is then no address.
func isWord(b byte) bool { return class[b]&(digit|letter|underscore) != 0 }
