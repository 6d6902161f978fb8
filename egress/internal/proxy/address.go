package proxy

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/paddock-dev/paddock/egress"
)

// addressClass is a class of addresses that a public name must not have.
type addressClass struct {
	network netip.Prefix
	what    string
	// exactly: a rule for a network does not open them, only one for the address itself.
	exactly bool
}

// addressClasses has narrower networks first. IPv6 has one global range, and exceptions in it.
var addressClasses = func() []addressClass {
	var classes []addressClass
	add := func(what string, exactly bool, networks ...string) {
		for _, n := range networks {
			classes = append(classes, addressClass{netip.MustParsePrefix(n), what, exactly})
		}
	}
	add("an address of a cloud's metadata", true, "168.63.129.16/32", "192.0.0.192/32", "169.254.169.254/32", "fd00:ec2::/32", "fd20:ce::254/128")
	add("a loopback address", true, "127.0.0.0/8", "::1/128")
	add("a link-local address", true, "169.254.0.0/16", "fe80::/10")
	add("an unspecified address", true, "0.0.0.0/8", "::/128")
	add("a multicast address", true, "224.0.0.0/4", "ff00::/8")
	add("a private address", false, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")
	add("an address of a carrier's own network", false, "100.64.0.0/10")
	add("an address for benchmarks", false, "198.18.0.0/15")
	add("an IPv4 address that is translated", true, "192.88.99.0/24", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16")
	add("a reserved address", true, "192.0.0.0/24", "240.0.0.0/4", "2001::/23", "::/3", "4000::/2", "8000::/1")
	return classes
}()

// refusedError says that a name has an address that no rule opens.
type refusedError struct {
	address netip.Addr
	rule    string
	reason  string
	// opens: a rule for the address is what somebody may want, as it is for a private one.
	opens bool
}

func (e *refusedError) Error() string { return e.reason }

// checkAddress returns an error if a connection must not go to an address, although a rule
// opens the name, or the network that the address is in. It is asked right before each
// connect.
func (u *upstream) checkAddress(table *egress.Table, to netip.AddrPort) error {
	address := to.Addr().Unmap()
	if u.allowAddress != nil && u.allowAddress(address) {
		return nil
	}
	if d, ok := table.DeniedAddress(address); ok {
		return &refusedError{address: address, rule: d.Rule, reason: "it is at " + address.String() + ": " + d.Reason}
	}
	named, exactly := table.Names(address, to.Port())
	if exactly {
		return nil
	}
	refuse := func(what string, opens bool) error {
		return &refusedError{address: address, opens: opens, reason: "it is at " + address.String() + ", which is " + what + ", and no rule names that address"}
	}
	if address.Zone() != "" {
		return refuse("a link-local address", false)
	}
	for _, class := range addressClasses {
		if class.network.Contains(address) {
			if named && !class.exactly {
				break
			}
			return refuse(class.what, !class.exactly)
		}
	}
	own, err := hostHas(netip.AddrPortFrom(address, to.Port()))
	if err == nil && own {
		return refuse("an address of the host's own", false)
	}
	return err
}

// hostHas reports whether the host itself has an address. Then a socket can be bound to it,
// and a connection to it comes from it.
func hostHas(to netip.AddrPort) (bool, error) {
	if !bindsForeign(to.Addr().Is6()) {
		bound, err := canBind(to.Addr())
		if err != nil || bound {
			return bound, err
		}
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to)) // this sends nothing
	if err != nil {
		return false, err
	}
	defer conn.Close()
	local, ok := conn.LocalAddr().(*net.UDPAddr)
	return ok && local.AddrPort().Addr().Unmap() == to.Addr(), nil
}

func canBind(address netip.Addr) (bool, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, 0)))
	switch {
	case err == nil:
		return true, conn.Close()
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
		return false, nil
	}
	return false, err
}

// bindsForeign reports whether the host lets sockets be bound to addresses that it does not
// have, as balancers of load do.
func bindsForeign(v6 bool) bool {
	if v6 {
		return bindsForeign6()
	}
	return bindsForeign4()
}

var (
	bindsForeign4 = sync.OnceValue(func() bool { return canBindAll("192.0.2.1", "203.0.113.77") })
	bindsForeign6 = sync.OnceValue(func() bool { return canBindAll("2001:db8::1", "3fff::77") })
)

func canBindAll(addresses ...string) bool {
	for _, a := range addresses {
		if bound, err := canBind(netip.MustParseAddr(a)); err != nil || !bound {
			return false
		}
	}
	return true
}
