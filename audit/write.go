package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

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
