package core

import (
	"sort"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/text"
)

// chunkSize is how much of a stream a ring counts at once, in bytes.
const chunkSize = 4 << 10

// Ring stores the end of a stream that only grows. Positions count from the beginning of
// the whole stream, so they do not change when its beginning is dropped.
type Ring struct {
	// Limit bounds what is stored, in bytes, but for a chunk.
	Limit int
	// Characters makes positions count characters, of valid UTF-8, and not bytes.
	Characters bool

	chunks []chunk
	size   int   // of what is stored, in bytes
	end    int64 // position after the last
	spare  []byte
}

// chunk is a part of the stream.
type chunk struct {
	first int64 // position of its beginning
	data  []byte
}

// Write appends. It never fails.
func (r *Ring) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		last := len(r.chunks) - 1
		if last < 0 || len(r.chunks[last].data)+utf8.UTFMax > chunkSize {
			r.chunks = append(r.chunks, chunk{first: r.end, data: r.fresh(len(p))})
			last++
		}
		part := p[:min(len(p), chunkSize-len(r.chunks[last].data))]
		if r.Characters {
			part = text.Prefix(p, len(part))
		}
		r.chunks[last].data = append(r.chunks[last].data, part...)
		r.end += r.count(part)
		r.size += len(part)
		p = p[len(part):]
	}
	for len(r.chunks) > 1 && r.size-len(r.chunks[0].data) >= r.Limit {
		r.DropChunk()
	}
	return n, nil
}

// DropChunk drops the oldest chunk.
func (r *Ring) DropChunk() {
	if len(r.chunks) == 0 {
		return
	}
	r.size -= len(r.chunks[0].data)
	r.spare = r.chunks[0].data
	r.chunks[0].data = nil
	r.chunks = r.chunks[1:]
}

// Drop drops everything that is stored, and its memory.
func (r *Ring) Drop() { r.chunks, r.size, r.spare = nil, 0, nil }

// fresh returns memory for a chunk. It reuses the memory of the chunk that was dropped
// last, or allocates as much as n bytes need.
func (r *Ring) fresh(n int) []byte {
	if spare := r.spare; spare != nil {
		r.spare = nil
		return spare[:0]
	}
	return make([]byte, 0, min(chunkSize, max(n, 256)))
}

// Size returns how much is stored, in bytes.
func (r *Ring) Size() int { return r.size }

// End returns the position after the last that was written.
func (r *Ring) End() int64 { return r.end }

// Start returns the first position that is stored.
func (r *Ring) Start() int64 {
	if len(r.chunks) == 0 {
		return r.end
	}
	return r.chunks[0].first
}

// Read returns what is stored, at most limit positions of it, and where that begins: at
// from, or at the nearest position that is stored.
func (r *Ring) Read(from, limit int64) (part []byte, at int64) {
	at = min(max(from, r.Start()), r.end)
	i := sort.Search(len(r.chunks), func(i int) bool { return r.chunks[i].first > at }) - 1
	for skip := at; i >= 0 && i < len(r.chunks) && limit > 0; i++ {
		c := r.chunks[i]
		data := c.data[r.offset(c.data, skip-c.first):]
		n := r.count(data)
		if n > limit {
			data, n = data[:r.offset(data, limit)], limit
		}
		part = append(part, data...)
		limit -= n
		skip += n
	}
	return part, at
}

// count returns how many positions data has.
func (r *Ring) count(data []byte) int64 {
	if r.Characters {
		return int64(utf8.RuneCount(data))
	}
	return int64(len(data))
}

// offset returns the byte at which position n of data begins.
func (r *Ring) offset(data []byte, n int64) int {
	if !r.Characters {
		return int(n)
	}
	at := 0
	for ; n > 0; n-- {
		_, size := utf8.DecodeRune(data[at:])
		at += size
	}
	return at
}
