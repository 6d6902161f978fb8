package service

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of one stream's log, in bytes. A log grows to twice the size that it keeps,
// and then drops its beginning.
const (
	keepOnDisk = 4 << 20
	// maxLogRead is how much of a log is read at once.
	maxLogRead = 4 << 20
	// maxLogAnswer bounds the text of one stream as JSON: two of them and a
	// record have room in a line.
	maxLogAnswer = 6 << 20
)

// logFile stores the end of one output of a service. Writes to it never fail, since the
// service must not wait: output that cannot be stored is dropped.
type logFile struct {
	dir  beneath.Dir
	name string

	mu      sync.Mutex
	f       *os.File // nil if it could not be made, and once it is closed
	size    int64
	start   int64 // how much was dropped before the file's beginning
	cut     bool  // something was dropped
	changed core.Change
}

// newLogFile makes a log in place of an earlier one with its name.
func newLogFile(dir beneath.Dir, name string) *logFile {
	l := &logFile{dir: dir, name: name}
	if err := l.replace(nil); err != nil {
		_ = unix.Unlinkat(dir.FD(), name, 0) // it is of an earlier service
		l.cut = true
	}
	return l
}

// replace replaces the log by a file with the given content.
func (l *logFile) replace(content []byte) error {
	temp := core.HiddenName(".log-")
	f, err := l.dir.OpenFile(temp, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = unix.Renameat(l.dir.FD(), temp, l.dir.FD(), l.name)
	}
	if err != nil {
		_ = f.Close()
		_ = unix.Unlinkat(l.dir.FD(), temp, 0)
		return err
	}
	if l.f != nil {
		_ = l.f.Close()
	}
	l.f, l.size = f, int64(len(content))
	return nil
}

// Write appends.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil || l.size+int64(len(p)) > 2*keepOnDisk && l.shorten() != nil {
		l.cut = l.cut || len(p) > 0
		return len(p), nil
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	l.changed.Notify()
	l.cut = l.cut || err != nil // the disk is full
	return len(p), nil
}

// shorten drops the beginning.
func (l *logFile) shorten() error {
	content := make([]byte, min(l.size, keepOnDisk))
	n, err := l.f.ReadAt(content, l.size-int64(len(content)))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	content = content[:n]
	if i := bytes.IndexByte(content, '\n'); i >= 0 {
		content = content[i+1:] // whole lines
	}
	l.cut = true
	before := l.size
	err = l.replace(content)
	l.start += before - l.size
	return err
}

func (l *logFile) close() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		_ = l.f.Close()
		l.f = nil
	}
	return l.cut
}

// with calls do with the log's file and its size. It does nothing if there is no file.
func (l *logFile) with(do func(f *os.File, size int64) error) error {
	f := l.f
	if f == nil {
		var err error
		f, err = l.dir.OpenFile(l.name, unix.O_RDONLY, 0)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return errors.Join(err, errors.New("not a regular file"))
	}
	return do(f, st.Size())
}

// tail returns the last lines, and whether there was more.
func (l *logFile) tail(lines *int64) (end string, more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.with(func(f *os.File, size int64) (err error) {
		end, more, err = tail(f, size, lines)
		return err
	})
	return end, more || l.cut, err
}

// read returns what is stored from a cursor on, at most limit bytes.
func (l *logFile) read(cursor, limit int64) (wire.StreamPart, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := wire.StreamPart{Cursor: l.start, NextCursor: l.start, Data: []byte{}}
	err := l.with(func(f *os.File, size int64) error {
		end := l.start + size
		p.Cursor = min(max(cursor, l.start), end)
		p.Data = make([]byte, min(limit, end-p.Cursor))
		n, err := f.ReadAt(p.Data, p.Cursor-l.start)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		p.Data, p.NextCursor = p.Data[:n], p.Cursor+int64(n)
		p.More = p.NextCursor < end
		return err
	})
	p.DroppedBytes = max(0, p.Cursor-cursor)
	return p, err
}

// await returns a channel that the next change closes, or nil if there is something
// beyond a cursor.
func (l *logFile) await(cursor int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.start+l.size > cursor {
		return nil
	}
	return l.changed.Wait()
}

// tail reads the last lines, and reports whether there was more.
func tail(r io.ReaderAt, size int64, lines *int64) (string, bool, error) {
	if lines != nil && *lines == 0 {
		return "", size > 0, nil
	}
	start, limit := size, max(0, size-maxLogRead)
	var read []byte
	for start > limit {
		step := min(64<<10, start-limit)
		if lines == nil {
			step = start - limit
		}
		chunk := make([]byte, step)
		n, err := r.ReadAt(chunk, start-step)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", false, err
		}
		start -= step
		read = append(chunk[:n], read...)
		if lines != nil && int64(bytes.Count(read, []byte{'\n'})) > *lines {
			break
		}
	}
	kept := text.TailWithinJSON(string(read), maxLogAnswer)
	if lines != nil {
		kept = lastLines(kept, *lines)
	}
	return kept, start > 0 || len(kept) < len(read), nil
}

// lastLines returns the last n lines. The very last may lack its line feed.
func lastLines(text string, n int64) string {
	end := len(strings.TrimSuffix(text, "\n"))
	for ; n > 0; n-- {
		if end = strings.LastIndexByte(text[:end], '\n'); end < 0 {
			return text
		}
	}
	return text[end+1:]
}
