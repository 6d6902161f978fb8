package wire

import (
	"errors"
	"io"
	"sync"
)

// stdinBuffer is how much standard input is read at once, in bytes.
const stdinBuffer = 64 << 10

// feed copies Stdin to the command until its end, and then closes the
// command's. It returns early when the command has ended, unless it is
// blocked in Stdin's Read.
func (p *Process) feed() {
	if p.streams.Stdin != nil {
		err := p.pump(p.streams.Stdin)
		if err != nil {
			p.fail(StreamStdin, err)
		}
	}
	// Where this fails the connection is broken, as follow will find.
	_ = p.control(Control{Type: "close_stdin"})
}

// pump copies src within the window. Its error is src's, which ends the input
// as its end would.
func (p *Process) pump(src io.Reader) error {
	buf := make([]byte, stdinBuffer)
	for {
		n, err := src.Read(buf)
		if !p.send(buf[:n]) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// send sends data as the window allows, and reports whether more can follow.
func (p *Process) send(data []byte) bool {
	for len(data) > 0 {
		n := p.window.take(len(data))
		if n == 0 || p.out.WriteFrame(StreamStdin, data[:n]) != nil {
			return false
		}
		data = data[n:]
	}
	return !p.window.isClosed()
}

// window is how much standard input may be under way. It keeps the connection
// from filling up, so that a signal is never stuck behind input that the
// command does not read.
type window struct {
	mu     sync.Mutex
	moved  sync.Cond
	free   int // what may be sent now
	sent   int // what was sent and not acknowledged
	closed bool
}

func newWindow(size int) *window {
	w := &window{free: size}
	w.moved.L = &w.mu
	return w
}

// take waits until something may be sent and returns how much of want that
// is, 0 where the window is closed.
func (w *window) take(want int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.free == 0 && !w.closed {
		w.moved.Wait()
	}
	if w.closed {
		return 0
	}
	n := min(want, w.free)
	w.free -= n
	w.sent += n
	return n
}

// acknowledge opens the window by n bytes, which must have been sent.
func (w *window) acknowledge(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n < 0 || n > w.sent {
		return Errorf(CodeInternal,
			"cannot follow the command: the agent acknowledges %d bytes of standard input, and %d are under way", n, w.sent)
	}
	w.sent -= n
	w.free += n
	w.moved.Broadcast()
	return nil
}

func (w *window) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.moved.Broadcast()
}

func (w *window) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}
