package wire

import (
	"io"
	"os"
	"reflect"
	"sync/atomic"
	"time"
)

const (
	// passSize is the size that is requested for the pipes of a bypass, and the
	// most that is moved at once, in bytes.
	passSize = 1 << 20
	// passGrace is how long finish waits for the rest of the output once the
	// command has ended.
	passGrace = 100 * time.Millisecond
)

// PipeWriter is a Writer of Streams in front of another one. If that other one
// is a pipe, bytes may be moved into it past the PipeWriter.
type PipeWriter interface {
	io.Writer
	// WithPipe calls move with the pipe and returns its error, possibly with another
	// text. move returns how many bytes it has written. WithPipe does not call
	// move without a pipe, or if no more output is allowed.
	WithPipe(move func(pipe *os.File) (int, error)) error
}

// bypass carries output around the connection: the command writes into a
// private pipe, whose content is moved into the caller's pipe, or copied to the
// one writer that the caller has for both streams. The caller's pipe itself
// never enters the sandbox: a process that holds one end of a pipe can open the
// other through /proc/self/fd, and so read what other programs write there, or
// make it non-blocking for all of them.
type bypass struct {
	carried []string // the streams, as the request names them
	private *os.File // the end from which output is read
	given   *os.File // the end to which the command writes; closed once it was sent
	sink    io.Writer
	pipe    bool          // sink is a pipe, or stands in front of one
	late    atomic.Bool   // only output that is in the pipe already is still moved
	buf     []byte        // of copyBuffer bytes, made when output is first copied
	moved   chan struct{} // closed when everything was moved
}

// streams names the streams that bypass the connection. As with the other
// methods that are called for every command, b may be nil: nothing does.
func (b *bypass) streams() []string {
	if b == nil {
		return nil
	}
	return b.carried
}

// start moves output in the background until it ends. If that fails, it calls
// fail; the command notices because its pipe is closed.
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

// discard closes a bypass that was not started.
func (b *bypass) discard() {
	if b == nil {
		return
	}
	_ = b.given.Close()
	_ = b.private.Close()
}

// finish returns when the output of a command that has ended was moved. A
// process that the command left behind may keep the pipe open for ever, so
// after passGrace only output that is then in the pipe is moved.
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

// SameWriter reports whether a and b are the same writer. Nil is not a writer,
// and values that cannot be compared are different writers.
func SameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && a == b
}
