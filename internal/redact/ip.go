package redact

import (
	"bytes"
	"net/netip"
)

// ipv4s finds addresses of IPv4: four numbers up to 255, not within a word.
// Of more numbers with points between them, every four are one.
type ipv4s struct {
	next int64 // where to look for "."
	done int64 // where the last match ends
}

func (s *ipv4s) scan(w *window, m *matches) int64 {
	for {
		i := int(s.next - w.base)
		k := bytes.IndexByte(w.b[i:], '.')
		if k < 0 {
			s.next = w.end()
			return max(s.done, s.next-int64(digitsBefore(w, len(w.b), 3)))
		}
		point := i + k
		start := point - digitsBefore(w, point, 3)
		s.next = w.base + int64(point+1)
		if start == point || w.base+int64(start) < s.done || isWord(w.at(start-1)) {
			continue
		}
		end, known := ipv4(w, start)
		switch {
		case !known:
			s.next = w.base + int64(point)
			return w.base + int64(start)
		case end > 0:
			m.add(w.base+int64(start), w.base+int64(end))
			s.done = w.base + int64(end)
			s.next = s.done
		}
	}
}

func digitsBefore(w *window, i, most int) (n int) {
	for n < most && i-n > 0 && isDigit(w.b[i-n-1]) {
		n++
	}
	return n
}

// ipv4 is where the address ends that begins at i, 0 where none does.
func ipv4(w *window, i int) (end int, known bool) {
	for number := range 4 {
		if number > 0 {
			if i == len(w.b) {
				return 0, w.last
			}
			if w.b[i] != '.' {
				return 0, true
			}
			i++
		}
		value, begin := 0, i
		for i < len(w.b) && i-begin < 3 && isDigit(w.b[i]) {
			value = value*10 + int(w.b[i]-'0')
			i++
		}
		if i == len(w.b) && i-begin < 3 && !w.last {
			return 0, false
		}
		if i == begin || value > 255 {
			return 0, true
		}
	}
	if i == len(w.b) {
		return i, w.last
	}
	if isWord(w.b[i]) {
		return 0, true
	}
	return i, true
}

// maxIPv6 is the length of the longest address of IPv6, in bytes, with a mark
// at its end that is not its own.
const maxIPv6 = 46

// ipv6s finds addresses of IPv6, not within a word, but also behind a word and
// a colon. "::" alone is none.
type ipv6s struct {
	next int64 // where to look for ":"
}

func isIPv6(b byte) bool { return isHex(b) || b == ':' || b == '.' }

func (s *ipv6s) scan(w *window, m *matches) int64 {
	for {
		i := int(s.next - w.base)
		k := bytes.IndexByte(w.b[i:], ':')
		if k < 0 {
			s.next = w.end()
			return s.next - int64(ipv6Before(w, len(w.b)))
		}
		colon := i + k
		start := colon - ipv6Before(w, colon)
		end := colon
		for end < len(w.b) && end-start <= maxIPv6 && isIPv6(w.b[end]) {
			end++
		}
		long := end-start > maxIPv6
		if end == len(w.b) && !long && !w.last {
			s.next = w.base + int64(colon)
			return w.base + int64(start)
		}
		for end < len(w.b) && isIPv6(w.b[end]) {
			end++
		}
		s.next = w.base + int64(end)
		if long || isWord(w.at(end)) {
			continue
		}
		if from, to := ipv6(w, start, end); to > 0 {
			m.add(w.base+int64(from), w.base+int64(to))
		}
	}
}

// ipv6Before is how many bytes before i may belong to an address; one more
// than it can have where that is too many.
func ipv6Before(w *window, i int) (n int) {
	for n <= maxIPv6 && i-n > 0 && isIPv6(w.b[i-n-1]) {
		n++
	}
	return n
}

// ipv6 is the address in a run of bytes that may be one.
func ipv6(w *window, start, end int) (from, to int) {
	if isWord(w.at(start - 1)) { // up to the first colon it is the end of a word
		k := bytes.IndexByte(w.b[start:end], ':')
		start += k + 1
	}
	text := bytes.TrimRight(w.b[start:end], ".")
	if n := len(text); n > 1 && text[n-1] == ':' && text[n-2] != ':' {
		text = text[:n-1]
	}
	for {
		if isAddress(text) {
			return start, start + len(text)
		}
		point := bytes.LastIndexByte(text, '.') // a port may be behind it
		if point < 0 {
			return 0, 0
		}
		text = text[:point]
	}
}

func isAddress(text []byte) bool {
	colons := bytes.Count(text, []byte(":"))
	if len(text) < 3 || colons < 2 || colons < 6 && !bytes.Contains(text, []byte("::")) {
		return false
	}
	addr, err := netip.ParseAddr(string(text))
	return err == nil && addr.Is6()
}
