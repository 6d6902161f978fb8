package confine

import "encoding/binary"

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
	// retNotify asks a supervisor, whose answer carries the errno; the kernel
	// ignores the one in the low word.
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

// clause is a verdict on one call: it fails with errno where all conditions hold.
type clause struct {
	when  []cond
	errno uint16
	tell  bool // a supervisor is to hear of it
}

func (c clause) verdict() uint32 {
	if c.tell {
		return retNotify | uint32(c.errno)
	}
	return retErrno | uint32(c.errno)
}

// fail marks a jump to the end of its clause, which compileCall resolves.
const fail = 0xff

// compileCall compiles the clauses of one call, of which the first that holds
// counts. Without one the call is allowed.
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

// span is a run of numbers, up to the next span's first, that get one answer.
type span struct {
	first       uint32
	compileCall []instruction
}

// search finds the body of a number, which is loaded, by halving: the
// kernel asks at every call whose answer depends on its arguments.
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
