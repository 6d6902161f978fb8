package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// head is the last record of the chain, and where the newest file ends.
type head struct {
	seq  uint64
	hash string
	// size is the size of the file, end where its last record ends. Bytes between them are
	// not a record.
	size, end int64
	// noNewline says that the last record is complete but for its newline.
	noNewline bool
}

// maxSearched bounds a file that is searched from its beginning, in bytes.
const maxSearched = 1 << 30

// findHead finds the last record of a file. The hash is empty if there is none.
func findHead(f *os.File) (head, error) {
	info, err := f.Stat()
	if err != nil {
		return head{}, err
	}
	h := head{size: info.Size()}
	if !info.Mode().IsRegular() {
		return h, errors.New("not a regular file")
	}
	for _, n := range []int64{4 << 10, 2*MaxRecord + 2} {
		if found, err := h.searchEnd(f, n); found || err != nil {
			return h, err
		}
	}
	if h.size > maxSearched {
		return h, errors.New("it does not end with a record, and is too large to be searched: look at it, and move it away")
	}
	err = h.searchAll(f)
	return h, err
}

// searchEnd searches the last n bytes for the last record.
func (h *head) searchEnd(f *os.File, n int64) (found bool, err error) {
	from := max(0, h.size-n)
	buf := make([]byte, h.size-from)
	if _, err := f.ReadAt(buf, from); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	last := bytes.LastIndexByte(buf, '\n') + 1 // 0 if there is none
	if last < len(buf) && (last > 0 || from == 0) && h.take(append(bytes.Clone(buf[last:]), '\n'), h.size) {
		h.noNewline = true
		return true, nil
	}
	if last == 0 {
		return false, nil
	}
	start := bytes.LastIndexByte(buf[:last-1], '\n') + 1
	if start == 0 && from > 0 {
		return false, nil
	}
	return h.take(buf[start:last], from+int64(last)), nil
}

// take makes a line the head, and reports whether it is a record.
func (h *head) take(line []byte, end int64) bool {
	hash, err := hashOf(line)
	if err != nil {
		return false
	}
	seq, err := seqOf(line)
	if err != nil {
		return false
	}
	h.seq, h.hash, h.end = seq, hash, end
	return true
}

// searchAll reads the whole file, which does not end as appending leaves it.
func (h *head) searchAll(f *os.File) error {
	l := lines{f: f, end: h.size}
	for {
		line, whole, err := l.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if whole {
			h.take(line, l.off)
		}
	}
}

// torn describes the bytes after the last record. A killed process leaves the beginning of
// one line; anything else is suspect. open reports whether the last line has no newline, so
// that the repair has to add one.
func (h *head) torn(f *os.File) (r *Repair, open bool, err error) {
	hash, count := sha256.New(), &newlines{}
	section := io.NewSectionReader(f, h.end, h.size-h.end)
	if _, err := io.Copy(io.MultiWriter(hash, count), section); err != nil {
		return nil, false, err
	}
	r = &Repair{Offset: h.end, Bytes: h.size - h.end, Suspect: count.n > 0}
	if open = count.last != '\n'; open {
		hash.Write([]byte("\n"))
		r.Bytes++
	}
	r.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return r, open, nil
}

// newlines counts newlines, and keeps the last byte.
type newlines struct {
	n    int
	last byte
}

func (c *newlines) Write(p []byte) (int, error) {
	if len(p) > 0 {
		c.n, c.last = c.n+bytes.Count(p, []byte("\n")), p[len(p)-1]
	}
	return len(p), nil
}

// before returns the head of the newest of these files that has one, or the beginning of
// the chain.
func (d *dir) before(numbers []int) (head, error) {
	for i := len(numbers) - 1; i >= 0; i-- {
		f, err := d.open(fileName(numbers[i]))
		if err != nil {
			return head{}, err
		}
		h, err := findHead(f)
		_ = f.Close()
		if err != nil {
			return head{}, fmt.Errorf("cannot read %s: %w", fileName(numbers[i]), err)
		}
		if h.hash != "" {
			return h, nil
		}
	}
	return head{hash: Genesis}, nil
}

// writer appends to the newest file. The lock is held meanwhile.
type writer struct {
	dir     *dir
	numbers []int // of all files, the newest last
	f       *os.File
	info    fs.FileInfo // of f, when it was opened
	head    head
}

// current reports whether the writer's cached end of the log is still valid: no other process
// has started another file, appended to this one, or replaced it.
func (w *writer) current() bool {
	newest := w.numbers[len(w.numbers)-1]
	if _, err := w.dir.root.Lstat(fileName(newest + 1)); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	info, err := w.dir.root.Lstat(fileName(newest))
	return err == nil && os.SameFile(info, w.info) && info.Size() == w.head.size
}

// newWriter opens the newest file and finds the head of the chain.
func (d *dir) newWriter() (*writer, error) {
	numbers, err := d.numbers()
	if err != nil {
		return nil, err
	}
	w := &writer{dir: d, numbers: numbers}
	if len(numbers) == 0 {
		w.numbers, w.head.hash = []int{1}, Genesis
		if err := w.create(1); err != nil {
			return nil, err
		}
		return w, nil
	}
	name := fileName(numbers[len(numbers)-1])
	if w.f, err = d.root.OpenFile(name, os.O_RDWR|os.O_APPEND, 0); err != nil {
		return nil, err
	}
	if w.head, err = findHead(w.f); err != nil {
		err = fmt.Errorf("cannot read %s: %w", name, err)
	} else if w.head.hash == "" {
		var before head
		before, err = d.before(numbers[:len(numbers)-1])
		w.head.seq, w.head.hash = before.seq, before.hash
	}
	if err == nil {
		w.info, err = w.f.Stat()
	}
	if err != nil {
		_ = w.f.Close()
		return nil, err
	}
	return w, nil
}

// create creates a file, and syncs its name.
func (w *writer) create(number int) error {
	f, err := w.dir.root.OpenFile(fileName(number), os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = w.dir.syncDir()
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	w.f, w.info = f, info
	return nil
}

// put appends r, after a repair and a rotation if they are due.
func (w *writer) put(r *Record, opts Options) error {
	if w.head.noNewline {
		if err := w.write([]byte("\n")); err != nil {
			return err
		}
	}
	if w.head.end < w.head.size {
		if err := w.repair(); err != nil {
			return err
		}
	}
	if w.head.size > 0 && w.head.size+MaxRecord > opts.MaxSize {
		if err := w.rotate(opts.Keep); err != nil {
			return err
		}
	}
	return w.line("", r)
}

// repair records the bytes after the last record, and ends their line.
func (w *writer) repair() error {
	repair, open, err := w.head.torn(w.f)
	if err != nil {
		return err
	}
	newline := ""
	if open {
		newline = "\n"
	}
	return w.line(newline, &Record{Kind: KindRepair, Repair: repair})
}

// line appends a prefix and one record.
func (w *writer) line(prefix string, r *Record) error {
	r.Seq, r.Time, r.Prev = w.head.seq+1, time.Now().UTC(), w.head.hash
	text, err := r.seal()
	if err != nil {
		return err
	}
	if err := w.write(append([]byte(prefix), text...)); err != nil {
		return err
	}
	w.head.seq, w.head.hash = r.Seq, r.Hash
	return nil
}

// write appends text that completes a line. If only a part could be written, that is cut off
// again; if that fails too, the next writer repairs it.
func (w *writer) write(text []byte) error {
	if _, err := w.f.Write(text); err != nil {
		return errors.Join(err, w.f.Truncate(w.head.size))
	}
	w.head.size += int64(len(text))
	w.head.end, w.head.noNewline = w.head.size, false
	return nil
}

// rotate starts a new file, and removes the oldest ones.
func (w *writer) rotate(keep int) error {
	if err := w.f.Sync(); err != nil {
		return err
	}
	next := w.numbers[len(w.numbers)-1] + 1
	numbers, err := w.dir.numbers() // another process may have removed old ones
	if err != nil {
		return err
	}
	old := w.f
	if err := w.create(next); err != nil {
		return err // the next writer continues in the new file
	}
	_ = old.Close()
	w.numbers = append(numbers, next)
	w.head.size, w.head.end, w.head.noNewline = 0, 0, false
	return w.prune(keep)
}

// prune removes the oldest files beyond keep, after a record that says so.
func (w *writer) prune(keep int) error {
	surplus := len(w.numbers) - keep
	if surplus <= 0 {
		return nil
	}
	last, err := w.dir.before(w.numbers[:surplus])
	if err != nil {
		return err
	}
	through := w.numbers[surplus-1]
	if err := w.line("", &Record{Kind: KindPrune, Prune: &Prune{Through: through, Seq: last.seq, Head: last.hash}}); err != nil {
		return err
	}
	if err := w.f.Sync(); err != nil {
		return err
	}
	for _, n := range w.numbers[:surplus] { // the oldest first, so that a crash leaves no gap
		if err := w.dir.root.Remove(fileName(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	w.numbers = w.numbers[surplus:]
	return nil
}
