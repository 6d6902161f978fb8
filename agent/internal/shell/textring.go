package shell

import (
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/text"
)

// chunkSize is how much text a ring counts at once, in bytes.
const chunkSize = 4 << 10

// textRing stores the end of a text that only grows. Positions count characters from
// the beginning of the whole text, so they do not change when its beginning is dropped.
type textRing struct {
	limit  int // on size, in bytes
	chunks []textChunk
	size   int   // of the stored text, in bytes
	end    int64 // position after the last character
	spare  []byte
}

// textChunk is a part of the text.
type textChunk struct {
	first int64 // position of its first character
	text  []byte
}

// Write appends valid UTF-8. It never fails.
func (r *textRing) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		last := len(r.chunks) - 1
		if last < 0 || len(r.chunks[last].text)+utf8.UTFMax > chunkSize {
			r.chunks = append(r.chunks, textChunk{first: r.end, text: r.fresh(len(p))})
			last++
		}
		part := text.Prefix(p, chunkSize-len(r.chunks[last].text))
		r.chunks[last].text = append(r.chunks[last].text, part...)
		r.end += int64(utf8.RuneCount(part))
		r.size += len(part)
		p = p[len(part):]
	}
	for len(r.chunks) > 1 && r.size-len(r.chunks[0].text) >= r.limit {
		r.size -= len(r.chunks[0].text)
		r.spare = r.chunks[0].text
		r.chunks[0].text = nil
		r.chunks = r.chunks[1:]
	}
	return n, nil
}

// fresh returns memory for a chunk. It reuses the memory of the chunk that was dropped
// last, or allocates as much as a text of n bytes needs.
func (r *textRing) fresh(n int) []byte {
	if spare := r.spare; spare != nil {
		r.spare = nil
		return spare[:0]
	}
	return make([]byte, 0, min(chunkSize, max(n, 256)))
}

// start returns the position of the first stored character.
func (r *textRing) start() int64 {
	if len(r.chunks) == 0 {
		return r.end
	}
	return r.chunks[0].first
}

// read returns at most limit characters, and the position of the first of them: from,
// or the nearest position that is stored.
func (r *textRing) read(from, limit int64) (text string, at int64) {
	at = min(max(from, r.start()), r.end)
	i := sort.Search(len(r.chunks), func(i int) bool { return r.chunks[i].first > at }) - 1
	var b strings.Builder
	for skip := at; i >= 0 && i < len(r.chunks) && limit > 0; i++ {
		c := r.chunks[i]
		part := c.text[offset(c.text, skip-c.first):]
		n := int64(utf8.RuneCount(part))
		if n > limit {
			part, n = part[:offset(part, limit)], limit
		}
		b.Write(part)
		limit -= n
		skip += n
	}
	return b.String(), at
}

// offset returns the byte at which character n begins.
func offset(text []byte, n int64) int {
	at := 0
	for ; n > 0; n-- {
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	return at
}
