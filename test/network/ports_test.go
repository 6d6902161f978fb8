//go:build linux

package network

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// TestHostPort: commands reach the ports of the host's own loopback that are named, at
// 127.0.0.1 alone, and no other; each connection is on record; and other rules close them.
func TestHostPort(t *testing.T) {
	w := newWorld(t) // whose proxy is not asked
	l, closed := listen(t), listen(t)
	go func() { _ = http.Serve(l, hello) }()
	go func() { _ = http.Serve(closed, hello) }()
	port, other := l.Addr().(*net.TCPAddr).Port, closed.Addr().(*net.TCPAddr).Port
	box := w.open(t, policy.Network{HostPorts: []policy.Port{policy.Port(port)}, Allow: []policy.NetworkRule{{Host: "**", Ports: []policy.Port{443, policy.Port(other)}}}})
	const get = `import sys, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=20).read().decode(), end="")
    except OSError as e:
        print("no:", e)
`
	url := func(host string, port int) string { return fmt.Sprintf("http://%s:%d/a", host, port) }
	name := policy.HostName
	out := python(t, box, get, url(name, port), url(strings.ToUpper(name)+".", port), url(name, other), url("127.0.0.1", port), url("x."+name, other))
	if lines := strings.Split(out, "\n"); len(lines) != 6 || !has(strings.ToLower(lines[0]), "hello from "+name) || !has(strings.ToLower(lines[1]), "hello from "+name) ||
		!strings.HasPrefix(lines[2], "no:") || !strings.HasPrefix(lines[3], "no:") || !strings.HasPrefix(lines[4], "no:") {
		t.Errorf("commands get\n%s", out)
	}
	if slices.ContainsFunc(w.seen(), func(asked string) bool { return strings.HasPrefix(asked, name) }) {
		t.Errorf("the operator's proxy was asked for the host: %q", w.seen())
	}
	if !slices.ContainsFunc(records(t, box), func(r egress.Record) bool {
		return r.Kind == egress.KindConnection && r.Host == name && int(r.Port) == port && r.Address == "127.0.0.1" && r.Received > 0
	}) {
		t.Errorf("the log has no connection to the host: %+v", records(t, box))
	}
	if iso := box.Isolation(); iso.Egress == nil || !slices.Contains(iso.Egress.Allow, name+":"+strconv.Itoa(port)) {
		t.Errorf("isolation says %+v", iso.Egress)
	}
	reached := func(l net.Listener) error { return paddock.RefuseReached(t.Context(), w.options(), l.Addr()) }
	if err := reached(l); err == nil || !strings.Contains(err.Error(), "sandbox "+box.ID()+" may reach this port of the host") || reached(closed) != nil {
		t.Errorf("a server without tokens: %v, at the other port %v", err, reached(closed))
	}
	if err := box.SetNetwork(t.Context(), policy.Network{HostPorts: []policy.Port{policy.Port(other)}}); err != nil {
		t.Fatal(err)
	}
	if reached(l) != nil || reached(closed) == nil {
		t.Errorf("a server without tokens, after a change: %v, at the other port %v", reached(l), reached(closed))
	}
	if out := python(t, box, get, url(name, port), url(name, other)); !strings.HasPrefix(out, "no:") || !has(out, "hello from "+name) {
		t.Errorf("after a change commands get\n%s", out)
	}
	if err := box.SetNetwork(t.Context(), policy.Network{HostPorts: []policy.Port{policy.Port(other)}, Allow: allow(t, "**").Allow, Deny: []policy.NetworkDenial{{Host: "**"}}}); err != nil {
		t.Fatal(err)
	}
	if out := python(t, box, get, url(name, other)); !strings.HasPrefix(out, "no:") {
		t.Errorf("a denial of everything leaves the host open: %s", out)
	}
}

// A sandbox with this host's network reaches every server without tokens, at any address of the
// host.
func TestSharedNetworkReaches(t *testing.T) {
	w := newWorld(t)
	l := listen(t)
	if err := paddock.RefuseReached(t.Context(), w.options(), l.Addr()); err != nil {
		t.Fatal(err)
	}
	box := w.open(t, policy.Network{Mode: policy.NetworkHost})
	e := (*paddock.ReachedError)(nil)
	for _, at := range []net.Addr{l.Addr(), &net.TCPAddr{IP: net.IPv6loopback, Port: 1}} {
		if err := paddock.RefuseReached(t.Context(), w.options(), at); !errors.As(err, &e) || e.ID != box.ID() || !e.Shared {
			t.Errorf("at %v: %v", at, err)
		}
	}
	t.Chdir(t.TempDir())
	unix, err := net.Listen("unix", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	at, err := filepath.Abs("s")
	if err == nil {
		err = paddock.RefuseReached(t.Context(), w.options(), &net.UnixAddr{Name: at, Net: "unix"})
	}
	if err != nil {
		t.Errorf("at a Unix socket: %v", err)
	}
}

// served is a server inside that knows two ways: files by HTTP, and what comes after an upgrade,
// which it sends back.
const served = `
import http.server, sys
class H(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade") != "echo":
            return super().do_GET()
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "echo")
        self.end_headers()
        while True:
            b = self.rfile.read1(65536)
            if not b:
                self.close_connection = True
                return
            self.wfile.write(b)
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
`

// TestPublishedService: a server that was started as a service is fetched from the host by its
// published port, without a network, and a connection that it upgrades stays open.
func TestPublishedService(t *testing.T) {
	w := newWorld(t)
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("there is no /usr/bin/python3")
	}
	box := w.open(t, policy.Network{Publish: []string{"3000"}})
	if network := box.Isolation().Network; network != policy.NetworkNone {
		t.Fatalf("the network is %s", network)
	}
	published := box.Isolation().Published
	if len(published) != 1 {
		t.Fatalf("published are %+v", published)
	}
	if _, status := sh(t, box, "cat > served.py <<'END'\n"+served+"END\nhead -c 8000000 /dev/urandom > large; sha256sum < large > sum"); status != 0 {
		t.Fatal("the files cannot be made")
	}
	started, err := wire.Call(t.Context(), box.Client(), wire.StartService, wire.StartServiceRequest{ServiceName: "web", Command: "exec /usr/bin/python3 served.py 3000",
		Readiness: []byte(`{"type":"tcp","address":"127.0.0.1:3000"}`)})
	if err != nil || started.State != "running" || started.ReadyAt == nil {
		t.Fatalf("the service is %+v, %v", started, err)
	}
	client := &http.Client{Timeout: testkit.Patience, Transport: &http.Transport{Proxy: nil}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(published[0].URL + "large")
	if err != nil {
		t.Fatal(err)
	}
	large, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	inside, _ := sh(t, box, "cat large | sha256sum; cat sum")
	if sums := strings.Fields(inside); err != nil || len(large) != 8000000 || len(sums) != 4 || sums[0] != sums[2] {
		t.Errorf("%d bytes came, %v; %s", len(large), err, inside)
	}
	conn, err := net.Dial("tcp", published[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the upgrade: %+v, %v", answer, err)
	}
	for i := range 100 {
		message := bytes.Repeat([]byte{byte(i)}, 1+i*i)
		_, _ = conn.Write(message)
		back := make([]byte, len(message))
		if _, err := io.ReadFull(r, back); err != nil || !bytes.Equal(back, message) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("the connection outlives the sandbox")
	}
	if conn, err := net.Dial("tcp", published[0].Address); err == nil {
		_ = conn.Close()
		t.Error("the listener outlives the sandbox")
	}
}
