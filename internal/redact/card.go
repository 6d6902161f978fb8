package redact

// Bounds of a card's number, in digits.
const (
	minCard  = 13
	maxCard  = 19
	minGroup = 4 // of a group that another one follows
)

// cards finds numbers of payment cards: 13 to 19 digits with a right check
// digit (Luhn), the first of them 2 to 9, in one piece or in groups of at
// least four, but for the last, with one space or "-" between them. What
// stands in a word, or behind a decimal point, is none.
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
		if known && n >= minGroup && w.b[i] >= '2' && cardMayBegin(w, i) {
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

// nextGroup is where at least four digits begin, or as many as are there yet
// at the window's end; the window's end where none do.
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

// digitsAt is how many digits a text begins with, at most one more than a card
// has.
func digitsAt(b []byte) (n int) {
	for n < len(b) && n <= maxCard && isDigit(b[n]) {
		n++
	}
	return n
}

func cardMayBegin(w *window, i int) bool {
	before := w.at(i - 1)
	return !isWord(before) && (before != '.' || !isDigit(w.at(i-2)))
}

// card is how long the longest number of a card is that begins with a group of
// n digits, 0 where none does. It is not known where the window ends too early.
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

// luhn says whether the check digit of a number fits.
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
