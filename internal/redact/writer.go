package redact

import "io"

// Writer replaces values in a stream. It is for one goroutine.
type Writer struct {
	set    *Set
	dst    io.Writer // or filter, which then writes to it
	filter *filter   // nil without rules

	state int32
	// held are the bytes from position base on that were neither passed on
	// nor replaced yet.
	held  []byte
	base  int64
	store [64]byte // for held, while that is short
	// spans are the parts of held that are to be replaced, in order. A span
	// may begin before base, in what was replaced already.
	spans []span
	last  span // what was replaced last; it ends at base unless text came after it
	out   []byte
}

// span is a part of the stream, by positions.
type span struct {
	start, end int64
	value      int32 // the one value in it, -1 where several overlap
	joined     bool  // it goes on what was replaced just before it
}

// NewWriter returns a writer that passes on to dst what cannot be part of a
// value or a match. Close passes on the rest.
func NewWriter(set *Set, dst io.Writer) *Writer {
	w := &Writer{set: set, dst: dst}
	if set != nil && len(set.rules) > 0 {
		w.filter = newFilter(set.rules, dst)
		w.dst = w.filter
	}
	return w
}

// Counts adds to counts how many matches each rule has had, by its name.
func (w *Writer) Counts(counts map[string]int64) {
	if w.filter == nil {
		return
	}
	for i, n := range w.filter.counts {
		if n > 0 {
			counts[w.filter.rules[i].Name] += n
		}
	}
}

// Matches is how many matches all rules have had.
func (w *Writer) Matches() (n int64) {
	if w.filter != nil {
		for _, k := range w.filter.counts {
			n += k
		}
	}
	return n
}

// Blocked is the name of the rule that ended the output, empty while it goes
// on. What is written afterwards is taken and passed on to nobody.
func (w *Writer) Blocked() string {
	if w.filter == nil || w.filter.blocked < 0 {
		return ""
	}
	return w.filter.rules[w.filter.blocked].Name
}

// Use has the writer look for another set's values from what it holds back
// on; its rules stay as they are. Where a value of the set before lies within that, more is replaced than
// the value.
func (w *Writer) Use(set *Set) error {
	if n := len(w.spans); n > 0 {
		w.spans = []span{{start: w.base, end: w.spans[n-1].end, joined: w.spans[0].joined}}
		w.flush(w.base)
	}
	rest := w.held
	w.set, w.state, w.held = set, 0, nil
	if err := w.pass(); err != nil {
		return err
	}
	_, err := w.Write(rest)
	return err
}

// Write takes all of p, or fails as dst does.
func (w *Writer) Write(p []byte) (int, error) {
	if !w.set.hasValues() {
		return w.dst.Write(p)
	}
	n := len(p)
	for len(p) > 0 {
		if w.state == 0 && len(w.held) == 0 {
			skip := w.set.skip(p)
			if skip == n { // nothing in all of it
				w.base += int64(n)
				return w.dst.Write(p)
			}
			w.out = append(w.out, p[:skip]...)
			w.base += int64(skip)
			p = p[skip:]
		}
		p = p[w.feed(p):]
	}
	return n, w.pass()
}

// feed takes bytes until nothing is held back any more.
func (w *Writer) feed(p []byte) int {
	for i, b := range p {
		w.held = append(w.held, b)
		w.state = w.set.step(w.state, b)
		pos := w.base + int64(len(w.held))
		for v := w.set.nodes[w.state].ends; v != 0 && !w.found(v, pos); v = w.set.shorter(v) {
		}
		w.flush(pos - int64(w.set.nodes[w.state].depth))
		if w.state == 0 && len(w.held) == 0 {
			return i + 1
		}
	}
	return len(p)
}

// found notes that a value ends at pos. It reports false where that is the
// same value as the one it overlaps, which has been found before it.
func (w *Writer) found(value int32, pos int64) bool {
	s := span{start: pos - int64(w.set.nodes[value].depth), end: pos, value: value}
	for n := len(w.spans); n > 0 && w.spans[n-1].end > s.start; n-- {
		other := w.spans[n-1]
		if other.value == value {
			return false
		}
		if other.start < s.start { // else it lies within
			s.start, s.value = other.start, -1
		}
		s.joined = other.joined
		w.spans = w.spans[:n-1]
	}
	if s.start < w.base { // in what was replaced last
		if w.last.value == value {
			return false
		}
		if w.last.start < s.start {
			s.value = -1
		}
		s.joined = true
	}
	w.spans = append(w.spans, s)
	return true
}

// flush passes on what no later byte can change: every value that is still to
// be found begins at safe or after it.
func (w *Writer) flush(safe int64) {
	done := w.base
	for len(w.spans) > 0 && w.spans[0].start <= safe {
		s := w.spans[0]
		w.spans = w.spans[1:]
		w.out = append(w.out, w.held[done-w.base:max(done, s.start)-w.base]...)
		if !s.joined {
			w.out = append(w.out, Placeholder...)
		}
		done, w.last = s.end, s
	}
	if done < safe { // spans that are left begin after it
		w.out = append(w.out, w.held[done-w.base:safe-w.base]...)
		done = safe
	}
	w.held = w.held[done-w.base:]
	w.base = done
	if len(w.held) == 0 {
		w.held = w.store[:0]
	}
}

// pass gives dst what is ready.
func (w *Writer) pass() error {
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.dst.Write(w.out)
	if w.out = w.out[:0]; cap(w.out) > maxKept {
		w.out = nil
	}
	return err
}

// maxKept is how much memory a writer keeps between writes, in bytes.
const maxKept = 64 << 10

// Close passes on what was held back. It does not close dst.
func (w *Writer) Close() error {
	if w.set.hasValues() {
		w.flush(w.base + int64(len(w.held)))
		w.state = 0
	}
	err := w.pass()
	if w.filter != nil && err == nil {
		err = w.filter.Close()
	}
	return err
}

func (s *Set) hasValues() bool { return s != nil && len(s.nodes) > 1 }
