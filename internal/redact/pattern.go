package redact

import (
	"fmt"
	"regexp/syntax"
	"unicode"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/policy"
)

// op is what an instruction of a program does.
type op uint8

const (
	opByte  op = iota // a byte from lo to hi, then next
	opSplit           // next, and other
	opEmpty           // what needs says of the place, then next
	opMatch
	opFail
)

// inst is an instruction of a program.
type inst struct {
	op          op
	lo, hi      byte
	needs       syntax.EmptyOp
	next, other int32
}

// program is an expression that matches bytes.
type program struct {
	insts []inst
	start int32
	// prefix is what every match begins with. If it is empty, first says which bytes a
	// match may begin with.
	prefix []byte
	first  [256]bool
	asks   bool // some instruction checks the bytes before and after a place
}

// builder makes a program for bytes of one for runes.
type builder struct {
	program
	at    []int32        // by instruction of the other program: the one here
	cache map[inst]int32 // where instructions are that were made
}

var errLarge = fmt.Errorf("makes a program of more than %d instructions: use smaller classes and fewer repetitions", MaxProgram)

// compile makes a program of a pattern. Its errors continue a sentence that begins
// "the pattern".
func compile(pattern string) (*program, error) {
	prog, err := policy.CompilePattern(pattern)
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > MaxProgram {
		return nil, errLarge
	}
	b := &builder{at: make([]int32, len(prog.Inst)), cache: map[inst]int32{}}
	for i := range prog.Inst {
		b.at[i] = int32(i)
		b.insts = append(b.insts, inst{op: opFail}) // which translate replaces
	}
	for i := range prog.Inst {
		if err := b.translate(b.at[i], &prog.Inst[i]); err != nil {
			return nil, err
		}
	}
	b.start = b.at[prog.Start]
	prefix, _ := prog.Prefix()
	if prog.StartCond() == 0 {
		b.prefix = []byte(prefix)
	}
	b.findFirst()
	return &b.program, nil
}

// put adds an instruction, and returns where it is, or where an equal one is.
func (b *builder) put(i inst) (int32, error) {
	if at, ok := b.cache[i]; ok {
		return at, nil
	}
	if len(b.insts) >= MaxProgram {
		return 0, errLarge
	}
	b.insts = append(b.insts, i)
	b.cache[i] = int32(len(b.insts) - 1)
	return b.cache[i], nil
}

// translate makes the instruction at a place do the same for bytes as from does for runes.
func (b *builder) translate(at int32, from *syntax.Inst) (err error) {
	var to inst
	switch from.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		to = inst{op: opSplit, next: b.at[from.Out], other: b.at[from.Arg]}
	case syntax.InstCapture, syntax.InstNop:
		to = inst{op: opEmpty, next: b.at[from.Out]}
	case syntax.InstEmptyWidth:
		b.asks = true
		to = inst{op: opEmpty, needs: syntax.EmptyOp(from.Arg), next: b.at[from.Out]}
	case syntax.InstMatch:
		to = inst{op: opMatch}
	case syntax.InstFail:
		to = inst{op: opFail}
	default:
		first, err := b.runes(ranges(from), b.at[from.Out])
		if err != nil {
			return err
		}
		to = inst{op: opEmpty, next: first}
	}
	b.insts[at] = to
	return nil
}

// ranges returns the runes that an instruction takes, as pairs of first and last.
func ranges(from *syntax.Inst) []rune {
	switch {
	case from.Op == syntax.InstRuneAny:
		return []rune{0, unicode.MaxRune}
	case from.Op == syntax.InstRuneAnyNotNL:
		return []rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune}
	case len(from.Rune) != 1:
		return from.Rune
	}
	r := from.Rune[0]
	all := []rune{r, r}
	if syntax.Flags(from.Arg)&syntax.FoldCase != 0 {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			all = append(all, f, f)
		}
	}
	return all
}

// findFirst marks the bytes that a match may begin with.
func (p *program) findFirst() {
	seen := make([]bool, len(p.insts))
	todo := []int32{p.start}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		switch i := &p.insts[at]; i.op {
		case opSplit:
			todo = append(todo, i.next, i.other)
		case opEmpty:
			todo = append(todo, i.next)
		case opByte:
			for b := int(i.lo); b <= int(i.hi); b++ {
				p.first[b] = true
			}
		}
	}
}

// runes makes instructions that take the encoding of one of some runes, and continue at
// next. For negated classes and ".", they also take any single byte beyond ASCII, because
// it may not be UTF-8.
func (b *builder) runes(pairs []rune, next int32) (first int32, err error) {
	first = -1
	add := func(i inst) error {
		at, err := b.put(i)
		if err == nil && first >= 0 {
			at, err = b.put(inst{op: opSplit, next: at, other: first})
		}
		first = at
		return err
	}
	for i := 0; i+1 < len(pairs) && err == nil; i += 2 {
		lo, hi := pairs[i], pairs[i+1]
		if lo <= utf8.RuneError && hi == utf8.MaxRune {
			err = add(inst{op: opByte, lo: 0x80, hi: 0xff, next: next})
		}
		for n := 1; n <= utf8.UTFMax && err == nil; n++ {
			from, to := max(lo, lowest[n]), min(hi, lowest[n+1]-1)
			if from <= to {
				err = b.sequences(encode(from, n), encode(to, n), next, add)
			}
		}
	}
	if first < 0 && err == nil {
		err = add(inst{op: opFail})
	}
	return first, err
}

// lowest has, for each length of an encoding in bytes, the first rune of that length.
var lowest = [...]rune{0, 0, 0x80, 0x800, 0x10000, utf8.MaxRune + 1}

// encode returns the n bytes of a rune, also of surrogates.
func encode(r rune, n int) []byte {
	if n == 1 {
		return []byte{byte(r)}
	}
	text := make([]byte, n)
	for i := n - 1; i > 0; i-- {
		text[i] = 0x80 | byte(r&0x3f)
		r >>= 6
	}
	text[0] = byte(uint(0xf00)>>n&0xff) | byte(r)
	return text
}

// sequences adds instructions for all encodings from lo to hi, which have the same length.
func (b *builder) sequences(lo, hi []byte, next int32, add func(inst) error) error {
	// A range whose ends do not cover all of 80 to BF is split.
	for k := 1; k < len(lo); k++ {
		if string(lo[:k]) == string(hi[:k]) {
			continue
		}
		// They differ before k: the bytes from k on must cover all of 80 to BF.
		if !all(lo[k:], 0x80) {
			mid := join(lo[:k], len(lo)-k, 0xbf)
			if err := b.sequences(lo, mid, next, add); err != nil {
				return err
			}
			return b.sequences(after(mid), hi, next, add)
		}
		if !all(hi[k:], 0xbf) {
			mid := join(hi[:k], len(hi)-k, 0x80)
			if err := b.sequences(lo, before(mid), next, add); err != nil {
				return err
			}
			return b.sequences(mid, hi, next, add)
		}
		break
	}
	for i := len(lo) - 1; i > 0; i-- {
		at, err := b.put(inst{op: opByte, lo: lo[i], hi: hi[i], next: next})
		if err != nil {
			return err
		}
		next = at
	}
	return add(inst{op: opByte, lo: lo[0], hi: hi[0], next: next})
}

func all(text []byte, want byte) bool {
	for _, b := range text {
		if b != want {
			return false
		}
	}
	return true
}

// join returns a text followed by n times the same byte.
func join(text []byte, n int, b byte) []byte {
	out := append(make([]byte, 0, len(text)+n), text...)
	for range n {
		out = append(out, b)
	}
	return out
}

// after returns the next encoding of the same length.
func after(text []byte) []byte {
	out := join(text, 0, 0)
	for i := len(out) - 1; ; i-- {
		if out[i]++; i == 0 || out[i] <= 0xbf {
			return out
		}
		out[i] = 0x80
	}
}

// before returns the previous encoding of the same length.
func before(text []byte) []byte {
	out := join(text, 0, 0)
	for i := len(out) - 1; ; i-- {
		if out[i]--; i == 0 || out[i] >= 0x80 {
			return out
		}
		out[i] = 0xbf
	}
}
