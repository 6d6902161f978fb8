package redact

import "bytes"

// macs finds the addresses of network cards with one separator: six pairs of
// hexadecimal digits, or three groups of four, not within a word.
type macs struct {
	separator byte
	digits    int   // of a group
	next      int64 // where to look for the separator
	done      int64 // where the last match ends
}

// macDigits is how many digits an address has.
const macDigits = 12

func (s *macs) scan(w *window, m *matches) int64 {
	length := macDigits + macDigits/s.digits - 1
	for {
		i := int(s.next - w.base)
		k := bytes.IndexByte(w.b[i:], s.separator)
		if k < 0 {
			s.next = w.end()
			return max(s.done, s.next-int64(s.before(w, len(w.b))))
		}
		at := i + k
		start := at - s.digits
		s.next = w.base + int64(at+1)
		if w.base+int64(start) < s.done || s.before(w, at) < s.digits || isWord(w.at(start-1)) {
			continue
		}
		n := s.fits(w.b[start:min(start+length, len(w.b))])
		switch {
		case start+n == len(w.b) && !w.last: // so far it fits, and what follows counts too
			s.next = w.base + int64(at)
			return w.base + int64(start)
		case n == length && !isWord(w.at(start+n)):
			m.add(w.base+int64(start), w.base+int64(start+n))
			s.done = w.base + int64(start+n)
			s.next = s.done
		}
	}
}

// before is how many digits there are before i, at most those of a group.
func (s *macs) before(w *window, i int) (n int) {
	for n < s.digits && i-n > 0 && isHex(w.b[i-n-1]) {
		n++
	}
	return n
}

// fits is how many bytes of a text are those of an address.
func (s *macs) fits(text []byte) int {
	for i, b := range text {
		if mark := i%(s.digits+1) == s.digits; mark && b != s.separator || !mark && !isHex(b) {
			return i
		}
	}
	return len(text)
}
