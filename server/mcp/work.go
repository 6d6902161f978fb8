package mcp

import (
	"sync"
	"time"
)

// work counts what runs, so that an end can wait for it. Unlike a WaitGroup it
// may be asked to begin something while it is waited for, and says no then. The
// zero value is ready.
type work struct {
	mu    sync.Mutex
	n     int
	ended bool
	idle  chan struct{} // closed when nothing runs any more; nil before end
}

// begin says whether something more may run; done ends it.
func (w *work) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	w.n++
	return true
}

func (w *work) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n--; w.n == 0 && w.ended {
		close(w.idle)
	}
}

// end lets nothing more begin, and waits for what runs, for so long at most. It
// says whether all has ended.
func (w *work) end(most time.Duration) bool {
	w.mu.Lock()
	if !w.ended {
		w.ended, w.idle = true, make(chan struct{})
		if w.n == 0 {
			close(w.idle)
		}
	}
	w.mu.Unlock()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-w.idle:
		return true
	case <-late.C:
		return false
	}
}
