package exec

import (
	"encoding/base64"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"
)

// capture keeps the head and the tail of a stream in bounded memory, and counts all of it.
type capture struct{ text.HeadTail }

func newCapture(limit int) *capture { return &capture{text.HeadTail{Max: limit}} }

// text returns the captured output, followed by note on a separate line. A character that the
// cut has split is dropped; invalid bytes elsewhere become U+FFFD.
func (c *capture) text(encoding, note string) string {
	kept := c.Bytes()
	if note != "" && c.Total() > 0 && (len(kept) == 0 || kept[len(kept)-1] != '\n') {
		note = "\n" + note
	}
	if encoding == "base64" {
		return base64.StdEncoding.EncodeToString(append(kept, note...))
	}
	return strings.ToValidUTF8(string(c.Text("\n[… %d bytes omitted …]\n")), "\uFFFD") + note
}
