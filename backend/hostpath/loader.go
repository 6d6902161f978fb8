package hostpath

import (
	"bytes"
	"encoding/binary"
	"io"
)

// The parts of a 64-bit ELF header that lead to the loader (elf(5)).
const (
	elfProgramHeaders = 32 // e_phoff
	elfHeaderSize     = 54 // e_phentsize, then e_phnum
	elfInterpreter    = 3  // PT_INTERP
	maxLoader         = 4096
)

// ELFLoader returns the loader that a 64-bit ELF file names, or "" if it names none: it is
// linked statically. head is the beginning of the file, of which 4096 bytes are enough.
func ELFLoader(f io.ReaderAt, head []byte) string {
	if len(head) < 64 || !bytes.HasPrefix(head, []byte("\x7fELF\x02\x01")) {
		return ""
	}
	at := binary.LittleEndian.Uint64(head[elfProgramHeaders:])
	size := uint64(binary.LittleEndian.Uint16(head[elfHeaderSize:]))
	count := uint64(binary.LittleEndian.Uint16(head[elfHeaderSize+2:]))
	if size < 56 || size > 1024 || at > uint64(len(head)) {
		return ""
	}
	for i := range count {
		entry := at + i*size
		if entry+size > uint64(len(head)) {
			return ""
		}
		h := head[entry:]
		if binary.LittleEndian.Uint32(h) != elfInterpreter {
			continue
		}
		offset, length := binary.LittleEndian.Uint64(h[8:]), binary.LittleEndian.Uint64(h[32:])
		if offset > 1<<62 || length == 0 || length > maxLoader {
			return ""
		}
		name := make([]byte, length)
		if _, err := f.ReadAt(name, int64(offset)); err != nil {
			return ""
		}
		name, _, _ = bytes.Cut(name, []byte{0})
		return string(name)
	}
	return ""
}
