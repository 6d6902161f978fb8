// Package resolve finds the addresses of a host name, and connects to it: by
// the file of hosts, then by the name servers of resolv.conf.
//
//	conn, err := resolve.Dial(ctx, "db.local", 5432, true)
//
// It stands where package net has a resolver that would be a twentieth of the
// agent. Limits: questions go over UDP alone, and the order of the sources is
// fixed.
package resolve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
)

// maxFile bounds what is read of a file, in bytes.
const maxFile = 1 << 20

// files are where names are looked up; tests have their own.
type files struct {
	hosts, conf string
	port        uint16 // of name servers
}

var system = files{"/etc/hosts", "/etc/resolv.conf", 53}

// Dial connects to a host by TCP, one address after the other. v4 leaves out
// those of IPv6. ctx bounds the looking up too.
func Dial(ctx context.Context, host string, port uint16, v4 bool) (net.Conn, error) {
	addrs, err := Lookup(ctx, host, v4)
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		var conn *net.TCPConn
		if conn, err = new(net.Dialer).DialTCP(ctx, "tcp", netip.AddrPort{}, netip.AddrPortFrom(addr, port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// Lookup gives the addresses of a host, at least one, those of IPv4 first. An
// address is its own.
func Lookup(ctx context.Context, host string, v4 bool) ([]netip.Addr, error) {
	return system.lookup(ctx, host, v4)
}

func (f files) lookup(ctx context.Context, host string, v4 bool) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return order([]netip.Addr{addr}, host, v4)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if addrs := f.fromHosts(name); len(addrs) > 0 {
		return order(addrs, host, v4)
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return order([]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, host, v4)
	}
	addrs, err := f.fromServers(ctx, name, strings.HasSuffix(host, "."), v4)
	if err != nil {
		return nil, fmt.Errorf("cannot find the host %q: %w", host, err)
	}
	return order(addrs, host, v4)
}

// order puts IPv4 first.
func order(addrs []netip.Addr, host string, v4 bool) ([]netip.Addr, error) {
	var first, second []netip.Addr
	for _, addr := range addrs {
		switch addr = addr.Unmap(); {
		case addr.Is4():
			first = append(first, addr)
		case !v4:
			second = append(second, addr)
		}
	}
	if first = append(first, second...); len(first) == 0 {
		return nil, fmt.Errorf("cannot find the host %q: it has no address that could be used", host)
	}
	return first, nil
}

// fromHosts gives the addresses in the file of hosts.
func (f files) fromHosts(name string) (addrs []netip.Addr) {
	_ = words(f.hosts, func(words []string) {
		addr, err := netip.ParseAddr(words[0])
		for _, alias := range words[1:] {
			if err == nil && strings.EqualFold(strings.TrimSuffix(alias, "."), name) {
				addrs = append(addrs, addr)
				return
			}
		}
	})
	return addrs
}

// words calls fn with the words of each line that has some, without comments.
func words(path string, fn func([]string)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, maxFile))
	for lines.Scan() {
		text := lines.Text()
		if i := strings.IndexAny(text, "#;"); i >= 0 {
			text = text[:i]
		}
		if words := strings.Fields(text); len(words) > 0 {
			fn(words)
		}
	}
	return lines.Err()
}
