package proxy

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

const (
	// Connections to hosts beyond the first one of each intercepted connection, of all
	// together: one connection of HTTP/2 inside can need several.
	mostExtra       = 32
	mostStreams     = 32 // requests at once of one connection
	mostAnswerHead  = 64 << 10
	proxyBuffer     = 32 << 10
	continueTimeout = time.Second
)

// interceptor ends TLS of the connections whose rules intercept.
type interceptor struct {
	server    *Server
	most      int64        // bytes of what is in flight
	inFlight  atomic.Int64 // requests of all connections, by their weights
	authority *signer
	secrets   secrets
	inside    *tls.Config   // towards commands
	outside   *tls.Config   // towards hosts
	extra     chan struct{} // held by each extra connection to a host
	http      *http.Server
	conns     chan net.Conn
	buffers   bufferPool
}

func newInterceptor(s *Server, o *Options) (*interceptor, error) {
	a, err := newSigner(o.Authority, o.Now)
	if err != nil {
		return nil, err
	}
	roots := o.Roots
	if roots == nil {
		if roots, err = x509.SystemCertPool(); err != nil {
			return nil, err
		}
	}
	i := &interceptor{server: s, most: mostInFlight, authority: a, secrets: o.Secrets, extra: make(chan struct{}, mostExtra), conns: make(chan net.Conn)}
	i.buffers.New = func() any { return new([proxyBuffer]byte) }
	i.inside = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256}, // this side stays on the machine and needs no post-quantum exchange
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			name, ok := egress.CanonicalName(h.ServerName)
			if !ok {
				return nil, errors.New("it names no server")
			}
			return a.certificate(name)
		},
	}
	var ticket [32]byte // else each connection has keys of its own
	if _, err := rand.Read(ticket[:]); err != nil {
		return nil, err
	}
	i.inside.SetSessionTicketKeys([][32]byte{ticket})
	i.outside = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Time: o.Now, ClientSessionCache: tls.NewLRUClientSessionCache(policy.MaxIntercepted)}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	i.http = &http.Server{
		Handler: i, DisableGeneralOptionsHandler: true, TLSConfig: i.inside, Protocols: protocols, ReadHeaderTimeout: headTimeout, MaxHeaderBytes: mostHead,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: mostStreams, MaxReadFrameSize: 16 << 10, MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 128 << 10},
		ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			secure, ok := conn.(*tls.Conn)
			if !ok {
				return ctx
			}
			own, ok := secure.NetConn().(*intercepted)
			if !ok {
				return ctx
			}
			return context.WithValue(ctx, interceptedKey{}, own)
		},
	}
	return i, nil
}

// bufferPool is an [httputil.BufferPool].
type bufferPool struct{ sync.Pool }

func (b *bufferPool) Get() []byte  { return b.Pool.Get().(*[proxyBuffer]byte)[:] }
func (b *bufferPool) Put(p []byte) { b.Pool.Put((*[proxyBuffer]byte)(p)) }

// The interceptor is the listener of its HTTP server.
type interceptListener struct {
	*interceptor
	ctx context.Context
}

func (l interceptListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l interceptListener) Close() error   { return nil }
func (l interceptListener) Addr() net.Addr { return &net.TCPAddr{} }

// serve answers requests of intercepted connections until ctx ends.
func (i *interceptor) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = i.http.Close() })
	defer stop()
	_ = i.http.Serve(interceptListener{i, ctx}) // it fails when ctx ends
}

type interceptedKey struct{}

// intercepted is a connection of which the requests are read. Its connections to the host are
// its own. It is the sandbox's end of it, which the HTTP server closes.
type intercepted struct {
	net.Conn
	*interceptor
	c         *connection
	rule      *policy.NetworkRule
	protocols []string // towards the host
	transport *http.Transport
	proxy     *httputil.ReverseProxy
	first     *firstDial // nil before TLS has begun
	served    bool       // by the HTTP server, which ends the connection
	closed    sync.Once
	requests  atomic.Int64
	outside   atomic.Int64 // connections to the host that are open
	reached   atomic.Bool

	resting sync.Mutex
	rest    *time.Timer // nil before the first request has ended
}

// intercept ends TLS, and has requests served until the connection ends. If it fails the
// connection is still open.
func (c *connection) intercept(rule *policy.NetworkRule) error {
	s := c.server
	i := &intercepted{Conn: c.inside, interceptor: s.interceptor, c: c, rule: rule}
	var refused error
	secure := tls.Server(i, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		refused = c.checkServer(h.ServerName, true)
		if refused != nil {
			return nil, refused
		}
		if i.first == nil { // else it begins once more, with other parameters
			i.prepare(slices.Contains(h.SupportedProtos, "h2"))
		}
		return i.inside, nil
	}})
	_ = i.SetDeadline(time.Now().Add(s.helloTimeout))
	err := secure.HandshakeContext(c.ctx)
	if err == nil {
		_ = i.SetDeadline(time.Time{})
		i.served = true
		select {
		case i.conns <- secure:
			return nil
		case <-c.ctx.Done():
			err = errInside
		}
	} else {
		err = c.handshakeError(err, refused)
	}
	if i.first != nil {
		i.first.cancel()
	}
	return err
}

// Close ends the connection. If that is cut while TLS begins, which closes it too, intercept tells
// how it went.
func (i *intercepted) Close() error {
	err := i.Conn.Close()
	if i.served {
		i.closed.Do(i.finish)
	}
	return err
}

// finish ends what the connection has of its own, and tells how it went.
func (i *intercepted) finish() {
	i.first.cancel()
	i.restAfter(0)
	i.transport.CloseIdleConnections()
	switch {
	case i.requests.Load() == 0:
		i.c.end(false, cutError("it ended without a request: a program that does not trust the sandbox's certificates, or wants certain ones, does that"))
	case !i.reached.Load():
		i.c.end(false, errReported)
	default:
		i.c.end(true, errInside)
	}
}

// handshakeError says why there is no TLS.
func (c *connection) handshakeError(err, refused error) error {
	record := tls.RecordHeaderError{}
	timeout := net.Error(nil)
	alert := tls.AlertError(0)
	op := (*net.OpError)(nil)
	switch {
	case refused != nil:
		return c.helloError(refused)
	case errors.As(err, &record):
		return &deniedError{c.rule, "it does not begin with a TLS hello"}
	case errors.As(err, &op) && op.Op == "remote error", errors.As(err, &alert):
		return &deniedError{c.rule, "the program ended TLS, which the rule of this host looks into: it does not trust the sandbox's certificates, or wants certain ones (" + err.Error() + ")"}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &deniedError{c.rule, "there was no TLS within " + c.server.helloTimeout.String()}
	case errors.Is(err, io.EOF), errors.As(err, &op):
		return errInside
	}
	return &deniedError{c.rule, "it has no TLS that can be looked into: " + err.Error()}
}

// prepare makes the way to the host, by HTTP/2 only if the command can use that, since each such
// connection takes more memory. The first connection begins at once.
func (i *intercepted) prepare(two bool) {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(two)
	if i.protocols = []string{"http/1.1"}; two {
		i.protocols = []string{"h2", "http/1.1"}
	}
	buffers := &http.HTTP2Config{MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 512 << 10}
	if i.server.crowded() {
		buffers.MaxReceiveBufferPerConnection, buffers.MaxReceiveBufferPerStream = 128<<10, 64<<10
	}
	i.transport = &http.Transport{
		DialTLSContext: i.dialTLS, Protocols: protocols,
		DisableCompression: true, MaxIdleConnsPerHost: 2, ExpectContinueTimeout: continueTimeout,
		MaxResponseHeaderBytes: mostAnswerHead, ReadBufferSize: 2 << 10, WriteBufferSize: 2 << 10,
		HTTP2: buffers,
	}
	i.proxy = &httputil.ReverseProxy{
		Transport: i.transport, FlushInterval: -1, BufferPool: &i.buffers, ErrorLog: i.http.ErrorLog,
		Rewrite: i.rewrite, ModifyResponse: i.answer, ErrorHandler: i.failed,
	}
	i.first = i.dialFirst()
}
