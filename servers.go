package paddock

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/policy"
)

// servers returns where processes of Paddock listen that use a state directory, and the servers that are
// recorded in the usual one.
func servers(state string) ([]run.Port, error) {
	if state == "" {
		return nil, nil
	}
	list, err := run.Ports(state)
	usual, none := hostpath.OwnUsual(state)
	if err != nil || none != nil || usual == state {
		return list, err
	}
	more, err := run.Ports(usual)
	for _, r := range more {
		if r.Sandbox == "" && !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list, err
}

// refuseOwnPorts refuses ports of the host's loopback on which a process of Paddock listens:
// commands could use its tools, or reach another sandbox.
func refuseOwnPorts(state string, ports []policy.Port) error {
	if len(ports) == 0 {
		return nil
	}
	records, err := servers(state)
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

// refuseServers refuses a request whose commands could connect to a server of Paddock's by a port or a
// Unix socket that the spec opens. Asked again after the spec is written, it misses no server: one that
// begins to listen then sees the sandbox ([RefuseReached]). lost names the servers that ask for no token and
// that commands reach by this host's network.
func refuseServers(req backend.Request) (lost []string, err error) {
	if err := refuseOwnPorts(req.StateDir, req.Spec.Network.HostPorts); err != nil {
		return nil, err
	}
	records, err := servers(req.StateDir)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		switch {
		case r.Sandbox != "":
		case filepath.IsAbs(r.Address):
			if req.Spec.Workspace.Source == "" || req.Spec.Backend == policy.BackendHost {
				continue // no mount is of this host, or there is no wall
			}
			mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
			if err == nil {
				err = hostpath.RefuseServer(req, mounts, r.Address, r.Open)
			}
			if err != nil {
				return nil, err
			}
		case r.Open && sharesNetwork(req.Spec):
			lost = append(lost, "a server of Paddock at "+r.Address+" asks for no token: commands can reach it by the host's network, and do all that it does")
		}
	}
	return lost, nil
}

// sharesNetwork reports whether commands have walls, and this host's network.
func sharesNetwork(spec Spec) bool {
	return spec.Network.Mode == policy.NetworkHost && spec.Backend != policy.BackendHost
}

// isHostPort reports whether one of [Network].HostPorts could lead to an address.
func isHostPort(address netip.AddrPort) bool {
	at := address.Addr().Unmap()
	return at == loopback || at.IsUnspecified()
}

// serverStates returns the state directories in which servers are recorded, and in which running sandboxes
// are looked for: that of the options, and the usual one unless [Options].StateDir names one.
func (o Options) serverStates() ([]string, error) {
	state, _, err := o.stateDir()
	if err != nil {
		return nil, err
	}
	states := []string{state}
	if o.StateDir == "" {
		if usual, err := hostpath.OwnUsual(state); err == nil && usual != state {
			states = append(states, usual)
		}
	}
	return states, nil
}

// serverAddress returns an address as it is recorded: the path of a Unix socket has no links.
func serverAddress(at net.Addr) (string, error) {
	if at.Network() != "unix" {
		return at.String(), nil
	}
	if path := hostpath.Real(at.String()); filepath.IsAbs(path) {
		return path, nil
	}
	return "", &Error{Message: "cannot serve at " + strconv.Quote(at.String()) + ": it is not the absolute path of a socket"}
}

// RecordServer records that this process serves at an address, a TCP port or the absolute path of a Unix
// socket, so that no sandbox of the same user gets it as one of [Network].HostPorts or [Spec].HostSockets,
// until forget is called. Commands that reached a server of Paddock could do what its clients may. open says
// that it asks for no token: then no sandbox starts that shows the socket without covering it, and one
// with the host's network says so in [Isolation].Lost. It is recorded in the usual state directory too,
// unless [Options].StateDir names another one. For sandboxes that reach it already, see [RefuseReached].
func RecordServer(opts Options, at net.Addr, open bool) (forget func(), err error) {
	states, err := opts.serverStates()
	if err != nil {
		return nil, err
	}
	port := run.Port{Open: open}
	if port.Address, err = serverAddress(at); err != nil {
		return nil, err
	}
	var forgets []func()
	forget = func() {
		for _, f := range forgets {
			f()
		}
	}
	for _, state := range states {
		f, err := run.AddPort(state, port)
		if err != nil {
			forget()
			return nil, err
		}
		forgets = append(forgets, f)
	}
	return forget, nil
}

// egressTime bounds how long one sandbox is asked for its rules.
const egressTime = 10 * time.Second

// ReachedError means that commands of a sandbox reach an address of the host, or might.
type ReachedError struct {
	// ID is the sandbox's, and State its state directory, if that is not the one of the options.
	ID, State string
	// Shared says that they have this host's network, which no change of rules takes from them.
	Shared bool
	// Dir is the directory of the host by which they see the socket. Empty: it is a port.
	Dir string
	// Err says why it is not known. Nil: they reach it.
	Err error
}

// Error returns "sandbox ID may reach this port of the host", or that it shows the socket, or that it does
// not say so.
func (e *ReachedError) Error() string {
	switch {
	case e.Err != nil:
		return "sandbox " + e.ID + " does not say which servers of this host its commands reach: " + e.Err.Error()
	case e.Dir != "":
		return "sandbox " + e.ID + " shows this socket to its commands, in " + e.Dir
	}
	return "sandbox " + e.ID + " may reach this port of the host"
}

// Unwrap returns why it is not known.
func (e *ReachedError) Unwrap() error { return e.Err }

// RefuseReached returns a [*ReachedError] if a sandbox of the same user that runs has walls and reaches an
// address, or does not say: it has the host's network, or the port as one of [Network].HostPorts, or shows the
// Unix socket. A server that asks for no token must not listen there. Asked after [RecordServer] and
// before the first client is answered, it misses no sandbox of these state directories: one that starts
// meanwhile sees the record.
func RefuseReached(ctx context.Context, opts Options, at net.Addr) error {
	states, err := opts.serverStates()
	if err != nil {
		return err
	}
	address, err := serverAddress(at)
	if err != nil {
		return err
	}
	for i, state := range states {
		running, err := listIn(ctx, state, false)
		if err != nil {
			return err
		}
		for _, r := range running {
			e := r.reaches(ctx, state, address)
			if e == nil {
				continue
			}
			if e.ID = r.ID; i > 0 {
				e.State = state
			}
			return e
		}
	}
	return nil
}

// reaches returns how commands of a running sandbox reach an address, or nil.
func (r Running) reaches(ctx context.Context, state, address string) *ReachedError {
	if !r.Ready || r.Spec.Backend == policy.BackendHost {
		return nil
	}
	if filepath.IsAbs(address) {
		spec := r.Spec
		spec.HostSockets = nil // which show what was bound before
		if spec.Workspace.Source == "" || spec.Level == policy.LevelLandlock {
			return nil // no mount is of this host, or there is no Unix socket inside
		}
		req := backend.Request{Spec: spec, StateDir: state, Seen: hostpath.NewSeen(hostpath.List(state))}
		mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
		if err != nil {
			return &ReachedError{Err: err}
		}
		if dir := hostpath.ShownBy(req, mounts, address); dir != "" {
			return &ReachedError{Dir: dir}
		}
		return nil
	}
	port, _ := netip.ParseAddrPort(address) // else no port of commands'
	switch {
	case sharesNetwork(r.Spec):
		return &ReachedError{Shared: true}
	case !policy.ByName(r.Spec.Network.Mode) || !isHostPort(port):
		return nil
	}
	ports, err := hostPortsOf(ctx, state, r)
	switch {
	case errors.Is(err, backend.ErrGone):
	case err != nil:
		return &ReachedError{Err: err}
	case slices.Contains(ports, policy.Port(port.Port())):
		return &ReachedError{}
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
