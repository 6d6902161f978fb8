//go:build linux

// Command egress is the egress process for the benchmark's sandboxes: it knows the names below
// bench.test alone, all of them at the host's loopback address.
package main

import (
	"context"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/paddock-dev/paddock/egress/process"
)

// The name of a process is the name of its first thread, on which main begins.
func init() { runtime.LockOSThread() }

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

type resolver struct{}

func (resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if !strings.HasSuffix(host, ".bench.test") {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{loopback}, nil
}

func main() {
	os.Exit(process.Main(process.Options{Resolver: resolver{}, AllowAddress: func(a netip.Addr) bool { return a == loopback }}))
}
