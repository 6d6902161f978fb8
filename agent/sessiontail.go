package agent

import "github.com/paddock-dev/paddock/wire"

// recordTail keeps the end of what a record's bounds have cut, and counts the rest.
type recordTail struct {
	chunks  []recorded
	size    int64
	dropped int64
}

// add takes what was cut. Twice the bound is let grow before what is before the
// end is dropped.
func (t *recordTail) add(stream int, p []byte, most int64) {
	last := len(t.chunks) - 1
	switch {
	case most == 0 || len(p) == 0:
		t.dropped += int64(len(p))
		return
	case last < 0 || t.chunks[last].stream != stream:
		t.chunks = append(t.chunks, recorded{stream: stream})
		last++
	}
	t.chunks[last].data = append(t.chunks[last].data, p...)
	t.size += int64(len(p))
	if t.size > 2*most || len(t.chunks) > 2*wire.MaxSessionChunks {
		t.trim(most, false)
	}
}

// trim drops what is more than the bounds allow, and for text the rest of a
// character that was cut.
func (t *recordTail) trim(most int64, text bool) {
	first := max(0, len(t.chunks)-wire.MaxSessionChunks)
	for i := range first {
		t.drop(i, len(t.chunks[i].data))
	}
	for t.size > most {
		n := min(t.size-most, int64(len(t.chunks[first].data)))
		t.drop(first, int(n))
		if len(t.chunks[first].data) == 0 {
			first++
		}
	}
	for text && t.dropped > 0 && first < len(t.chunks) && len(t.chunks[first].data) > 0 && t.chunks[first].data[0]&0xc0 == 0x80 {
		t.drop(first, 1)
	}
	t.chunks = t.chunks[first:]
}

func (t *recordTail) drop(i, n int) {
	t.chunks[i].data = t.chunks[i].data[n:]
	t.size -= int64(n)
	t.dropped += int64(n)
}
