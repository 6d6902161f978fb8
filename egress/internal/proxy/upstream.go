package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

const (
	// More addresses of a name are not tried.
	mostAddresses = 64
	// The other family of addresses is tried after this time (RFC 8305).
	fallbackDelay = 300 * time.Millisecond
)

// keepAlive finds peers that are gone without having closed.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 6}

// Resolver finds the addresses of a name. [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DialFunc connects to an address, and calls control with each socket before it connects it.
type DialFunc func(ctx context.Context, network, address string, control func(network, address string, c syscall.RawConn) error) (net.Conn, error)

// hostLoopback is where the ports of [policy.HostName] are.
var hostLoopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// hostResolver is the host's own, without the domains that it searches: a rule names a host
// completely. A name without a dot means what it means on the host.
type hostResolver struct{ net.Resolver }

func (r *hostResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if strings.Contains(host, ".") {
		host += "."
	}
	return r.Resolver.LookupNetIP(ctx, network, host)
}

func dialDirectly(ctx context.Context, network, address string, control func(network, address string, c syscall.RawConn) error) (net.Conn, error) {
	d := net.Dialer{Control: control, KeepAliveConfig: keepAlive}
	d.SetMultipathTCP(false)
	return d.DialContext(ctx, network, address)
}

// upstream makes the connections of the host's side.
type upstream struct {
	resolver     Resolver
	dial         DialFunc
	allowAddress func(netip.Addr) bool
	proxy        *operatorProxy // nil: none
	timeout      time.Duration  // for resolving a name and connecting
}

// target is where a connection goes: a name, or an address if no name was asked for.
type target struct {
	name    string
	address netip.Addr
	port    uint16
}

func (t target) host() string {
	if t.name != "" {
		return t.name
	}
	return t.address.String()
}

// connect makes a connection to a target, which table opens.
func (u *upstream) connect(ctx context.Context, table *egress.Table, to target) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, u.timeout, fmt.Errorf("there was no connection within %v", u.timeout))
	defer cancel()
	conn, err := u.connectOnce(ctx, table, to)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return conn, err
}

func (u *upstream) connectOnce(ctx context.Context, table *egress.Table, to target) (net.Conn, error) {
	if to.name == policy.HostName {
		return u.dial(ctx, "tcp", netip.AddrPortFrom(hostLoopback, to.port).String(), func(string, string, syscall.RawConn) error { return nil })
	}
	if u.proxy.covers(to) {
		return u.proxy.connect(ctx, to)
	}
	addresses := []netip.Addr{to.address}
	if to.name != "" {
		var err error
		if addresses, err = u.lookup(ctx, to.name); err != nil {
			return nil, err
		}
	}
	control := func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return u.checkAddress(table, netip.AddrPortFrom(at.Addr(), to.port))
	}
	first, other := byFamily(addresses)
	race := make(chan dialed, 2)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	try := func(addresses []netip.Addr) {
		conn, err := u.tryEach(ctx, addresses, to.port, control)
		race <- dialed{conn, err}
	}
	go try(first)
	running := 1
	fallback := time.NewTimer(fallbackDelay)
	defer fallback.Stop()
	var failure error
	for {
		select {
		case <-fallback.C:
		case d := <-race:
			if running--; d.err == nil {
				if running > 0 {
					go closeLoser(race)
				}
				return d.conn, nil
			}
			failure = worse(failure, d.err)
		}
		if len(other) > 0 {
			go try(other)
			other = nil
			running++
		} else if running == 0 {
			return nil, failure
		}
	}
}

// dialed is the end of an attempt.
type dialed struct {
	conn net.Conn
	err  error
}

func closeLoser(race <-chan dialed) {
	if d := <-race; d.err == nil {
		_ = d.conn.Close()
	}
}

// lookup resolves a name. A resolver that does not end when ctx does is left behind.
func (u *upstream) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	type found struct {
		addresses []netip.Addr
		err       error
	}
	answer := make(chan found, 1)
	go func() {
		addresses, err := u.resolver.LookupNetIP(ctx, "ip", name)
		answer <- found{addresses, err}
	}()
	select {
	case f := <-answer:
		if dns := (*net.DNSError)(nil); errors.As(f.err, &dns) {
			return nil, fmt.Errorf("its name cannot be resolved: %s", dns.Err)
		}
		if f.err == nil && len(f.addresses) == 0 {
			f.err = errors.New("it has no address")
		}
		return f.addresses, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// byFamily returns at most 64 different addresses: those of the family of the first one, and
// the others.
func byFamily(addresses []netip.Addr) (first, other []netip.Addr) {
	seen := map[netip.Addr]bool{}
	for _, a := range addresses {
		if a = a.Unmap(); seen[a] {
			continue
		}
		if seen[a] = true; len(seen) > mostAddresses {
			break
		}
		if len(first) == 0 || a.Is4() == first[0].Is4() {
			first = append(first, a)
		} else {
			other = append(other, a)
		}
	}
	return first, other
}

// tryEach connects to the first address that can be reached.
func (u *upstream) tryEach(ctx context.Context, addresses []netip.Addr, port uint16, control func(network, address string, c syscall.RawConn) error) (net.Conn, error) {
	var failure error
	for i, a := range addresses {
		// One that does not answer leaves time for the others.
		end, _ := ctx.Deadline()
		share := max(time.Until(end)/time.Duration(len(addresses)-i), 2*time.Second)
		attempt, cancel := context.WithTimeout(ctx, share)
		conn, err := u.dial(attempt, "tcp", netip.AddrPortFrom(a, port).String(), control)
		cancel()
		if err == nil {
			return conn, nil
		}
		failure = worse(failure, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failure
}

// worse returns the error that says more: a connection that failed more than an address that
// was refused, and else the first.
func worse(before, err error) error {
	refused := (*refusedError)(nil)
	if before == nil || errors.As(before, &refused) && !errors.As(err, &refused) {
		return err
	}
	return before
}
