package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// A connection to the host that rests is closed after this time, and early if others
	// need the memory.
	idleUpstream  = 90 * time.Second
	crowdUpstream = time.Second
	// The host may soon close a connection on which no request comes.
	staleUpstream = 2 * time.Second
)

// firstDial is the first connection to the host of an intercepted connection. It is made while
// the command and Paddock still agree on TLS, for the first request to use.
type firstDial struct {
	taken  atomic.Bool
	cancel context.CancelFunc // closes it, unless a request has it
	made   chan dialedTLS
}

type dialedTLS struct {
	conn *tls.Conn
	err  error
	at   time.Time
}

func (i *intercepted) dialFirst() *firstDial {
	ctx, cancel := context.WithCancel(i.c.ctx)
	f := &firstDial{cancel: cancel, made: make(chan dialedTLS)}
	i.server.running.Go(func() {
		conn, err := i.connectTLS(ctx)
		select {
		case f.made <- dialedTLS{conn, err, time.Now()}:
		case <-ctx.Done():
			if err == nil {
				_ = conn.Close()
			}
		}
	})
	return f
}

// dialTLS connects to the host for a request.
func (i *intercepted) dialTLS(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := i.takeFirst(ctx)
	if conn == nil && err == nil {
		conn, err = i.connectTLS(ctx)
	}
	if err != nil {
		return nil, err
	}
	i.reached.Store(true)
	return conn, nil
}

// takeFirst returns the first connection, or nil if an earlier request took it or it has become stale.
func (i *intercepted) takeFirst(ctx context.Context) (*tls.Conn, error) {
	if !i.first.taken.CompareAndSwap(false, true) {
		return nil, nil
	}
	select {
	case first := <-i.first.made:
		if first.err == nil && time.Since(first.at) > staleUpstream {
			_ = first.conn.Close() // which fails if the host has reset it
			return nil, nil
		}
		return first.conn, first.err
	case <-ctx.Done():
		i.first.cancel()
		return nil, context.Cause(ctx)
	}
}

// connectTLS connects to the host.
func (i *intercepted) connectTLS(ctx context.Context) (*tls.Conn, error) {
	timeout := i.server.upstream.timeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("there was no TLS within %v", timeout))
	defer cancel()
	plain, err := i.connect(ctx)
	if err != nil {
		return nil, err
	}
	config := i.interceptor.outside.Clone()
	config.ServerName, config.NextProtos = i.c.to.name, i.protocols
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return conn, nil
}

// connect connects to the host without TLS.
func (i *intercepted) connect(ctx context.Context) (net.Conn, error) {
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
	conn, err := i.c.connect(ctx)
	if err != nil {
		free()
		return nil, err
	}
	at := i.c.addressOf(conn)
	left := func() {
		free()
		i.server.mu.Lock()
		defer i.server.mu.Unlock()
		i.c.leave(at)
	}
	return &outsideConn{Conn: conn, c: i.c, free: left, stop: context.AfterFunc(i.c.ctx, func() { reset(conn) })}, nil
}

// restAfter closes connections to the host on which no request has come for a time. 0: never.
func (i *intercepted) restAfter(idle time.Duration) {
	i.resting.Lock()
	defer i.resting.Unlock()
	switch {
	case i.rest == nil && idle > 0:
		i.rest = time.AfterFunc(idle, i.transport.CloseIdleConnections)
	case i.rest != nil && idle > 0:
		i.rest.Reset(idle)
	case i.rest != nil:
		i.rest.Stop()
	}
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
