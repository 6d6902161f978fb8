package paddock

import (
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/policy"
)

// Capture is a writer that keeps the head and the tail of what is written to
// it, and counts the rest. Its memory grows with what is written, up to Max.
// The zero value keeps 1 MiB. It is not safe for concurrent use; a [Cmd] never
// writes concurrently to one writer.
type Capture struct {
	// Max is how many bytes are kept. 0: 1 MiB. Set it before the first Write.
	Max int64

	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where the ring's oldest byte is
	total int64
}

// Kept is a writer that keeps what is written to it, as [Capture] does. If Stderr is one,
// what it has kept is searched for denials. If a rule ends the output, what was kept is
// replaced.
type Kept interface {
	io.Writer
	// Bytes returns what was kept: everything, or the beginning and the end.
	Bytes() []byte
	// Replace replaces everything that was kept by text.
	Replace(text []byte)
}

// keptBy returns the writer as a Kept, or nil if it is not one.
func keptBy(w io.Writer) Kept {
	if c, ok := w.(*Capture); ok && c == nil {
		return nil
	}
	k, _ := w.(Kept)
	return k
}

// Replace replaces everything that was kept by text.
func (c *Capture) Replace(text []byte) {
	*c = Capture{Max: c.Max}
	_, _ = c.Write(text) // it never fails
}

// Write never fails and never keeps more than the bound.
func (c *Capture) Write(p []byte) (int, error) {
	n := len(p)
	most := c.Max
	if most <= 0 {
		most = int64(policy.DefaultOutput)
	}
	tailMax := int(most / 2)
	headMax := int(most) - tailMax
	c.total += int64(n)
	c.head, p = fill(c.head, headMax, p)
	if len(p) > tailMax {
		p = p[len(p)-tailMax:]
	}
	c.tail, p = fill(c.tail, tailMax, p)
	for len(p) > 0 {
		copied := copy(c.tail[c.next:], p)
		c.next = (c.next + copied) % tailMax
		p = p[copied:]
	}
	return n, nil
}

// fill moves bytes from p to the end of kept, up to a length of most.
func fill(kept []byte, most int, p []byte) (grown, rest []byte) {
	take := min(max(most-len(kept), 0), len(p))
	return append(kept, p[:take]...), p[take:]
}

// Total returns how many bytes were written.
func (c *Capture) Total() int64 { return c.total }

// Truncated reports whether the middle is missing from Bytes.
func (c *Capture) Truncated() bool { return c.total > int64(len(c.head)+len(c.tail)) }

// Bytes returns what was kept. If the middle is missing, a line in its place
// says how many bytes are left out, and no UTF-8 sequence is cut in two.
func (c *Capture) Bytes() []byte {
	tail := slices.Concat(c.tail[c.next:], c.tail[:c.next])
	if !c.Truncated() {
		return slices.Concat(c.head, tail)
	}
	head := trimPartialEnd(c.head)
	tail = trimPartialStart(tail)
	note := fmt.Appendf(nil, "\n... %d bytes left out ...\n", c.total-int64(len(head)+len(tail)))
	return slices.Concat(head, note, tail)
}

// trimPartialEnd cuts the beginning of a UTF-8 sequence off the end of b.
func trimPartialEnd(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// trimPartialStart cuts the end of a UTF-8 sequence off the start of b.
func trimPartialStart(b []byte) []byte {
	for i := 0; i < len(b) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
