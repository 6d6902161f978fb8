package search

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/paddock-dev/paddock/internal/text"
)

const (
	// bufferSize is how much of a file is held, unless a line needs more.
	bufferSize = 256 << 10
	// MaxLine is how long a line may be that is searched, in bytes. Longer ones
	// are counted: no person wrote them, and they would have to be held.
	MaxLine = 1 << 20
	// binaryHead is how much of a file is looked at before any of it is searched.
	binaryHead = 8 << 10
	// keepBack is how much text before the searched part stays in memory, for the lines
	// around a match.
	keepBack = 64 << 10
)

// reader searches one file after the other.
type reader struct {
	matcher *Matcher
	finder  *finder
	buf     []byte // at most maxLine and a line feed
	maxLine int    // MaxLine, but for tests

	// Of the file:
	ctx           context.Context
	found         *found
	before, after int
	pending       int   // lines that are wanted after the last match
	number        int64 // lines before counted
	counted       int   // where in buf lines are counted up to
	end           int   // of what buf holds
}

func newReader(m *Matcher) *reader {
	return &reader{matcher: m, finder: m.finder(), buf: make([]byte, bufferSize), maxLine: MaxLine}
}

// search searches a file. binary says that the file has a NUL byte, as texts have not, and was
// not searched to its end.
func (r *reader) search(ctx context.Context, f File, found *found) (binary bool, err error) {
	r.ctx, r.found = ctx, found
	r.before, r.after = 0, 0
	if found.c.search.Mode == Lines {
		r.before, r.after = found.c.search.Before, found.c.search.After
	}
	r.pending, r.number, r.counted, r.end = 0, 0, 0, 0
	at, looked := 0, 0 // where searching goes on, and up to where NUL bytes were looked for
	for first := true; ; first = false {
		n, err := readFull(f, r.buf[r.end:])
		r.end += n
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return false, err
		}
		whole := bytes.LastIndexByte(r.buf[at:r.end], '\n') + 1 + at // up to where lines are whole
		if last && r.end-whole <= r.maxLine {
			whole = r.end
		}
		if nul := bytes.IndexByte(r.buf[looked:r.end], 0); nul >= 0 {
			if nul += looked; first && nul < binaryHead {
				return true, nil
			}
			whole = max(at, bytes.LastIndexByte(r.buf[:nul], '\n')+1)
			return true, r.lines(at, whole)
		}
		looked = r.end
		switch {
		case whole > at:
			if err := r.lines(at, whole); err != nil {
				return false, err
			}
			at = whole
		case at == 0 && r.end > r.maxLine:
			if binary, err := r.skipLine(f); binary || err != nil {
				return binary, err
			}
			looked = 0
			continue
		case at == 0 && r.end == len(r.buf): // of a line longer than the buffer
			r.buf = append(r.buf, make([]byte, min(len(r.buf), r.maxLine+1-len(r.buf)))...)
			continue
		}
		if last && at == r.end {
			return false, nil
		}
		at = r.shift(at)
		looked = r.end
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
}

// skipLine counts the line at the beginning of the buffer, which is too long, and reads to its
// end.
func (r *reader) skipLine(f File) (binary bool, err error) {
	if r.number++; r.number > r.found.skip {
		r.found.c.result.TooLong++
	}
	r.pending = max(0, r.pending-1)
	for r.counted, r.end = 0, 0; r.end == 0 && err == nil; {
		var n int
		n, err = readFull(f, r.buf)
		end := indexFrom(r.buf[:n], '\n', 0)
		if bytes.IndexByte(r.buf[:end], 0) >= 0 {
			return true, nil
		}
		if end < n {
			r.end = copy(r.buf, r.buf[end+1:n])
			break
		}
		if err == nil {
			err = r.ctx.Err()
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil // the next read says so again
	}
	return false, err
}

// shift makes room in the buffer, and keeps the lines before that a match may need.
func (r *reader) shift(at int) int {
	keep := at
	if r.before > 0 {
		for range r.before {
			if keep == 0 {
				break
			}
			keep = bytes.LastIndexByte(r.buf[:keep-1], '\n') + 1
		}
		if at-keep > keepBack || r.end-keep > len(r.buf)/2 {
			keep = at
		}
	}
	r.count(at)
	copy(r.buf, r.buf[keep:r.end])
	r.end -= keep
	r.counted = at - keep
	return at - keep
}

// count counts the lines up to a place in the buffer.
func (r *reader) count(at int) {
	if at > r.counted {
		r.number += int64(bytes.Count(r.buf[r.counted:at], newline))
		r.counted = at
	}
}

var newline = []byte{'\n'}

// lines searches whole lines of the buffer.
func (r *reader) lines(at, end int) error {
	b := r.buf[:end]
	for at < end {
		if r.pending == 0 {
			if at = r.finder.next(b, at); at == end {
				break
			}
		}
		to := indexFrom(b, '\n', at)
		if err := r.line(at, to); err != nil {
			return err
		}
		at = to + 1
	}
	return nil
}

// line searches one line.
func (r *reader) line(from, to int) error {
	loc := r.matcher.line(r.ctx, r.buf[from:to])
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if loc == nil {
		if r.pending > 0 {
			r.pending--
			r.count(from)
			r.found.around(r.show(from, to, nil))
		}
		return nil
	}
	var line Line
	var before []Line
	if r.found.c.search.Mode == Lines {
		r.count(from)
		line = r.show(from, to, loc)
		before = r.context(from)
	}
	added, err := r.found.match(before, line)
	r.pending = 0
	if added {
		r.pending = r.after
	}
	return err
}

// show returns a line in the form of the result. Lines up to it must have been counted, for
// its number.
func (r *reader) show(from, to int, loc []int) Line {
	line := bytes.TrimSuffix(r.buf[from:to], []byte{'\r'})
	column, start, end := 0, 0, 0
	if loc != nil {
		start, end = min(loc[0], len(line)), min(loc[1], len(line))
		column = loc[0] + 1
	}
	low, high := window(line, start, end, r.found.c.search.LineBytes)
	return Line{Number: r.number + 1, Column: column, Text: string(line[low:high]), Start: low, Rest: int64(len(line) - high)}
}

// context returns the lines before a place that the buffer still has, oldest
// first. The buffer begins with a line.
func (r *reader) context(at int) []Line {
	if r.before == 0 || at == 0 {
		return nil
	}
	lines := make([]Line, 0, r.before)
	for n := int64(1); len(lines) < r.before && at > 0; n++ {
		from := bytes.LastIndexByte(r.buf[:at-1], '\n') + 1
		line := r.show(from, at-1, nil)
		line.Number = r.number + 1 - n
		lines = append(lines, line)
		at = from
	}
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	return lines
}

// readFull reads until the buffer is full or the file has ended (io.EOF).
func readFull(f io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var some int
		some, err = f.Read(p[n:])
		n += some
	}
	return n, err
}

// window returns the part of a line for the result: the match and the text around it, in whole
// characters and in no more bytes than most.
func window(line []byte, start, end, most int) (low, high int) {
	if len(line) <= most {
		return 0, len(line)
	}
	low = max(0, start-max(0, most-(end-start))/3)
	low = min(low, len(line)-most)
	high = low + most
	if low > 0 {
		low = high - len(text.TrimPartialStart(line[low:high]))
	}
	if high < len(line) {
		high = low + len(text.TrimPartialEnd(line[low:high]))
	}
	return low, high
}
