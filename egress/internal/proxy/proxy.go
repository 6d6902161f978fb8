// Package proxy is the data plane of the egress process: it answers questions for names,
// accepts connections of the sandbox, checks them, and copies them to the hosts that they
// mean.
//
//	server, err := proxy.New(proxy.Options{Network: network, UDP: udp, TCP: stock, Control: listener})
//	err = server.Serve(ctx)
//
// A name that a rule opens has an address of a range that stands for it ([Options].Range), and
// the local address of a connection tells which name was meant. At port 443 a connection has to
// begin with a TLS hello to that name, at port 80 each request has to be one to it; at other
// ports a TLS hello is checked if it comes first. Then the name is resolved on the host, and
// each address is checked right before it is connected to: names never lead to private
// addresses or to the host itself.
//
// Everything that comes from the sandbox is hostile: what is read before a decision is bounded
// in size and time, connections and names in number.
package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// Options say what a [Server] serves.
type Options struct {
	// Network are the rules, as [egress.Check] accepts them.
	Network policy.Network
	// UDP and TCP are unbound IPv4 sockets of the network namespace in which the sandbox's
	// connections arrive: one for names, and a stock of TCP sockets of which one is for
	// names and each port of rules takes one. [New] closes them.
	UDP *os.File
	TCP []*os.File
	// Control is where an [egress.Client] asks, if anywhere.
	Control net.Listener
	// Proxy are the operator's HTTPS_PROXY, ALL_PROXY and NO_PROXY.
	Proxy map[string]string
	// SSHAgent, if not nil, is served too.
	SSHAgent *SSHAgent

	// DNS is where names are asked for. Default: port 53 of the second address of Range.
	DNS netip.AddrPort
	// Bind is where connections arrive, at DNS and Range among others. Default: at all
	// addresses.
	Bind netip.Addr
	// Range has the addresses that stand for names, from its third on. Default:
	// [egress.GatewayNames].
	Range netip.Prefix

	// Authority, if any, signs certificates of hosts that rules intercept, which get Secrets.
	Authority *egress.Authority
	Secrets   []egress.Secret
	// Roots are what hosts are trusted by. Default: the system's, read by [New].
	Roots *x509.CertPool

	// What follows is for tests alone.

	// Resolver and Dial take the place of the host's.
	Resolver Resolver
	Dial     DialFunc
	// AllowAddress opens addresses that are refused otherwise.
	AllowAddress func(netip.Addr) bool
	// TLSPort and HTTPPort take the places of 443 and 80.
	TLSPort, HTTPPort uint16
	// HelloTimeout is the time for a TLS hello, DialTimeout that for reaching a host.
	// Default: 10s.
	HelloTimeout, DialTimeout time.Duration
	// LookEach is the time between looks for connections of which the command is gone.
	// Default: 20s.
	LookEach time.Duration
	// Now tells the time for certificates.
	Now func() time.Time
	// HostSockets accepts sockets of this process's own network namespace.
	HostSockets bool
}

// Server is the data plane of one sandbox. Its methods are safe for concurrent use.
type Server struct {
	bindTo       netip.Addr
	dnsAddress   netip.AddrPort
	udp          *net.UDPConn
	control      net.Listener
	sshAgent     *SSHAgent
	names        *names
	records      *records
	resolver     *resolver
	dnsConns     dnsConns
	upstream     *upstream
	interceptor  *interceptor // nil: no rule can intercept
	tlsPort      uint16
	httpPort     uint16
	helloTimeout time.Duration
	lookEach     time.Duration
	most         int           // connections, whatever the rules say
	slots        chan struct{} // held while a connection is accepted and handled
	sent         atomic.Int64  // to hosts, by all connections
	bytesOut     atomic.Int64  // limit of sent, 0: none

	setting  sync.Mutex    // held while rules are replaced
	stock    []*os.File    // for setting: sockets that are not bound
	replaced atomic.Uint64 // how often rules were replaced

	mu        sync.Mutex
	table     *egress.Table
	open      map[*connection]struct{}
	listeners map[uint16]*net.TCPListener
	ctx       context.Context // of Serve
	running   sync.WaitGroup
	fresh     int         // connections and requests since memory was given back
	giveBack  *time.Timer // nil: not yet needed
}

const (
	// Descriptors that are not those of connections: listeners, lookups, DNS, controls.
	otherDescriptors = 200
	mostConnections  = 4096
	mostListeners    = 64
)

// New binds the socket for names and a socket for each port of the rules. If it fails,
// nothing is open. The error is an [*egress.Error].
func New(o Options) (*Server, error) {
	s, err := newServer(&o)
	if err == nil {
		err = s.bindAll(o)
	}
	if err != nil {
		if s != nil {
			s.closeAll()
		}
		closeFiles(append(o.TCP, o.UDP))
		return nil, asError(err)
	}
	return s, nil
}

// asError returns an error that crosses the control socket.
func asError(err error) *egress.Error {
	if e := (*egress.Error)(nil); errors.As(err, &e) {
		return e
	}
	return &egress.Error{Message: err.Error()}
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// fill sets what is not set to its default.
func (o *Options) fill() {
	if !o.Range.IsValid() {
		o.Range = egress.GatewayNames
	}
	if !o.DNS.IsValid() {
		o.DNS = netip.AddrPortFrom(o.Range.Addr().Next(), 53)
	}
	if !o.Bind.IsValid() {
		o.Bind = netip.IPv4Unspecified()
	}
	if o.Resolver == nil {
		o.Resolver = &hostResolver{net.Resolver{PreferGo: true}}
	}
	if o.Dial == nil {
		o.Dial = dialDirectly
	}
	if o.TLSPort == 0 {
		o.TLSPort = 443
	}
	if o.HTTPPort == 0 {
		o.HTTPPort = 80
	}
	if o.HelloTimeout == 0 {
		o.HelloTimeout = 10 * time.Second
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = 10 * time.Second
	}
	if o.LookEach == 0 {
		o.LookEach = 20 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// newServer fills in the defaults of options, and checks them.
func newServer(o *Options) (*Server, error) {
	o.fill()
	if err := egress.Check(o.Network); err != nil {
		return nil, fmt.Errorf("invalid rules: %w", err)
	}
	if o.UDP == nil || len(o.TCP) == 0 {
		return nil, errors.New("there are no sockets of the sandbox")
	}
	if err := checkSockets(o.UDP, o.TCP, o.HostSockets); err != nil {
		return nil, err
	}
	proxy, err := newOperatorProxy(o.Proxy)
	if err != nil {
		return nil, err
	}
	descriptors, err := mostDescriptors()
	if err != nil {
		return nil, err
	}
	if descriptors < otherDescriptors+2*16 {
		return nil, &egress.Error{
			Message: "this process can have " + strconv.FormatUint(descriptors, 10) + " open files, which are too few for connections",
			Hint:    "raise the limit of open files to at least 1024: ulimit -n 1024",
		}
	}
	s := &Server{
		bindTo: o.Bind, dnsAddress: o.DNS, control: o.Control, sshAgent: o.SSHAgent,
		names: newNames(o.Range), records: newRecords(),
		upstream: &upstream{resolver: o.Resolver, dial: o.Dial, allowAddress: o.AllowAddress, proxy: proxy, timeout: o.DialTimeout},
		tlsPort:  o.TLSPort, httpPort: o.HTTPPort, helloTimeout: o.HelloTimeout, lookEach: o.LookEach,
		most:      int(min((descriptors-otherDescriptors)/2, mostConnections)),
		open:      map[*connection]struct{}{},
		listeners: map[uint16]*net.TCPListener{},
	}
	s.slots = make(chan struct{}, s.most+mostListeners+mostDNSConns)
	if o.Authority != nil {
		if s.interceptor, err = newInterceptor(s, o); err != nil {
			return nil, fmt.Errorf("cannot look into TLS: %w", err)
		}
	}
	if err := s.prepareIntercepted(egress.NewTable(o.Network)); err != nil {
		return nil, err
	}
	s.resolver = &resolver{names: s.names, table: s.rules, deny: s.deny}
	return s, nil
}

// bindAll binds what has to be open before the first command.
func (s *Server) bindAll(o Options) error {
	var err error
	if s.udp, err = listenUDP(o.UDP, o.DNS); err != nil {
		return fmt.Errorf("cannot answer names at %v: %w", o.DNS, err)
	}
	s.stock = o.TCP
	s.table = egress.NewTable(o.Network)
	s.bytesOut.Store(int64(o.Network.Limits.BytesOut))
	// Names are asked for over TCP, too.
	added, err := s.bindPorts(append(s.table.Ports(), o.DNS.Port()))
	s.listeners = added
	return err
}

// bindPorts listens at those of ports where nothing listens yet. If it fails it listens at
// none of them.
func (s *Server) bindPorts(ports []uint16) (map[uint16]*net.TCPListener, error) {
	var missing []uint16
	for _, port := range ports {
		if s.listeners[port] == nil && !slices.Contains(missing, port) {
			missing = append(missing, port)
		}
	}
	if len(missing) > len(s.stock) {
		return nil, &egress.Error{
			Message: "cannot open port " + strconv.Itoa(int(missing[len(s.stock)])) + ": the sandbox's sockets are used up, of which each port that rules have named takes one",
			Hint:    "start the sandbox anew with these rules",
		}
	}
	added := map[uint16]*net.TCPListener{}
	for _, port := range missing {
		socket := s.stock[0]
		s.stock = s.stock[1:]
		l, err := listenTCP(socket, netip.AddrPortFrom(s.bindTo, port))
		if err != nil {
			for _, l := range added {
				_ = l.Close()
			}
			return nil, &egress.Error{
				Message: "cannot open port " + strconv.Itoa(int(port)) + " in the sandbox: " + cause(err),
				Hint:    "end the command that listens at this port, or leave the port out",
			}
		}
		added[port] = l
	}
	return added, nil
}

// Close closes a server that is not served.
func (s *Server) Close() { s.closeAll() }

func (s *Server) closeAll() {
	if s.udp != nil {
		_ = s.udp.Close()
	}
	s.setting.Lock()
	defer s.setting.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		_ = l.Close()
	}
	closeFiles(s.stock)
	s.stock = nil
	if s.giveBack != nil {
		s.giveBack.Stop()
	}
}

// Serve answers and accepts until ctx ends. Then it resets all connections, and returns when
// nothing is left of them. It can be called once.
func (s *Server) Serve(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s.mu.Lock()
	s.ctx = ctx
	for _, l := range s.listeners {
		s.running.Go(func() { s.accept(ctx, l) })
	}
	s.mu.Unlock()
	s.running.Go(func() {
		if err := s.resolver.serveUDP(s.udp); ctx.Err() == nil {
			fail(fmt.Errorf("cannot answer names: %w", err))
		}
	})
	s.running.Go(func() { s.endGone(ctx) })
	if s.interceptor != nil {
		s.running.Go(func() { s.interceptor.serve(ctx) })
	}
	if s.control != nil {
		s.running.Go(func() { s.serveControl(ctx, s.control) })
	}
	if s.sshAgent != nil {
		s.running.Go(func() { s.serveSSHAgent(ctx, s.sshAgent) })
	}
	<-ctx.Done()
	s.closeAll()
	s.running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, ctx.Err()) {
		return err
	}
	return nil
}

// accept handles the connections of a listener until it is closed.
func (s *Server) accept(ctx context.Context, l *net.TCPListener) {
	pause := time.Duration(0)
	for {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.AcceptTCP()
		if err == nil {
			pause = 0
			s.running.Add(1)
			go s.serveConn(ctx, conn, s.ended)
			continue
		}
		<-s.slots
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Descriptors or memory are short, or the connection has gone already.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// ended is called when a connection has been handled.
func (s *Server) ended() {
	<-s.slots
	s.running.Done()
}

// Set replaces all rules: it listens at new ports, then decides by the new rules, then resets
// the connections that they forbid. If it fails, nothing has changed; the error is an
// [*egress.Error].
func (s *Server) Set(network policy.Network) (egress.State, error) { return s.setAt(network, nil) }

// setAt is like Set. It fails if the rules are not those of a revision any more.
func (s *Server) setAt(network policy.Network, revision *uint64) (egress.State, error) {
	if err := egress.Check(network); err != nil {
		return egress.State{}, &egress.Error{Message: "invalid rules: " + err.Error()}
	}
	s.setting.Lock()
	defer s.setting.Unlock()
	if revision != nil && *revision != s.replaced.Load() {
		return egress.State{}, &egress.Error{Message: "the rules were replaced meanwhile", Changed: true}
	}
	table := egress.NewTable(network)
	if err := s.checkIntercepted(table); err != nil {
		return egress.State{}, asError(err)
	}
	added, err := s.bindPorts(table.Ports())
	if err != nil {
		return egress.State{}, asError(err)
	}
	s.mu.Lock()
	if s.ctx == nil || s.ctx.Err() != nil {
		s.mu.Unlock()
		for _, l := range added {
			_ = l.Close()
		}
		return egress.State{}, &egress.Error{Message: "the sandbox has ended"}
	}
	if err := s.prepareIntercepted(table); err != nil {
		s.mu.Unlock()
		for _, l := range added {
			_ = l.Close()
		}
		return egress.State{}, asError(err)
	}
	old := s.table
	s.table = table
	s.replaced.Add(1)
	s.bytesOut.Store(int64(network.Limits.BytesOut))
	for c := range s.open {
		if reason := s.forbids(old, table, c); reason != "" {
			c.cut(cutError("the rules were replaced: " + reason))
		}
	}
	for port, l := range added {
		s.listeners[port] = l
		s.running.Go(func() { s.accept(s.ctx, l) })
	}
	s.mu.Unlock()
	s.records.add(egress.Record{Kind: egress.KindRules})
	return s.State(), nil
}

// checkIntercepted returns an error if rules intercept what cannot be.
func (s *Server) checkIntercepted(table *egress.Table) error {
	network := table.Network()
	if !network.Intercepts() {
		return nil
	}
	if s.interceptor == nil {
		return &egress.Error{
			Message: "no rule can have http or secret: the sandbox was started without such a rule, and its programs trust no certificates of Paddock",
			Hint:    "start the sandbox anew with these rules",
		}
	}
	for _, secret := range network.Secrets() {
		known := s.interceptor.secrets.find(secret.Name)
		if known == nil || secret.Substitute && known.StandIn == "" {
			return &egress.Error{
				Message: "secret " + secret.Name + " cannot be used: values are read, and stand-ins made, at the start of a sandbox alone, and this one was started without it",
				Hint:    "start the sandbox anew with these rules",
			}
		}
	}
	return nil
}

// prepareIntercepted signs for the names that rules intercept.
func (s *Server) prepareIntercepted(table *egress.Table) error {
	if err := s.checkIntercepted(table); err != nil || s.interceptor == nil {
		return err
	}
	if err := s.interceptor.authority.permit(table.Intercepted()); err != nil {
		return fmt.Errorf("cannot sign for the hosts of the rules: %w", err)
	}
	return nil
}

// State returns rules and totals.
func (s *Server) State() egress.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.records.totals()
	state.Network, state.Open, state.Revision = s.table.Network(), len(s.open), s.replaced.Load()
	for c := range s.open {
		state.Sent += c.sent.Load()
		state.Received += c.received.Load()
	}
	return state
}

// rules returns the table that decides at the moment.
func (s *Server) rules() *egress.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table
}

// mostConnections returns how many connections may be open at once.
func (s *Server) mostConnections(table *egress.Table) int {
	most := table.Network().Limits.Connections
	if most == 0 {
		most = policy.DefaultConnections
	}
	return int(min(most, uint64(s.most)))
}

// deny records that something was denied.
func (s *Server) deny(r egress.Record) {
	r.Kind = egress.KindDenied
	s.records.add(r)
}
