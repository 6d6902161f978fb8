package proxy

import (
	"net/netip"
	"sync"
)

// mostNames is how many names of a sandbox can get an address.
const mostNames = 4096

// names has the addresses that stand for names. An address is never given to another name.
type names struct {
	within netip.Prefix
	mu     sync.Mutex
	next   netip.Addr
	byName map[string]netip.Addr
	byAddr map[netip.Addr]string
}

func newNames(within netip.Prefix) *names {
	return &names{
		within: within, next: within.Addr().Next().Next(),
		byName: map[string]netip.Addr{}, byAddr: map[netip.Addr]string{},
	}
}

// address returns the address of a name, a new one if the name has none. It reports false if
// there are none left.
func (n *names) address(name string) (netip.Addr, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.byName[name]; ok {
		return a, true
	}
	if len(n.byName) >= mostNames || !n.within.Contains(n.next) {
		return netip.Addr{}, false
	}
	a := n.next
	n.next = a.Next()
	n.byName[name], n.byAddr[a] = a, name
	return a, true
}

// name returns the name for which an address stands.
func (n *names) name(a netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ok := n.byAddr[a]
	return name, ok
}
