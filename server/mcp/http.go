package mcp

import (
	"context"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessionIdle is when a session that asks nothing is forgotten. What it started stays:
// that is the principal's.
const sessionIdle = time.Hour

type principalKey struct{}

// WithPrincipal says who a request comes from. What authenticates requests calls
// it, before [Server.Handler] sees them.
func WithPrincipal(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, principalKey{}, name)
}

// PrincipalOf is who a request comes from, and whether that is known.
func PrincipalOf(ctx context.Context) (name string, known bool) {
	name, known = ctx.Value(principalKey{}).(string)
	return name, known
}

// Handler serves the streamable HTTP transport, for requests whose context says
// who asks; others are refused (401). It looks at nothing else: who may reach it,
// from which origin and over what, is for the handler around it to decide.
// Sessions belong to their principal, and to another do not exist.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, known := PrincipalOf(r.Context())
		if !known {
			http.Error(w, "cannot serve: nobody says who asks", http.StatusUnauthorized)
			return
		}
		v, err := s.view(principal)
		if err != nil {
			s.opts.Logger.Error("no environment", "principal", principal, "error", err)
			http.Error(w, oneLine(err.Error()), http.StatusServiceUnavailable)
			return
		}
		if r.Method == http.MethodPost && !v.vet(w, r) {
			return
		}
		if r.Method == http.MethodDelete {
			v.slots.end(r.Header.Get(sessionHeader))
		}
		v.http.ServeHTTP(w, r)
	})
}

// handler serves the sessions of one principal.
func (v *view) handler() http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return v.sdk }, &sdk.StreamableHTTPOptions{
		Logger:              v.server.opts.Logger,
		SessionTimeout:      sessionIdle,
		MaxRequestBodyBytes: maxLine,
		// Whoever stands before it has checked Host and Origin.
		DisableLocalhostProtection:   true,
		PropagateRequestCancellation: true,
	})
}
