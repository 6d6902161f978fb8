package audit

import (
	"bytes"
	"errors"
	"io"
)

// lines takes a file apart, in bounded memory. At the file's end it may be
// asked again: there may be more by then.
type lines struct {
	f    io.ReaderAt
	end  int64 // reads no further; negative: as far as there is something
	off  int64 // of the next piece
	buf  []byte
	room []byte // what buf is a part of
	part bool   // the next piece continues a line
}

// next is the next line with its newline, whole, or a piece of one that is
// longer than a record can be. io.EOF says that what is left, rest, has no
// end. The piece is valid until the next call.
func (l *lines) next() (piece []byte, whole bool, err error) {
	for scanned := 0; ; {
		if i := bytes.IndexByte(l.buf[scanned:], '\n'); i >= 0 {
			whole, l.part = !l.part, false
			return l.take(scanned + i + 1), whole, nil
		}
		if scanned = len(l.buf); scanned >= MaxRecord {
			l.part = true
			return l.take(scanned), false, nil
		}
		if err := l.fill(); err != nil {
			return nil, false, err
		}
	}
}

// take hands out the first n bytes and keeps the others.
func (l *lines) take(n int) []byte {
	piece := l.buf[:n:n]
	l.buf = l.buf[n:]
	l.off += int64(n)
	return piece
}

// fill reads more behind what is kept.
func (l *lines) fill() error {
	if l.room == nil {
		l.room = make([]byte, 2*MaxRecord)
	}
	kept := copy(l.room, l.buf)
	at := l.off + int64(kept)
	free := l.room[kept:]
	if l.end >= 0 {
		free = free[:max(0, min(int64(len(free)), l.end-at))]
	}
	n, err := l.f.ReadAt(free, at)
	l.buf = l.room[:kept+n]
	if n > 0 {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.EOF
	}
	return err
}

// rest is what follows the last newline, after io.EOF.
func (l *lines) rest() []byte { return l.buf }
