package redact

// Bounds of a card's number, in digits.
const (
	minCard  = 13
	maxCard  = 19
	minGroup = 4 // of a group that another one follows
)

// cards finds numbers of payment cards: 13 to 19 digits with a right check digit (Luhn),
// the first of them 2 to 9, in one piece or in groups of at least four (except the last)
// with one space or "-" between them. A number within a word or after a decimal point does
// not count.
type cards struct {
	next int64
}

func (s *cards) scan(w *window, m *matches) int64 {
	i := int(s.next - w.base)
	for {
		i = nextGroup(w, i)
		if i >= len(w.b) {
			s.next = w.end()
			return s.next
		}
		n := digitsAt(w.b[i:])
		length, known := 0, n > maxCard || i+n < len(w.b) || w.last
		before := w.at(i - 1)
		if known && n >= minGroup && w.b[i] >= '2' && !isWord(before) && (before != '.' || !isDigit(w.at(i-2))) {
			length, known = card(w, i, n)
		}
		if !known {
			s.next = w.base + int64(i)
			return s.next
		}
		if length > 0 {
			m.add(w.base+int64(i), w.base+int64(i+length))
			n = length
		}
		for i += n; i < len(w.b) && isDigit(w.b[i]); {
			i++
		}
	}
}

// nextGroup returns where at least four digits begin, or fewer at the window's end, or
// else the window's end.
func nextGroup(w *window, i int) int {
	b := w.b
	if i > 0 && isDigit(b[i-1]) { // the rest of a number that is too long
		for i < len(b) && isDigit(b[i]) {
			i++
		}
	}
	low := i
	for i+minGroup <= len(b) && !isDigit(b[i+minGroup-1]) {
		i += minGroup
	}
	i = min(i+minGroup-1, len(b))
	for i > low && isDigit(b[i-1]) {
		i--
	}
	return i
}

// digitsAt returns how many digits a text begins with, at most one more than a card has.
func digitsAt(b []byte) (n int) {
	for n < len(b) && n <= maxCard && isDigit(b[n]) {
		n++
	}
	return n
}

// card returns the length of the longest number of a card that begins with a group of n
// digits, or 0. known is false if it depends on bytes after the window.
func card(w *window, start, n int) (length int, known bool) {
	var separator byte
	digits, end := n, start+n
	for {
		if digits > maxCard {
			return length, true
		}
		if digits >= minCard && !isWord(w.at(end)) && luhn(w.b[start:end]) {
			length = end - start
		}
		if end+1 >= len(w.b) && !w.last {
			return 0, false
		}
		mark := w.at(end)
		if n < minGroup || mark != ' ' && mark != '-' || separator != 0 && mark != separator {
			return length, true
		}
		separator = mark
		if end+1 >= len(w.b) {
			return length, true
		}
		if n = digitsAt(w.b[end+1:]); n == 0 {
			return length, true
		}
		end += 1 + n
		if digits += n; digits <= maxCard && end >= len(w.b) && !w.last {
			return 0, false
		}
	}
}

// luhn reports whether the check digit of a number is right.
func luhn(text []byte) bool {
	sum, double := 0, false
	for i := len(text) - 1; i >= 0; i-- {
		if !isDigit(text[i]) {
			continue
		}
		d := int(text[i] - '0')
		if double {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		double = !double
	}
	return sum%10 == 0
}
