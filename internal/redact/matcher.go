package redact

import (
	"bytes"
	"encoding/binary"
	"regexp/syntax"
	"slices"
)

// matcher finds the matches of a program. The matches that it finds cover every byte of
// every match, and matches that overlap count as one. For each instruction that the text
// may have reached, it stores the first place where such a match may begin (Thompson and
// Pike), so that its time is at worst the length of the text times that of the program. It
// only does this where the table has found the end of a match, starting from the last
// place where no match had begun.
type matcher struct {
	p         *program
	pos       int64   // the text before it was processed
	now, then threads // where matches that have begun continue: at pos, and after it
	seen      marks   // instructions that were reached at pos
	last      rune    // the byte before pos, -1 if there is none
	stack     []int32

	table *table // nil if a prefix is as good, or it has become too large too often
	state int32  // of the table, at ahead
	ahead int64  // where the table has got to; pos or after it
}

// threads are the instructions where matches continue, in the order in which they began.
type threads struct {
	list []thread
	marks
}

type thread struct {
	at    int32
	start int64
}

// marks is a set of instructions that can be emptied fast.
type marks struct {
	round []uint32 // in which an instruction was marked last
	now   uint32
}

// set marks an instruction, and reports whether it was not marked before.
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

// skipped skips bytes that no match begins with, and reports whether some are left.
func (s *matcher) skipped(w *window) bool {
	text := w.b[s.pos-w.base:]
	if n := s.p.skip(text); n > 0 {
		s.last = rune(text[n-1])
		s.pos += int64(n)
	}
	return s.pos < w.end()
}

// searched searches by the table for the end of a match, and reports whether to step
// through the text from pos on: there is one, or so much is under way that its start must
// be known. Otherwise it has read all of the window, and a match may begin at pos.
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

// skip returns how many bytes no match begins with.
func (p *program) skip(b []byte) int {
	if len(p.prefix) > 1 {
		if i := bytes.Index(b, p.prefix); i >= 0 {
			return i
		}
		return max(0, len(b)-len(p.prefix)+1) // the end may be the start of the prefix
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

// step processes the byte at pos, -1 for the end of the text.
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

// follow goes from an instruction to those that take the byte b, and reports whether a
// match ends before it.
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

// How large a table may grow, and how often it is started again before the program
// counts as unsuitable for a table.
const (
	maxTable  = 32 << 10 // entries
	maxTables = 16
)

// table finds fast whether a match ends in a text. It is a DFA: its states are the sets of
// instructions that a text can lead to, and are made when a text needs them.
type table struct {
	p       *program
	class   [256]uint8 // bytes that no instruction distinguishes have the same class
	classes int
	next    []int32 // by state and class: twice the next state, plus one if a match ends before it; -1: not known yet
	sets    [][]int32
	ids     map[string]int32
	places  []uint8 // by state: the kind of the byte before
	made    int     // how often the table was begun
	seen    marks
	stack   []int32
}

// The kinds of bytes, for instructions that check the byte before a place. A state without
// instructions has the number of its kind.
const (
	afterLine = iota // "\n", or nothing
	afterWord        // a letter, a digit or "_"
	afterOther
	places
)

var placeRunes = [places]rune{'\n', 'a', ' '}

func newTable(p *program) *table {
	t := &table{p: p, seen: marks{round: make([]uint32, len(p.insts))}}
	var border [257]bool
	for _, i := range p.insts {
		if i.op == opByte {
			border[i.lo], border[int(i.hi)+1] = true, true
		}
	}
	for b := 1; b < 256; b++ {
		if border[b] || p.asks && place(byte(b)) != place(byte(b-1)) {
			t.classes++
		}
		t.class[b] = uint8(t.classes)
	}
	t.classes++
	t.begin()
	return t
}

// place returns the kind of a byte.
func place(b byte) uint8 {
	switch {
	case b == '\n':
		return afterLine
	case isWord(b):
		return afterWord
	}
	return afterOther
}

// idle returns the state after a byte, with no match under way.
func (t *table) idle(last rune) int32 {
	if last < 0 {
		return afterLine
	}
	return int32(place(byte(last)))
}

// begin forgets all states.
func (t *table) begin() {
	t.made++
	t.next, t.sets, t.places, t.ids = t.next[:0], t.sets[:0], t.places[:0], map[string]int32{}
	for place := range uint8(places) {
		t.state(nil, place)
	}
}

// state returns the number of a state, and adds a new one.
func (t *table) state(set []int32, place uint8) int32 {
	key := make([]byte, 0, 1+4*len(set))
	key = append(key, place)
	for _, at := range set {
		key = binary.LittleEndian.AppendUint32(key, uint32(at))
	}
	if id, ok := t.ids[string(key)]; ok {
		return id
	}
	id := int32(len(t.sets))
	t.ids[string(key)] = id
	t.sets, t.places = append(t.sets, slices.Clone(set)), append(t.places, place)
	for range t.classes {
		t.next = append(t.next, -1)
	}
	return id
}

// run reads a text from a state on, to its end or to the end of a match. It returns the
// state and how far it got, and the last place where no match was under way, -1 if there
// is none.
func (t *table) run(from int32, text []byte) (at int32, n, idle int, found bool) {
	at, idle = from, -1
	for n < len(text) {
		if at < places {
			for idle = n; n < len(text) && !t.p.first[text[n]]; {
				n++
			}
			if n > idle {
				at, idle = t.idle(rune(text[n-1])), n
			}
			if n == len(text) {
				break
			}
		}
		to := t.next[int(at)*t.classes+int(t.class[text[n]])]
		if to < 0 {
			at, to = t.make(at, text[n])
		}
		if to&1 != 0 {
			return at, n, idle, true
		}
		at = to >> 1
		n++
	}
	if at < places {
		idle = n
	}
	return at, n, idle, false
}

// make finds the state that a byte leads to. If the table gets too large, it is begun
// anew, and the state at gets another number.
func (t *table) make(at int32, b byte) (same, to int32) {
	set, before := t.sets[at], t.places[at]
	if len(t.next) > maxTable {
		t.begin()
		at = t.state(set, before)
	}
	var asked syntax.EmptyOp
	after := uint8(afterLine)
	if t.p.asks {
		asked, after = syntax.EmptyOpContext(placeRunes[before], rune(b)), place(b)
	}
	t.seen.clear()
	var next []int32
	found := int32(0)
	t.stack = append(append(t.stack[:0], set...), t.p.start)
	for len(t.stack) > 0 {
		pc := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		if !t.seen.set(pc) {
			continue
		}
		switch i := &t.p.insts[pc]; i.op {
		case opByte:
			if i.lo <= b && b <= i.hi {
				next = append(next, i.next)
			}
		case opSplit:
			t.stack = append(t.stack, i.next, i.other)
		case opEmpty:
			if i.needs&^asked == 0 {
				t.stack = append(t.stack, i.next)
			}
		case opMatch:
			found = 1
		}
	}
	slices.Sort(next)
	to = t.state(slices.Compact(next), after)<<1 | found
	t.next[int(at)*t.classes+int(t.class[b])] = to
	return at, to
}

// Finder finds matches of an expression in lines, faster than an expression that also says
// where they begin. It is for one goroutine.
type Finder struct{ table *table }

// NewFinder compiles an expression in RE2 syntax, in which ^ and $ match at lines. It
// refuses an expression that is too large, matches the empty text, or depends on the
// beginning or the end of the whole text.
func NewFinder(pattern string) (*Finder, error) {
	p, err := compile("(?m:" + pattern + ")")
	if err != nil {
		return nil, err
	}
	return &Finder{newTable(p)}, nil
}

// End returns where the first match in a text ends, or -1. The text must be whole lines.
// A match may go over the end of a line. ok is false once the expression has led to too
// many states: then nothing is known.
func (f *Finder) End(text []byte) (end int, ok bool) {
	state, n, _, found := f.table.run(f.table.idle('\n'), text)
	if !found {
		_, _, _, found = f.table.run(state, lineFeed)
	}
	if f.table.made > maxTables {
		return -1, false
	}
	if !found {
		n = -1
	}
	return n, true
}

var lineFeed = []byte{'\n'}
