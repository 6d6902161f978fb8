package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/op"
)

const (
	// heartbeat is how often a client that asked for progress gets a message while the
	// operation reports nothing.
	heartbeat = 2 * time.Second
	// minInterval is the shortest time between two messages.
	minInterval = 100 * time.Millisecond
	// maxNotes bounds the notes beside an answer, in characters.
	maxNotes = 2000
)

// progress sends progress notifications of a call, if the client gave a token for them, and
// collects the notes beside its answer.
type progress struct {
	ctx     context.Context
	session *sdk.ServerSession
	token   any
	name    string
	from    time.Time
	done    context.CancelFunc
	ended   chan struct{}

	mu      sync.Mutex
	sent    time.Time
	last    float64 // the protocol wants each number to be above the one before
	counts  bool    // the operation reports numbers; otherwise they are milliseconds
	message string
	notes   string
}

// progress starts the notifications, if the request asks for them.
func (v *view) progress(ctx context.Context, req *sdk.CallToolRequest, o *op.Op) *progress {
	p := &progress{session: req.Session, token: req.Params.GetProgressToken(), name: o.Name, from: time.Now()}
	if p.token != nil {
		p.ctx, p.done = context.WithCancel(ctx)
		p.ended = make(chan struct{})
		go p.beat()
	}
	return p
}

func (p *progress) beat() {
	defer close(p.ended)
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case now := <-tick.C:
			p.mu.Lock()
			if now.Sub(p.sent) > heartbeat/2 && !p.counts {
				p.send(0, 0)
			}
			p.mu.Unlock()
		}
	}
}

// say handles a report of the operation.
func (p *progress) say(done, total float64, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.message = message
	now := time.Now()
	if p.sent.IsZero() && total > 0 {
		p.counts = true
	}
	finished := total > 0 && done >= total
	if now.Sub(p.sent) < minInterval && !finished || p.counts && done <= p.last {
		return
	}
	p.send(done, total)
}

// send sends a notification. p.mu is held.
func (p *progress) send(done, total float64) {
	if p.ctx.Err() != nil {
		return
	}
	params := &sdk.ProgressNotificationParams{ProgressToken: p.token, Message: p.message}
	if p.counts {
		params.Progress, params.Total = done, total
	} else {
		params.Progress = max(p.last+1, float64(time.Since(p.from).Milliseconds()))
		params.Message = fmt.Sprintf("%s runs for %s", p.name, time.Since(p.from).Round(time.Second))
		if p.message != "" {
			params.Message += ": " + p.message
		}
	}
	params.Message = clip(oneLine(params.Message), 500)
	p.sent, p.last = time.Now(), params.Progress
	_ = p.session.NotifyProgress(p.ctx, params) // if the client is gone, that ends the call anyway
}

// stop ends the notifications, since none may follow the answer, and returns the notes.
func (p *progress) stop() string {
	if p.done != nil {
		p.done()
		<-p.ended
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notes
}

// stream returns the stream for the operation: without input, and without output.
func (p *progress) stream() *op.Stream {
	s := &op.Stream{Note: func(text string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.notes = clip(p.notes+"\n["+plain(text)+"]", maxNotes)
	}}
	if p.token != nil {
		s.Progress = p.say
	}
	return s
}
