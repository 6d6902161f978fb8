package redact

import (
	"bytes"
	"net/netip"
)

// Bounds of an address of mail, in bytes.
const (
	maxLocal  = 64
	maxDomain = 255
)

// emails finds mail addresses: a name (of more than 64 bytes the last 64), "@", and a
// domain of at least two labels, the last of which has only letters, at least two. Bytes
// beyond ASCII are letters.
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

// localBefore returns how many bytes before i may be the name in an address.
func localBefore(w *window, i int) (n int) {
	for n < maxLocal && i-n > 0 && class[w.b[i-n-1]]&(digit|letter|mailMark) != 0 {
		n++
	}
	return n
}

// domain returns the length of the longest domain that a text begins with.
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

// ipv4s finds IPv4 addresses: four numbers up to 255, not within a word. In a longer
// sequence of numbers with points between them, every four are an address.
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

// digitsBefore returns how many digits are directly before i, and stops counting at most.
func digitsBefore(w *window, i, most int) (n int) {
	for n < most && i-n > 0 && isDigit(w.b[i-n-1]) {
		n++
	}
	return n
}

// ipv4 returns where the address ends that begins at i, or 0. known is false if that
// depends on bytes after the window.
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

// maxIPv6 is the length of the longest IPv6 address, in bytes, with one mark after it.
const maxIPv6 = 46

// ipv6s finds IPv6 addresses, not within a word, but also after a word and a colon.
// "::" alone does not count.
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

// ipv6Before returns how many bytes before i may belong to an address, or one more than
// the longest one has.
func ipv6Before(w *window, i int) (n int) {
	for n <= maxIPv6 && i-n > 0 && isIPv6(w.b[i-n-1]) {
		n++
	}
	return n
}

// ipv6 returns the address in a run of bytes that an address may have; to is 0 if there
// is none.
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
		if colons := bytes.Count(text, []byte(":")); len(text) >= 3 && (colons >= 6 || colons >= 2 && bytes.Contains(text, []byte("::"))) {
			if addr, err := netip.ParseAddr(string(text)); err == nil && addr.Is6() {
				return start, start + len(text)
			}
		}
		point := bytes.LastIndexByte(text, '.') // a port may be behind it
		if point < 0 {
			return 0, 0
		}
		text = text[:point]
	}
}

// macs finds MAC addresses with one kind of separator: six pairs of hexadecimal digits,
// or three groups of four, not within a word.
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
		case start+n == len(w.b) && !w.last: // it fits so far, and depends on what follows
			s.next = w.base + int64(at)
			return w.base + int64(start)
		case n == length && !isWord(w.at(start+n)):
			m.add(w.base+int64(start), w.base+int64(start+n))
			s.done = w.base + int64(start+n)
			s.next = s.done
		}
	}
}

// before returns how many digits are directly before i, at most as many as a group has.
func (s *macs) before(w *window, i int) (n int) {
	for n < s.digits && i-n > 0 && isHex(w.b[i-n-1]) {
		n++
	}
	return n
}

// fits returns how many bytes at the start of a text an address may have.
func (s *macs) fits(text []byte) int {
	for i, b := range text {
		if mark := i%(s.digits+1) == s.digits; mark && b != s.separator || !mark && !isHex(b) {
			return i
		}
	}
	return len(text)
}

// Bounds of a URL, in bytes.
const (
	maxScheme = 32
	maxURL    = 2 << 10
)

// urls finds a scheme, "://" and the text up to a space, a quotation mark or another byte
// that cannot be in a URL, without punctuation at its end. The rest of a URL of more than
// 2 KiB belongs to it.
type urls struct {
	next int64 // where to look for "://"
	long bool  // the URL before next continues there
}

func (s *urls) scan(w *window, m *matches) int64 {
	for {
		i := int(s.next - w.base)
		if s.long {
			end := urlEnd(w.b, i, len(w.b))
			if end > i {
				m.list = append(m.list, match{s.next, w.base + int64(end), true})
			}
			s.next = w.base + int64(end)
			if end == len(w.b) {
				return s.next
			}
			s.long, i = false, end
		}
		k := bytes.Index(w.b[i:], []byte("://"))
		if k < 0 {
			return s.rest(w)
		}
		at := i + k
		start := at - scheme(w, at)
		s.next = w.base + int64(at+3)
		if start == at {
			continue
		}
		end := urlEnd(w.b, at+3, start+maxURL)
		switch {
		case end == start+maxURL:
			m.add(w.base+int64(start), w.base+int64(end))
			s.next, s.long = w.base+int64(end), true
			continue
		case end == len(w.b) && !w.last:
			s.next = w.base + int64(at)
			return w.base + int64(start)
		}
		s.next = w.base + int64(end)
		if end = at + 3 + trimURL(w.b[at+3:end]); end > at+3 {
			m.add(w.base+int64(start), w.base+int64(end))
		}
	}
}

// rest returns where a URL may begin that goes on after the window, or the window's end.
func (s *urls) rest(w *window) int64 {
	n := len(w.b)
	for _, part := range []string{":/", ":"} {
		if bytes.HasSuffix(w.b, []byte(part)) {
			n -= len(part)
			break
		}
	}
	s.next = max(s.next, w.base+int64(n))
	return min(s.next, w.base+int64(n-scheme(w, n)))
}

// scheme returns the length of the scheme that ends before i.
func scheme(w *window, i int) (n int) {
	for k := 1; k <= maxScheme && i-k >= 0 && class[w.b[i-k]]&(digit|letter|schemeMark) != 0; k++ {
		if isLetter(w.b[i-k]) {
			n = k
		}
	}
	return n
}

// urlEnd returns where a URL ends that continues at i, at most so far.
func urlEnd(b []byte, i, most int) int {
	for most = min(most, len(b)); i < most && class[b[i]]&urlStop == 0; {
		i++
	}
	return i
}

// trimURL returns the length of the rest of a URL without punctuation at its end.
func trimURL(text []byte) int {
	for n := len(text); n > 0; n-- {
		switch text[n-1] {
		case '.', ',', ';', ':', '!', '?', '\'':
			continue
		case ')':
			if bytes.IndexByte(text[:n], '(') < 0 {
				continue
			}
		case ']':
			if bytes.IndexByte(text[:n], '[') < 0 {
				continue
			}
		}
		return n
	}
	return 0
}
