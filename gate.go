package paddock

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// gate stands before a caller's writer: it counts, tells of the first
// failure, and can be shut so that the writer is not touched afterwards.
type gate struct {
	name    string
	w       io.Writer     // nil: drop
	turn    chan struct{} // holds one token during a Write to w; shared by twins
	count   atomic.Int64
	shut    atomic.Bool
	failure atomic.Pointer[error]
	failed  chan struct{} // closed at the first failure
	once    sync.Once
}

func newGate(name string, w io.Writer) *gate {
	return &gate{name: name, w: w, turn: make(chan struct{}, 1), failed: make(chan struct{})}
}

// twin is a second gate before the same writer, with a count of its own.
func (g *gate) twin() *gate {
	return &gate{name: g.name, w: g.w, turn: g.turn, failed: make(chan struct{})}
}

// Write passes p on, and drops it once the gate is shut, so that the exit
// result behind the output is still read.
func (g *gate) Write(p []byte) (int, error) {
	g.count.Add(int64(len(p)))
	if g.w == nil {
		return len(p), nil
	}
	g.turn <- struct{}{}
	defer func() { <-g.turn }()
	if g.shut.Load() {
		return len(p), nil
	}
	n, err := g.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		err = fmt.Errorf("cannot write the command's %s: %w", g.name, err)
		g.fail(err)
	}
	return n, err
}

// close shuts the gate. It waits for a Write in progress until ctx ends.
func (g *gate) close(ctx context.Context) {
	g.shut.Store(true)
	select {
	case g.turn <- struct{}{}:
		<-g.turn
	case <-ctx.Done():
	}
}

func (g *gate) fail(err error) {
	g.once.Do(func() {
		g.failure.Store(&err)
		close(g.failed)
	})
}

// err is the first failure of the caller's writer.
func (g *gate) err() error {
	if p := g.failure.Load(); p != nil {
		return *p
	}
	return nil
}
