package httpd

import (
	"context"
	"io"
	"net/http"
	"time"
)

// sweep ends what belongs to tokens that are no longer valid, and sessions that
// ask nothing.
func (g *guests) sweep(now time.Time) {
	if !g.opts.NoAuth {
		g.sweepTokens(now)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.sessions {
		if s.requests == 0 && now.Sub(s.last) > g.opts.Idle {
			g.end(s)
		}
	}
}

// sweepTokens looks at all tokens. Where that cannot be done nothing is ended:
// whoever asks is refused meanwhile.
func (g *guests) sweepTokens(now time.Time) {
	all, err := g.opts.Tokens.List()
	if err != nil {
		g.opts.Log.Error("cannot look at the tokens", "error", err)
		return
	}
	valid, principals := make(map[string]bool, len(all)), make(map[string]bool, len(all))
	for _, one := range all {
		if !one.Token.Expired(now) {
			valid[one.Token.ID], principals[one.Token.Principal] = true, true
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.principals {
		if !principals[one.name] {
			g.opts.Log.Info("a principal has no valid token any more", "principal", one.name)
			g.drop(one)
			continue
		}
		for id := range one.tokens {
			if !valid[id] {
				g.revoke(one, id)
			}
		}
	}
}

// drop ends a principal's requests, and all that the handler keeps for it, its
// sessions included. Until that is done it stays outside. g.mu is held.
func (g *guests) drop(one *guest) {
	for _, p := range one.tokens {
		p.cancel()
	}
	delete(g.principals, one.name)
	for _, s := range g.sessions {
		if s.guest == one {
			g.remove(s)
		}
	}
	if g.closed {
		return
	}
	g.leaving[one.name] = make(chan struct{})
	g.ending.Go(func() {
		if err := g.opts.Forget(one.name); err != nil {
			g.opts.Log.Error("cannot end what a principal has", "principal", one.name, "error", err)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		close(g.leaving[one.name])
		delete(g.leaving, one.name)
	})
}

// revoke ends what came with a token. g.mu is held.
func (g *guests) revoke(one *guest, id string) {
	one.tokens[id].cancel()
	delete(one.tokens, id)
	for _, s := range g.sessions {
		if s.guest == one && s.token == id {
			g.end(s)
		}
	}
}

// end forgets a session and has the handler end it, as its client would. g.mu is
// held.
func (g *guests) end(s *session) {
	g.remove(s)
	if g.closed {
		return
	}
	g.ending.Go(func() {
		ctx := g.opts.As(context.Background(), s.guest.name)
		r, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://localhost"+Path, http.NoBody)
		if err != nil {
			return // it has no part that could be wrong
		}
		r.Header.Set(sessionHeader, s.id)
		g.opts.Handler.ServeHTTP(&nowhere{header: http.Header{}}, r)
	})
}

// close returns when all that was to end has ended; nothing more will be.
func (g *guests) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.ending.Wait()
}

// nowhere takes an answer that nobody reads.
type nowhere struct {
	io.Writer
	header http.Header
}

func (n *nowhere) Header() http.Header            { return n.header }
func (n *nowhere) Write(data []byte) (int, error) { return len(data), nil }
func (n *nowhere) WriteHeader(int)                {}
