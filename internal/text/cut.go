package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// TrimPartialStart drops the end of a character whose beginning is missing.
func TrimPartialStart[T ~string | ~[]byte](s T) T {
	for range utf8.UTFMax - 1 {
		if len(s) == 0 || utf8.RuneStart(s[0]) {
			break
		}
		s = s[1:]
	}
	return s
}

// TrimPartialEnd drops the beginning of a character whose rest is missing.
func TrimPartialEnd[T ~string | ~[]byte](s T) T {
	for i := len(s) - 1; i >= max(0, len(s)-utf8.UTFMax); i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(string(s[i:])) {
				return s[:i]
			}
			break
		}
	}
	return s
}

// Prefix returns at most the first n bytes, without a part of a character at their end.
func Prefix[T ~string | ~[]byte](s T, n int) T {
	if len(s) <= n {
		return s
	}
	return TrimPartialEnd(s[:n])
}

// Truncate returns at most the first n bytes, as [Prefix] does. If s is longer, it appends
// "…".
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Prefix(s, n) + "…"
}

// Tail returns at most the last n bytes, from the beginning of a line if one begins in their
// first half, and without a part of a character at their beginning.
func Tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := s[len(s)-n:]
	if line := strings.IndexByte(end, '\n'); line >= 0 && line < n/2 {
		return end[line+1:]
	}
	return TrimPartialStart(end)
}

// CutMiddle returns the first two thirds and the last third of n characters, with a note in
// between. The text must have more than n characters.
func CutMiddle(s string, n int, note string) string {
	head := n * 2 / 3
	tail := len(s)
	for range n - head {
		_, size := utf8.DecodeLastRuneInString(s[:tail])
		tail -= size
	}
	return PrefixCharacters(s, head) + note + s[tail:]
}

// PrefixCharacters returns at most the first n characters.
func PrefixCharacters(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// TruncateCharacters returns at most the first n characters. If s is longer, it appends a
// note. A visible character that consists of several code points is not cut: it is left out
// completely.
func TruncateCharacters(s string, n int, note string) string {
	head := PrefixCharacters(s, n)
	if len(head) == len(s) || head == "" {
		return s
	}
	cut := len(head)
	for range maxCluster {
		next, _ := utf8.DecodeRuneInString(s[cut:])
		before, size := utf8.DecodeLastRuneInString(s[:cut])
		if cut == 0 || !joins(before, next, s[:cut]) {
			return s[:cut] + note
		}
		cut -= size
	}
	return head + note
}

// maxCluster bounds the search for the beginning of a visible character, in characters: marks
// can be piled up without end.
const maxCluster = 64

// joins reports whether next belongs to the same visible character as before, which is the end
// of upTo.
func joins(before, next rune, upTo string) bool {
	const zeroWidthJoiner = 0x200d
	isRegional := func(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }
	switch {
	case next == zeroWidthJoiner, before == zeroWidthJoiner, unicode.Is(unicode.M, next):
		return true
	case next >= 0x1f3fb && next <= 0x1f3ff: // skin tones
		return true
	case next >= 0xe0020 && next <= 0xe007f: // tags of flags
		return true
	case isRegional(before) && isRegional(next): // letters of flags: two make one
		n := 0
		for ; n < maxCluster; n++ {
			r, size := utf8.DecodeLastRuneInString(upTo)
			if !isRegional(r) {
				break
			}
			upTo = upTo[:len(upTo)-size]
		}
		return n%2 == 1
	case next >= 0x1160 && next <= 0x11ff: // vowels and finals of Hangul
		return true
	}
	return false
}

// Head is a writer that stores the first Max bytes of its input. It has no method ReadFrom,
// which would store all that io.Copy reads.
type Head struct {
	Max int
	// Truncated says that more was written.
	Truncated bool

	kept []byte
}

// Write stores as much as fits. It never fails, so that a program that prints for ever runs
// into its timeout.
func (h *Head) Write(p []byte) (int, error) {
	kept, rest := fill(h.kept, h.Max, p)
	h.kept, h.Truncated = kept, h.Truncated || len(rest) > 0
	return len(p), nil
}

// Bytes returns the stored bytes.
func (h *Head) Bytes() []byte { return h.kept }

// String returns the stored bytes as a string.
func (h *Head) String() string { return string(h.kept) }

// Cut drops all but the first n bytes.
func (h *Head) Cut(n int) { h.kept = h.kept[:n] }

// HeadTail is a writer that stores the first and the last bytes of its input, and counts all
// of them. Memory grows with the input. It is not safe for concurrent use.
type HeadTail struct {
	// Max bounds the stored bytes. Half of it, rounded up, is for the head.
	Max int

	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where the ring's oldest byte is
	total int64
}

// Write keeps what fits. It never fails.
func (h *HeadTail) Write(p []byte) (int, error) {
	n, tailMax := len(p), h.Max/2
	h.total += int64(n)
	h.head, p = fill(h.head, h.Max-tailMax, p)
	p = p[max(0, len(p)-tailMax):]
	h.tail, p = fill(h.tail, tailMax, p)
	for len(p) > 0 {
		copied := copy(h.tail[h.next:], p)
		h.next = (h.next + copied) % tailMax
		p = p[copied:]
	}
	return n, nil
}

// fill moves bytes from p to the end of kept, up to a length of most.
func fill(kept []byte, most int, p []byte) (grown, rest []byte) {
	n := min(max(most-len(kept), 0), len(p))
	return append(kept, p[:n]...), p[n:]
}

// Total returns how many bytes were written.
func (h *HeadTail) Total() int64 { return h.total }

// Truncated reports whether the middle is missing.
func (h *HeadTail) Truncated() bool { return h.total > int64(len(h.head)+len(h.tail)) }

// Bytes returns head and tail, with nothing in between.
func (h *HeadTail) Bytes() []byte { return slices.Concat(h.head, h.tail[h.next:], h.tail[:h.next]) }

// Text returns the stored text. If the middle is missing, note takes its place, which is a
// format for the number of missing bytes, and no character is cut in two.
func (h *HeadTail) Text(note string) []byte {
	if !h.Truncated() {
		return h.Bytes()
	}
	head, tail := TrimPartialEnd(h.head), TrimPartialStart(slices.Concat(h.tail[h.next:], h.tail[:h.next]))
	return slices.Concat(head, fmt.Appendf(nil, note, h.total-int64(len(head)+len(tail))), tail)
}
