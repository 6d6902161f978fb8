package redact

import "bytes"

// Bounds of an address of mail, in bytes.
const (
	maxLocal  = 64
	maxDomain = 255
)

// emails finds addresses of mail: a name of at most 64 bytes, of a longer one
// the last 64, and a domain of at least two labels, whose last has letters
// alone, at least two. Bytes beyond ASCII are letters.
type emails struct {
	next int64 // where to look for "@"
}

func (s *emails) scan(w *window, m *matches) int64 {
	for {
		i := int(s.next - w.base)
		k := bytes.IndexByte(w.b[i:], '@')
		if k < 0 {
			s.next = w.end()
			return s.next - int64(localBefore(w, len(w.b)))
		}
		at := i + k
		start := at - localBefore(w, at)
		end := at + 1
		for end < len(w.b) && end-at <= maxDomain && class[w.b[end]]&(digit|letter|hostMark) != 0 {
			end++
		}
		if end == len(w.b) && end-at <= maxDomain && !w.last {
			s.next = w.base + int64(at)
			return w.base + int64(start)
		}
		if n := domain(w.b[at+1 : end]); n > 0 && start < at {
			m.add(w.base+int64(start), w.base+int64(at+1+n))
		}
		s.next = w.base + int64(at+1)
	}
}

// localBefore is how many bytes before i may be the name in an address.
func localBefore(w *window, i int) (n int) {
	for n < maxLocal && i-n > 0 && class[w.b[i-n-1]]&(digit|letter|mailMark) != 0 {
		n++
	}
	return n
}

// domain is the length of the longest domain that a text begins with.
func domain(text []byte) (n int) {
	label, labels, letters := 0, 0, true // where a label begins
	for i := 0; i <= len(text); i++ {
		if i < len(text) && text[i] != '.' {
			letters = letters && (isLetter(text[i]) || text[i] >= 0x80)
			continue
		}
		switch {
		case i == label:
			return n
		case labels > 0 && i-label >= 2 && (letters || bytes.HasPrefix(text[label:i], []byte("xn--"))):
			n = i
		}
		label, labels, letters = i+1, labels+1, true
	}
	return n
}
