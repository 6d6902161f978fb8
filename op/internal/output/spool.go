package output

import (
	"bytes"
	"os"
)

// How much of one stream is stored, in bytes: its beginning and its end.
const (
	SpoolHead = 16 << 20
	SpoolTail = 16 << 20

	// MaxWhole is the size up to which a stream is stored completely, in bytes.
	MaxWhole = SpoolHead + SpoolTail
	// spoolMemory is how much is stored in memory. Most streams need no file beyond that.
	spoolMemory = 16 << 10
	// spoolStep is how much a file grows by, at first.
	spoolStep = 256 << 10
)

// spool keeps the beginning and the end of a stream, and counts all of it. Byte number n is at
// place n while n is below head; those after it go into a ring. It is not safe for concurrent use.
type spool struct {
	mem   []byte
	file  *os.File // without a name; nil while mem is enough
	room  int64    // how far it may grow at the moment
	head  int64
	ring  int64
	total int64 // bytes that came
	kept  int64 // of these, how many were written: none after the disk was full
	lines int64 // line feeds among all that came
	lost  int64 // bytes before the first that is stored, if they never came; then there is no head
	// more asks for n more bytes on the disk.
	more func(n int64) bool
}

func newSpool(more func(int64) bool) *spool {
	return &spool{room: spoolMemory, head: SpoolHead, ring: SpoolTail, more: more}
}

// Write never fails: bytes that cannot be stored are counted.
func (s *spool) Write(p []byte) (int, error) {
	n := len(p)
	s.lines += int64(bytes.Count(p, []byte{'\n'}))
	for len(p) > 0 && s.kept == s.total {
		at, fits := s.place()
		if at >= s.room && !s.reach() {
			// No more room is available. The first half of it, or the beginning as far as it
			// was written, stays; the rest becomes the ring.
			if s.room <= s.head {
				s.head = s.room / 2
			}
			s.ring = s.room - s.head
			continue
		}
		part := p[:min(int64(len(p)), fits, s.room-at)]
		s.total += int64(len(part))
		if s.put(at, part) {
			s.kept = s.total
		}
		p = p[len(part):]
	}
	s.total += int64(len(p))
	return n, nil
}

// skip notes that the next n bytes never come. Of what came before nothing stays.
func (s *spool) skip(n int64) {
	if n <= 0 {
		return
	}
	s.head, s.ring = 0, s.head+s.ring
	s.total += n
	s.lost, s.kept = s.total, s.total
}

// place returns where the next byte goes, and how many bytes fit from there on.
func (s *spool) place() (at, fits int64) {
	if s.lost > 0 {
		off := (s.total - s.lost) % s.ring
		return off, s.ring - off
	}
	if s.total < s.head {
		return s.total, s.head - s.total
	}
	off := (s.total - s.head) % s.ring
	return s.head + off, s.ring - off
}

// reach gets more room, and reports whether there is some.
func (s *spool) reach() bool {
	most := s.head + s.ring
	step := min(max(spoolStep, s.room), 4<<20, most-s.room)
	if step <= 0 || !s.more(step) {
		return false
	}
	if s.file == nil {
		f, err := Nameless()
		if err != nil {
			return false
		}
		s.file = f
		if _, err := f.WriteAt(s.mem, 0); err != nil {
			s.file = nil
			_ = f.Close()
			return false
		}
		s.mem = nil
	}
	s.room += step
	return true
}

// put writes p at a place, and reports whether the disk took it.
func (s *spool) put(at int64, p []byte) bool {
	if s.file != nil {
		_, err := s.file.WriteAt(p, at)
		return err == nil
	}
	if end := int(at) + len(p); end > len(s.mem) {
		s.mem = append(s.mem, make([]byte, end-len(s.mem))...)
	}
	copy(s.mem[at:], p)
	return true
}

// gap returns where the dropped bytes begin and end. If no bytes were dropped, the two are the
// same.
func (s *spool) gap() (from, to int64) {
	if s.lost > 0 {
		return 0, max(s.lost, s.kept-s.ring)
	}
	if s.kept <= s.head+s.ring {
		return s.kept, s.kept
	}
	return s.head, s.kept - s.ring
}

// read returns at most n stored bytes from byte number at on, and never across the gap. from is
// where they begin: after the gap if at is in it.
func (s *spool) read(at int64, n int) (data []byte, from int64, err error) {
	left, right := s.gap()
	from = max(at, 0)
	end := s.kept
	switch {
	case left == right:
	case from < left:
		end = left
	case from < right:
		from = right
	}
	if end -= from; end <= 0 {
		return nil, from, nil
	}
	data = make([]byte, min(int64(n), end))
	for done := 0; done < len(data); {
		place, fits := from+int64(done), int64(len(data)-done)
		if place < s.head {
			fits = min(fits, s.head-place)
		} else {
			off := (place - s.head - s.lost) % s.ring
			place, fits = s.head+off, min(fits, s.ring-off)
		}
		part := data[done : done+int(fits)]
		if s.file == nil {
			copy(part, s.mem[place:])
		} else if _, err := s.file.ReadAt(part, place); err != nil {
			return nil, from, err
		}
		done += len(part)
	}
	return data, from, nil
}

// size returns how many bytes it takes on the disk.
func (s *spool) size() int64 {
	if s.file == nil {
		return 0
	}
	return s.room - spoolMemory
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close() // nothing is left of it: it has no name
	}
	s.mem, s.file, s.kept = nil, nil, 0
}

// Nameless returns a file without a name, which other processes cannot find. It disappears when
// this process ends, however that happens.
func Nameless() (*os.File, error) {
	f, err := os.CreateTemp("", "paddock-output-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
