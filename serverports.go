package paddock

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/policy"
)

// refuseOwnPorts refuses ports of the host's loopback on which a process of Paddock listens:
// commands could use its tools, or reach another sandbox.
func refuseOwnPorts(state string, ports []policy.Port) error {
	if len(ports) == 0 || state == "" {
		return nil
	}
	records, err := run.Ports(state)
	if err != nil {
		return err
	}
	for _, r := range records {
		address, err := netip.ParseAddrPort(r.Address)
		if err != nil || !slices.Contains(ports, policy.Port(address.Port())) || !isHostPort(address) {
			continue
		}
		what := "a server of Paddock listens there"
		if r.Sandbox != "" {
			what = "it is a published port of sandbox " + r.Sandbox
		}
		return &policy.FieldError{Field: "network.host_ports", Value: strconv.Itoa(int(address.Port())), Reason: what, Hint: "name another port"}
	}
	return nil
}

// isHostPort reports whether one of [Network].HostPorts could lead to an address.
func isHostPort(address netip.AddrPort) bool {
	at := address.Addr().Unmap()
	return at == loopback || at.IsUnspecified()
}

// RecordServer records that this process serves at an address, so that no sandbox of the same
// user gets it as one of [Network].HostPorts, until forget is called. Commands that reached a
// server of Paddock could do what its clients may. For those that have the port already, see
// [RefuseReached].
func RecordServer(opts Options, at net.Addr) (forget func(), err error) {
	if _, ok := at.(*net.TCPAddr); !ok {
		return func() {}, nil
	}
	state, _, err := opts.stateDir()
	if err != nil {
		return nil, err
	}
	return run.AddPort(state, run.Port{Address: at.String()})
}

// egressTime bounds how long one sandbox is asked for its rules.
const egressTime = 10 * time.Second

// RefuseReached returns a [*policy.FieldError] about an address if a sandbox of the same user that
// runs has its port as one of [Network].HostPorts, or does not say: a server that asks for no
// token must not listen there. Asked after [RecordServer] and before the first client is
// answered, it misses no sandbox: one that starts meanwhile sees the record.
func RefuseReached(ctx context.Context, opts Options, at net.Addr) error {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !isHostPort(tcp.AddrPort()) {
		return nil
	}
	state, _, err := opts.stateDir()
	if err != nil {
		return err
	}
	running, err := List(ctx, opts)
	if err != nil {
		return err
	}
	for _, r := range running {
		if !r.Ready || !policy.ByName(r.Spec.Network.Mode) {
			continue
		}
		refuse := func(why, hint string) error {
			return &policy.FieldError{Field: "--http", Value: at.String(), Reason: "sandbox " + r.ID + " " + why, Hint: "listen at another port, " + hint + ", or leave --no-auth out"}
		}
		ports, err := hostPortsOf(ctx, state, r)
		switch {
		case errors.Is(err, backend.ErrGone):
		case err != nil:
			return refuse("does not say which ports of this host its commands reach: "+err.Error(), "end it: paddock stop "+r.ID)
		case slices.Contains(ports, policy.Port(tcp.Port)):
			return refuse("may reach this port of the host, and its commands could do all that the server does", "take the port from it: paddock network set "+r.ID+" --none")
		}
	}
	return nil
}

// hostPortsOf returns the ports of the host that commands of a running sandbox reach now.
func hostPortsOf(ctx context.Context, state string, r Running) ([]policy.Port, error) {
	wall, err := run.Attach(state, r.ID)
	if err != nil {
		return nil, err
	}
	defer wall.Stop(ctx, 0) //nolint:errcheck // it only lets go of a sandbox of another process's
	named, ok := wall.(interface{ Egress() *egress.Client })
	if !ok || named.Egress() == nil {
		return r.Spec.Network.HostPorts, nil
	}
	asking, cancel := context.WithTimeout(ctx, egressTime)
	defer cancel()
	now, err := named.Egress().Show(asking)
	if err == nil {
		return now.Network.HostPorts, nil
	}
	select {
	case <-wall.Done(): // it has ended meanwhile
		return nil, backend.ErrGone
	default:
		return nil, err
	}
}
