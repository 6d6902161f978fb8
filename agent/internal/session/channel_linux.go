package session

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
)

// tap reads a pipe or a socket as it is written to, and also on demand: drain reads
// everything that the pipe holds at that moment, in order.
type tap struct {
	file   *os.File
	handle func([]byte) // is called with what was read
	// first, if not nil, is drained before each read: it cannot be found out which of
	// two pipes was written to first, so the order is always the same.
	first *tap
	done  chan struct{} // closed at the pipe's end

	raw syscall.RawConn
	mu  sync.Mutex // held from a read until its data is handled
}

// openTap begins to read. The file must be non-blocking.
func openTap(file *os.File, first *tap, handle func([]byte)) (*tap, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	t := &tap{file: file, first: first, handle: handle, done: make(chan struct{}), raw: raw}
	go t.run()
	return t, nil
}

func (t *tap) run() {
	defer close(t.done)
	wide := false
	_ = t.raw.Read(func(fd uintptr) (ended bool) {
		for {
			if t.first != nil {
				t.first.drain()
			}
			n, ended := t.read(int(fd))
			if n >= spawn.Bulk && !wide {
				_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, spawn.PipeSize)
				wide = true
			}
			if n == 0 {
				return ended
			}
		}
	})
}

// read reads once and handles what it read; n is 0 if there is nothing to read.
func (t *tap) read(fd int) (n int, ended bool) {
	buf := core.Buffers.Get().(*[]byte)
	defer core.Buffers.Put(buf)
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		n, err := unix.Read(fd, *buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err != unix.EAGAIN
		case n == 0:
			return 0, true
		}
		t.handle((*buf)[:n])
		return n, false
	}
}

// drain reads everything that is in the pipe now, and nothing that is written
// meanwhile.
func (t *tap) drain() {
	_ = t.raw.Control(func(fd uintptr) {
		left, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		for err == nil && left > 0 {
			n, _ := t.read(int(fd))
			if n == 0 {
				return
			}
			left -= n
		}
		t.mu.Lock() // waits until run has handled what it has read
		defer t.mu.Unlock()
	})
}

// close ends the reading.
func (t *tap) close() {
	_ = t.file.Close()
	<-t.done
}

// consumed waits until everything that was written to a stream socket of a pair has
// been read at its other end. The kernel counts bytes in transit as memory of the
// sender's, and signals each time that some of it is freed; it frees the last byte of
// the count only after the signal, so a count of 1 means that nothing is left.
func consumed(socket *os.File) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Write(func(fd uintptr) bool {
		left, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		return err != nil || left <= 1
	})
}

// sealAll makes the content of a memory file permanent. A process of the same user can
// open the file again by its name in /proc, and change its mode, but the kernel refuses
// every write to it.
const sealAll = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL

// memoryFile makes a memory file and adds seals. The file without seals is the
// standard input of commands, which the session's other processes can reach like every
// stream of commands.
func memoryFile(name, content string, seals int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = unix.Write(fd, []byte(content))
	if err == nil {
		err = unix.Fchmod(fd, 0o444)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
