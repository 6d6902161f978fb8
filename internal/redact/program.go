package redact

import (
	"fmt"
	"regexp/syntax"
	"unicode"

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
	// prefix is what every match begins with. Where it is empty, first says
	// which bytes one may begin with.
	prefix []byte
	first  [256]bool
	asks   bool // some instruction asks what the place is like
}

// builder makes a program of one of runes.
type builder struct {
	program
	at    []int32        // by instruction of the other program: the one here
	cache map[inst]int32 // instructions that are there
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
		b.at[i] = b.reserve()
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

func (b *builder) reserve() int32 {
	b.insts = append(b.insts, inst{op: opFail})
	return int32(len(b.insts) - 1)
}

// put makes an instruction, or gives the one that is the same.
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

// translate sets the instruction at a place to what one for runes does.
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

// ranges are the runes that an instruction takes, as pairs of first and last.
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
