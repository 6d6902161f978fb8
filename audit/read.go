package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// followEvery is how often [Reader.Follow] looks for a new line.
const followEvery = 100 * time.Millisecond

// Entry is one line of a log.
type Entry struct {
	// File is the name of the file, Line the number of the line in it, from 1.
	File string
	Line int
	// Text is the line as it is in the file. It is valid until the next call.
	Text []byte
	// Record is the decoded line, if Err is nil.
	Record Record
	// Err says why the line is not a record.
	Err error
}

// Reader reads a log from its beginning, in bounded memory. It does not check the chain:
// see [Verify].
type Reader struct {
	dir  *dir
	next int // number of the file to open next
	f    *os.File
	l    lines
	e    Entry
	skip bool // the position is within a line that is too long
}

// Open opens the log in a directory for reading. The error is fs.ErrNotExist if nothing was
// appended yet.
func Open(path string) (*Reader, error) {
	d, err := openDir(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the audit log: %w", err)
	}
	return &Reader{dir: d}, nil
}

// Close closes the files.
func (r *Reader) Close() error {
	r.dir.close()
	if r.f != nil {
		return r.f.Close()
	}
	return nil
}

// Next returns the next line, or io.EOF if there is none yet. An incomplete line is returned
// once it is complete.
func (r *Reader) Next() (*Entry, error) {
	for {
		if r.f == nil {
			if err := r.open(); err != nil {
				return nil, err
			}
		}
		piece, whole, err := r.l.next()
		switch {
		case errors.Is(err, io.EOF):
			more, err := r.newer()
			if err != nil {
				return nil, err
			}
			if !more {
				return nil, io.EOF
			}
			if rest := r.l.rest(); r.f == nil && len(rest) > 0 {
				return r.entry(append(bytes.Clone(rest), '\n'), !r.l.part), nil
			}
		case err != nil:
			return nil, fmt.Errorf("cannot read %s: %w", r.e.File, err)
		default:
			if e := r.entry(piece, whole); e != nil {
				return e, nil
			}
		}
	}
}

// Follow is [Reader.Next], but waits for a line until ctx ends.
func (r *Reader) Follow(ctx context.Context) (*Entry, error) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		e, err := r.Next()
		if !errors.Is(err, io.EOF) {
			return e, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// entry makes an entry of a piece of a line, nil if the line goes on.
func (r *Reader) entry(piece []byte, whole bool) *Entry {
	if !whole {
		ended := r.skip && piece[len(piece)-1] == '\n'
		if r.skip = !ended; r.skip {
			return nil
		}
	}
	r.e.Line++
	r.e.Text, r.e.Record, r.e.Err = piece, Record{}, nil
	if !whole {
		r.e.Text, r.e.Err = nil, errors.New("the line is too long")
	} else {
		r.e.Err = parse(piece, &r.e.Record)
	}
	return &r.e
}

// open opens the oldest file that was not read yet, or returns io.EOF.
func (r *Reader) open() error {
	for {
		numbers, err := r.dir.numbers()
		if err != nil {
			return fmt.Errorf("cannot read the audit log: %w", err)
		}
		n := 0
		for _, have := range numbers {
			if have >= r.next {
				n = have
				break
			}
		}
		if n == 0 {
			return io.EOF
		}
		f, err := r.dir.open(fileName(n))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed just now; there are newer ones
		}
		if err != nil {
			return fmt.Errorf("cannot read the audit log: %w", err)
		}
		r.f, r.next, r.l = f, n+1, lines{f: f, end: -1}
		r.e.File, r.e.Line, r.skip = fileName(n), 0, false
		return nil
	}
}

// newer reports whether there is more to read. If there is a newer file, nothing more is
// appended to this one, so it is closed once it was read.
func (r *Reader) newer() (bool, error) {
	numbers, err := r.dir.numbers()
	if err != nil {
		return false, fmt.Errorf("cannot read the audit log: %w", err)
	}
	if len(numbers) == 0 || numbers[len(numbers)-1] < r.next {
		return false, nil
	}
	if info, err := r.f.Stat(); err == nil && info.Size() > r.l.off+int64(len(r.l.buf)) {
		return true, nil // it grew before the newer file was started
	}
	_ = r.f.Close()
	r.f = nil
	return true, nil
}

// snapshot opens all files with their sizes at one moment, between two records.
func (d *dir) snapshot(ctx context.Context) (files []*os.File, sizes []int64, err error) {
	unlock, err := d.hold(ctx, syscall.LOCK_SH)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	numbers, err := d.numbers()
	for i := 0; err == nil && i < len(numbers); i++ {
		var f *os.File
		if f, err = d.open(fileName(numbers[i])); err != nil {
			break
		}
		files = append(files, f)
		var info os.FileInfo
		if info, err = f.Stat(); err == nil {
			sizes = append(sizes, info.Size())
		}
	}
	if err != nil {
		closeAll(files)
		return nil, nil, err
	}
	return files, sizes, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// lines splits a file into lines, in bounded memory. After io.EOF it may be called again,
// since the file may have grown.
type lines struct {
	f    io.ReaderAt
	end  int64 // where to stop; negative: at the end of the file
	off  int64 // offset of the next piece
	buf  []byte
	room []byte // the memory of buf
	part bool   // the next piece continues a line
}

// next returns the next line with its newline, or a piece of a line that is longer than a
// record can be; whole distinguishes the two. After io.EOF, rest returns the incomplete line
// at the end. The piece is valid until the next call.
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

// take returns the first n bytes and keeps the others.
func (l *lines) take(n int) []byte {
	piece := l.buf[:n:n]
	l.buf = l.buf[n:]
	l.off += int64(n)
	return piece
}

// fill reads more into buf.
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

// rest returns the text after the last newline, after io.EOF.
func (l *lines) rest() []byte { return l.buf }
