// Package httpd decides who may come in by HTTP. It stands before a handler that
// serves principals, and is all that an address of the network reaches:
//
//	f, err := httpd.Listen(httpd.Options{
//		Address: "127.0.0.1:8765", Tokens: store,
//		Handler: server.Handler(), As: mcp.WithPrincipal, Forget: server.Forget, Close: server.Close,
//	})
//	…
//	err = f.Serve(ctx) // until ctx ends; what is in flight is cancelled then
//
// A request comes through in this order: the name in Host must be one that leads
// here (no page can rebind its own to us), an Origin must be allowed, a bearer
// token must be valid, its principal must not have too much in flight, a session
// that is named must be the principal's own, and the body must come whole within
// its bounds of size and time. Each refusal is a status and a line of text; none
// holds a token, and neither does the log.
//
// Tokens are asked for on each request. One that was revoked or has expired ends
// its sessions within seconds, and with the last of its principal all that the
// principal has.
package httpd

import (
	"cmp"
	"context"
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

// Options say where to listen, and who may come in.
type Options struct {
	// Address is HOST:PORT, or unix:///PATH for a socket of mode 0600.
	Address string
	// TLSCert and TLSKey are PEM files; with them, TLS 1.2 or later is spoken.
	TLSCert, TLSKey string
	// ReadFile reads them. nil: os.ReadFile does.
	ReadFile func(name string) ([]byte, error)
	// InsecureNoTLS lets anything but a loopback address be served without TLS.
	InsecureNoTLS bool
	// NoAuth lets everybody in who can reach a loopback address or the socket, as
	// the principal "".
	NoAuth bool
	// AllowHosts are further names that Host may have, without a port.
	AllowHosts []string
	// AllowOrigins are pages that may ask from a browser: https://app.example.
	AllowOrigins []string
	// Tokens says who comes in. It is needed without NoAuth.
	Tokens *token.Store

	// Handler serves requests whose context As has told who asks.
	Handler http.Handler
	As      func(ctx context.Context, principal string) context.Context
	// Forget ends what a principal has, its sessions included.
	Forget func(principal string) error
	// Close ends what all have, and whatever is in flight with it.
	Close func() error
	// Log is told who is refused. nil: nobody is.
	Log *slog.Logger

	Limits
}

// Limits bound what may come in at once. The zero value has the defaults.
type Limits struct {
	// Sessions is how many there may be, of all principals and of each. Default:
	// 1024 and 64.
	Sessions, SessionsEach int
	// Requests is how many may be in flight, streams included. Default: 1024 and
	// 256.
	Requests, RequestsEach int
	// Body is the most bytes of one request. Default: 17 MiB.
	Body int64
	// Bodies is the most bytes of all requests in flight. Default: 128 MiB.
	Bodies int64
	// Connections is how many may be open. Default: 2048.
	Connections int
	// Header, Request and Write are how long a request's header, the whole of its
	// body, and one write of an answer may take. Default: 10 s, 60 s, 60 s.
	Header, Request, Write time.Duration
	// Idle is when a session ends that asks nothing and has no stream. Default:
	// 30 minutes.
	Idle time.Duration
	// Rest is how long a session must have asked nothing, and have no stream, to
	// give way to a new one of its principal's where there are SessionsEach: not
	// every client says when it leaves. Default: 5 s.
	Rest time.Duration
	// Sweep is how often tokens and sessions are looked at. Default: 2 s.
	Sweep time.Duration
	// End is how long the end of the server waits for requests. Default: 10 s.
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

// Front is a listener and what stands behind it.
type Front struct {
	opts     Options
	listener net.Listener
	names    names
	failures failures
	guests   *guests
	bodies   atomic.Int64 // bytes that are held
	ctx      context.Context
	cancel   context.CancelFunc
}

// Listen takes the address. It refuses what would let anybody in who was not
// meant: an address that is not loopback without TLS, or without tokens; and to
// start where nobody could come in.
func Listen(opts Options) (*Front, error) {
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
	f := &Front{opts: opts, names: newNames(opts, a, config)}
	f.guests = newGuests(opts)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.listener = bound(listener, opts.Connections, config)
	return f, nil
}

// checkTokens refuses to start where nobody could come in.
func checkTokens(opts Options) error {
	if opts.NoAuth {
		return nil
	}
	if opts.Tokens == nil {
		return errors.New("cannot listen: there is no store of tokens")
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
		Message: "cannot listen: there is no valid token, so nobody could come in",
		Hint:    "make one: paddock token create NAME --workspace DIR; or let every local process in: --no-auth",
	}
}

// URL is where clients find it.
func (f *Front) URL() string {
	addr := f.listener.Addr()
	switch {
	case addr.Network() == "unix":
		return "unix://" + addr.String()
	case f.opts.TLSCert != "":
		return "https://" + addr.String() + Path
	}
	return "http://" + addr.String() + Path
}

// Serve answers until ctx ends, or the listener fails. At the end it takes no
// more connections, cancels what is in flight, has everything ended, waits for
// requests within [Limits].End, and cuts the rest off.
func (f *Front) Serve(ctx context.Context) error {
	srv := &http.Server{
		Handler:           f,
		ReadHeaderTimeout: f.opts.Header,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(f.opts.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return f.ctx },
		Protocols:         onlyHTTP1(),
	}
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		f.sweep()
	}()
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(f.listener) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	f.cancel()
	closed := make(chan error, 1)
	go func() { closed <- f.opts.Close() }()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.opts.End)
	defer cancel()
	if srv.Shutdown(bounded) != nil {
		_ = srv.Close() // their clients see the connection end
	}
	<-swept
	f.guests.close()
	return errors.Join(err, <-closed)
}

// Close gives the address back of a front that was never served.
func (f *Front) Close() error {
	f.cancel()
	return f.listener.Close()
}

func onlyHTTP1() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	return &p
}

// sweep looks at tokens and sessions until the end.
func (f *Front) sweep() {
	tick := time.NewTicker(f.opts.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-tick.C:
			f.guests.sweep(time.Now())
		}
	}
}
