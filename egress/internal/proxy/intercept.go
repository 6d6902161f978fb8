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
	mostStreams     = 64 // requests at once of one connection
	mostAnswerHead  = 256 << 10
	proxyBuffer     = 32 << 10
	idleUpstream    = 90 * time.Second
	continueTimeout = time.Second
)

// interceptor ends TLS of the connections whose rules intercept.
type interceptor struct {
	server    *Server
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
	i := &interceptor{server: s, authority: a, secrets: o.Secrets, extra: make(chan struct{}, mostExtra), conns: make(chan net.Conn)}
	i.buffers.New = func() any { return new([proxyBuffer]byte) }
	i.inside = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
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
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: mostStreams, MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10},
		ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			secure, ok := conn.(*tls.Conn)
			if !ok {
				return ctx
			}
			own, ok := secure.NetConn().(*interceptedConn)
			if !ok {
				return ctx
			}
			return context.WithValue(ctx, interceptedKey{}, own.i)
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
// its own.
type intercepted struct {
	*interceptor
	c         *connection
	rule      *policy.NetworkRule
	transport *http.Transport
	proxy     *httputil.ReverseProxy
	requests  atomic.Int64
	outside   atomic.Int64 // connections to the host that are open
	reached   atomic.Bool
}

// interceptedConn is the sandbox's end.
type interceptedConn struct {
	net.Conn
	i    *intercepted
	once sync.Once
	done chan struct{} // closed when the HTTP server has closed it
}

func (c *interceptedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.done) })
	return err
}

// intercept ends TLS, and serves requests until the connection ends.
func (c *connection) intercept(rule *policy.NetworkRule) (reached bool, err error) {
	s := c.server
	i := &intercepted{interceptor: s.interceptor, c: c, rule: rule}
	own := &interceptedConn{Conn: c.inside, i: i, done: make(chan struct{})}
	var refused error
	secure := tls.Server(own, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		refused = c.checkServer(h.ServerName, true)
		if refused != nil {
			return nil, refused
		}
		return i.inside, nil
	}})
	_ = own.SetDeadline(time.Now().Add(s.helloTimeout))
	if err := secure.HandshakeContext(c.ctx); err != nil {
		return false, c.handshakeError(err, refused)
	}
	_ = own.SetDeadline(time.Time{})
	i.prepare(secure.ConnectionState().NegotiatedProtocol == "h2")
	defer i.transport.CloseIdleConnections()
	select {
	case i.conns <- secure:
	case <-c.ctx.Done():
		return false, errInside
	}
	<-own.done
	if i.requests.Load() == 0 {
		return false, cutError("it ended without a request: a program that does not trust the sandbox's certificates, or wants certain ones, does that")
	}
	if !i.reached.Load() {
		return false, errReported
	}
	return true, errInside
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

// prepare makes the way to the host: by HTTP/2 only if the command uses that, since each such
// connection takes more memory.
func (i *intercepted) prepare(two bool) {
	outside := i.interceptor.outside.Clone()
	outside.ServerName = i.c.to.name
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(two)
	i.transport = &http.Transport{
		DialContext: i.dial, TLSClientConfig: outside, TLSHandshakeTimeout: i.server.upstream.timeout, Protocols: protocols,
		DisableCompression: true, MaxIdleConnsPerHost: 2, IdleConnTimeout: idleUpstream, ExpectContinueTimeout: continueTimeout,
		MaxResponseHeaderBytes: mostAnswerHead, ReadBufferSize: 2 << 10, WriteBufferSize: 2 << 10,
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 512 << 10},
	}
	i.proxy = &httputil.ReverseProxy{
		Transport: i.transport, FlushInterval: -1, BufferPool: &i.buffers, ErrorLog: i.http.ErrorLog,
		Rewrite: i.rewrite, ModifyResponse: i.answer, ErrorHandler: i.failed,
	}
}

// dial connects to the host.
func (i *intercepted) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	extra := i.outside.Add(1) > 1
	if extra {
		select {
		case i.extra <- struct{}{}:
		case <-ctx.Done():
			i.outside.Add(-1)
			return nil, context.Cause(ctx)
		}
	}
	free := func() {
		i.outside.Add(-1)
		if extra {
			<-i.extra
		}
	}
	conn, err := i.c.connect()
	if err != nil {
		free()
		return nil, err
	}
	i.reached.Store(true)
	o := &outsideConn{Conn: conn, c: i.c, free: free}
	o.stop = context.AfterFunc(i.c.ctx, func() { reset(conn) })
	return o, nil
}

// outsideConn counts what goes to the host and comes from it.
type outsideConn struct {
	net.Conn
	c    *connection
	stop func() bool
	free func()
	once sync.Once
}

func (o *outsideConn) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	o.c.received.Add(int64(n))
	return n, err
}

func (o *outsideConn) Write(p []byte) (int, error) {
	n, err := (&counter{o.c, o.Conn, true}).Write(p)
	if cut := cutError(""); errors.As(err, &cut) {
		o.c.cut(cut)
	}
	return n, err
}

func (o *outsideConn) Close() error {
	err := o.Conn.Close()
	o.once.Do(func() {
		o.stop()
		o.free()
	})
	return err
}
