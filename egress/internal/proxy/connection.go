package proxy

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// connection is one that a rule opens.
type connection struct {
	server         *Server
	inside         *net.TCPConn
	to             target
	rule           string
	intercepts     *policy.NetworkRule // if the rule does
	began          time.Time
	ctx            context.Context
	cut            context.CancelCauseFunc // resets it, for a reason
	ignore         func() bool             // ends the watch for that
	done           func()                  // called at its end
	sent, received atomic.Int64
	// The addresses of the host, for Server.mu; there are none behind the operator's proxy.
	at   netip.AddrPort   // the last one, for the record
	ends []netip.AddrPort // of what is connected: an intercepted connection can have several
}

// The ways in which a connection ends but for its two ends closing it.
type (
	// deniedError says that it was not what its rule opens.
	deniedError struct{ rule, reason string }
	// failedError says that the host was not reached.
	failedError struct{ err error }
	// cutError says why Paddock ended it.
	cutError string
	// outsideError is an error of the host's end.
	outsideError struct{ err error }
)

func (e *deniedError) Error() string  { return e.reason }
func (e *failedError) Error() string  { return "it cannot be reached: " + cause(e.err) }
func (e cutError) Error() string      { return string(e) }
func (e *outsideError) Error() string { return "the host ended it: " + cause(e.err) }

var (
	// errInside is the end of a connection by a command, in whatever way.
	errInside = errors.New("it was ended inside")
	// errReported is the end of a connection of which a record has been made already.
	errReported = errors.New("it was refused")
)

// cause returns the text of an error of a socket without the addresses of its two ends.
func cause(err error) string {
	op, errno := (*net.OpError)(nil), syscall.Errno(0)
	switch {
	case errors.As(err, &op) && op.Op == "dial" && op.Addr != nil && errors.As(err, &errno):
		return op.Addr.String() + ": " + errno.Error()
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &op) && op.Timeout():
		return "there was no answer in time"
	}
	return err.Error()
}

// serveConn handles a connection that was accepted. When it has been closed, done is called.
func (s *Server) serveConn(ctx context.Context, inside *net.TCPConn, done func()) {
	c := s.begin(ctx, inside)
	if c == nil {
		done()
		return
	}
	c.done = done
	if err := c.run(); err != nil {
		c.end(false, err)
	}
}

// begin admits a connection. It returns nil if that has ended already.
func (s *Server) begin(ctx context.Context, inside *net.TCPConn) *connection {
	local, ok := inside.LocalAddr().(*net.TCPAddr)
	if !ok {
		reset(inside)
		return nil
	}
	at := local.AddrPort()
	to := target{address: at.Addr().Unmap(), port: at.Port()}
	if netip.AddrPortFrom(to.address, to.port) == s.dnsAddress {
		s.dnsConns.serve(ctx, s.resolver, inside)
		return nil
	}
	to.name, _ = s.names.name(to.address)
	c, denied := s.admit(ctx, inside, to)
	if denied != nil {
		reset(inside)
		s.deny(egress.Record{Host: to.host(), Port: to.port, Rule: denied.rule, Reason: denied.reason})
		return nil
	}
	_ = inside.SetKeepAliveConfig(keepAlive)
	c.ignore = context.AfterFunc(c.ctx, func() { reset(inside) })
	return c
}

// end makes the record of a connection, and closes it if it is still open.
func (c *connection) end(reached bool, err error) {
	c.ignore()
	reset(c.inside)
	if why := context.Cause(c.ctx); errors.Is(why, context.Canceled) {
		err = cutError("the sandbox has ended")
	} else if why != nil {
		err = why
	}
	c.cut(nil)
	s := c.server
	s.mu.Lock()
	delete(s.open, c)
	at := c.at
	s.mu.Unlock()
	c.record(at, reached, err)
	c.done()
}

// endGone ends the connections that commands have reset, until ctx ends. Whoever writes to a host
// that reads nothing does not see that, and would hold their places.
func (s *Server) endGone(ctx context.Context) {
	look := time.NewTicker(s.lookEach)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		open := slices.Collect(maps.Keys(s.open))
		s.mu.Unlock()
		for _, c := range open {
			raw, err := c.inside.SyscallConn()
			gone := false
			if err == nil {
				err = raw.Control(func(fd uintptr) { gone = isGone(fd) })
			}
			if err == nil && gone {
				c.cut(errInside)
			}
		}
	}
}

// admit decides about a connection, and adds it to those that are open.
func (s *Server) admit(ctx context.Context, inside *net.TCPConn, to target) (*connection, *deniedError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	decision := s.decide(s.table, to)
	switch most := s.mostConnections(s.table); {
	case !decision.Open:
		return nil, &deniedError{decision.Rule, decision.Reason}
	case len(s.open) >= most:
		return nil, &deniedError{decision.Rule, strconv.Itoa(most) + " connections are open, which is the limit"}
	}
	if limit := s.bytesOut.Load(); limit > 0 && s.sent.Load() >= limit {
		return nil, &deniedError{decision.Rule, spentReason(limit)}
	}
	c := &connection{server: s, inside: inside, to: to, rule: decision.Rule, intercepts: decision.Intercept, began: time.Now()}
	c.ctx, c.cut = context.WithCancelCause(ctx)
	s.open[c] = struct{}{}
	s.grown()
	s.records.connected()
	return c, nil
}

func spentReason(limit int64) string {
	return "the limit of what all connections together may send, " + policy.Size(limit).String() + ", is used up"
}

// decide returns what a table says about a target.
func (s *Server) decide(table *egress.Table, to target) egress.Decision {
	switch {
	case to.name != "":
		return table.Name(to.name, to.port)
	case s.names.within.Contains(to.address):
		return egress.Decision{Reason: "no name has this address"}
	}
	return table.Address(to.address, to.port)
}

// run checks what the connection begins with, and connects to the target. What is left to do is
// done by others, which call end. If it fails the connection is still open.
func (c *connection) run() error {
	switch {
	case c.intercepts != nil:
		return c.intercept(c.intercepts)
	case c.to.port == c.server.httpPort:
		return c.forwardHTTP()
	}
	var start []byte
	if s := c.server; c.to.port == s.tlsPort {
		server, read, err := readHello(c.inside, nil, s.helloTimeout)
		if err == nil {
			err = c.checkServer(server, true)
		}
		if err != nil {
			return c.helloError(err)
		}
		start = read
	}
	outside, err := c.connect(c.ctx)
	if err != nil {
		return err
	}
	up, down := c.copiers(outside)
	c.relay(outside, func() error {
		end := false
		if c.to.port != c.server.tlsPort {
			var err error
			if start, end, err = c.readFirst(); err != nil {
				return err
			}
		}
		if len(start) > 0 {
			if _, err := up.Write(start); err != nil {
				return err
			}
		}
		if start = nil; end {
			return nil
		}
		return copyAll(up, c.inside)
	}, func() error { return copyAll(down, outside) })
	return nil
}

// relay runs the two directions of a connection, and ends it.
func (c *connection) relay(outside net.Conn, up, down func() error) {
	ignore := context.AfterFunc(c.ctx, func() { reset(outside) })
	relay(c.inside, outside, up, down, func(err error) {
		ignore()
		c.end(true, err)
	})
}

// helloError returns the error of a connection that does not begin as it must.
func (c *connection) helloError(err error) error {
	if wrong := helloError(""); errors.As(err, &wrong) {
		return &deniedError{c.rule, wrong.Error()}
	}
	return errInside
}

// checkServer returns an error unless the name in a TLS hello is the one that was meant. Where
// a rule opens an address, whoever has the address is meant.
func (c *connection) checkServer(server string, needed bool) error {
	switch {
	case c.to.name == "", server == "" && !needed:
		return nil
	case server == "":
		return helloError("its TLS hello names no server")
	}
	if name, ok := egress.CanonicalName(server); !ok || name != c.to.name {
		return helloError("its TLS hello names another server: " + strings.ToLower(server))
	}
	return nil
}

// readFirst returns what a command sends first at a port where nothing is known of what it
// should be. If the host has not spoken before and it is a TLS hello, that is checked.
func (c *connection) readFirst() (start []byte, end bool, err error) {
	var first bytes.Buffer
	for first.Len() < 2 && !end {
		if _, end, err = copyOnce(&first, c.inside, false); err != nil {
			return nil, false, err
		}
		if c.received.Load() > 0 || first.Len() > 0 && first.Bytes()[0] != 22 {
			return first.Bytes(), end, nil
		}
	}
	if end || first.Bytes()[1] != 3 { // no record of TLS
		return first.Bytes(), end, nil
	}
	server, start, err := readHello(c.inside, first.Bytes(), c.server.helloTimeout)
	if err == nil {
		err = c.checkServer(server, false)
	}
	if err != nil {
		return nil, false, c.helloError(err)
	}
	return start, false, nil
}

// connect makes the connection of the host's side.
func (c *connection) connect(ctx context.Context) (net.Conn, error) {
	s := c.server
	s.mu.Lock()
	table := s.table
	s.mu.Unlock()
	outside, err := s.upstream.connect(ctx, table, c.to)
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		if refused.opens {
			s.mu.Lock()
			c.at = netip.AddrPortFrom(refused.address, c.to.port)
			s.mu.Unlock()
		}
		return nil, &deniedError{refused.rule, refused.reason}
	}
	if err != nil {
		return nil, &failedError{err}
	}
	at := c.addressOf(outside)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.IsValid() {
		c.at, c.ends = at, append(c.ends, at)
	}
	if s.table != table {
		if reason := s.forbids(table, s.table, c); reason != "" {
			c.leave(at)
			reset(outside)
			return nil, &deniedError{c.rule, reason}
		}
	}
	if len(s.open) > mostWide {
		narrow(c.inside)
		narrow(outside)
	}
	return outside, nil
}

// addressOf returns the address of the host to which a connection of its side leads. It is not valid
// behind the operator's proxy.
func (c *connection) addressOf(outside net.Conn) (at netip.AddrPort) {
	if remote, ok := outside.RemoteAddr().(*net.TCPAddr); ok && !c.server.upstream.proxy.covers(c.to) {
		at = netip.AddrPortFrom(remote.AddrPort().Addr().Unmap(), c.to.port)
	}
	return at
}

// leave forgets an address of the host, to which one connection less leads. The caller holds
// Server.mu.
func (c *connection) leave(at netip.AddrPort) {
	if i := slices.Index(c.ends, at); i >= 0 {
		c.ends = slices.Delete(c.ends, i, i+1)
	}
}

// forbids returns why the rules of a new table forbid a connection that those of an old one
// opened, or "".
func (s *Server) forbids(old, table *egress.Table, c *connection) string {
	d := s.decide(table, c.to)
	switch {
	case !d.Open:
		return d.Reason
	case !reflect.DeepEqual(c.intercepts, d.Intercept):
		return "what requests to it may be, or what they get, has changed"
	}
	if c.to.name == policy.HostName {
		return ""
	}
	// Whether an address is allowed depends on rules for addresses alone.
	type rules struct{ denied, named, exactly bool }
	of := func(t *egress.Table, at netip.AddrPort) (r rules) {
		_, r.denied = t.DeniedAddress(at.Addr())
		r.named, r.exactly = t.Names(at.Addr(), at.Port())
		return r
	}
	for _, at := range c.ends {
		if of(old, at) == of(table, at) {
			continue
		}
		if err := s.upstream.checkAddress(table, at); err != nil {
			return err.Error()
		}
	}
	return ""
}

// counter counts the bytes of one direction of a connection.
type counter struct {
	c    *connection
	to   net.Conn
	sent bool // to the host
}

// copiers returns what is written to in the two directions.
func (c *connection) copiers(outside net.Conn) (up, down *counter) {
	return &counter{c, outside, true}, &counter{c, c.inside, false}
}

func (w *counter) Write(p []byte) (int, error) {
	if err := w.count(int64(len(p))); err != nil {
		return 0, err
	}
	return w.to.Write(p)
}

// count counts bytes before they are written: the peer may answer at once. It returns an error if
// they must not be.
func (w *counter) count(size int64) error {
	if !w.sent {
		w.c.received.Add(size)
		return nil
	}
	s := w.c.server
	if limit := s.bytesOut.Load(); s.sent.Add(size) > limit && limit > 0 {
		s.sent.Add(-size)
		return cutError(spentReason(limit))
	}
	w.c.sent.Add(size)
	return nil
}

// record makes the record of a connection that has ended.
func (c *connection) record(at netip.AddrPort, reached bool, err error) {
	r := egress.Record{
		Kind: egress.KindConnection, Host: c.to.host(), Port: c.to.port, Rule: c.rule,
		Sent: c.sent.Load(), Received: c.received.Load(), Duration: policy.Duration(time.Since(c.began).Round(time.Microsecond)),
	}
	if at.IsValid() {
		r.Address = at.Addr().String()
	}
	denied, failed := (*deniedError)(nil), (*failedError)(nil)
	switch {
	case errors.As(err, &denied):
		r.Kind, r.Rule, r.Reason = egress.KindDenied, denied.rule, denied.reason
	case errors.As(err, &failed):
		r.Kind, r.Reason = egress.KindFailed, failed.Error()
	case errors.Is(err, errReported) && !reached:
		return
	case err != nil && !errors.Is(err, errInside) && !errors.Is(err, errReported):
		r.Reason = err.Error()
	}
	c.server.records.add(r)
}
