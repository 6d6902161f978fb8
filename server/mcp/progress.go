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
	// heartbeat is how often a client that asked for progress hears that a call
	// still runs, where the operation says nothing.
	heartbeat = 2 * time.Second
	// tempo is how often it hears of an operation that says much.
	tempo = 100 * time.Millisecond
	// maxNotes bounds what is told beside an answer, in characters.
	maxNotes = 2000
)

// progress tells a client how far its call is, and gathers what belongs beside
// the answer. Without a token nothing is sent.
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
	counts  bool    // the numbers are the operation's; else milliseconds
	message string
	notes   string
}

// progress begins to tell, where the request asks for it.
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

// say is what the operation reports.
func (p *progress) say(done, total float64, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.message = message
	now := time.Now()
	if p.sent.IsZero() && total > 0 {
		p.counts = true
	}
	finished := total > 0 && done >= total
	if now.Sub(p.sent) < tempo && !finished || p.counts && done <= p.last {
		return
	}
	p.send(done, total)
}

// send tells the client; p is locked.
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
	_ = p.session.NotifyProgress(p.ctx, params) // a client that is gone ends the call by itself
}

// stop ends it: nothing is told after the answer. It gives the notes.
func (p *progress) stop() string {
	if p.done != nil {
		p.done()
		<-p.ended
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notes
}

// stream is what the operation finds: no input, and no output but its answer.
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
