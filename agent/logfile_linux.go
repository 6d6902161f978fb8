package agent

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/beneath"
)

// logFile is the end of what a shell or service has printed, on disk. Whoever
// writes to it is never held up and never fails: what has no room is counted.
type logFile struct {
	keep int64 // at least so many bytes are kept, twice as many at the most

	mu   sync.Mutex
	dir  beneath.Dir
	name string
	file *os.File // nil where there is none
	size int64
	cut  bool // its beginning is gone, or some of it was lost
}

// openLog makes an empty log, in place of one that may be there.
func openLog(at stateDir, name string, keep int64) *logFile {
	l := &logFile{keep: keep, name: name}
	dir, err := at()
	if err != nil {
		return l
	}
	l.dir = dir
	l.file, _ = l.fresh()
	return l
}

// fresh makes a file that takes the log's name when it has been filled.
func (l *logFile) fresh() (*os.File, error) {
	temp := hiddenName(statePrefix)
	f, err := l.dir.OpenFile(temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if l.size > 0 {
		err = l.copyEnd(f)
	}
	if err == nil {
		err = unix.Renameat(l.dir.FD(), temp, l.dir.FD(), l.name)
	}
	if err != nil {
		_ = unix.Unlinkat(l.dir.FD(), temp, 0)
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// copyEnd copies the last bytes that are to be kept, from the beginning of a
// line on where there is one.
func (l *logFile) copyEnd(to *os.File) error {
	from := max(0, l.size-l.keep)
	first := make([]byte, min(l.size-from, 64<<10))
	if _, err := l.file.ReadAt(first, from); err != nil {
		return err
	}
	from += int64(bytes.IndexByte(first, '\n') + 1)
	return copyExactly(to, io.NewSectionReader(l.file, from, l.size-from), l.size-from)
}

// Write appends p.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		l.cut = true
		return len(p), nil
	}
	if l.size+int64(len(p)) > 2*l.keep {
		l.rotate()
	}
	n, err := l.file.WriteAt(p[:min(int64(len(p)), max(0, 2*l.keep-l.size))], l.size)
	l.size += int64(n)
	l.cut = l.cut || err != nil || n < len(p)
	return len(p), nil
}

// rotate drops the beginning.
func (l *logFile) rotate() {
	f, err := l.fresh()
	if err != nil {
		return // what does not fit is lost
	}
	_ = l.file.Close()
	l.file, l.cut = f, true
	l.size, _ = f.Seek(0, io.SeekEnd)
}

// close ends the writing. The file stays.
func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// tail reads the end of a log: at most lines lines where that is not negative,
// and at most limit bytes. It says whether there was more.
func tail(f *os.File, lines, limit int64) (text []byte, more bool, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, false, err
	}
	from := max(0, size-limit)
	if lines == 0 {
		from = size
	} else if lines > 0 {
		if from, err = lastLines(f, from, size, lines); err != nil {
			return nil, false, err
		}
	}
	text = make([]byte, size-from)
	n, err := f.ReadAt(text, from)
	if errors.Is(err, io.EOF) {
		err = nil // it was shortened meanwhile
	}
	return text[:n], from > 0, err
}

// lastLines is where the last lines of a file begin, but not before floor. A
// newline at the very end ends a line and begins none.
func lastLines(f *os.File, floor, size, lines int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for end := size; end > floor; {
		chunk := buf[:min(int64(len(buf)), end-floor)]
		end -= int64(len(chunk))
		if _, err := f.ReadAt(chunk, end); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := len(chunk) - 1; i >= 0; i-- {
			if at := end + int64(i); chunk[i] == '\n' && at < size-1 {
				if lines--; lines == 0 {
					return at + 1, nil
				}
			}
		}
	}
	return floor, nil
}
