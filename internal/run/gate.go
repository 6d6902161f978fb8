package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// gate wraps a caller's writer: it counts bytes, reports the first failure, and can
// be shut so that the writer is not touched afterwards.
type gate struct {
	name    string
	w       io.Writer     // nil: drop
	turn    chan struct{} // holds one token during a Write to w
	count   atomic.Int64
	shut    atomic.Bool
	failure atomic.Pointer[error]
	failed  chan struct{} // closed at the first failure
	once    sync.Once
}

func newGate(name string, w io.Writer) *gate {
	return &gate{name: name, w: w, turn: make(chan struct{}, 1), failed: make(chan struct{})}
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
	return n, g.report(err)
}

// WithPipe lets move write to the caller's file itself, where it is one: bulk
// output goes from pipe to pipe without passing here. See [wire.PipeWriter].
func (g *gate) WithPipe(move func(*os.File) (int, error)) error {
	f, ok := g.w.(*os.File)
	if !ok {
		return nil
	}
	g.turn <- struct{}{}
	defer func() { <-g.turn }()
	if g.shut.Load() {
		return nil
	}
	n, err := move(f)
	g.count.Add(int64(n))
	return g.report(err)
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

// report returns a failure of the caller's writer with what was being done, and
// closes failed at the first one.
func (g *gate) report(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("cannot write the command's %s: %w", g.name, err)
	g.once.Do(func() {
		g.failure.Store(&err)
		close(g.failed)
	})
	return err
}

// err returns the first failure of the caller's writer.
func (g *gate) err() error {
	if p := g.failure.Load(); p != nil {
		return *p
	}
	return nil
}
