package paddock

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

const (
	// maxJoined bounds how many connections to the published ports of a sandbox are open at
	// once. Others wait.
	maxJoined = 500
	// connectTime bounds how long the agent may take to connect.
	connectTime = 15 * time.Second
	// acceptPause is how long no connection is accepted after that has failed.
	acceptPause = 20 * time.Millisecond
	// claimPort is the UDP port of a loopback address that a sandbox claims to have the
	// address for itself. Nothing is sent or read there.
	claimPort = 61871
	// claims is how many addresses are tried.
	claims = 16
)

// PublishedPort is a port of a sandbox that the host listens for.
type PublishedPort = policy.PublishedPort

// published are the ports of a sandbox that this process publishes. The zero value has none.
type published struct {
	mu     sync.Mutex
	list   []*Publication
	claim  net.PacketConn // holds the sandbox's own address; nil: it has none yet
	own    netip.Addr     // the sandbox's own address, once it is known
	joined chan struct{}  // has an element for each open connection
	closed bool
}

// Publication is a port of a sandbox that this process publishes, until Close or until the
// sandbox ends.
type Publication struct {
	PublishedPort
	sandbox  *Sandbox
	listener *net.TCPListener
	forget   func()
	lost     string // what publishing it gives up
	once     sync.Once
	done     chan struct{} // closed when the listener is
	failed   func(error)
}

// DialPort connects to a TCP port of the sandbox's own loopback, on 127.0.0.1 or [::1]. It
// works behind every wall, also without a network: the bytes go through the agent. If nothing
// listens there, errors.Is(err, syscall.ECONNREFUSED) is true. The connection has CloseWrite.
// ctx applies only until DialPort returns.
func (s *Sandbox) DialPort(ctx context.Context, port int) (net.Conn, error) {
	conn, err := s.dialPort(ctx, port)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// refusedError is the error of a port at which nothing listens.
type refusedError struct{ told *Error }

func (e *refusedError) Error() string   { return e.told.Error() }
func (e *refusedError) Unwrap() []error { return []error{e.told, syscall.ECONNREFUSED} }

func (s *Sandbox) dialPort(ctx context.Context, port int) (*wire.Conn, error) {
	what := "connect to port " + strconv.Itoa(port)
	if port < 1 || port > 65535 {
		return nil, &policy.FieldError{Field: "port", Value: strconv.Itoa(port), Reason: "it must be from 1 to 65535"}
	}
	if err := s.hasLoopback(what); err != nil {
		return nil, err
	}
	conn, err := s.client.Connect(ctx, port)
	if err == nil {
		return conn, nil
	}
	select {
	case <-s.Done():
		return nil, &Error{Message: "cannot " + what + ": sandbox " + s.called() + " has ended", Code: wire.CodeGone}
	default:
	}
	answer, told := (*wire.Error)(nil), (*Error)(nil)
	refused := errors.As(err, &answer) && answer.Errno == int(syscall.ECONNREFUSED)
	if err = agentError(what, err); refused && errors.As(err, &told) {
		return nil, &refusedError{told}
	}
	return nil, err
}

// hasLoopback refuses a sandbox in which nothing can listen: its agent would reach the host's
// own loopback.
func (s *Sandbox) hasLoopback(what string) error {
	iso := s.wall.Isolation()
	spec := Spec{Backend: s.spec.Backend, Level: iso.Level, Network: Network{Mode: iso.Network}}
	if reason, hint := spec.Deaf(); reason != "" {
		return &Error{Message: "cannot " + what + " of sandbox " + s.called() + ": " + reason, Hint: hint, Code: wire.CodeUnsupported}
	}
	return nil
}

// Publish listens on the host for a port of the sandbox, and joins each connection with one to
// that port inside. text is as in [Network].Publish: "3000", "8080:3000", "127.0.0.1:8080:3000".
// Without an address it listens on a loopback address of the sandbox's own, so that a browser
// keeps its cookies apart, and on 127.0.0.1 where there is none. A port that is taken is an
// error. failed, if not nil, is called with the reason when a connection cannot be joined; the
// connection is then reset.
func (s *Sandbox) Publish(text string, failed func(error)) (*Publication, error) {
	asked, err := policy.ParsePublish(text)
	if err != nil {
		return nil, err
	}
	what := "publish port " + strconv.Itoa(int(asked.Guest))
	if err := s.hasLoopback(what); err != nil {
		return nil, err
	}
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	p := &s.ports
	select {
	case <-s.Done():
		p.closed = true
	default:
	}
	if p.closed {
		return nil, &Error{Message: "cannot " + what + ": sandbox " + s.called() + " has ended", Code: wire.CodeGone}
	}
	if len(p.list) >= policy.MaxPublished {
		return nil, &Error{Message: "cannot " + what + ": " + strconv.Itoa(policy.MaxPublished) + " ports are published", Code: wire.CodeBusy}
	}
	at, own, err := s.publishAt(asked)
	if err != nil {
		return nil, err
	}
	l, err := listenAt(at, asked.Host)
	if own && errors.Is(err, syscall.EADDRNOTAVAIL) {
		at, own = loopback, false
		l, err = listenAt(at, asked.Host)
	}
	if err != nil {
		return nil, publishError(what, asked, at, err)
	}
	address := l.Addr().String()
	pub := &Publication{PublishedPort: PublishedPort{Address: address, Port: asked.Guest, URL: "http://" + reachable(l.Addr()) + "/"},
		sandbox: s, listener: l, done: make(chan struct{}), failed: failed, forget: func() {}}
	switch {
	case !at.IsLoopback():
		pub.lost = "port " + strconv.Itoa(int(asked.Guest)) + " is published on " + address + ": whoever reaches that address of this host reaches it"
	case !own && !asked.IP.IsValid():
		pub.lost = "port " + strconv.Itoa(int(asked.Guest)) + " is published on 127.0.0.1, as there is no loopback address of its own: browsers share its cookies with every local server"
	}
	if s.state != "" {
		forget, err := run.AddPort(s.state, run.Port{Address: address, Sandbox: s.ID(), Guest: int(asked.Guest)})
		if err != nil {
			_ = l.Close()
			return nil, err
		}
		pub.forget = forget
	}
	if p.joined == nil {
		p.joined = make(chan struct{}, maxJoined)
	}
	p.list = append(p.list, pub)
	go pub.serve()
	return pub, nil
}

// listenAt listens at one address: that of all addresses is only of its own kind.
func listenAt(at netip.Addr, port policy.Port) (*net.TCPListener, error) {
	kind := "tcp4"
	if at.Is6() {
		kind = "tcp6"
	}
	return net.ListenTCP(kind, net.TCPAddrFromAddrPort(netip.AddrPortFrom(at, uint16(port))))
}

// publishError says why a port cannot be published.
func publishError(what string, asked policy.Publish, at netip.Addr, err error) error {
	errno := syscall.Errno(0)
	if !errors.As(err, &errno) {
		return &Error{Message: "cannot " + what + ": " + err.Error()}
	}
	on := at.String()
	if asked.Host != 0 { // else any free port
		on = netip.AddrPortFrom(at, uint16(asked.Host)).String()
	}
	message := "cannot " + what + " on " + on + ": "
	switch errno {
	case syscall.EADDRINUSE:
		return &Error{Message: message + "the port is taken", Code: wire.CodeExists,
			Hint: "name another one, or none: " + strconv.Itoa(int(asked.Guest)) + " alone is published at any free port"}
	case syscall.EACCES:
		return &Error{Message: message + "this user must not listen on a port below 1024", Hint: "name one from 1024 up"}
	case syscall.EADDRNOTAVAIL:
		return &Error{Message: message + "this host does not have the address"}
	}
	return &Error{Message: message + errno.Error()}
}

// reachable returns an address to which a client of this host can connect.
func reachable(at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return at.String()
	}
	own := loopback
	if tcp.IP.To4() == nil {
		own = netip.IPv6Loopback()
	}
	return netip.AddrPortFrom(own, uint16(tcp.Port)).String()
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// publishAt returns the address to listen on, and whether it is one of the sandbox's own.
// s.ports.mu is held.
func (s *Sandbox) publishAt(asked policy.Publish) (at netip.Addr, own bool, err error) {
	p := &s.ports
	if asked.IP.IsValid() {
		return asked.IP, false, nil
	}
	if p.own.IsValid() {
		return p.own, p.own != loopback, nil
	}
	var records []run.Port
	if s.state != "" {
		if records, err = run.Ports(s.state); err != nil {
			return at, false, err
		}
	}
	others := map[netip.Addr]bool{} // of other sandboxes
	for _, r := range records {
		address, err := netip.ParseAddrPort(r.Address)
		switch {
		case err != nil:
		case r.Sandbox != s.ID():
			others[address.Addr()] = true
		case isOwn(address.Addr()): // another process publishes ports of this sandbox too
			p.own = address.Addr()
			return p.own, true, nil
		}
	}
	for i := range claims {
		address := ownAddress(s.ID(), i)
		if others[address] {
			continue
		}
		claim, err := net.ListenPacket("udp", netip.AddrPortFrom(address, claimPort).String())
		if err == nil {
			p.claim, p.own = claim, address
			return address, true, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	p.own = loopback
	return loopback, false, nil
}

// ownAddresses are the loopback addresses of which each sandbox has one.
var ownAddresses = netip.MustParsePrefix("127.128.0.0/9")

// ownAddress returns the loopback address that a sandbox would have as its n-th choice.
func ownAddress(id string, n int) netip.Addr {
	sum := sha256.Sum256([]byte(id + "/" + strconv.Itoa(n)))
	return netip.AddrFrom4([4]byte{127, 128 + sum[0]%127, sum[1], 1 + sum[2]%254})
}

// isOwn reports whether an address is one that sandboxes have for themselves.
func isOwn(address netip.Addr) bool { return ownAddresses.Contains(address) }

// publishAll publishes the ports of the spec.
func (s *Sandbox) publishAll() error {
	for _, text := range s.spec.Network.Publish {
		if text == policy.PublishAny {
			continue
		}
		if _, err := s.Publish(text, nil); err != nil {
			return err
		}
	}
	return nil
}

// told returns the ports that this process publishes, and a sentence for each that gives up a
// guarantee.
func (p *published) told() (list []PublishedPort, lost []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pub := range p.list {
		list = append(list, pub.PublishedPort)
		if pub.lost != "" {
			lost = append(lost, pub.lost)
		}
	}
	return list, lost
}

// Published returns the ports of the sandbox that this and other processes of the user
// publish, in the order of their addresses.
func (s *Sandbox) Published() ([]PublishedPort, error) {
	list, _ := s.ports.told()
	if s.state == "" {
		return list, nil
	}
	records, err := run.Ports(s.state)
	for _, r := range records {
		if r.Sandbox == s.ID() && !slices.ContainsFunc(list, func(p PublishedPort) bool { return p.Address == r.Address }) {
			list = append(list, recordedPort(r))
		}
	}
	slices.SortFunc(list, func(a, b PublishedPort) int { return strings.Compare(a.Address, b.Address) })
	return list, err
}

// recordedPort returns a port that another process publishes.
func recordedPort(r run.Port) PublishedPort {
	url := "http://" + r.Address + "/"
	if address, err := netip.ParseAddrPort(r.Address); err == nil {
		url = "http://" + reachable(net.TCPAddrFromAddrPort(address)) + "/"
	}
	return PublishedPort{Address: r.Address, Port: policy.Port(r.Guest), URL: url}
}

// serve joins connections until the port is closed or the sandbox has ended.
func (pub *Publication) serve() {
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-pub.sandbox.Done():
			pub.Close()
		case <-ended:
		}
	}()
	for {
		select {
		case pub.sandbox.ports.joined <- struct{}{}:
		case <-pub.done:
			return
		}
		conn, err := pub.listener.AcceptTCP()
		if err == nil {
			go pub.join(conn)
			continue
		}
		<-pub.sandbox.ports.joined
		select {
		case <-pub.done:
			return
		case <-time.After(acceptPause): // out of descriptors: some will be freed
		}
	}
}

// join joins one connection.
func (pub *Publication) join(conn *net.TCPConn) {
	defer func() { <-pub.sandbox.ports.joined }()
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	inside, err := pub.sandbox.dialPort(ctx, int(pub.Port))
	cancel()
	if err != nil {
		_ = conn.SetLinger(0)
		_ = conn.Close()
		if pub.failed != nil {
			pub.failed(err)
		}
		return
	}
	joined := make(chan struct{})
	defer close(joined)
	go func() {
		select {
		case <-pub.done:
			_ = inside.Close() // and Join resets the other
		case <-joined:
		}
	}()
	inside.Join(conn)
}

// Done returns a channel that is closed when the port is not published any more.
func (pub *Publication) Done() <-chan struct{} { return pub.done }

// Close closes the port, and the connections that were made over it.
func (pub *Publication) Close() {
	pub.once.Do(func() {
		close(pub.done)
		_ = pub.listener.Close()
		pub.forget()
		p := &pub.sandbox.ports
		p.mu.Lock()
		defer p.mu.Unlock()
		p.list = slices.DeleteFunc(p.list, func(other *Publication) bool { return other == pub })
	})
}

// close closes all ports.
func (p *published) close() {
	p.mu.Lock()
	p.closed = true
	list := slices.Clone(p.list)
	claim := p.claim
	p.claim = nil
	p.mu.Unlock()
	for _, pub := range list {
		pub.Close()
	}
	if claim != nil {
		_ = claim.Close()
	}
}
