package shell

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/paddock-dev/paddock/wire"
)

// maxQueued is how much input may wait for a shell that does not read, in bytes.
const maxQueued = 1 << 20

// ptyInput writes input to a terminal. It either queues all of an input at once or
// fails, so that a shell that does not read cannot block the caller.
type ptyInput struct {
	terminal *os.File

	mu     sync.Mutex
	wake   *sync.Cond
	queue  []byte
	busy   int // bytes that are being written
	closed bool
}

var errNoTerminal = errors.New("the terminal is closed")

func newPTYInput(terminal *os.File) *ptyInput {
	t := &ptyInput{terminal: terminal}
	t.wake = sync.NewCond(&t.mu)
	go t.run()
	return t
}

// put queues input. It fails with errNoTerminal, or if the queue has no room for it.
func (t *ptyInput) put(p []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting := len(t.queue) + t.busy
	switch {
	case t.closed:
		return errNoTerminal
	case len(p) > maxQueued:
		return &wire.Error{Code: wire.CodeTooLarge, Object: "input", Message: fmt.Sprintf("failed to write shell input: it has more than %d bytes", maxQueued)}
	case waiting+len(p) > maxQueued:
		return &wire.Error{Code: wire.CodeBusy, Object: "input", Message: fmt.Sprintf("failed to write shell input: the shell is not reading, and %d bytes are queued already", waiting),
			Hint: "nothing was written; try again when the shell has read its input"}
	}
	t.queue = append(t.queue, p...)
	t.wake.Signal()
	return nil
}

// run writes until the terminal is closed.
func (t *ptyInput) run() {
	for {
		t.mu.Lock()
		t.busy = 0
		for len(t.queue) == 0 && !t.closed {
			t.wake.Wait()
		}
		p := t.queue
		t.queue, t.busy = nil, len(p)
		done := t.closed
		t.mu.Unlock()
		if done {
			return
		}
		if _, err := t.terminal.Write(p); err != nil {
			t.close()
		}
	}
}

// close drops the queue and ends run.
func (t *ptyInput) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wake.Signal()
}
