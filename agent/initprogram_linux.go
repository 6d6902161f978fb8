package agent

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// initProgram is a whole ELF executable: one header, one loadable segment,
// and initCode, which for each architecture does
//
//	prctl(PR_SET_DUMPABLE, 0)
//	close_range(0, ~0, 0)
//	for { ppoll(NULL, 0, NULL, NULL) }
//
// It has no data, no stack frame and no library; two pages of memory are all
// it takes.
func initProgram() []byte {
	const (
		base   = 0x400000
		ehsize = 64
		phsize = 56
	)
	size := uint64(ehsize + phsize + len(initCode))
	header := struct {
		Ident                             [16]byte
		Type, Machine                     uint16
		Version                           uint32
		Entry, Phoff, Shoff               uint64
		Flags                             uint32
		Ehsize, Phentsize, Phnum          uint16
		Shentsize, Shnum, Shstrndx        uint16
		SegType, SegFlags                 uint32
		SegOffset, SegVaddr, SegPaddr     uint64
		SegFilesize, SegMemsize, SegAlign uint64
	}{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, // 64-bit, little-endian, version 1
		Type:  2, Machine: initMachine, Version: 1,    // ET_EXEC
		Entry: base + ehsize + phsize, Phoff: ehsize, Ehsize: ehsize, Phentsize: phsize, Phnum: 1,
		SegType: 1, SegFlags: 5, // PT_LOAD, readable and executable
		SegVaddr: base, SegPaddr: base, SegFilesize: size, SegMemsize: size, SegAlign: 0x10000,
	}
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, header) // a fixed size into memory: it cannot fail
	return slices.Concat(b.Bytes(), initCode)
}
