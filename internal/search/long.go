package search

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"unicode/utf8"
)

// long searches a line that is longer than the buffer, which it fills, while it is
// read. nul says that it has a NUL byte, ended that the file has.
func (r *reader) long(f File) (nul, ended bool, err error) {
	begin := r.offset
	l := &longLine{ctx: r.ctx, file: f, buf: r.buf, end: r.end, hide: r.matcher.ends}
	loc := r.matcher.stream(l)
	l.drain()
	if l.err != nil || l.nul || r.ctx.Err() != nil {
		return l.nul, false, cmp.Or(r.ctx.Err(), l.err)
	}
	size := l.total
	var line Line
	show := r.found.numbered() && (loc != nil || r.pending > 0)
	if show {
		if line, err = r.showLong(f, begin, size, loc); err != nil {
			return false, false, err
		}
	}
	r.number++
	switch {
	case loc != nil:
		var told bool
		told, err = r.found.match(nil, line)
		r.pending = 0
		if told {
			r.pending = r.after
		}
	case r.pending > 0:
		r.pending--
		r.found.around(line)
	}
	r.end = copy(r.buf, r.buf[l.at:l.end])
	r.offset = begin + size + 1
	r.counted = 0
	return false, l.eof && r.end == 0, err
}

// showLong reads the part of a long line that is told.
func (r *reader) showLong(f File, begin, size int64, loc []int) (Line, error) {
	most := r.found.c.search.LineBytes
	var at, column int64
	if loc != nil {
		column = int64(loc[0]) + 1
		at = max(0, int64(loc[0])-int64(most))
	}
	text := make([]byte, min(size-at, int64(3*most)))
	if _, err := f.ReadAt(text, begin+at); err != nil && !errors.Is(err, io.EOF) {
		return Line{}, err
	}
	if at+int64(len(text)) == size && bytes.HasSuffix(text, []byte{'\r'}) {
		text, size = text[:len(text)-1], size-1
	}
	start, end := 0, 0
	if loc != nil {
		start, end = int(int64(loc[0])-at), min(int(int64(loc[1])-at), len(text))
	}
	low, high := window(text, min(start, len(text)), end, most)
	return Line{Number: r.number + 1, Column: int(column), Text: string(text[low:high]),
		Start: int(at) + low, Rest: size - at - int64(high)}, nil
}

// longLine reads the characters of one line. It ends, too, when ctx does.
type longLine struct {
	ctx   context.Context
	file  io.Reader
	buf   []byte
	at    int // of the next byte in buf
	end   int
	hide  bool  // a carriage return at the end is not told
	read  int   // characters
	total int64 // bytes of the line so far
	over  bool  // its line feed was read
	eof   bool
	nul   bool
	err   error
}

// fill reads on, and says whether there is anything in the buffer.
func (l *longLine) fill() bool {
	if l.at < l.end {
		return true
	}
	if l.over || l.eof || l.err != nil || l.ctx.Err() != nil {
		return false
	}
	n, err := readFull(l.file, l.buf)
	l.at, l.end = 0, n
	switch {
	case errors.Is(err, io.EOF):
		l.eof = true
	case err != nil:
		l.err = err
	}
	return n > 0
}

// ReadRune reads a character; a carriage return right before the end is perhaps
// none.
func (l *longLine) ReadRune() (r rune, size int, err error) {
	if l.read++; l.over || l.nul || l.read%256 == 0 && l.ctx.Err() != nil || !l.fill() {
		return 0, 0, io.EOF
	}
	if !utf8.FullRune(l.buf[l.at:l.end]) {
		l.refill()
	}
	switch b := l.buf[l.at]; {
	case b == '\n':
		l.over = true
		l.at++
		return 0, 0, io.EOF
	case b == '\r' && l.hide && l.ends():
		return 0, 0, io.EOF
	case b == 0:
		l.nul = true
		return 0, 0, io.EOF
	case b < utf8.RuneSelf:
		r, size = rune(b), 1
	default:
		r, size = utf8.DecodeRune(l.buf[l.at:l.end])
	}
	l.at += size
	l.total += int64(size)
	return r, size, nil
}

// ends says whether the line ends behind the byte that is next.
func (l *longLine) ends() bool {
	if l.at+1 == l.end {
		l.refill()
	}
	if l.at+1 == l.end {
		return l.eof
	}
	return l.buf[l.at+1] == '\n'
}

// refill completes a character at the buffer's end.
func (l *longLine) refill() {
	if l.eof || l.err != nil {
		return
	}
	n := copy(l.buf, l.buf[l.at:l.end])
	more, err := readFull(l.file, l.buf[n:])
	l.at, l.end = 0, n+more
	if errors.Is(err, io.EOF) {
		l.eof = true
	} else if err != nil {
		l.err = err
	}
}

// drain reads the rest of the line.
func (l *longLine) drain() {
	for !l.over && !l.nul && l.fill() {
		rest := l.buf[l.at:l.end]
		n := indexFrom(rest, '\n', 0)
		if bytes.IndexByte(rest[:n], 0) >= 0 {
			l.nul = true
			return
		}
		l.total += int64(n)
		l.at += n
		if n < len(rest) {
			l.at++
			l.over = true
		}
	}
}

// window chooses what is told of a line: at most so many bytes, with the match
// and what is around it, in whole characters.
func window(line []byte, start, end, most int) (low, high int) {
	if len(line) <= most {
		return 0, len(line)
	}
	low = max(0, start-max(0, most-(end-start))/3)
	low = min(low, len(line)-most)
	high = low + most
	for back := 0; low > 0 && back < utf8.UTFMax && !utf8.RuneStart(line[low]); back++ {
		low++
	}
	for back := 0; high < len(line) && high > low && back < utf8.UTFMax && !utf8.RuneStart(line[high]); back++ {
		high--
	}
	return low, high
}
