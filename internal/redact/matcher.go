package redact

import (
	"bytes"
	"regexp/syntax"
)

// matcher finds the matches of a program: each byte that lies in some match
// lies in one that is found, and matches that overlap are one. It keeps, for
// each instruction that the text may have come to, the first place where such
// a match may begin (Thompson and Pike), so its time is the length of the text
// times, at worst, that of the program. That is done where a match ends, from
// where no match was under way last; a table tells where.
type matcher struct {
	p         *program
	pos       int64   // what is before it was looked at
	now, then threads // where matches that have begun go on: at pos, and behind it
	seen      marks   // instructions that were come to at pos
	last      rune    // the byte before pos, -1 where there is none
	stack     []int32

	table *table // nil where a prefix is as good, or it has become too large too often
	state int32  // of the table, at ahead
	ahead int64  // what the table has looked at; at pos or behind it
}

// threads are the instructions where matches go on, the first of those that
// began first.
type threads struct {
	list []thread
	marks
}

type thread struct {
	at    int32
	start int64
}

// marks is a set of instructions that is quickly emptied.
type marks struct {
	round []uint32 // in which an instruction was marked last
	now   uint32
}

// set marks an instruction, and says whether it was not marked.
func (m *marks) set(at int32) bool {
	if m.round[at] == m.now {
		return false
	}
	m.round[at] = m.now
	return true
}

func (m *marks) clear() {
	if m.now++; m.now == 0 {
		clear(m.round)
		m.now = 1
	}
}

func newMatcher(p *program) *matcher {
	n := len(p.insts)
	m := &matcher{p: p, last: -1}
	m.now.round, m.then.round, m.seen.round = make([]uint32, n), make([]uint32, n), make([]uint32, n)
	m.then.clear()
	m.now.clear()
	if len(p.prefix) < 2 {
		m.table = newTable(p)
	}
	return m
}

// scan implements scanner.
func (s *matcher) scan(w *window, m *matches) int64 {
	for s.pos < w.end() {
		if len(s.now.list) > 0 {
			s.step(s.pos, rune(w.b[s.pos-w.base]), m)
			continue
		}
		if s.table == nil {
			if s.skipped(w) {
				s.step(s.pos, rune(w.b[s.pos-w.base]), m)
			}
			continue
		}
		if !s.searched(w) {
			break
		}
		s.step(s.pos, rune(w.b[s.pos-w.base]), m)
		for until := min(s.ahead, w.end()); s.pos < until; { // there may be a match, not yet begun
			s.step(s.pos, rune(w.b[s.pos-w.base]), m)
		}
		s.ahead = 0 // the table begins anew where matches under way have ended
	}
	if w.last {
		for s.pos < w.end() {
			s.step(s.pos, rune(w.b[s.pos-w.base]), m)
		}
		s.step(s.pos, -1, m)
	}
	if len(s.now.list) == 0 {
		return s.pos
	}
	return max(s.now.list[0].start, s.pos-MaxMatch)
}

// skipped leaves out what no match begins with, and says whether more is left.
func (s *matcher) skipped(w *window) bool {
	text := w.b[s.pos-w.base:]
	if n := s.p.skip(text); n > 0 {
		s.last = rune(text[n-1])
		s.pos += int64(n)
	}
	return s.pos < w.end()
}

// searched looks by the table for a place where a match ends, and says whether
// what begins at pos is to be looked at closely: there is one, or so much is
// under way that it is to be known since when. Else all of the window was
// looked at, and what may be a match begins at pos.
func (s *matcher) searched(w *window) bool {
	if s.ahead <= s.pos {
		s.ahead, s.state = s.pos, s.table.idle(s.last)
	}
	text := w.b[s.ahead-w.base:]
	state, n, idle, found := s.table.run(s.state, text)
	if idle >= 0 {
		if at := s.ahead + int64(idle); at > s.pos {
			s.pos, s.last = at, rune(w.b[at-w.base-1])
		}
	}
	s.state, s.ahead = state, s.ahead+int64(n)
	if s.table.made > maxTables {
		s.table = nil
		return s.pos < w.end()
	}
	return found || s.ahead-s.pos > MaxMatch
}

// skip is how many bytes no match begins with.
func (p *program) skip(b []byte) int {
	if len(p.prefix) > 1 {
		if i := bytes.Index(b, p.prefix); i >= 0 {
			return i
		}
		return max(0, len(b)-len(p.prefix)+1) // the end may be its first half
	}
	if len(p.prefix) == 1 {
		if i := bytes.IndexByte(b, p.prefix[0]); i >= 0 {
			return i
		}
		return len(b)
	}
	for i, c := range b {
		if p.first[c] {
			return i
		}
	}
	return len(b)
}

// step takes the byte at pos, or the end of the text, which is -1.
func (s *matcher) step(pos int64, b rune, m *matches) {
	s.seen.clear()
	s.then.clear()
	s.then.list = s.then.list[:0]
	var place syntax.EmptyOp
	if s.p.asks {
		place = syntax.EmptyOpContext(s.last, b)
	}
	matched := false
	for _, t := range s.now.list {
		if t.start < pos-MaxMatch {
			t.start = pos - MaxMatch
		}
		if s.follow(t, b, place) && !matched {
			m.add(t.start, pos)
			matched = true
		}
	}
	if b >= 0 && s.p.first[b] {
		s.follow(thread{s.p.start, pos}, b, place)
	}
	s.now, s.then = s.then, s.now
	s.last = b
	s.pos++
}

// follow goes from an instruction to those that take the byte b, and says
// whether a match ends before it.
func (s *matcher) follow(t thread, b rune, place syntax.EmptyOp) (matched bool) {
	s.stack = append(s.stack[:0], t.at)
	for len(s.stack) > 0 {
		at := s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		if !s.seen.set(at) {
			continue
		}
		switch i := &s.p.insts[at]; i.op {
		case opByte:
			if rune(i.lo) <= b && b <= rune(i.hi) && s.then.set(i.next) {
				s.then.list = append(s.then.list, thread{i.next, t.start})
			}
		case opSplit:
			s.stack = append(s.stack, i.next, i.other)
		case opEmpty:
			if i.needs&^place == 0 {
				s.stack = append(s.stack, i.next)
			}
		case opMatch:
			matched = true
		}
	}
	return matched
}
