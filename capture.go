package paddock

import (
	"io"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// Capture is a writer that stores the head and the tail of its input, and counts
// the rest. Its memory grows with the input, up to Max. The zero value stores
// 1 MiB. It is not safe for concurrent use; a [Cmd] never writes concurrently to
// one writer.
type Capture struct {
	// Max is how many bytes are stored. 0: 1 MiB. Set it before the first Write.
	Max int64

	kept text.HeadTail
}

// Kept is a writer that stores its input, as [Capture] does. If Stderr is one, the stored
// output is searched for denials. If a rule ends the output, the stored output is replaced.
type Kept interface {
	io.Writer
	// Bytes returns the stored output: everything, or the beginning and the end.
	Bytes() []byte
	// Replace replaces all stored output by text.
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

// Replace replaces all stored output by output.
func (c *Capture) Replace(output []byte) {
	*c = Capture{Max: c.Max}
	_, _ = c.Write(output) // it never fails
}

// Write never fails and never keeps more than the bound.
func (c *Capture) Write(p []byte) (int, error) {
	if c.kept.Max = int(c.Max); c.Max <= 0 {
		c.kept.Max = int(policy.DefaultOutput)
	}
	return c.kept.Write(p)
}

// Total returns how many bytes were written.
func (c *Capture) Total() int64 { return c.kept.Total() }

// Truncated reports whether the middle is missing from Bytes.
func (c *Capture) Truncated() bool { return c.kept.Truncated() }

// Bytes returns the stored output. If the middle is missing, a line in its place says how
// many bytes are left out, and no UTF-8 sequence is cut in two.
func (c *Capture) Bytes() []byte { return c.kept.Text("\n... %d bytes left out ...\n") }
