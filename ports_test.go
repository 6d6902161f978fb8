package paddock

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// openPlain opens a sandbox without walls, of this id.
func openPlain(t *testing.T, state, id string, network Network, iso Isolation) (*Sandbox, error) {
	t.Helper()
	fake := &fakeBackend{t: t, proved: true, id: id, iso: iso}
	s, err := Open(t.Context(), Spec{Network: network}, Options{Backend: fake, Agent: executable(t, t.TempDir(), "agent"), StateDir: state, Dir: t.TempDir()})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func mustOpenPlain(t *testing.T, state, id string, network Network) *Sandbox {
	t.Helper()
	s, err := openPlain(t, state, id, network, Isolation{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// echoing serves a port that sends back what comes.
func echoing(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// echoed wants a text back from an address.
func echoed(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
	_, _ = io.WriteString(conn, "hello")
	_ = conn.(*net.TCPConn).CloseWrite()
	if text, err := io.ReadAll(conn); err != nil || string(text) != "hello" {
		t.Errorf("%s answers %q, %v", address, text, err)
	}
}

// Two sandboxes publish the same port at once, each on a loopback address of its own, which all
// of its ports share; what is taken is an error, and nothing is left after the end.
func TestPublish(t *testing.T) {
	state, port := t.TempDir(), strconv.Itoa(echoing(t))
	one, two := mustOpenPlain(t, state, "one", Network{Publish: []string{port, policy.PublishAny}}), mustOpenPlain(t, state, "two", Network{})
	first := one.Isolation().Published
	if len(first) != 1 {
		t.Fatalf("the spec's ports are %+v", first)
	}
	at := netip.MustParseAddrPort(first[0].Address)
	if !ownAddresses.Contains(at.Addr()) || first[0].URL != "http://"+first[0].Address+"/" || strconv.Itoa(int(first[0].Port)) != port {
		t.Errorf("it is published as %+v", first[0])
	}
	same := strconv.Itoa(int(at.Port())) + ":" + port
	second, err := two.Publish(same, nil)
	if err != nil {
		t.Fatal(err)
	}
	if second.Address == first[0].Address || !strings.HasSuffix(second.Address, ":"+strconv.Itoa(int(at.Port()))) {
		t.Errorf("both are at %s", second.Address)
	}
	echoed(t, first[0].Address)
	echoed(t, second.Address)
	_, err = one.Publish(same, nil)
	if err == nil || !strings.Contains(err.Error(), first[0].Address+": the port is taken") {
		t.Errorf("a port that is taken: %v", err)
	}
	more, err := one.Publish(port, nil)
	if err != nil || netip.MustParseAddrPort(more.Address).Addr() != at.Addr() {
		t.Fatalf("another port is at %+v, %v", more, err)
	}
	if list, err := one.Published(); err != nil || len(list) != 2 {
		t.Errorf("published are %+v, %v", list, err)
	}
	open, err := net.Dial("tcp", more.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	_, _ = io.WriteString(open, "x")
	if _, err := io.ReadFull(open, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	more.Close()
	more.Close()
	<-more.Done()
	_ = open.SetDeadline(time.Now().Add(testkit.Patience))
	if _, err := open.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection outlives its port: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", first[0].Address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the end leaves a listener: %v", err)
	}
	if _, err := one.Publish(port, nil); err == nil || !strings.HasSuffix(err.Error(), "sandbox one has ended") {
		t.Errorf("after the end: %v", err)
	}
	echoed(t, second.Address)
	_ = two.Close()
	if left, _ := filepath.Glob(filepath.Join(state, "ports", "*")); len(left) > 0 {
		t.Errorf("records are left: %q", left)
	}
}

// An address that is given is used, and one that others reach is told.
func TestPublishAtAnAddress(t *testing.T) {
	port := strconv.Itoa(echoing(t))
	s := mustOpenPlain(t, t.TempDir(), "one", Network{Publish: []string{"127.0.0.1::" + port}})
	if p := s.Isolation().Published; len(p) != 1 || !strings.HasPrefix(p[0].Address, "127.0.0.1:") || len(s.Isolation().Lost) > 0 {
		t.Errorf("it is published as %+v; lost: %q", p, s.Isolation().Lost)
	}
	wide, err := s.Publish("0.0.0.0::"+port, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lost := s.Isolation().Lost; len(lost) != 1 || !strings.Contains(lost[0], "whoever reaches that address of this host reaches it") || !strings.HasPrefix(wide.URL, "http://127.0.0.1:") {
		t.Errorf("%s; lost: %q", wide.URL, lost)
	}
	if !strings.HasPrefix(wide.Address, "0.0.0.0:") {
		t.Errorf("it listens on %s, not on IPv4 alone", wide.Address)
	}
	if _, err := s.Publish("192.0.2.1:8080:80", nil); err == nil || !strings.Contains(err.Error(), "this host does not have the address") {
		t.Error(err)
	}
	if _, err := s.Publish("nothing", nil); len(policy.FieldErrors(err)) != 1 {
		t.Error(err)
	}
	_, port, _ = net.SplitHostPort(wide.Address)
	other, err := openPlain(t, t.TempDir(), "two", Network{Publish: []string{"127.0.0.1:" + port + ":80"}}, Isolation{})
	if err == nil || !strings.Contains(err.Error(), "the port is taken") {
		t.Errorf("a spec with a port that is taken: %v, %v", other, err)
	}
}

// Where nothing can listen, the agent would reach the host's own loopback.
func TestPublishNowhere(t *testing.T) {
	s, err := openPlain(t, t.TempDir(), "one", Network{}, Isolation{Level: policy.LevelLandlock, Network: policy.NetworkNone})
	if err != nil {
		t.Fatal(err)
	}
	_, dialErr := s.DialPort(t.Context(), 80)
	_, publishErr := s.Publish("80", nil)
	for _, err := range []error{dialErr, publishErr} {
		if err == nil || !strings.HasSuffix(err.Error(), "of sandbox one: at the landlock level network none leaves no sockets to listen with") {
			t.Error(err)
		}
	}
}

func TestDialPort(t *testing.T) {
	port := echoing(t)
	s := mustOpenPlain(t, t.TempDir(), "one", Network{})
	conn, err := s.DialPort(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "hello")
	_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	if text, err := io.ReadAll(conn); err != nil || string(text) != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	told := (*Error)(nil)
	if _, err := s.DialPort(t.Context(), free); !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &told) {
		t.Errorf("nothing listens: %v", err)
	}
	reasons := make(chan error, 1)
	pub, err := s.Publish(strconv.Itoa(free), func(err error) { reasons <- err })
	if err != nil {
		t.Fatal(err)
	}
	refused, err := net.Dial("tcp", pub.Address)
	if err == nil {
		_, err = io.ReadAll(refused)
		_ = refused.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) || !errors.Is(<-reasons, syscall.ECONNREFUSED) {
		t.Errorf("a connection without a server: %v", err)
	}
	_ = s.Close()
	if _, err := s.DialPort(t.Context(), port); err == nil || !strings.HasSuffix(err.Error(), "sandbox one has ended") {
		t.Errorf("after the end: %v", err)
	}
	for _, port := range []int{0, -1, 65536} {
		if _, err := s.DialPort(t.Context(), port); len(policy.FieldErrors(err)) != 1 {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

// No sandbox gets a port of the host on which a process of Paddock listens.
func TestOwnPorts(t *testing.T) {
	state, port := t.TempDir(), strconv.Itoa(echoing(t))
	s := mustOpenPlain(t, state, "one", Network{Publish: []string{"127.0.0.1::" + port, port}})
	list := s.Isolation().Published
	taken := netip.MustParseAddrPort(list[slices.IndexFunc(list, func(p PublishedPort) bool { return strings.HasPrefix(p.Address, "127.0.0.1:") })].Address).Port()
	server, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	forget, err := RecordServer(Options{StateDir: state}, server.Addr(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer forget()
	serving := uint16(server.Addr().(*net.TCPAddr).Port)
	for port, want := range map[uint16]string{taken: "it is a published port of sandbox one", serving: "a server of Paddock listens there"} {
		err := refuseOwnPorts(state, []policy.Port{1, policy.Port(port)})
		if err == nil || !strings.Contains(err.Error(), `cannot use network.host_ports "`+strconv.Itoa(int(port))+`": `+want) {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := openPlain(t, state, "two", Network{HostPorts: []policy.Port{policy.Port(port)}}, Isolation{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a start: %v", err)
		}
	}
	forget()
	_ = s.Close()
	if err := refuseOwnPorts(state, []policy.Port{policy.Port(taken), policy.Port(serving)}); err != nil {
		t.Error(err)
	}
	// A server is found from every state directory, unless the usual one is not this user's alone.
	if forget, err = RecordServer(Options{}, server.Addr(), true); err != nil {
		t.Fatal(err)
	}
	defer forget()
	usual := hostpath.RootState // and that of other users, in these tests
	for mode, refused := range map[os.FileMode]bool{0o700: true, 0o777: false} {
		if err := os.Chmod(usual, mode); err != nil {
			t.Fatal(err)
		}
		if err := refuseOwnPorts(state, []policy.Port{policy.Port(serving)}); (err != nil) != refused {
			t.Errorf("the usual directory has mode %04o: %v", mode, err)
		}
	}
	if err := os.Chmod(usual, 0o700); err != nil {
		t.Fatal(err)
	}
	// Commands with the host's network reach it, and that is told.
	told := func(network string) bool {
		t.Helper()
		return slices.ContainsFunc(mustOpenPlain(t, state, "host", Network{Mode: network}).Isolation().Lost, func(line string) bool { return strings.Contains(line, server.Addr().String()) })
	}
	if !told(policy.NetworkHost) || told(policy.NetworkNone) {
		t.Error("that commands reach a server without tokens is not told with the host's network, or with none")
	}
	forget()
	if told(policy.NetworkHost) {
		t.Error("a server that has ended is told")
	}
	// What is left of a process that was killed says nothing.
	if err := os.WriteFile(filepath.Join(state, "ports", "127.0.0.1:1234"), []byte(`{"address":"127.0.0.1:1234","pid":1,"start_time":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := refuseOwnPorts(state, []policy.Port{1234}); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(state, "ports", "127.0.0.1:1234")); err == nil {
		t.Errorf("it is still there: %s", bytes.TrimSpace(text))
	}
}

// Each sandbox has an address of its own, that no other program has by default.
func TestOwnAddress(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for i := range 1000 {
		a := ownAddress("pd-"+strconv.Itoa(i), i%claims)
		if b := a.As4(); !isOwn(a) || b[3] == 0 || b[3] == 255 || b[1] == 255 {
			t.Errorf("%v", a)
		}
		seen[a] = true
	}
	if len(seen) < 990 {
		t.Errorf("of 1000 addresses %d differ", len(seen))
	}
	if first, again := ownAddress("a", 0), ownAddress("a", 0); first != again || first == ownAddress("a", 1) {
		t.Error("the choices of a sandbox are not its own")
	}
}
