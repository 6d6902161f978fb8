package spawn

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// initFile is where the inner init's program is while it is executed, in the new
// root before that becomes the root.
const initFile = "./.paddock-init"

// innerInit is the init of the commands' pid namespace.
//
// It is a program of a few instructions that waits for ever (see
// initProgram). It executes nothing else, has default dispositions for every
// signal, so that the kernel protects it from all that its own namespace
// sends, and ignores SIGCHLD, so that the kernel reaps its orphans. Its file
// cannot be read, which makes it undumpable from its first instruction on:
// commands share its uid and could trace it otherwise.
type innerInit struct {
	child *clone.Child
	pipe  int // closed by the program
}

// startInit makes the inner pid namespace, and its init, which mounts proc at
// path before it executes its program. The calling thread's later children live in
// the namespace.
func startInit(path string) (*innerInit, error) {
	if err := unix.Unshare(unix.CLONE_NEWPID); err != nil {
		return nil, os.NewSyscallError("unshare", err)
	}
	if err := os.WriteFile(initFile, initProgram(), 0o111); err != nil {
		return nil, err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	child, err := clone.Begin(&clone.Command{
		Path:           initFile,
		Argv:           []string{"paddock-init"},
		Files:          []int{pipe[1]},
		Mount:          &clone.Mount{Type: "proc", Target: path},
		IgnoreChildren: true,
	}, 0, false)
	_ = unix.Close(pipe[1])
	if err != nil {
		_ = unix.Close(pipe[0])
		return nil, err
	}
	_ = unix.Close(child.PIDFD)
	return &innerInit{child, pipe[0]}, nil
}

// await returns when proc is mounted and the init waits for ever.
func (i *innerInit) await() error {
	defer os.Remove(initFile)
	defer unix.Close(i.pipe)
	if err := i.child.Wait(); err != nil {
		return err
	}
	// The program closes its descriptors before it waits.
	var b [1]byte
	if _, err := unix.Read(i.pipe, b[:]); err != nil {
		return os.NewSyscallError("read", err)
	}
	return nil
}

// initProgram returns a whole ELF executable: one header, one loadable segment,
// and initCode, which for each architecture does
//
//	prctl(PR_SET_DUMPABLE, 0)
//	close_range(0, ~0, 0)
//	for { ppoll(NULL, 0, NULL, NULL) }
//
// It has no data, no stack frame and no library, and takes two pages of memory.
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
