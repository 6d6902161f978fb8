package files

import (
	"io"

	"github.com/paddock-dev/paddock/internal/text"
)

// meter counts what is copied, and reports how far that is.
type meter struct {
	entries, bytes int64
	all            int64 // bytes, 0: unknown
	progress       func(done, total float64, message string)
}

// content returns a reader of content that is counted.
func (m *meter) content(r io.Reader) io.Reader { return &metered{m, r} }

// metered is content that is counted as it is read.
type metered struct {
	m *meter
	r io.Reader
}

// Read reports progress every MiB, and every 64 entries.
func (f *metered) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	m, before := f.m, f.m.bytes
	m.bytes += int64(n)
	if m.progress == nil || n == 0 || before>>20 == m.bytes>>20 && (m.entries == 0 || m.entries%64 != 0) {
		return n, err
	}
	message := text.Size(m.bytes)
	if m.all > 0 {
		message += " of " + text.Size(m.all)
	}
	if m.entries > 0 {
		message += ", " + text.Count(m.entries, "entry")
	}
	m.progress(float64(m.bytes), float64(m.all), message)
	return n, err
}
