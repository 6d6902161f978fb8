package session

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
)

// tap reads a pipe or a socket as it is written to, and on demand: what is in the pipe at a
// moment can be taken at that moment, in order.
type tap struct {
	file *os.File
	take func([]byte)
	// first, where not nil, is drained before each read: of what two pipes hold
	// nobody can tell what was written first, and so it is always the same.
	first *tap
	done  chan struct{} // closed at the pipe's end

	raw syscall.RawConn
	mu  sync.Mutex // held from a read until what was read is taken
}

// openTap begins to read. The file must not block.
func openTap(file *os.File, first *tap, take func([]byte)) (*tap, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	t := &tap{file: file, first: first, take: take, done: make(chan struct{}), raw: raw}
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
			n, ended := t.once(int(fd))
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

// once reads and takes; n is 0 where there is nothing.
func (t *tap) once(fd int) (n int, ended bool) {
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
		t.take((*buf)[:n])
		return n, false
	}
}

// drain takes what is in the pipe now. Whoever writes on meanwhile does not
// hold it up.
func (t *tap) drain() {
	_ = t.raw.Control(func(fd uintptr) {
		left, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		for err == nil && left > 0 {
			n, _ := t.once(int(fd))
			if n == 0 {
				return
			}
			left -= n
		}
		t.mu.Lock() // what another has read is taken now, too
		defer t.mu.Unlock()
	})
}

// close ends the reading.
func (t *tap) close() {
	_ = t.file.Close()
	<-t.done
}

// consumed waits until all that was written to a stream socket of a pair has
// been read at its other end. The kernel counts what is on its way as memory of
// the sender's, and says so each time some of it is given back; the last byte of
// that count goes after that was said.
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

// sealAll has a memory file keep its content. A process of the same user can
// open it once more by its name in /proc, and give itself the right to write to
// it, but the kernel lets nobody.
const sealAll = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL

// memoryFile makes a memory file and seals it. The one that is not sealed is for
// the standard input of commands, which is within reach of the session's other
// processes, like every stream of commands.
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

// rewrite replaces the content of a memory file.
func rewrite(f *os.File, content []byte) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(content, 0)
	return err
}
