package agent

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// pump copies both outputs until they end. Write errors of a sink do not stop
// it: a command must not block because nobody listens any more.
func (x *run) pump(stdout, stderr io.Writer) {
	sinks := []io.Writer{stdout, stderr}
	var turn sync.Mutex
	for i, f := range x.sinks {
		sinks[i] = &sink{f, &turn, x.abandoned}
	}
	var wg sync.WaitGroup
	for i, src := range []*os.File{x.stdio.stdout, x.stdio.stderr} {
		if src != nil {
			wg.Go(func() {
				hiding := x.secrets.writer(sinks[i])
				drain(hiding, src)
				_ = hiding.Close()
			})
		}
	}
	wg.Wait()
	closeFiles(x.sinks)
	close(x.drained)
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// drain copies src to its end or, once its deadline has passed, to where it
// is empty: dst may be slow, and what was printed in time is not lost for that.
//
// The end of a terminal is EIO, and the kernel may say that once too early: it
// looks for data, finds none, and then that the other side has been closed,
// between which a command can print and end (n_tty_read, drivers/tty/n_tty.c).
// A second EIO comes after a look at what was there when the first was given.
func drain(dst io.Writer, src *os.File) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for wide, ended := false, false; ; {
		n, err := src.Read(*buf)
		if n >= bulk && !wide {
			widen(src)
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

// drainRest copies what src holds and waits for no more. Whoever writes on
// meanwhile is heard to the length of a full pipe.
func drainRest(dst io.Writer, src *os.File, buf []byte) {
	raw, err := src.SyscallConn()
	if err != nil {
		return
	}
	for left := pipeSize; left > 0; {
		n := 0
		err := raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) })
		if err != nil || n <= 0 {
			return
		}
		_, _ = dst.Write(buf[:n])
		left -= n
	}
}
