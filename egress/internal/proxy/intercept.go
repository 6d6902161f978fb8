package proxy

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
	i.outside = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(policy.MaxIntercepted)}
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
		MaxResponseHeaderBytes: mostAnswerHead, ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
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

// exchange is a request and its answer.
type exchange struct {
	http.ResponseWriter
	redact redactor
	status int
	err    error // why the host was not reached
}

type exchangeKey struct{}

// Unwrap is for [http.ResponseController].
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// WriteHeader writes the head of an answer, or one before it.
func (e *exchange) WriteHeader(status int) {
	e.redact.header(e.Header())
	if status >= 200 {
		e.status = status
	}
	e.ResponseWriter.WriteHeader(status)
}

// ServeHTTP answers a request of an intercepted connection.
func (i *interceptor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own, ok := r.Context().Value(interceptedKey{}).(*intercepted)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	own.serveRequest(w, r)
}

func (i *intercepted) serveRequest(w http.ResponseWriter, r *http.Request) {
	i.requests.Add(1)
	began := time.Now()
	e := &exchange{ResponseWriter: w}
	if refusal := i.check(r); refusal != nil {
		i.server.deny(egress.Record{Host: i.c.to.host(), Port: i.c.to.port, Rule: i.c.rule, Reason: "a request was refused: " + refusal.reason,
			Method: cutText(r.Method), Path: i.shown(r.URL), Status: refusal.status})
		if r.ProtoMajor == 1 && refusal.status != http.StatusForbidden {
			w.Header().Set("Connection", "close") // what follows may be meant to be read in another way
		}
		writeText(w, refusal.status, "paddock: the request is refused: "+strconv.QuoteToASCII(refusal.reason)+"\n")
		return
	}
	defer func() {
		record := egress.Record{Kind: egress.KindRequest, Host: i.c.to.host(), Port: i.c.to.port, Rule: i.c.rule, Method: cutText(r.Method), Path: i.shown(r.URL),
			Status: e.status, Duration: policy.Duration(time.Since(began).Round(time.Microsecond))}
		denied, failed := (*deniedError)(nil), (*failedError)(nil)
		switch {
		case errors.As(e.err, &denied):
			record.Kind, record.Rule, record.Reason = egress.KindDenied, denied.rule, denied.reason
		case errors.As(e.err, &failed):
			record.Kind, record.Reason = egress.KindFailed, failed.Error()
		case e.err != nil:
			record.Kind, record.Reason = egress.KindFailed, (&failedError{e.err}).Error()
		}
		i.server.records.add(record)
	}()
	i.proxy.ServeHTTP(e, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e)))
}

// shown returns the path of a request for a record.
func (i *intercepted) shown(u *url.URL) string {
	path := u.EscapedPath()
	for _, s := range i.secrets {
		for _, text := range []string{s.Value, s.StandIn} {
			if text != "" {
				path = strings.ReplaceAll(strings.ReplaceAll(path, text, "["+s.Name+"]"), url.PathEscape(text), "["+s.Name+"]")
			}
		}
	}
	return path
}

func cutText(s string) string { return s[:min(len(s), 64)] }

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// check returns why a request is not sent on.
func (i *intercepted) check(r *http.Request) *httpError {
	switch {
	case r.Method == http.MethodConnect:
		return &httpError{421, "it asks for a tunnel"}
	case r.Host == "":
		return &httpError{421, "it names no Host"}
	case r.URL.Opaque != "", r.URL.User != nil:
		return badRequest("its address is invalid")
	case r.URL.Scheme != "" && !strings.EqualFold(r.URL.Scheme, "https"):
		return &httpError{421, "its address is not one of https"}
	}
	if err := checkHost(r.Host, i.c.to); err != nil {
		return err
	}
	if values := headerValues(r.Header, "Host"); len(values) > 0 { // beside :authority
		for _, host := range values {
			if !strings.EqualFold(host, r.Host) {
				return &httpError{421, "it names two hosts"}
			}
		}
	}
	if secret := i.misplaced(r); secret != nil {
		return &httpError{403, "it has the stand-in of " + secret.Name + " where no rule says that the value goes"}
	}
	return checkRequest(i.rule.HTTP, r)
}

// misplaced returns a secret whose stand-in a request has, but for the header in which it is
// replaced.
func (i *intercepted) misplaced(r *http.Request) *egress.Secret {
	texts := []string{r.URL.Path, r.URL.EscapedPath(), r.URL.RawQuery}
	if query, err := url.QueryUnescape(r.URL.RawQuery); err == nil {
		texts = append(texts, query)
	}
	own := ""
	if s := i.rule.Secret; s != nil && s.Substitute {
		own = s.Name
	}
	for _, secret := range i.secrets {
		one := secrets{secret}
		for name, values := range r.Header {
			if secret.Name == own && sameHeader(name, i.rule.Secret.Header) {
				continue
			}
			for _, value := range values {
				if one.standsIn(name, value, basic(value)) != nil {
					return &secret
				}
			}
		}
		if one.standsIn(texts...) != nil {
			return &secret
		}
	}
	return nil
}

const basicScheme = "Basic "

// basic returns the name and the password of a header of that kind, else "".
func basic(value string) string {
	if len(value) < len(basicScheme) || !strings.EqualFold(value[:len(basicScheme)], basicScheme) {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value[len(basicScheme):]))
	if err != nil {
		return ""
	}
	return string(text)
}

// rewrite makes the request to the host.
func (i *intercepted) rewrite(r *httputil.ProxyRequest) {
	out := r.Out
	out.URL.Scheme = "https"
	out.URL.Host = net.JoinHostPort(i.c.to.name, strconv.Itoa(int(i.c.to.port)))
	out.URL.RawQuery = r.In.URL.RawQuery // as it was written
	out.Host = r.In.Host
	out.Header.Del("Host")
	for name, values := range r.In.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" {
			out.Header[name] = values
		}
	}
	if !strings.EqualFold(out.Header.Get("Upgrade"), "websocket") || out.Method != http.MethodGet {
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}
	e, ok := out.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return
	}
	secret := i.rule.Secret
	out.Trailer = r.In.Trailer // the server fills it
	if out.Body != nil && out.Body != http.NoBody {
		out.Body = &sentBody{out.Body, out, secret}
	}
	for _, s := range i.secrets {
		e.redact = e.redact.add(s.Value, s.StandIn)
		if escaped := url.QueryEscape(s.Value); escaped != s.Value {
			e.redact = e.redact.add(escaped, "")
		}
	}
	if len(i.secrets) > 0 {
		// What is compressed cannot be searched.
		out.Header.Set("Accept-Encoding", "identity")
		out.Header.Del("Sec-Websocket-Extensions")
	}
	if secret == nil {
		return
	}
	known := i.secrets.find(secret.Name)
	if known == nil {
		return // the rules are refused without it
	}
	if !secret.Substitute {
		for name := range out.Header {
			if sameHeader(name, secret.Header) {
				delete(out.Header, name)
			}
		}
		content := strings.Replace(secret.Format, "{}", known.Value, 1)
		out.Header.Set(secret.Header, content)
		return
	}
	for name, values := range out.Header {
		if !sameHeader(name, secret.Header) {
			continue
		}
		values = slices.Clone(values)
		for j, value := range values {
			if plain := basic(value); strings.Contains(plain, known.StandIn) {
				encoded := base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(plain, known.StandIn, known.Value)))
				e.redact = e.redact.add(encoded, strings.TrimSpace(value[len(basicScheme):]))
				values[j] = value[:len(basicScheme)] + encoded
			} else {
				values[j] = strings.ReplaceAll(value, known.StandIn, known.Value)
			}
		}
		out.Header[name] = values
	}
}

// sentBody is the body of a request. At its end it takes out of the fields after it what must
// not be there.
type sentBody struct {
	io.ReadCloser
	request *http.Request
	secret  *policy.NetworkSecret
}

func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		for name := range b.request.Trailer {
			switch {
			case b.secret != nil && sameHeader(name, b.secret.Header),
				sameHeader(name, "Host"), sameHeader(name, "Content-Length"), sameHeader(name, "Transfer-Encoding"):
				delete(b.request.Trailer, name)
			}
		}
	}
	return n, err
}

// errUnsearchable is an answer that may have a secret, and cannot be searched for it.
var errUnsearchable = errors.New("its answer is compressed in a way that cannot be searched for secrets")

// answer changes the answer of the host.
func (i *intercepted) answer(r *http.Response) error {
	e, ok := r.Request.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return errors.New("it belongs to no request")
	}
	r.Header.Del("Alt-Svc") // there is no other way to the host
	if len(r.Trailer) > 0 { // else clients of HTTP/1.1 do not get them
		r.Header.Del("Content-Length")
		r.ContentLength = -1
	}
	if len(e.redact) == 0 {
		return nil
	}
	e.redact.header(r.Header)
	if r.StatusCode == http.StatusSwitchingProtocols {
		r.Status = "" // the host can write anything there
		e.status = r.StatusCode
		both, ok := r.Body.(io.ReadWriteCloser)
		if !ok {
			return errors.New("its answer cannot be used")
		}
		r.Body = &upgraded{both, e.redact.body(both)}
		return nil
	}
	from, err := decoded(r)
	if err != nil {
		return err
	}
	r.Body = &answerBody{e.redact.body(from), r.Body, r, e.redact}
	return nil
}

// decoded returns the body of an answer as it is read, and takes out what says that it is
// compressed.
func decoded(r *http.Response) (io.Reader, error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ",")))
	if coding == "" || coding == "identity" || r.Request.Method == http.MethodHead || r.StatusCode == http.StatusNoContent || r.StatusCode == http.StatusNotModified {
		return r.Body, nil
	}
	var open func(io.Reader) (io.Reader, error)
	switch coding {
	case "gzip", "x-gzip":
		open = func(from io.Reader) (io.Reader, error) { return gzip.NewReader(from) }
	case "deflate":
		open = func(from io.Reader) (io.Reader, error) { return zlib.NewReader(from) }
	default:
		return nil, errUnsearchable
	}
	r.Header.Del("Content-Encoding")
	r.Header.Del("Content-Length")
	r.ContentLength = -1
	return &lazily{from: bufio.NewReaderSize(r.Body, 4<<10), open: open}, nil
}

// lazily opens what decodes when it is read: the head of an answer need not wait for its body.
type lazily struct {
	from *bufio.Reader
	open func(io.Reader) (io.Reader, error)
	to   io.Reader
}

func (l *lazily) Read(p []byte) (int, error) {
	if l.to == nil {
		if _, err := l.from.Peek(1); err != nil { // nothing is not compressed
			return 0, err
		}
		var err error
		if l.to, err = l.open(l.from); err != nil {
			return 0, err
		}
	}
	return l.to.Read(p)
}

// answerBody is the body of an answer, searched.
type answerBody struct {
	io.Reader
	io.Closer
	answer *http.Response
	redact redactor
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil {
		b.redact.header(b.answer.Trailer)
	}
	return n, err
}

// upgraded is a connection that is not HTTP any more.
type upgraded struct {
	io.ReadWriteCloser
	from io.Reader
}

func (u *upgraded) Read(p []byte) (int, error) { return u.from.Read(p) }

// failed answers a request of which no answer came.
func (i *intercepted) failed(w http.ResponseWriter, r *http.Request, err error) {
	e, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	if r.Context().Err() != nil || i.c.ctx.Err() != nil { // the command has gone
		panic(http.ErrAbortHandler)
	}
	e.err = outsideCause(err)
	reason := e.redact.text(e.err.Error())
	if denied := (*deniedError)(nil); !errors.As(e.err, &denied) {
		reason = "the host " + i.c.to.host() + " gave no answer that can be sent on: " + reason
	}
	writeText(w, http.StatusBadGateway, "paddock: "+strconv.QuoteToASCII(reason)+"\n")
}

// outsideCause returns the error of a transport without the words that net/http puts before it.
func outsideCause(err error) error {
	denied, failed := (*deniedError)(nil), (*failedError)(nil)
	switch {
	case errors.As(err, &denied):
		return denied
	case errors.As(err, &failed):
		return failed.err
	}
	invalid := (*tls.CertificateVerificationError)(nil)
	if errors.As(err, &invalid) {
		return errors.New("its certificate is not trusted: " + invalid.Err.Error())
	}
	return err
}
