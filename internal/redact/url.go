package redact

import "bytes"

// Bounds of a URL, in bytes.
const (
	maxScheme = 32
	maxURL    = 2 << 10
)

// urls finds a scheme, "://" and what follows up to a space, a quotation mark
// or what else cannot be in a URL, without the marks of a sentence at its end.
// What goes on one of more than 2 KiB belongs to it, too.
type urls struct {
	next int64 // where to look for "://"
	long bool  // the URL before next goes on
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

// rest is what may begin a URL at the window's end.
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

// scheme is the length of the scheme that ends before i.
func scheme(w *window, i int) (n int) {
	for k := 1; k <= maxScheme && i-k >= 0 && class[w.b[i-k]]&(digit|letter|schemeMark) != 0; k++ {
		if isLetter(w.b[i-k]) {
			n = k
		}
	}
	return n
}

// urlEnd is where a URL ends that goes on at i, most at the latest.
func urlEnd(b []byte, i, most int) int {
	for most = min(most, len(b)); i < most && class[b[i]]&urlStop == 0; {
		i++
	}
	return i
}

// trimURL is the length of the rest of a URL without what ends a sentence.
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
