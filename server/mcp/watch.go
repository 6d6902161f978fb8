package mcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

const (
	// maxWatched bounds the resources that a principal's clients subscribe to.
	maxWatched = 64
	// watchTime is how often these are checked.
	watchTime = time.Second
)

// watcher polls the resources that clients have subscribed to, while there are any. The zero
// value is ready to use.
type watcher struct {
	mu      sync.Mutex
	watched map[string]*watched // by address
	running bool
}

type watched struct {
	at       place
	sessions map[*sdk.ServerSession]bool
	state    string // at the last check
}

// subscribe starts to watch a resource for a client.
func (v *view) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	uri := req.Params.URI
	at, ours, err := parsePlace(uri)
	if err == nil && !ours && v.server.opts.Extend != nil {
		return nil // the extension reports changes of its resources itself
	}
	if err == nil && !ours {
		err = &policy.FieldError{Field: "uri", Value: uri, Reason: "it is not an address of this server", Hint: "paddock://default/workspace/PATH"}
	}
	if err != nil {
		return resourceError(uri, err)
	}
	state, err := v.state(ctx, v.env, at)
	if err != nil {
		return resourceError(uri, err)
	}
	w := &v.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.watched[uri]
	if one == nil {
		if len(w.watched) >= maxWatched {
			return resourceError(uri, &paddock.Error{Message: fmt.Sprintf("cannot watch another resource: %d are watched already", maxWatched), Hint: "unsubscribe from one", Code: wire.CodeBusy})
		}
		one = &watched{at: at, sessions: map[*sdk.ServerSession]bool{}, state: state}
		if w.watched == nil {
			w.watched = map[string]*watched{}
		}
		w.watched[uri] = one
	}
	one.sessions[req.Session] = true
	if !w.running && v.calls.begin() {
		w.running = true
		go v.watchLoop()
	}
	return nil
}

// unsubscribe stops watching a resource for a client.
func (v *view) unsubscribe(_ context.Context, req *sdk.UnsubscribeRequest) error {
	w := &v.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.watched[req.Params.URI]; one != nil {
		delete(one.sessions, req.Session)
		if len(one.sessions) == 0 {
			delete(w.watched, req.Params.URI)
		}
	}
	return nil
}

// watchLoop runs until nothing is watched any more.
func (v *view) watchLoop() {
	defer v.calls.done()
	tick := time.NewTicker(watchTime)
	defer tick.Stop()
	for {
		select {
		case <-v.ctx.Done():
			return
		case <-tick.C:
		}
		all := v.watch.prune(v.sdk.Sessions())
		if all == nil {
			return
		}
		open := v.open(v.ctx)
		for uri, one := range all {
			v.checkResource(uri, one, open)
		}
	}
}

// checkResource notifies clients if a resource has changed. It does not open a sandbox that
// has ended.
func (v *view) checkResource(uri string, one *watched, open []string) {
	name := one.at.sandbox
	if name == "" {
		name = defaultName
	}
	if !slices.Contains(open, name) {
		return
	}
	state, err := v.state(v.ctx, v.unauditedEnv(), one.at)
	if err != nil {
		state = "" // the resource does not exist any more, which is a change
	}
	if state == one.state || v.ctx.Err() != nil {
		return
	}
	one.state = state
	_ = v.sdk.ResourceUpdated(v.ctx, &sdk.ResourceUpdatedNotificationParams{URI: uri}) // if the client is gone, its session ends anyway
}

// prune removes sessions that have ended, and returns the resources that the others watch, or
// nil.
func (w *watcher) prune(live func(func(*sdk.ServerSession) bool)) map[string]*watched {
	alive := map[*sdk.ServerSession]bool{}
	for s := range live {
		alive[s] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for uri, one := range w.watched {
		maps.DeleteFunc(one.sessions, func(s *sdk.ServerSession, _ bool) bool { return !alive[s] })
		if len(one.sessions) == 0 {
			delete(w.watched, uri)
		}
	}
	if len(w.watched) == 0 {
		w.running = false
		return nil
	}
	return maps.Clone(w.watched)
}

// state returns a text that changes with a resource.
func (v *view) state(ctx context.Context, env *op.Env, at place) (string, error) {
	if at.kind == inOutput {
		var got struct {
			Total int64 `json:"total_bytes"`
			Ended bool  `json:"ended"`
		}
		err := v.ask(ctx, env, opOutput, map[string]any{"output": at.name, "limit": 16}, &got)
		return fmt.Sprint(got.Total, got.Ended), err
	}
	path := at.name
	if path == "" {
		path = "."
	}
	var got struct {
		Kind  string `json:"kind"`
		Size  int64  `json:"size_bytes"`
		Mode  string `json:"mode"`
		Time  string `json:"modified_at"`
		Links uint64 `json:"links"`
	}
	err := v.ask(ctx, env, opStat, at.where(map[string]any{"path": path}), &got)
	return fmt.Sprint(got.Kind, got.Size, got.Mode, got.Time, got.Links), err
}

// unauditedEnv returns the environment without an audit log: polling is not recorded, since the
// subscription was.
func (v *view) unauditedEnv() *op.Env {
	env := *v.env
	env.Audit = nil
	return &env
}
