package httpd

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/privilege/token"
)

// guests are who is in: principals by name, their tokens, sessions, and requests
// in flight.
type guests struct {
	opts Options

	mu         sync.Mutex
	principals map[string]*guest
	sessions   map[string]*session
	requests   int
	starting   int                      // sessions that are about to begin
	leaving    map[string]chan struct{} // principals whose things are being ended; closed then
	closed     bool

	ending sync.WaitGroup // what is being ended
}

// guest is a principal that is in.
type guest struct {
	name     string
	bounds   *token.Bounds
	tokens   map[string]*pass
	requests int
	sessions int // those that are about to begin included
}

// pass is a token that was shown. Its context ends with it.
type pass struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// session is one of the handler's.
type session struct {
	id    string
	guest *guest
	token string
	// requests are in flight; it is idle since last where there is none.
	requests int
	last     time.Time
}

func newGuests(opts Options) *guests {
	return &guests{opts: opts, principals: map[string]*guest{}, sessions: map[string]*session{}, leaving: map[string]chan struct{}{}}
}

// visit is a request on its way.
type visit struct {
	in       *guests
	guest    *guest
	token    string
	ctx      context.Context
	cancel   context.CancelFunc
	session  *session
	starting bool // room is kept for a session that it may begin
	ends     bool // it asks for the end of its session
}

// enter lets a request in, or says with which status and why not. A session of
// somebody else's does not exist.
func (g *guests) enter(r *http.Request, holder token.Holder) (*visit, int, string) {
	g.renew(holder)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.left(r.Context(), holder.Principal.Name) {
		return nil, http.StatusServiceUnavailable, "what the principal had is being ended; ask again"
	}
	one := g.guest(holder)
	id := r.Header.Get(sessionHeader)
	s := g.sessions[id]
	begins := id == "" && r.Method == http.MethodPost
	switch {
	case len(r.Header.Values(sessionHeader)) > 1:
		return nil, http.StatusBadRequest, "it names several sessions"
	case id != "" && (s == nil || s.guest != one):
		return nil, http.StatusNotFound, "there is no such session"
	case g.requests >= g.opts.Requests || one.requests >= g.opts.RequestsEach:
		return nil, http.StatusTooManyRequests, "too many requests are in flight"
	case begins && !g.room(one, time.Now()):
		return nil, http.StatusTooManyRequests, "there are too many sessions; end one"
	}
	v := &visit{in: g, guest: one, token: holder.Token.ID, session: s, starting: begins, ends: r.Method == http.MethodDelete}
	v.ctx, v.cancel = detached(r.Context(), one.tokens[v.token].ctx)
	g.requests++
	one.requests++
	if s != nil {
		s.requests++
	}
	if begins {
		g.starting++
		one.sessions++
	}
	return v, 0, ""
}

// room says whether a principal may have one session more. It ends the one of its
// own that has rested longest, where it has as many as it may. g.mu is held.
func (g *guests) room(one *guest, now time.Time) bool {
	if one.sessions >= g.opts.SessionsEach {
		var oldest *session
		for _, s := range g.sessions {
			if s.guest == one && s.requests == 0 && now.Sub(s.last) >= g.opts.Rest && (oldest == nil || s.last.Before(oldest.last)) {
				oldest = s
			}
		}
		if oldest == nil {
			return false
		}
		g.end(oldest)
	}
	return len(g.sessions)+g.starting < g.opts.Sessions
}

// left waits until what a principal had under other bounds has ended, and says
// whether it has. g.mu is held, but not meanwhile.
func (g *guests) left(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, g.opts.End)
	defer cancel()
	for {
		leaving := g.leaving[name]
		if leaving == nil {
			return true
		}
		g.mu.Unlock()
		select {
		case <-leaving:
		case <-ctx.Done():
		}
		g.mu.Lock()
		if ctx.Err() != nil {
			return false
		}
	}
}

// guest is the principal of a token. g.mu is held.
func (g *guests) guest(holder token.Holder) *guest {
	one := g.principals[holder.Principal.Name]
	if one == nil {
		one = &guest{name: holder.Principal.Name, bounds: holder.Bounds, tokens: map[string]*pass{}}
		g.principals[one.name] = one
	}
	if one.tokens[holder.Token.ID] == nil {
		p := &pass{}
		p.ctx, p.cancel = context.WithCancel(context.Background())
		one.tokens[holder.Token.ID] = p
	}
	return one
}

// renew begins to end what a principal has under other bounds than it has now.
func (g *guests) renew(holder token.Holder) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if one := g.principals[holder.Principal.Name]; one != nil && !one.bounds.Equal(holder.Bounds) {
		g.opts.Log.Info("a principal has other bounds now", "principal", one.name)
		g.drop(one)
	}
}

// began takes note of the session that an answer names.
func (v *visit) began(h http.Header, status int) {
	id := h.Get(sessionHeader)
	if !v.starting || id == "" || status >= http.StatusBadRequest {
		return
	}
	g := v.in
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sessions[id] != nil {
		return
	}
	v.starting = false
	g.starting--
	v.session = &session{id: id, guest: v.guest, token: v.token, requests: 1}
	g.sessions[id] = v.session
	if v.ctx.Err() != nil { // its token ended meanwhile
		g.end(v.session)
	}
}

// leave is the end of a request.
func (v *visit) leave(w *writer) {
	g := v.in
	g.mu.Lock()
	defer g.mu.Unlock()
	v.cancel()
	g.requests--
	v.guest.requests--
	if v.starting {
		g.starting--
		v.guest.sessions--
	}
	if s := v.session; s != nil {
		s.requests--
		s.last = time.Now()
		if gone := w.status == http.StatusNotFound || v.ends && w.status < http.StatusBadRequest; gone {
			g.remove(s)
		}
	}
}

// remove forgets a session that is gone. g.mu is held.
func (g *guests) remove(s *session) {
	if g.sessions[s.id] == s {
		delete(g.sessions, s.id)
		s.guest.sessions--
	}
}
