//go:build linux

package backendtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/paddock-dev/paddock/policy"
)

func networkCells() []cell {
	return []cell{
		{name: "rules: names that they open exist, and no other", opens: func(s *policy.Spec) {
			s.Network = policy.Network{Allow: []policy.NetworkRule{{Host: "api.test"}}}
		}, do: namesHosts},
		// The port is that of a server by then, and of nobody at the start.
		{name: "rules: a port of the host's loopback, and no other", opens: func(s *policy.Spec) {
			s.Network = policy.Network{HostPorts: []policy.Port{1}}
		}, do: reachesHost},
	}
}

// probed runs the probe, and returns what it says if it fails.
func (b *box) probed(ctx context.Context, what, value string) error {
	out, err := b.s.Command(ctx, "./probe", what, value).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %.200s", what, value, out)
	}
	return nil
}

func namesHosts(ctx context.Context, b *box) error {
	iso := b.s.Isolation()
	err := errors.Join(b.probed(ctx, "dial", "api.test:443"), must(iso.Egress != nil && slices.Equal(iso.Egress.Allow, []string{"api.test"}), "isolation says %+v", iso.Egress))
	for _, closed := range []string{"evil.test:443", "x.api.test:443", "api.test:8443", "192.0.2.1:8443", "169.254.169.254:8443"} {
		err = errors.Join(err, must(b.probed(ctx, "dial", closed) != nil, "%s was reached", closed))
	}
	return err
}

func reachesHost(ctx context.Context, b *box) error {
	var ports [2]policy.Port
	var listeners [2]net.Listener
	defer func() {
		for _, l := range listeners {
			if l != nil {
				_ = l.Close()
			}
		}
	}()
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		listeners[i] = l
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte("of the host\n"))
				_ = conn.Close()
			}
		}()
		ports[i] = policy.Port(l.Addr().(*net.TCPAddr).Port)
	}
	if err := b.s.SetNetwork(ctx, policy.Network{HostPorts: ports[:1]}); err != nil {
		return err
	}
	iso := b.s.Isolation()
	at := func(host string, port policy.Port) string { return fmt.Sprintf("%s:%d", host, port) }
	err := errors.Join(b.probed(ctx, "read", at(policy.HostName, ports[0])),
		must(iso.Egress != nil && slices.Equal(iso.Egress.Allow, []string{at(policy.HostName, ports[0])}), "isolation says %+v", iso.Egress))
	for _, closed := range []string{at(policy.HostName, ports[1]), at("127.0.0.1", ports[0]), at("127.0.0.1", ports[1]), at("localhost", ports[0])} {
		err = errors.Join(err, must(b.probed(ctx, "read", closed) != nil, "%s was reached", closed))
	}
	return err
}
