package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
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
