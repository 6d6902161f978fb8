package confine

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write the golden files anew")

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
// filters here use, and fails on whatever the kernel would not take.
func interpret(prog []instruction, arch, nr uint32, args [6]uint64) (uint32, error) {
	var data [64]byte
	binary.NativeEndian.PutUint32(data[offNr:], nr)
	binary.NativeEndian.PutUint32(data[offArch:], arch)
	for i, a := range args {
		binary.NativeEndian.PutUint64(data[offArgs+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		var holds bool
		switch in.code {
		case bpfRet:
			return in.k, nil
		case bpfLoad:
			if in.k%4 != 0 || in.k > 60 {
				return 0, fmt.Errorf("instruction %d loads from %d", pc, in.k)
			}
			acc = binary.NativeEndian.Uint32(data[in.k:])
			continue
		case bpfJEQ:
			holds = acc == in.k
		case bpfJGE:
			holds = acc >= in.k
		case bpfJSET:
			holds = acc&in.k != 0
		default:
			return 0, fmt.Errorf("instruction %d has the unknown code %#x", pc, in.code)
		}
		if holds {
			pc += int(in.jt)
		} else {
			pc += int(in.jf)
		}
	}
	return 0, fmt.Errorf("the program runs off its end")
}

// list prints a program for people, without addresses: what is inserted in
// the middle changes no line but its own.
func list(prog []instruction) string {
	var b strings.Builder
	nr := false
	for _, in := range prog {
		switch in.code {
		case bpfRet:
			if in.k == retAllow {
				b.WriteString("  allow\n")
			} else {
				fmt.Fprintf(&b, "  fail %s\n", unix.ErrnoName(unix.Errno(in.k&0xffff)))
			}
		case bpfLoad:
			nr = in.k == offNr
			fmt.Fprintf(&b, "  load %s\n", field(in.k))
		default:
			value := fmt.Sprintf("%#x", in.k)
			if nr && in.code == bpfJEQ {
				value = callName(in.k)
				b.WriteString(value + ":\n")
			}
			op := map[uint16]string{bpfJEQ: "=", bpfJGE: ">=", bpfJSET: "&"}[in.code]
			fmt.Fprintf(&b, "  if %s %s then +%d else +%d\n", op, value, in.jt, in.jf)
		}
	}
	return b.String()
}

func field(offset uint32) string {
	switch {
	case offset == offNr:
		return "the number"
	case offset == offArch:
		return "the architecture"
	case (offset-offArgs)%8 == 0:
		return fmt.Sprintf("argument %d", (offset-offArgs)/8)
	default:
		return fmt.Sprintf("argument %d, upper half", (offset-offArgs)/8)
	}
}

func callName(nr uint32) string {
	for _, table := range []map[string]uint32{callNumbers, archCallNumbers} {
		for name, n := range table {
			if n == nr {
				return name
			}
		}
	}
	return fmt.Sprintf("call %d", nr)
}

func TestFilterListing(t *testing.T) {
	for _, name := range []string{FilterAgent, FilterCommands} {
		t.Run(name, func(t *testing.T) {
			got := list(decode(t, Filter(name)))
			file := filepath.Join("testdata", "filter_"+name+"_"+runtime.GOARCH+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the filter is another than %s (go test -update writes it anew):\n%s", file, diff)
			}
			if strings.Contains(got, "call ") {
				t.Error("a call has no name in this test")
			}
		})
	}
}

// The kernel takes at most 4096 instructions, and jumps of at most 255.
func TestFilterSize(t *testing.T) {
	for _, name := range []string{FilterAgent, FilterCommands} {
		if n := len(decode(t, Filter(name))); n > 4096 {
			t.Errorf("%s has %d instructions", name, n)
		}
	}
	for _, r := range append(archDenyList, denyList...) {
		if r.why == "" || r.errno == 0 || len(r.calls) == 0 {
			t.Errorf("an incomplete rule: %+v", r)
		}
	}
}
