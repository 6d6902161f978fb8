package agent

import (
	"io"
	"sync"

	"github.com/paddock-dev/paddock/wire"
)

// endOfTransmission is what a terminal takes as the end of its input (^D).
const endOfTransmission = 0x04

// input carries standard input from frames to the command. It holds at most
// a window of bytes, so that a command that does not read never keeps the
// client's controls from being heard.
type input struct {
	dst      io.WriteCloser
	terminal bool
	tell     func(wire.Control) error

	mu     sync.Mutex
	wake   *sync.Cond
	queue  [][]byte
	held   int
	ended  bool // the client has no more
	closed bool // the command has ended
}

func newInput(x *run, tell func(wire.Control) error) *input {
	i := &input{dst: x.stdio.stdin, terminal: x.stdio.terminal != nil, tell: tell}
	i.wake = sync.NewCond(&i.mu)
	return i
}

// put queues bytes. Its error is a client's that does not keep to the protocol.
func (i *input) put(p []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.ended:
		return wire.Errorf(wire.CodeBadRequest, "cannot take standard input: it was closed")
	case i.held+len(p) > wire.StdinWindow:
		return wire.Errorf(wire.CodeTooLarge, "cannot take standard input: more than %d bytes are under way", wire.StdinWindow)
	case len(p) == 0:
		return nil
	}
	i.queue = append(i.queue, p)
	i.held += len(p)
	i.wake.Signal()
	return nil
}

func (i *input) end() {
	i.mu.Lock()
	i.ended = true
	i.mu.Unlock()
	i.wake.Signal()
}

func (i *input) close() {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	i.wake.Signal()
}

// take waits for queued bytes; nil says there are no more.
func (i *input) take() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.queue) == 0 && !i.ended && !i.closed {
		i.wake.Wait()
	}
	if i.closed || len(i.queue) == 0 {
		return nil
	}
	p := i.queue[0]
	i.queue = i.queue[1:]
	i.held -= len(p)
	return p
}

// run writes to the command and acknowledges what it took, also where the
// command has closed its standard input and the bytes go nowhere.
func (i *input) run() {
	for p := i.take(); p != nil; p = i.take() {
		_, _ = i.dst.Write(p)
		if i.tell(wire.Control{Type: "stdin_ack", Bytes: len(p)}) != nil {
			break
		}
	}
	if i.terminal { // its descriptor is also where output comes from
		_, _ = i.dst.Write([]byte{endOfTransmission})
		return
	}
	_ = i.dst.Close()
}
