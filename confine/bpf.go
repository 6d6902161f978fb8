package confine

import "encoding/binary"

// A seccomp filter is a classic BPF program over struct seccomp_data
// (seccomp(2)): the call's number, the architecture and six 64-bit arguments.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16

	bpfLoad = 0x20 // BPF_LD | BPF_W | BPF_ABS
	bpfJEQ  = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	bpfJGE  = 0x35 // BPF_JMP | BPF_JGE | BPF_K
	bpfJSET = 0x45 // BPF_JMP | BPF_JSET | BPF_K
	bpfRet  = 0x06 // BPF_RET | BPF_K

	retAllow = 0x7fff0000
	retErrno = 0x00050000
)

// instruction is struct sock_filter.
type instruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

const instructionSize = 8

func encode(prog []instruction) []byte {
	b := make([]byte, 0, len(prog)*instructionSize)
	for _, in := range prog {
		b = binary.NativeEndian.AppendUint16(b, in.code)
		b = append(b, in.jt, in.jf)
		b = binary.NativeEndian.AppendUint32(b, in.k)
	}
	return b
}

// cond is a condition on one argument of a call. A rule's conditions must all hold.
type cond struct {
	arg   int
	test  condTest
	value uint32
}

type condTest uint8

const (
	anyBit  condTest = iota // arg has a bit of value, in its low word
	equal                   // arg's low word is value, for arguments of C type int
	unequal                 // arg's low word is not value
	nonZero                 // arg, all of it, is not 0
)

// emit compiles the condition; where it does not hold it jumps to fail.
func (c cond) emit() []instruction {
	low := uint32(offArgs + 8*c.arg)
	switch c.test {
	case anyBit:
		return []instruction{{bpfLoad, 0, 0, low}, {bpfJSET, 0, fail, c.value}}
	case equal:
		return []instruction{{bpfLoad, 0, 0, low}, {bpfJEQ, 0, fail, c.value}}
	case unequal:
		return []instruction{{bpfLoad, 0, 0, low}, {bpfJEQ, fail, 0, c.value}}
	default:
		return []instruction{
			{bpfLoad, 0, 0, low}, {bpfJEQ, 0, 2, 0},
			{bpfLoad, 0, 0, low + 4}, {bpfJEQ, fail, 0, 0},
		}
	}
}

// fail marks a jump to the end of its block, resolved by block.
const fail = 0xff

// block compiles one rule: where the number is nr and every condition holds,
// the call fails with errno.
func block(nr uint32, conds []cond, errno uint16) []instruction {
	var body []instruction
	for _, c := range conds {
		body = append(body, c.emit()...)
	}
	body = append(body, instruction{bpfRet, 0, 0, retErrno | uint32(errno)})
	end := len(body) // the reload of the number, where conditions destroyed it
	for i := range body {
		to := uint8(end - i - 1)
		if body[i].jt == fail {
			body[i].jt = to
		}
		if body[i].jf == fail {
			body[i].jf = to
		}
	}
	skip := uint8(len(body))
	if len(conds) > 0 {
		skip++
		body = append(body, instruction{bpfLoad, 0, 0, offNr})
	}
	return append([]instruction{{bpfJEQ, 0, skip, nr}}, body...)
}
