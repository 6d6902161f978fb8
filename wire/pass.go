package wire

import (
	"io"
	"os"
	"reflect"
	"sync/atomic"
	"time"
)

const (
	// passSize is the size that is asked for on the pipes of a bypass, in
	// bytes, and the most that is moved at once.
	passSize = 1 << 20
	// passGrace is how long the end of a bypass is awaited after the command's.
	passGrace = 100 * time.Millisecond
)

// PipeWriter is a Writer of Streams that stands before another one and lets
// bytes into it without seeing them, where that other one is a pipe.
type PipeWriter interface {
	io.Writer
	// WithPipe calls move with the pipe and returns its error, in words of its
	// own. move says how many bytes it has written. It is not called where
	// there is no pipe, or nothing may be written any more.
	WithPipe(move func(pipe *os.File) (int, error)) error
}

// bypass is the way of output around the connection: the command writes into a
// pipe of its own, and what it holds is moved into the caller's pipe, or copied to the
// one writer that the caller has for both streams. The caller's pipe itself never
// reaches the sandbox. Whoever holds one end of a pipe can
// open the other through /proc/self/fd, and so read what other programs write
// there, or make it non-blocking for all of them.
type bypass struct {
	carried []string // the streams, as the request names them
	private *os.File // where output is read
	given   *os.File // where the command writes; closed once it was sent
	sink    io.Writer
	pipe    bool          // sink is a pipe, or stands before one
	late    atomic.Bool   // what the pipe holds now is all that is wanted
	buf     []byte        // of copyBuffer bytes, made when output is first copied
	moved   chan struct{} // closed when no more will be
}

// streams names what goes around the connection. Like the other methods that
// are called for every command, it takes no bypass for one that carries nothing.
func (b *bypass) streams() []string {
	if b == nil {
		return nil
	}
	return b.carried
}

// start moves output until it ends, in the background. fail is told what kept
// it from that; the closed pipe tells the command.
func (b *bypass) start(fail func(error)) {
	if b == nil {
		return
	}
	_ = b.given.Close() // or the output would never end
	go func() {
		defer close(b.moved)
		defer b.private.Close()
		if err := b.move(); err != nil {
			fail(err)
		}
	}()
}

// discard gives up a bypass that was not started.
func (b *bypass) discard() {
	if b == nil {
		return
	}
	_ = b.given.Close()
	_ = b.private.Close()
}

// finish returns when the output of a command that has ended was moved. A
// process that the command has left behind may hold the pipe for ever; it is
// given a grace, and then a full pipe's length.
func (b *bypass) finish() {
	if b == nil {
		return
	}
	timer := time.NewTimer(passGrace)
	defer timer.Stop()
	select {
	case <-b.moved:
		return
	case <-timer.C:
	}
	b.late.Store(true)
	_ = b.private.SetReadDeadline(time.Unix(1, 0))
	<-b.moved
}

// withPipe calls use with the pipe that w is or stands before, if there is one.
func withPipe(w io.Writer, use func(*os.File) (int, error)) error {
	switch w := w.(type) {
	case *os.File:
		_, err := use(w)
		return err
	case PipeWriter:
		return w.WithPipe(use)
	}
	return nil
}

// pipeInfo describes the pipe that w is or stands before; nil where there is none.
func pipeInfo(w io.Writer) (info os.FileInfo) {
	_ = withPipe(w, func(f *os.File) (int, error) {
		if found, err := f.Stat(); err == nil && found.Mode()&os.ModeNamedPipe != 0 {
			info = found
		}
		return 0, nil
	})
	return info
}

// passable lists the streams that go around the connection together: the output
// where it is a pipe, and the error output where it is the same pipe or the same
// writer, so that their order is kept.
func passable(q *ExecRequest, s Streams) []string {
	if q.TTY != nil || q.MaxOutputBytes != 0 || len(q.RedactValues)+len(q.Redaction) > 0 {
		return nil
	}
	out, stderr := pipeInfo(s.Stdout), pipeInfo(s.Stderr)
	switch {
	case out != nil && stderr != nil && os.SameFile(out, stderr), SameWriter(s.Stdout, s.Stderr):
		return []string{"stdout", "stderr"}
	case out != nil:
		return []string{"stdout"}
	}
	return nil
}

// SameWriter reports whether both are one writer. Nil is none, and values that cannot be
// compared are different ones.
func SameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && a == b
}
