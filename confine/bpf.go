package confine

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// A seccomp filter is a classic BPF program over struct seccomp_data
// (seccomp(2)): the call's number, the architecture and six 64-bit arguments.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16

	bpfLoad = 0x20 // BPF_LD | BPF_W | BPF_ABS
	bpfAnd  = 0x54 // BPF_ALU | BPF_AND | BPF_K
	bpfJump = 0x05 // BPF_JMP | BPF_JA
	bpfJEQ  = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	bpfJGE  = 0x35 // BPF_JMP | BPF_JGE | BPF_K
	bpfJSET = 0x45 // BPF_JMP | BPF_JSET | BPF_K
	bpfRet  = 0x06 // BPF_RET | BPF_K

	retAllow = 0x7fff0000
	retErrno = 0x00050000
	// retNotify asks a supervisor, whose answer has the errno; the kernel ignores
	// the errno in the low word.
	retNotify  = 0x7fc00000
	retActions = 0xffff0000
)

// instruction is struct sock_filter.
type instruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

const (
	instructionSize = 8
	maxOffset       = 255  // of a conditional jump
	maxProgram      = 4096 // instructions that the kernel takes
)

func encode(prog []instruction) []byte {
	b := make([]byte, 0, len(prog)*instructionSize)
	for _, in := range prog {
		b = binary.NativeEndian.AppendUint16(b, in.code)
		b = append(b, in.jt, in.jf)
		b = binary.NativeEndian.AppendUint32(b, in.k)
	}
	return b
}

// clause makes one call fail with errno if all conditions hold.
type clause struct {
	when  []cond
	errno uint16
	tell  bool // a supervisor is notified
}

// verdict is the return value of the filter if the clause holds.
func (c clause) verdict() uint32 {
	if c.tell {
		return retNotify | uint32(c.errno)
	}
	return retErrno | uint32(c.errno)
}

// fail marks a jump to the end of the clause; compileCall resolves it.
const fail = 0xff

// compileCall compiles the clauses of one call. The first clause that holds
// decides; if none holds, the call is allowed.
func compileCall(clauses []clause) []instruction {
	var all []instruction
	for _, c := range clauses {
		var prog []instruction
		for _, w := range c.when {
			prog = append(prog, w.emit()...)
		}
		prog = append(prog, instruction{bpfRet, 0, 0, c.verdict()})
		for i := range prog {
			to := uint8(len(prog) - i - 1)
			if prog[i].jt == fail {
				prog[i].jt = to
			}
			if prog[i].jf == fail {
				prog[i].jf = to
			}
		}
		all = append(all, prog...)
		if len(c.when) == 0 {
			return all
		}
	}
	return append(all, instruction{bpfRet, 0, 0, retAllow})
}

// span is a range of call numbers, up to the next span's first, with one body.
type span struct {
	first       uint32
	compileCall []instruction
}

// search compiles a binary search for the body of the loaded call number. It
// must be fast: the kernel runs it at every call whose verdict depends on its
// arguments.
func search(spans []span) []instruction {
	if len(spans) == 1 {
		return spans[0].compileCall
	}
	middle := len(spans) / 2
	low, high := search(spans[:middle]), search(spans[middle:])
	var prog []instruction
	if len(low) <= maxOffset {
		prog = append(prog, instruction{bpfJGE, uint8(len(low)), 0, spans[middle].first})
	} else { // too far for a conditional jump
		prog = append(prog, instruction{bpfJGE, 0, 1, spans[middle].first}, instruction{bpfJump, 0, 0, uint32(len(low))})
	}
	return append(append(prog, low...), high...)
}

// cond is a condition on one argument of a call.
type cond struct {
	arg    int
	name   string // of the argument, for people
	test   condTest
	values []value
	mask   uint32 // oneOf, noneOf: the bits that are compared; 0 for all
}

// value is a constant of the kernel with its name.
type value struct {
	n    uint32
	name string
}

type condTest uint8

// An argument that the kernel reads as an int is compared in its low word,
// because the kernel ignores the rest. One that may be wider is compared whole.
const (
	anyBit   condTest = iota // the low word has a bit of the values
	otherBit                 // the whole argument has a bit that is not among the values
	oneOf                    // the low word is one of the values
	noneOf                   // the low word is none of the values
	nonZero                  // the whole argument is not 0
)

func has(arg int, name string, values ...value) cond {
	return cond{arg: arg, name: name, test: anyBit, values: values}
}

func hasOther(arg int, name string, values ...value) cond {
	return cond{arg: arg, name: name, test: otherBit, values: values}
}

func is(arg int, name string, values ...value) cond {
	return cond{arg: arg, name: name, test: oneOf, values: values}
}

func isNot(arg int, name string, values ...value) cond {
	return cond{arg: arg, name: name, test: noneOf, values: values}
}

func notNull(arg int, name string) cond { return cond{arg: arg, name: name, test: nonZero} }

// masked returns the condition for only the argument's bits in mask.
func (c cond) masked(mask uint32) cond {
	c.mask = mask
	return c
}

// bits returns the values combined by or.
func (c cond) bits() (all uint32) {
	for _, v := range c.values {
		all |= v.n
	}
	return all
}

// emit compiles the condition. If it does not hold, the program jumps to fail.
func (c cond) emit() []instruction {
	low := uint32(offArgs + 8*c.arg)
	load, loadHigh := instruction{bpfLoad, 0, 0, low}, instruction{bpfLoad, 0, 0, low + 4}
	switch c.test {
	case anyBit:
		return []instruction{load, {bpfJSET, 0, fail, c.bits()}}
	case otherBit:
		return []instruction{load, {bpfJSET, 2, 0, ^c.bits()}, loadHigh, {bpfJEQ, fail, 0, 0}}
	case nonZero:
		return []instruction{load, {bpfJEQ, 0, 2, 0}, loadHigh, {bpfJEQ, fail, 0, 0}}
	}
	prog := []instruction{load}
	if c.mask != 0 {
		prog = append(prog, instruction{bpfAnd, 0, 0, c.mask})
	}
	for i, v := range c.values {
		last := len(c.values) - 1
		switch {
		case c.test == noneOf:
			prog = append(prog, instruction{bpfJEQ, fail, 0, v.n})
		case i < last:
			prog = append(prog, instruction{bpfJEQ, uint8(last - i), 0, v.n})
		default:
			prog = append(prog, instruction{bpfJEQ, 0, fail, v.n})
		}
	}
	return prog
}

// String returns the condition for people.
func (c cond) String() string {
	var names []string
	for _, v := range c.values {
		names = append(names, v.name)
	}
	switch c.test {
	case anyBit:
		return c.name + " has " + strings.Join(names, "|")
	case otherBit:
		return c.name + " has more than " + strings.Join(names, "|")
	case nonZero:
		return c.name + " is not NULL"
	case oneOf:
		return c.name + " is " + strings.Join(names, " or ")
	case noneOf:
		return c.name + " is not " + strings.Join(names, " or ")
	}
	return fmt.Sprintf("%s passes test %d", c.name, c.test)
}
