//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit/engines"
	"github.com/paddock-dev/paddock/policy"
)

// onLoopback serves on a free port of the host's 127.0.0.1, and returns the port.
func onLoopback(t *testing.T) policy.Port {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello from "+r.Host+"\n")
	})}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }()
	return policy.Port(l.Addr().(*net.TCPAddr).Port)
}

// TestHostPort: commands of a container reach the ports of the host's loopback that are named,
// and no other. They cannot listen in place of the host, before or after; and other rules close a
// port, and open one unless a command listens there.
func TestHostPort(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		open, closed, later, taken := onLoopback(t), onLoopback(t), onLoopback(t), onLoopback(t)
		// Another rule has the port that is closed, so that something listens there inside.
		outside(t)
		b := start(t, request(t, e, func(s *policy.Spec) {
			s.Network = policy.Network{HostPorts: []policy.Port{open}, Allow: []policy.NetworkRule{{Host: "api.test", Ports: []policy.Port{closed}}}}
		}))
		url := func(host string, port policy.Port) string {
			return fmt.Sprintf("wget -q -O - http://%s:%d/", host, port)
		}
		said := func(port policy.Port) string { return fmt.Sprintf("hello from %s:%d\n", policy.HostName, port) }
		iso := b.Isolation()
		if !iso.Verified || iso.Egress == nil || iso.Egress.How != policy.EgressInside || !slices.Contains(iso.Egress.Allow, fmt.Sprintf("%s:%d", policy.HostName, open)) {
			t.Errorf("isolation says %+v", iso.Egress)
		}
		b.want(url(policy.HostName, open), said(open))
		address, status := b.sh("nslookup " + policy.HostName + " | sed -n 's/^Address: *//p' | tail -n 1")
		address = strings.TrimSpace(address)
		if status != 0 || !strings.HasPrefix(address, "127.64.") {
			t.Fatalf("the name has address %q", address)
		}
		for _, command := range []string{
			url(policy.HostName, closed), // another name's port
			url(policy.HostName, later),
			url("127.0.0.1", open), // nobody's name
			url("localhost", open),
			url("127.64.77.77", open),
			url("x."+policy.HostName, open),
			url("[::1]", open),
			url("[::ffff:127.0.0.1]", closed),
		} {
			if out, status := b.sh(command); status == 0 || strings.Contains(out, "hello") {
				t.Errorf("%s: status %d: %s", command, status, out)
			}
		}
		// A command cannot take the port, at any address of the name's range.
		for _, at := range []string{"", address + ":", "127.0.0.1:", "[::ffff:" + address + "]:"} {
			b.refuses(fmt.Sprintf("httpd -f -p %s%d", at, open), "Address already in use")
		}
		b.want(url(policy.HostName, open), said(open))

		client := b.Sandbox.(*sandbox).Egress()
		set := func(ports ...policy.Port) error {
			_, err := client.Set(t.Context(), policy.Network{Mode: policy.NetworkAllow, HostPorts: ports})
			return err
		}
		listener := b.listens(address, taken)
		if err := set(open, taken); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("cannot open port %d in the sandbox: address already in use", taken)) {
			t.Errorf("with a port that a command has: %v", err)
		}
		b.want(url(policy.HostName, open), said(open))
		listener()
		if err := set(later); err != nil {
			t.Fatal(err)
		}
		b.want(url(policy.HostName, later), said(later))
		if out, status := b.sh(url(policy.HostName, open)); status == 0 || strings.Contains(out, "hello") {
			t.Errorf("a port that was closed: status %d: %s", status, out)
		}
		// A connection is in the log once both of its sides have ended.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var reached []policy.Port
		both := errors.New("both are there")
		if err := client.Log(ctx, 0, true, func(r egress.Record) error {
			if r.Kind == egress.KindConnection && r.Host == policy.HostName && r.Address == "127.0.0.1" && !slices.Contains(reached, policy.Port(r.Port)) {
				reached = append(reached, policy.Port(r.Port))
			}
			if slices.Equal(reached, []policy.Port{open, later}) {
				return both
			}
			return nil
		}); !errors.Is(err, both) {
			t.Errorf("the log has connections to %v, not %v: %v", reached, []policy.Port{open, later}, err)
		}
	})
}
