//go:build linux

package linux

import (
	"bytes"
	"encoding/binary"
	"io"
	"path"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

// headSize is how much of a program says what loads it: the kernel reads 256
// bytes of a script, and the headers of an ELF file are at its beginning.
const headSize = 4096

// loaderOf says which other file the kernel executes to start a program: the
// loader of a dynamic executable, or the interpreter of a script, and for
// "#!/usr/bin/env NAME" the program that env will look for. The path is absolute
// and free of links; commands could have made what is there.
func loaderOf(file string) (interpreter, program string) {
	f, err := hostpath.OpenRegular("/", strings.TrimPrefix(file, "/"))
	if err != nil {
		return "", ""
	}
	defer f.Close()
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return "", ""
	}
	head = head[:n]
	if text, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ := bytes.Cut(text, []byte("\n"))
		return scriptLoader(string(line))
	}
	return elfLoader(f, head), ""
}

// scriptLoader reads the first line of a script, without its "#!".
func scriptLoader(line string) (interpreter, program string) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", ""
	}
	if path.Base(words[0]) != "env" {
		return words[0], ""
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			return words[0], word
		}
	}
	return words[0], ""
}

// The parts of a 64-bit ELF header that lead to the loader (elf(5)).
const (
	elfProgramHeaders = 32 // e_phoff
	elfHeaderSize     = 54 // e_phentsize, then e_phnum
	elfInterpreter    = 3  // PT_INTERP
	maxLoader         = 4096
)

// elfLoader is the loader that a 64-bit ELF file names, "" where it names none.
func elfLoader(f io.ReaderAt, head []byte) string {
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
