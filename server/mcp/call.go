package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/wire"
)

// cancelGrace is how long a cancelled call may take to report how its command ended, before it
// is answered without that.
const cancelGrace = 2 * time.Second

// answer is the result of an operation.
type answer struct {
	out any
	err error
}

// call runs an operation for a client.
func (v *view) call(ctx context.Context, req *sdk.CallToolRequest, o *op.Op) (*sdk.CallToolResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.ctx, cancel)()
	if hold := v.server.opts.Hold; hold != nil && hold() != nil {
		v.hold.Do(func() {
			// End everything that was started, so that nothing changes while the operator inspects it.
			if err := v.close(); err != nil {
				v.server.opts.Logger.Error(err.Error())
			}
		})
		if err := hold(); err != nil { // the end may have revealed more
			return v.render(o, answer{err: err}, ""), nil
		}
	}
	if !v.calls.begin() {
		return v.render(o, answer{err: errEnding}, ""), nil
	}
	leave, err := v.limits.enter(ctx, cancel, req.Session, o.Hints.Control)
	if err != nil {
		v.calls.done()
		return v.render(o, answer{err: err}, ""), nil
	}
	input := []byte(req.Params.Arguments)
	if len(input) == 0 || string(input) == "null" {
		input = []byte("{}")
	}
	progress := v.progress(ctx, req, o)
	done := make(chan answer, 1)
	go func() {
		defer v.calls.done()
		defer leave()
		done <- v.do(ctx, o, input, progress)
	}()
	a := wait(ctx, o.Name, done)
	return v.render(o, a, progress.stop()), nil
}

var errEnding = &paddock.Error{Message: "cannot begin: the server is ending", Code: wire.CodeGone}

// wait returns the answer, or, cancelGrace after ctx has ended, an error.
func wait(ctx context.Context, name string, done <-chan answer) answer {
	select {
	case a := <-done:
		return a
	case <-ctx.Done():
	}
	late := time.NewTimer(cancelGrace)
	defer late.Stop()
	select {
	case a := <-done:
		return a
	case <-late.C:
		return answer{err: &paddock.Error{Message: "cannot finish " + name + ": it was cancelled, and what it started is being ended"}}
	}
}

// do calls the operation. A panic becomes an error of this call alone.
func (v *view) do(ctx context.Context, o *op.Op, input []byte, p *progress) (a answer) {
	defer v.recovered(o.Name, &a.err)
	a.out, a.err = o.Call(ctx, v.env, input, p.stream())
	o.NameFields(a.err, input, op.JSONName)
	if errors.Is(a.err, context.Canceled) && ctx.Err() != nil {
		a.err = errors.Join(&paddock.Error{Message: "cannot finish " + o.Name + ": it was cancelled"}, a.err)
	}
	return a
}

// How many calls of a session may run at once, and how many more may wait.
const (
	maxRunning = 64
	maxWaiting = 512
	// maxControl is how many more calls may run that inspect or end others.
	maxControl = 8
)

// callLimits bounds the calls of each session. The zero value is ready to use.
type callLimits struct {
	mu       sync.Mutex
	sessions map[*sdk.ServerSession]*sessionCalls
}

type sessionCalls struct {
	running chan struct{}
	control chan struct{}   // for op.Hints.Control, if running is full
	calls   int             // running or waiting
	ctx     context.Context // ends when the session is ended before its calls
	end     context.CancelFunc
}

// enter waits until the session may run one more call; leave ends that. The end of the session
// calls cancel. Calls for control have room that others do not use.
func (s *callLimits) enter(ctx context.Context, cancel context.CancelFunc, session *sdk.ServerSession, control bool) (leave func(), err error) {
	s.mu.Lock()
	one := s.sessions[session]
	if one == nil {
		one = &sessionCalls{running: make(chan struct{}, maxRunning), control: make(chan struct{}, maxControl)}
		one.ctx, one.end = context.WithCancel(context.Background())
		if s.sessions == nil {
			s.sessions = map[*sdk.ServerSession]*sessionCalls{}
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

// forget ends a call, and forgets a session without calls.
func (s *callLimits) forget(session *sdk.ServerSession, one *sessionCalls) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.calls--; one.calls == 0 {
		one.end()
		delete(s.sessions, session)
	}
}

// end cancels the calls of a session that is about to end, which would otherwise wait for
// them.
func (s *callLimits) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session, one := range s.sessions {
		if session.ID() == id {
			one.end()
		}
	}
}

// callCount counts calls, so that the end of a view can wait for them. Unlike a WaitGroup it
// refuses new ones while it is waited for. The zero value is ready to use.
type callCount struct {
	mu    sync.Mutex
	n     int
	ended bool
	idle  chan struct{} // closed when no call runs any more; nil before end
}

// begin reports whether another call may run, which done ends.
func (w *callCount) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	w.n++
	return true
}

func (w *callCount) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n--; w.n == 0 && w.ended {
		close(w.idle)
	}
}

// end refuses new calls, waits at most so long for the running ones, and reports whether all
// have ended.
func (w *callCount) end(most time.Duration) bool {
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
