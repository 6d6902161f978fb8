package mcp

import (
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/wire"
)

// How many calls of one session run at once, and how many more may wait for that.
const (
	maxRunning = 64
	maxWaiting = 512
	// maxControl is how many more run that look at the others or end them.
	maxControl = 8
)

// slots bounds the calls of each session. The zero value is ready.
type slots struct {
	mu       sync.Mutex
	sessions map[*sdk.ServerSession]*slot
}

type slot struct {
	running chan struct{}
	control chan struct{}   // for op.Hints.Control, where running is full
	calls   int             // that run or wait
	ctx     context.Context // ends with the session, where that ends before them
	end     context.CancelFunc
}

// enter waits until the session may run one more call, which leave ends. The end of
// the session cancels it. One for control has slots that others do not take.
func (s *slots) enter(ctx context.Context, cancel context.CancelFunc, session *sdk.ServerSession, control bool) (leave func(), err error) {
	s.mu.Lock()
	one := s.sessions[session]
	if one == nil {
		one = &slot{running: make(chan struct{}, maxRunning), control: make(chan struct{}, maxControl)}
		one.ctx, one.end = context.WithCancel(context.Background())
		if s.sessions == nil {
			s.sessions = map[*sdk.ServerSession]*slot{}
		}
		s.sessions[session] = one
	}
	room, extra := maxRunning+maxWaiting, (chan struct{})(nil)
	if control {
		room, extra = room+maxWaiting, one.control
	}
	full := one.calls >= room
	if !full {
		one.calls++
	}
	s.mu.Unlock()
	if full {
		return nil, &paddock.Error{Message: "cannot take another call: too many of this session are waiting", Hint: "wait for answers", Code: wire.CodeBusy}
	}
	stop := context.AfterFunc(one.ctx, cancel)
	select {
	case one.running <- struct{}{}:
		return func() { stop(); <-one.running; s.forget(session, one) }, nil
	case extra <- struct{}{}:
		return func() { stop(); <-extra; s.forget(session, one) }, nil
	case <-ctx.Done():
		stop()
		s.forget(session, one)
		return nil, &paddock.Error{Message: "cannot begin: the call was cancelled while others ran"}
	}
}

// forget lets go of a session that has no calls.
func (s *slots) forget(session *sdk.ServerSession, one *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.calls--; one.calls == 0 {
		one.end()
		delete(s.sessions, session)
	}
}

// end cancels the calls of a session that is about to end, which would else wait
// for them.
func (s *slots) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session, one := range s.sessions {
		if session.ID() == id {
			one.end()
		}
	}
}

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
