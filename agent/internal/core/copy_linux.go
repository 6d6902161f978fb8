package core

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/spawn"
)

// Buffers holds buffers of 256 KiB that copies share.
var Buffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// Drain copies src to its end or, once its deadline has passed, until it
// is empty: even if dst is slow, nothing is lost that was printed in time.
//
// The end of a terminal is EIO, and the kernel may return that once too early: it
// looks for data, finds none, and then finds the other side closed. Between the two
// a command can print and end (n_tty_read, drivers/tty/n_tty.c). Only a second EIO
// means that no data was there when the first was returned.
func Drain(dst io.Writer, src *os.File) {
	buf := Buffers.Get().(*[]byte)
	defer Buffers.Put(buf)
	for wide, ended := false, false; ; {
		n, err := src.Read(*buf)
		if n >= spawn.Bulk && !wide {
			spawn.Widen(src)
			wide = true
		}
		_, _ = dst.Write((*buf)[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			drainRest(dst, src, *buf)
		}
		if err != nil && (ended || !errors.Is(err, unix.EIO)) {
			return
		}
		ended = err != nil
	}
}

// drainRest copies what src holds and does not wait for more. If a process goes on
// writing, it copies no more than a full pipe.
func drainRest(dst io.Writer, src *os.File, buf []byte) {
	raw, err := src.SyscallConn()
	if err != nil {
		return
	}
	for left := spawn.PipeSize; left > 0; {
		n := 0
		err := raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) })
		if err != nil || n <= 0 {
			return
		}
		_, _ = dst.Write(buf[:n])
		left -= n
	}
}

// CopyExactly copies size bytes with one of the shared buffers.
func CopyExactly(w io.Writer, r io.Reader, size int64) error {
	buf := Buffers.Get().(*[]byte)
	defer Buffers.Put(buf)
	for size > 0 {
		n, err := r.Read((*buf)[:min(int64(len(*buf)), size)])
		if n > 0 {
			if _, werr := w.Write((*buf)[:n]); werr != nil {
				return werr
			}
			size -= int64(n)
		}
		if err == io.EOF && size > 0 {
			return io.ErrUnexpectedEOF
		}
		if err != nil && err != io.EOF {
			return err
		}
	}
	return nil
}
