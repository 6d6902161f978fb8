// Package httpd serves a handler over HTTP, and decides which requests reach it:
//
//	s, err := httpd.Listen(httpd.Options{
//		Address: "127.0.0.1:8765", Tokens: store,
//		Handler: server.Handler(), As: mcp.WithPrincipal, Forget: server.Forget, Close: server.Close,
//	})
//	…
//	err = s.Serve(ctx) // until ctx ends, which cancels requests in flight
//
// Requests are checked in this order: Host must name this server (against DNS
// rebinding), an Origin must be allowed, a bearer token must be valid, its principal
// must not have too many requests in flight, the session must belong to the principal,
// and the body must arrive within its bounds of size and time. A refusal is a status
// and a line of text. Refusals and the log contain no tokens.
//
// Each request needs a token. When a token is revoked or expires, its sessions end within
// seconds. When a principal has no valid token left, everything that belongs to it ends.
package httpd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/privilege/token"
)

// The paths that are served.
const (
	Path       = "/mcp"
	HealthPath = "/healthz"
)

// Options say where to listen, and whom to serve.
type Options struct {
	// Address is HOST:PORT, or unix:///PATH for a socket of mode 0600.
	Address string
	// TLSCert and TLSKey are PEM files. With them the server speaks TLS 1.2 or later.
	TLSCert, TLSKey string
	// ReadFile reads them. Default: os.ReadFile.
	ReadFile func(name string) ([]byte, error)
	// InsecureNoTLS allows addresses other than loopback without TLS.
	InsecureNoTLS bool
	// NoAuth serves everybody who can reach a loopback address or the socket, as the
	// principal "".
	NoAuth bool
	// AllowHosts are further names that are allowed in Host, without a port.
	AllowHosts []string
	// AllowOrigins are origins whose pages may send requests: https://app.example.
	AllowOrigins []string
	// Tokens holds the valid tokens. It is required without NoAuth.
	Tokens *token.Store

	// Handler serves requests whose context, made by As, holds the principal.
	Handler http.Handler
	As      func(ctx context.Context, principal string) context.Context
	// Forget ends everything that a principal has, its sessions included.
	Forget func(principal string) error
	// Close ends everything that all principals have, and the requests in flight.
	Close func() error
	// Log gets refusals and ends. nil: nothing is logged.
	Log *slog.Logger

	Limits
}

// Limits bound the load of a server. Zero fields have the default.
type Limits struct {
	// Sessions and SessionsEach bound the sessions of all principals and of each one.
	// Default: 1024 and 64.
	Sessions, SessionsEach int
	// Requests and RequestsEach bound the requests in flight of all principals and of each
	// one, streams included. Default: 1024 and 256.
	Requests, RequestsEach int
	// Body bounds the body of a request, in bytes. Default: 17 MiB.
	Body int64
	// Bodies bounds the bodies of all requests in flight, in bytes. Default: 128 MiB.
	Bodies int64
	// Connections bounds the open connections. Default: 2048.
	Connections int
	// Header, Request and Write bound the time of a request's header, of its whole body,
	// and of one write of the answer. Default: 10 s, 60 s, 60 s.
	Header, Request, Write time.Duration
	// Idle is how long a session may have no request in flight before it is ended.
	// Default: 30 minutes.
	Idle time.Duration
	// Rest is how long a session must have had no request in flight before it is ended to
	// make room for a new one, if its principal has SessionsEach: not every client ends its
	// sessions. Default: 5 s.
	Rest time.Duration
	// Sweep is how often tokens and sessions are checked. Default: 2 s.
	Sweep time.Duration
	// End is how long the end of the server, or of a principal, may take. Default: 10 s.
	End time.Duration
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Sessions: cmp.Or(l.Sessions, 1024), SessionsEach: cmp.Or(l.SessionsEach, 64),
		Requests: cmp.Or(l.Requests, 1024), RequestsEach: cmp.Or(l.RequestsEach, 256),
		Body: cmp.Or(l.Body, 17<<20), Bodies: cmp.Or(l.Bodies, 128<<20), Connections: cmp.Or(l.Connections, 2048),
		Header: cmp.Or(l.Header, 10*time.Second), Request: cmp.Or(l.Request, time.Minute), Write: cmp.Or(l.Write, time.Minute),
		Idle: cmp.Or(l.Idle, 30*time.Minute), Rest: cmp.Or(l.Rest, 5*time.Second), Sweep: cmp.Or(l.Sweep, 2*time.Second), End: cmp.Or(l.End, 10*time.Second),
	}
}

// Server is a listener and the requests that came through it.
type Server struct {
	opts     Options
	listener net.Listener
	names    names
	failures failures
	sessions *sessionTable
	bodies   atomic.Int64 // bytes of bodies in memory
	ctx      context.Context
	cancel   context.CancelFunc
}

// Listen listens on the address. It refuses an address other than loopback without TLS or
// without tokens, and a store without a valid token.
func Listen(opts Options) (*Server, error) {
	opts.Limits = opts.withDefaults()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	a, err := parseAddress(opts)
	if err != nil {
		return nil, err
	}
	if err := checkNames(opts); err != nil {
		return nil, err
	}
	config, err := tlsConfig(opts)
	if err != nil {
		return nil, err
	}
	if err := checkTokens(opts); err != nil {
		return nil, err
	}
	listener, err := a.listen(opts)
	if err != nil {
		return nil, err
	}
	listener = &boundListener{Listener: listener, open: make(chan struct{}, opts.Connections)}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	s := &Server{opts: opts, listener: listener, names: newNames(opts, a, config), sessions: &sessionTable{
		opts: opts, principals: map[string]*principal{}, sessions: map[string]*session{}, forgetting: map[string]chan struct{}{},
	}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// checkTokens returns an error if no token is valid.
func checkTokens(opts Options) error {
	if opts.NoAuth {
		return nil
	}
	if opts.Tokens == nil {
		return errors.New("cannot listen: Options.Tokens is missing")
	}
	all, err := opts.Tokens.List()
	if err != nil {
		return err
	}
	for _, one := range all {
		if !one.Token.Expired(time.Now()) {
			return nil
		}
	}
	return &paddock.Error{
		Message: "cannot listen: there is no valid token, so every request would be refused",
		Hint:    "make one: paddock token create NAME --workspace DIR; or serve every local process: --no-auth",
	}
}

// URL returns the address for clients.
func (s *Server) URL() string {
	addr := s.listener.Addr()
	switch {
	case addr.Network() == "unix":
		return "unix://" + addr.String()
	case s.opts.TLSCert != "":
		return "https://" + addr.String() + Path
	}
	return "http://" + addr.String() + Path
}

// Addr returns the address on which it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve serves requests until ctx ends or the listener fails. Then it accepts no more
// connections, cancels the requests in flight, calls [Options].Close, waits for requests
// at most [Limits].End, and closes the connections that are left.
func (s *Server) Serve(ctx context.Context) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: s.opts.Header,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		Protocols:         &protocols,
	}
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		tick := time.NewTicker(s.opts.Sweep)
		defer tick.Stop()
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-tick.C:
				s.sessions.sweep(time.Now())
			}
		}
	}()
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(s.listener) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.opts.Close() }()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.End)
	defer cancel()
	if srv.Shutdown(bounded) != nil {
		_ = srv.Close() // the clients see their connections end
	}
	<-swept
	s.sessions.close()
	return errors.Join(err, <-closed)
}

// Close stops listening, for a server that was never served.
func (s *Server) Close() error {
	s.cancel()
	return s.listener.Close()
}
