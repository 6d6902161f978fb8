package confine

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

func decode(t *testing.T, data []byte) []instruction {
	t.Helper()
	if len(data)%instructionSize != 0 {
		t.Fatalf("a program of %d bytes", len(data))
	}
	var prog []instruction
	for b := data; len(b) > 0; b = b[instructionSize:] {
		prog = append(prog, instruction{binary.NativeEndian.Uint16(b), b[2], b[3], binary.NativeEndian.Uint32(b[4:])})
	}
	return prog
}

// interpret runs a filter as the kernel does, in the small part of BPF that
// filters here use, and fails on instructions that the kernel would refuse.
func interpret(prog []instruction, arch, nr uint32, args [6]uint64) (uint32, error) {
	answer, _, err := steps(prog, arch, nr, args)
	return answer, err
}

// steps also counts the instructions that were executed.
func steps(prog []instruction, arch, nr uint32, args [6]uint64) (answer uint32, n int, err error) {
	var data [64]byte
	binary.NativeEndian.PutUint32(data[offNr:], nr)
	binary.NativeEndian.PutUint32(data[offArch:], arch)
	for i, a := range args {
		binary.NativeEndian.PutUint64(data[offArgs+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		n++
		var holds bool
		switch in.code {
		case bpfRet:
			return in.k, n, nil
		case bpfLoad:
			if in.k%4 != 0 || in.k > 60 {
				return 0, n, fmt.Errorf("instruction %d loads from %d", pc, in.k)
			}
			acc = binary.NativeEndian.Uint32(data[in.k:])
			continue
		case bpfAnd:
			acc &= in.k
			continue
		case bpfJump:
			pc += int(in.k)
			continue
		case bpfJEQ:
			holds = acc == in.k
		case bpfJGE:
			holds = acc >= in.k
		case bpfJSET:
			holds = acc&in.k != 0
		default:
			return 0, n, fmt.Errorf("instruction %d has the unknown code %#x", pc, in.code)
		}
		if holds {
			pc += int(in.jt)
		} else {
			pc += int(in.jf)
		}
	}
	return 0, n, fmt.Errorf("the program runs off its end")
}

// Bodies that are too far apart for a conditional jump are found all the same.
func TestFarSpans(t *testing.T) {
	var spans []span
	for i := range uint32(40) {
		filler := slices.Repeat([]instruction{{bpfLoad, 0, 0, offNr}}, int(i*7))
		spans = append(spans, span{i * 3, append(filler, instruction{bpfRet, 0, 0, i})})
	}
	prog := search(spans)
	if !slices.ContainsFunc(prog, func(in instruction) bool { return in.code == bpfJump }) {
		t.Error("no jump was too far for a conditional one: this tests nothing")
	}
	for nr := range uint32(200) {
		got, err := interpret(append([]instruction{{bpfLoad, 0, 0, offNr}}, prog...), 0, nr, [6]uint64{})
		if want := min(nr/3, 39); err != nil || got != want {
			t.Errorf("%d is found in span %d (%v), want %d", nr, got, err, want)
		}
	}
}

// The first clause that holds counts, and what follows one without conditions is dead.
func TestBody(t *testing.T) {
	clauses := []clause{
		{when: []cond{is(0, "a", value{1, ""}, value{2, ""}), isNot(1, "b", value{3, ""}, value{4, ""})}, errno: 11},
		{when: []cond{has(0, "a", value{8, ""}), notNull(2, "c")}, errno: 12},
		{when: []cond{hasOther(3, "d", value{0x10, ""}, value{1, ""})}, errno: 13},
		{when: []cond{is(4, "e", value{0x40, ""}).masked(0xf0)}, errno: 14},
	}
	const no = 1 << 32 // only in the upper half
	for _, v := range []struct {
		args [6]uint64
		want uint32
	}{
		{[6]uint64{}, 0},
		{[6]uint64{1}, 11},
		{[6]uint64{no | 2, no | 5}, 11},
		{[6]uint64{2, 3}, 0},
		{[6]uint64{2, no | 4}, 0},
		{[6]uint64{3}, 0},
		{[6]uint64{no | 9, 0, 0}, 0},
		{[6]uint64{9, 0, 1}, 12},
		{[6]uint64{8, 0, no}, 12},
		{[6]uint64{8, 0, no, 2}, 12},
		{[6]uint64{0, 0, 0, 0x11}, 0},
		{[6]uint64{0, 0, 0, 0x12}, 13},
		{[6]uint64{0, 0, 0, no}, 13},
		{[6]uint64{0, 0, 0, 0, 0x4f}, 14},
		{[6]uint64{0, 0, 0, 0, no | 0xf40}, 14},
		{[6]uint64{0, 0, 0, 0, 0x50}, 0},
	} {
		want := v.want | retErrno
		if v.want == 0 {
			want = retAllow
		}
		if got, err := interpret(compileCall(clauses), 0, 0, v.args); err != nil || got != want {
			t.Errorf("%#x: %#x, %v, want %#x", v.args, got, err, want)
		}
	}
	last := []clause{{errno: 7}, {errno: 8}}
	if got := compileCall(last); !slices.Equal(got, []instruction{{bpfRet, 0, 0, retErrno | 7}}) {
		t.Errorf("a clause without conditions is compiled to %v", got)
	}
}
