package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/op"
)

// heartbeat is how often a client that asked for progress hears that a call
// still runs, where the operation says nothing.
const heartbeat = 2 * time.Second

// progress tells a client how far its call is. Its number always grows: it is
// the milliseconds since the call began, as the protocol wants no step back.
type progress struct {
	session *sdk.ServerSession
	token   any
	name    string
	from    time.Time
	done    context.CancelFunc
	ended   chan struct{}

	mu   sync.Mutex
	last float64
}

// progress begins to tell, where the request asks for it.
func (v *view) progress(ctx context.Context, req *sdk.CallToolRequest, o *op.Op) *progress {
	token := req.Params.GetProgressToken()
	if token == nil {
		return &progress{}
	}
	ctx, done := context.WithCancel(ctx)
	p := &progress{session: req.Session, token: token, name: o.Name, from: time.Now(), done: done, ended: make(chan struct{})}
	go p.beat(ctx)
	return p
}

func (p *progress) beat(ctx context.Context) {
	defer close(p.ended)
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.tell(ctx, fmt.Sprintf("%s runs for %s", p.name, time.Since(p.from).Round(time.Second)))
		}
	}
}

func (p *progress) tell(ctx context.Context, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	p.last = max(p.last+1, float64(time.Since(p.from).Milliseconds()))
	// A client that is gone ends the call by itself.
	_ = p.session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: p.token, Progress: p.last, Message: clip(oneLine(message), 500)})
}

// stop ends it: nothing is told after the answer.
func (p *progress) stop() {
	if p.done != nil {
		p.done()
		<-p.ended
	}
}

// stream is what the operation finds: no input, no output but its answer.
func (p *progress) stream() *op.Stream { return &op.Stream{} }
