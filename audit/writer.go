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

// head is the end of the chain, and what a file has behind it.
type head struct {
	seq  uint64
	hash string
	// size is the file's; end is where its last record ends. What lies
	// between them is none.
	size, end int64
	// bare says that the last record has no newline yet.
	bare bool
}

// maxSearched bounds a file of which more than the end is read, in bytes.
const maxSearched = 1 << 30

// headOf finds the last record of a file. Its hash is empty where there is none.
func headOf(f *os.File) (head, error) {
	info, err := f.Stat()
	if err != nil {
		return head{}, err
	}
	h := head{size: info.Size()}
	if !info.Mode().IsRegular() {
		return h, errors.New("it is no regular file")
	}
	for _, n := range []int64{4 << 10, 2*MaxRecord + 2} {
		if found, err := h.near(f, n); found || err != nil {
			return h, err
		}
	}
	if h.size > maxSearched {
		return h, errors.New("its end is no record, and it is too large to be searched: look at it, and move it away")
	}
	err = h.search(f)
	return h, err
}

// near looks for the last record in the last n bytes.
func (h *head) near(f *os.File, n int64) (found bool, err error) {
	from := max(0, h.size-n)
	buf := make([]byte, h.size-from)
	if _, err := f.ReadAt(buf, from); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	last := bytes.LastIndexByte(buf, '\n') + 1 // 0 where there is none
	if last < len(buf) && (last > 0 || from == 0) && h.take(append(bytes.Clone(buf[last:]), '\n'), h.size) {
		h.bare = true
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

// take makes a line that is a record the head.
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

// search reads the whole file: its end is not as appending leaves it.
func (h *head) search(f *os.File) error {
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

// wreck describes what lies behind the last record. It is what a killed
// process leaves, the beginning of one line, or else suspect. open says that
// its last line has no newline; the repair adds one.
func (h *head) wreck(f *os.File) (r *Repair, open bool, err error) {
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

// newlines counts them, and remembers the last byte.
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

// before is the head of the newest of these files that has one, or the
// beginning of the chain.
func (d *dir) before(numbers []int) (head, error) {
	for i := len(numbers) - 1; i >= 0; i-- {
		f, err := d.open(fileName(numbers[i]))
		if err != nil {
			return head{}, err
		}
		h, err := headOf(f)
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

// writer appends to the newest file, while the lock is held.
type writer struct {
	dir     *dir
	numbers []int // of all files, the newest last
	f       *os.File
	info    fs.FileInfo // of f, when it was opened
	head    head
}

// holds says whether what is known of the log is still so: nobody has begun another
// file, or appended to this one, or put another in its place.
func (w *writer) holds() bool {
	newest := w.numbers[len(w.numbers)-1]
	if _, err := w.dir.root.Lstat(fileName(newest + 1)); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	info, err := w.dir.root.Lstat(fileName(newest))
	return err == nil && os.SameFile(info, w.info) && info.Size() == w.head.size
}

// writer opens the newest file and finds the head of the chain.
func (d *dir) writer() (*writer, error) {
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
	if w.head, err = headOf(w.f); err != nil {
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

// create starts a file, and makes its name last.
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

// put appends r, after what has to be done before it.
func (w *writer) put(r *Record, opts Options) error {
	if w.head.bare { // whole, but for its newline
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

// repair closes off what lies behind the last record.
func (w *writer) repair() error {
	repair, open, err := w.head.wreck(w.f)
	if err != nil {
		return err
	}
	newline := ""
	if open {
		newline = "\n"
	}
	return w.line(newline, &Record{Kind: KindRepair, Repair: repair})
}

// line appends one record behind a prefix.
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

// write appends text that completes a line. What could be written of it in
// part is taken back where that works; else the next writer repairs it.
func (w *writer) write(text []byte) error {
	if _, err := w.f.Write(text); err != nil {
		return errors.Join(err, w.f.Truncate(w.head.size))
	}
	w.head.size += int64(len(text))
	w.head.end, w.head.bare = w.head.size, false
	return nil
}

// rotate goes on in a new file, and removes the oldest ones.
func (w *writer) rotate(keep int) error {
	if err := w.f.Sync(); err != nil {
		return err
	}
	next := w.numbers[len(w.numbers)-1] + 1
	numbers, err := w.dir.numbers() // somebody may have taken old ones away
	if err != nil {
		return err
	}
	old := w.f
	if err := w.create(next); err != nil {
		return err // the next writer goes on in what was made
	}
	_ = old.Close()
	w.numbers = append(numbers, next)
	w.head.size, w.head.end, w.head.bare = 0, 0, false
	return w.prune(keep)
}

// prune removes what is beyond keep, once that is on the record.
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
	for _, n := range w.numbers[:surplus] { // the oldest first: no gap is left by a crash
		if err := w.dir.root.Remove(fileName(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	w.numbers = w.numbers[surplus:]
	return nil
}
