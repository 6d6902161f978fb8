package exec

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/agent/internal/core"
)

// capture keeps the head and the tail of a stream in bounded memory and
// counts all of it. Half of the bound is the head's, half the tail's.
type capture struct {
	limit int
	total int64
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where the ring's oldest byte is
}

// Write keeps what fits. It never fails.
func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	if room := c.limit - c.limit/2 - len(c.head); room > 0 {
		take := min(room, len(p))
		c.head = append(c.head, p[:take]...)
		p = p[take:]
	}
	size := c.limit / 2
	if len(p) > size {
		p = p[len(p)-size:]
	}
	if grow := min(size-len(c.tail), len(p)); grow > 0 {
		c.tail = append(c.tail, p[:grow]...)
		p = p[grow:]
	}
	for len(p) > 0 {
		k := copy(c.tail[c.next:], p)
		c.next = (c.next + k) % len(c.tail)
		p = p[k:]
	}
	return n, nil
}

func (c *capture) truncated() bool { return c.total > int64(len(c.head)+len(c.tail)) }

// text returns what was kept, with note behind it. A character that the cut split
// is dropped, not turned into garbage; invalid bytes elsewhere become U+FFFD.
func (c *capture) text(encoding, note string) string {
	tail := slices.Concat(c.tail[c.next:], c.tail[:c.next])
	if note != "" && c.total > 0 && !bytes.HasSuffix(slices.Concat(c.head, tail), newline) {
		note = "\n" + note
	}
	if encoding == "base64" {
		return base64.StdEncoding.EncodeToString(slices.Concat(c.head, tail, []byte(note)))
	}
	if !c.truncated() {
		return strings.ToValidUTF8(string(c.head)+string(tail), "\uFFFD") + note
	}
	head := core.TrimPartialEnd(c.head)
	tail = core.TrimPartialStart(tail)
	cut := fmt.Sprintf("\n[… %d bytes omitted …]\n", c.total-int64(len(head)+len(tail)))
	return strings.ToValidUTF8(string(head), "\uFFFD") + cut + strings.ToValidUTF8(string(tail), "\uFFFD") + note
}

var newline = []byte{'\n'}
