package redact

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
)

// What a table may grow to, and how often it is begun anew until the program
// is held to be none for a table.
const (
	maxTable  = 32 << 10 // entries
	maxTables = 16
)

// table says quickly whether a match may end somewhere, by the sets of
// instructions that a text can lead to. It is made as texts need it.
type table struct {
	p       *program
	class   [256]uint8 // bytes that no instruction tells apart have one class
	classes int
	next    []int32 // by state and class: the state after it, twice, plus one where a match ends before it; -1 not known yet
	sets    [][]int32
	ids     map[string]int32
	places  []uint8 // by state: what the byte before is like
	made    int     // tables, so far
	seen    marks
	stack   []int32
}

// What a byte is like to those that ask for the place behind it. A state with
// no instructions has the number of its place.
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

func place(b byte) uint8 {
	switch {
	case b == '\n':
		return afterLine
	case isWord(b):
		return afterWord
	}
	return afterOther
}

// idle is the state before anything of a match, behind a byte.
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

// state is the number of a state. The set is kept where it is new.
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

// run goes on from a state over a text until it is over or a match ends, and
// says how far it came, and where in the text it was in no match last, -1 for
// nowhere.
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

// make finds out where a byte leads to. Where the table becomes too large it
// is begun anew, and the state gets another number.
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
