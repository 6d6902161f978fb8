package httpd

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/privilege/token"
)

// sessionTable holds the principals that have asked for something: their tokens, their
// sessions, and their requests in flight.
type sessionTable struct {
	opts Options

	mu         sync.Mutex
	principals map[string]*principal
	sessions   map[string]*session
	requests   int
	starting   int                      // requests that may begin a session
	forgetting map[string]chan struct{} // by principal; closed once Options.Forget returned
	closed     bool

	ending sync.WaitGroup // calls that end sessions and principals
}

type principal struct {
	name     string
	bounds   *token.Bounds
	tokens   map[string]*activeToken
	requests int
	sessions int // includes those that requests may begin
}

// activeToken is a token that a client has presented. Its context ends when the token is no
// longer valid.
type activeToken struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// session is one of the handler's.
type session struct {
	id        string
	principal *principal
	token     string
	requests  int       // in flight
	last      time.Time // when the last of them ended
}

// request is a request that was admitted, until it is answered.
type request struct {
	table     *sessionTable
	principal *principal
	token     string
	ctx       context.Context // ends with the client, and with the token
	cancel    context.CancelFunc
	session   *session
	starting  bool // counts as a session that it may begin
	deletes   bool // asks for the end of its session
}

// admit admits a request, or returns the status and the reason of its refusal. To a
// principal, sessions of others do not exist.
func (t *sessionTable) admit(r *http.Request, holder token.Holder) (*request, int, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.principals[holder.Principal.Name]; p != nil && !p.bounds.Equal(holder.Bounds) {
		t.opts.Log.Info("a principal has other bounds now", "principal", p.name)
		t.endPrincipal(p)
	}
	if !t.waitForgotten(r.Context(), holder.Principal.Name) {
		return nil, http.StatusServiceUnavailable, "what the principal had is being ended; ask again"
	}
	p := t.principalOf(holder)
	id := r.Header.Get(sessionHeader)
	s := t.sessions[id]
	starts := id == "" && r.Method == http.MethodPost
	switch {
	case len(r.Header.Values(sessionHeader)) > 1:
		return nil, http.StatusBadRequest, "it names several sessions"
	case id != "" && (s == nil || s.principal != p):
		return nil, http.StatusNotFound, "there is no such session"
	case t.requests >= t.opts.Requests || p.requests >= t.opts.RequestsEach:
		return nil, http.StatusTooManyRequests, "too many requests are in flight"
	case starts && !t.makeRoom(p, time.Now()):
		return nil, http.StatusTooManyRequests, "there are too many sessions; end one"
	}
	req := &request{table: t, principal: p, token: holder.Token.ID, session: s, starting: starts, deletes: r.Method == http.MethodDelete}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(p.tokens[req.token].ctx, cancel)
	req.ctx, req.cancel = ctx, func() { stop(); cancel() }
	t.requests++
	p.requests++
	if s != nil {
		s.requests++
	}
	if starts {
		t.starting++
		p.sessions++
	}
	return req, 0, ""
}

// makeRoom reports whether a principal may open one more session. If the principal is at its
// limit, makeRoom ends the session that has been idle longest. t.mu is held.
func (t *sessionTable) makeRoom(p *principal, now time.Time) bool {
	if p.sessions >= t.opts.SessionsEach {
		var oldest *session
		for _, s := range t.sessions {
			if s.principal == p && s.requests == 0 && now.Sub(s.last) >= t.opts.Rest && (oldest == nil || s.last.Before(oldest.last)) {
				oldest = s
			}
		}
		if oldest == nil {
			return false
		}
		t.endSession(oldest)
	}
	return len(t.sessions)+t.starting < t.opts.Sessions
}

// waitForgotten waits until everything that a principal had under other bounds has ended, and
// reports whether that is so. t.mu is held, but released while it waits.
func (t *sessionTable) waitForgotten(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, t.opts.End)
	defer cancel()
	for {
		forgotten := t.forgetting[name]
		if forgotten == nil {
			return true
		}
		t.mu.Unlock()
		select {
		case <-forgotten:
		case <-ctx.Done():
		}
		t.mu.Lock()
		if ctx.Err() != nil {
			return false
		}
	}
}

// principalOf returns the principal of a token, and makes both active. t.mu is held.
func (t *sessionTable) principalOf(holder token.Holder) *principal {
	p := t.principals[holder.Principal.Name]
	if p == nil {
		p = &principal{name: holder.Principal.Name, bounds: holder.Bounds, tokens: map[string]*activeToken{}}
		t.principals[p.name] = p
	}
	if p.tokens[holder.Token.ID] == nil {
		a := &activeToken{}
		a.ctx, a.cancel = context.WithCancel(context.Background())
		p.tokens[holder.Token.ID] = a
	}
	return p
}

// started records the session that the header of an answer names, if the request began it.
func (r *request) started(h http.Header, status int) {
	id := h.Get(sessionHeader)
	if !r.starting || id == "" || status >= http.StatusBadRequest {
		return
	}
	t := r.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions[id] != nil {
		return
	}
	r.starting = false
	t.starting--
	r.session = &session{id: id, principal: r.principal, token: r.token, requests: 1}
	t.sessions[id] = r.session
	if r.ctx.Err() != nil { // its token ended in the meantime
		t.endSession(r.session)
	}
}

// finish records that a request was answered with a status.
func (r *request) finish(status int) {
	t := r.table
	t.mu.Lock()
	defer t.mu.Unlock()
	r.cancel()
	t.requests--
	r.principal.requests--
	if r.starting {
		t.starting--
		r.principal.sessions--
	}
	if s := r.session; s != nil {
		s.requests--
		s.last = time.Now()
		if status == http.StatusNotFound || r.deletes && status < http.StatusBadRequest {
			t.remove(s)
		}
	}
}

// remove forgets a session that has ended. t.mu is held.
func (t *sessionTable) remove(s *session) {
	if t.sessions[s.id] == s {
		delete(t.sessions, s.id)
		s.principal.sessions--
	}
}

// sweep ends what came with tokens that are no longer valid, and idle sessions.
func (t *sessionTable) sweep(now time.Time) {
	if !t.opts.NoAuth {
		t.sweepTokens(now)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sessions {
		if s.requests == 0 && now.Sub(s.last) > t.opts.Idle {
			t.endSession(s)
		}
	}
}

// sweepTokens ends principals and tokens that are no longer valid. If the tokens cannot be
// read, nothing is ended: new requests are refused in the meantime.
func (t *sessionTable) sweepTokens(now time.Time) {
	all, err := t.opts.Tokens.List()
	if err != nil {
		t.opts.Log.Error("cannot look at the tokens", "error", err)
		return
	}
	valid, principals := make(map[string]bool, len(all)), make(map[string]bool, len(all))
	for _, one := range all {
		if !one.Token.Expired(now) {
			valid[one.Token.ID], principals[one.Token.Principal] = true, true
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.principals {
		if !principals[p.name] {
			t.opts.Log.Info("a principal has no valid token any more", "principal", p.name)
			t.endPrincipal(p)
			continue
		}
		for id, active := range p.tokens {
			if valid[id] {
				continue
			}
			active.cancel()
			delete(p.tokens, id)
			for _, s := range t.sessions {
				if s.principal == p && s.token == id {
					t.endSession(s)
				}
			}
		}
	}
}

// endPrincipal ends a principal's requests, and everything that the handler keeps for it,
// its sessions included. Until that is done, its requests wait. t.mu is held.
func (t *sessionTable) endPrincipal(p *principal) {
	for _, active := range p.tokens {
		active.cancel()
	}
	delete(t.principals, p.name)
	for _, s := range t.sessions {
		if s.principal == p {
			t.remove(s)
		}
	}
	if t.closed {
		return
	}
	t.forgetting[p.name] = make(chan struct{})
	t.ending.Go(func() {
		if err := t.opts.Forget(p.name); err != nil {
			t.opts.Log.Error("cannot end what a principal has", "principal", p.name, "error", err)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		close(t.forgetting[p.name])
		delete(t.forgetting, p.name)
	})
}

// endSession forgets a session and has the handler end it, as its client would. t.mu is
// held.
func (t *sessionTable) endSession(s *session) {
	t.remove(s)
	if t.closed {
		return
	}
	t.ending.Go(func() {
		ctx := t.opts.As(context.Background(), s.principal.name)
		r, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://localhost"+Path, http.NoBody)
		if err != nil {
			return // it has no part that could be wrong
		}
		r.Header.Set(sessionHeader, s.id)
		t.opts.Handler.ServeHTTP(&discard{header: http.Header{}}, r)
	})
}

// close returns when everything that was to end has ended; later ends do nothing.
func (t *sessionTable) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.ending.Wait()
}

// discard drops an answer.
type discard struct {
	io.Writer
	header http.Header
}

func (d *discard) Header() http.Header            { return d.header }
func (d *discard) Write(data []byte) (int, error) { return len(data), nil }
func (d *discard) WriteHeader(int)                {}
