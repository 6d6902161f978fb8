//go:build linux

package network

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// TestClients: programs that know nothing of Paddock reach the hosts that rules name, and no
// other, which they are told at once.
func TestClients(t *testing.T) {
	w := newWorld(t)
	w.https(t, "api.test:443", hello)
	w.https(t, "deep.wild.test:443", hello)
	w.https(t, "evil.test:443", hello)
	plain := listen(t)
	w.add("api.test:80", plain)
	go func() { _ = http.Serve(plain, hello) }()
	box := w.open(t, allow(t, "api.test", "*.wild.test"))
	clients := []struct{ program, get string }{
		{"curl", `curl -sS "$1"`},
		{"wget", `wget -q -O - --ca-certificate=/workspace/ca.pem "$1"`},
		{"python3", `python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' "$1"`},
		{"node", `node -e 'fetch(process.argv[1]).then(r => r.text()).then(console.log, e => { console.error(e, e.cause); process.exit(1) })' "$1"`},
	}
	tried := 0
	for _, c := range clients {
		if _, err := exec.LookPath(c.program); err != nil {
			continue
		}
		if _, status := sh(t, box, "command -v "+c.program); status != 0 {
			continue // it is not visible inside
		}
		tried++
		for _, url := range []string{"https://api.test/a", "https://deep.wild.test/a", "http://api.test/a", "https://API.Test./a"} {
			if url == "https://API.Test./a" && c.program != "curl" {
				continue // whether a trailing dot is sent differs
			}
			host := strings.TrimSuffix(strings.ToLower(strings.Split(url, "/")[2]), ".")
			if out, status := sh(t, box, `get() { `+c.get+`; }; get `+url); status != 0 || !strings.Contains(strings.ToLower(out), "hello from "+host) {
				t.Errorf("%s of %s: status %d: %s", c.program, url, status, out)
			}
		}
		for _, url := range []string{"https://evil.test/", "https://wild.test/", "http://evil.test/"} {
			if out, status := sh(t, box, `get() { `+c.get+`; }; get `+url); status == 0 || strings.Contains(out, "hello") {
				t.Errorf("%s of %s: %s", c.program, url, out)
			}
		}
	}
	if tried == 0 {
		t.Skip("no client is visible inside")
	}
	for _, name := range w.seen() {
		if strings.Contains(name, "evil") || strings.HasPrefix(name, "wild.test") {
			t.Errorf("the operator's proxy was asked for %s", name)
		}
	}
	denied := records(t, box)
	for _, host := range []string{"evil.test", "wild.test"} {
		if !slices.ContainsFunc(denied, func(r egress.Record) bool { return r.Kind == egress.KindDenied && r.Host == host }) {
			t.Errorf("nothing is on record about %s: %+v", host, denied)
		}
	}
}

// dial is a program that connects and prints what it reads, or the error's name.
const dial = `
import socket, sys, errno
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
    if len(sys.argv) > 3: s.sendall(sys.argv[3].encode().decode("unicode_escape").encode("latin1"))
    print("got", s.recv(1000))
except socket.gaierror as e:
    print("EAI", e.errno)
except OSError as e:
    print(errno.errorcode.get(e.errno, e))
`

// TestBypass: what is not a name that a rule opens leads nowhere.
func TestBypass(t *testing.T) {
	w := newWorld(t)
	w.https(t, "api.test:443", hello)
	w.https(t, "other.test:443", hello)
	host := listen(t) // a service of the host
	serve(host, func(c net.Conn) { _, _ = io.WriteString(c, "the host's") })
	_, port, _ := net.SplitHostPort(host.Addr().String())
	box := w.open(t, allow(t, "api.test", "other.test", "banner.test:"+port))
	tests := []struct {
		name, host, port, send string
		want                   []string
	}{
		{"an address", "192.0.2.1", "443", `\x16`, []string{"ECONNRESET", "got b''"}},
		{"metadata", "169.254.169.254", "80", `GET / HTTP/1.0\r\n\r\n`, []string{"ECONNRESET", "got b''"}},
		{"an address of the range without a name", "198.18.200.200", "443", `\x16`, []string{"ECONNRESET", "got b''"}},
		{"another port", "api.test", "22", "", []string{"ECONNREFUSED"}},
		{"the host's loopback", "127.0.0.1", port, "", []string{"ECONNREFUSED"}},
		{"the host's loopback at a port of a rule", "198.18.0.1", port, "x", []string{"ECONNRESET", "got b''", "ECONNREFUSED"}},
		{"IPv6", "2001:db8::1", "443", "", []string{"ENETUNREACH"}},
		{"the host's loopback by IPv6", "::ffff:127.0.0.1", port, "", []string{"ECONNREFUSED"}},
		{"a decimal address", "2130706433", port, "", []string{"ECONNREFUSED", "EAI -2"}},
		{"no TLS at 443", "api.test", "443", `SSH-2.0-x\r\n`, []string{"ECONNRESET", "got b''"}},
		{"localhost", "localhost", "443", "", []string{"ECONNREFUSED"}},
		{"a name that no rule opens", "evil.test", "443", "", []string{"EAI -2"}},
		{"data in a name", "c2VjcmV0.evil.test", "443", "", []string{"EAI -2"}},
		{"a name below one that a rule opens", "x.api.test", "443", "", []string{"EAI -2"}},
	}
	for _, tt := range tests {
		out := python(t, box, dial, tt.host, tt.port, tt.send)
		if !slices.ContainsFunc(tt.want, func(want string) bool { return strings.Contains(out, want) }) {
			t.Errorf("%s: %s", tt.name, out)
		}
	}
	// The name of another host in TLS, although a rule opens that, too.
	const sni = `
import socket, ssl, sys
c = ssl.create_default_context(cafile="/workspace/ca.pem")
c.check_hostname = False
try:
    s = c.wrap_socket(socket.create_connection(("api.test", 443), 60), server_hostname=sys.argv[1] or None)
    s.sendall(b"GET / HTTP/1.0\r\nHost: other.test\r\n\r\n")
    print(s.recv(1000))
except (OSError, ssl.SSLError) as e:
    print("cut", e)
`
	for _, name := range []string{"other.test", "evil.test", ""} {
		if out := python(t, box, sni, name); !strings.Contains(out, "cut") {
			t.Errorf("with the server name %s: %s", name, out)
		}
	}
	// Datagrams go nowhere, also to other servers for names.
	const datagram = `
import socket, errno
for to in (("192.0.2.1", 53), ("198.18.0.1", 5353), ("api.test", 443)):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(60)
    try:
        s.connect(to)
        s.send(b"x")
        print("got", s.recv(100))
    except OSError as e:
        print(errno.errorcode.get(e.errno, e))
`
	if out := python(t, box, datagram); strings.Contains(out, "got") || strings.Count(out, "ECONNREFUSED") != 3 {
		t.Errorf("datagrams: %s", out)
	}
	for _, name := range w.seen() {
		if name != "api.test:443" && name != "other.test:443" {
			t.Errorf("the operator's proxy was asked for %s", name)
		}
	}
	addresses := 0
	for _, r := range records(t, box) {
		if r.Kind == egress.KindDenied && (r.Host == "192.0.2.1" || r.Host == "169.254.169.254") {
			addresses++
		}
	}
	if addresses < 2 {
		t.Errorf("addresses are not on record: %+v", records(t, box))
	}
}

// TestNoWayAround: commands have no right over the interfaces, and see no socket of the gateway.
func TestNoWayAround(t *testing.T) {
	w := newWorld(t)
	box := w.open(t, allow(t, "api.test"))
	const attempts = `
import socket, errno, struct, ctypes
def attempt(what, f):
    try:
        print(what, "works", f())
    except OSError as e:
        print(what, errno.errorcode.get(e.errno, e))
tcp = lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)
attempt("mark", lambda: tcp().setsockopt(socket.SOL_SOCKET, 36, 1))
attempt("transparent", lambda: tcp().setsockopt(socket.SOL_IP, 19, 1))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 6))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("ioctl", lambda: __import__("fcntl").ioctl(tcp(), 0x8914, struct.pack("16sh14x", b"s0", 0)))
attempt("setns", lambda: print(ctypes.CDLL(None).unshare(0x40000000)) or open("/proc/self/nothing"))
def gateway():
    s = tcp()
    s.bind(("198.18.0.1", 443))
attempt("bind the gateway", gateway)
def sysctl():
    open("/proc/sys/net/ipv4/ip_forward", "w").write("1")
attempt("sysctl", sysctl)
print(len(open("/proc/net/tcp").readlines()), len(open("/proc/net/udp").readlines()))
`
	out := python(t, box, attempts)
	if strings.Contains(out, "works") || !has(out, "bind the gateway EADDRNOTAVAIL", "1 1") {
		t.Error(out)
	}
}

// TestOwnServer: a server inside can have a port that a rule names, at all addresses, and the
// rule works beside it.
func TestOwnServer(t *testing.T) {
	w := newWorld(t)
	l := listen(t)
	serve(l, func(c net.Conn) { _, _ = io.WriteString(c, "from outside") })
	w.add("db.test:5432", l) // the server speaks first
	box := w.open(t, allow(t, "db.test:5432"))
	const server = `
import socket
s = socket.create_server(("0.0.0.0", 5432))
print("outside:", socket.create_connection(("db.test", 5432), 60).recv(100))
c = socket.create_connection(("127.0.0.1", 5432), 60)
s.accept()[0].sendall(b"from inside")
print("inside:", c.recv(100))
`
	if out := python(t, box, server); !has(out, "outside: b'from outside'", "inside: b'from inside'") {
		t.Error(out)
	}
}

// egressPID returns the egress process of a sandbox, found by its parent, this process.
func egressPID(t *testing.T) int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for word := range strings.FieldsSeq(string(children)) {
			if name, err := os.ReadFile("/proc/" + word + "/cmdline"); err == nil && bytes.HasPrefix(name, []byte("paddock-egress")) {
				pid, _ := strconv.Atoi(word)
				return pid
			}
		}
	}
	t.Fatal("there is no egress process")
	return 0
}

// TestEnd: without its egress process a sandbox reaches nothing, at once, and says so; the
// process ends with the sandbox, also while it is stopped.
func TestEnd(t *testing.T) {
	w := newWorld(t)
	w.https(t, "api.test:443", hello)
	for _, signal := range []unix.Signal{unix.SIGKILL, unix.SIGSTOP} {
		t.Run(unix.SignalName(signal), func(t *testing.T) {
			box := w.open(t, allow(t, "api.test"))
			pid := egressPID(t)
			if out := python(t, box, dial, "api.test", "443", "not TLS"); strings.Contains(out, "EAI") {
				t.Fatalf("before: %s", out)
			}
			if err := unix.Kill(pid, signal); err != nil {
				t.Fatal(err)
			}
			if signal == unix.SIGKILL {
				testkit.Eventually(t, "the result says so", func() bool {
					return strings.Contains(strings.Join(box.Isolation().Lost, "\n"), "egress process has ended")
				})
				testkit.Eventually(t, "the way out is gone", func() bool {
					out := python(t, box, dial, "198.18.0.2", "443")
					return strings.Contains(out, "ENETUNREACH")
				})
				if _, err := box.Network(t.Context()); err == nil {
					t.Error("the process still answers")
				}
			}
			if out, _ := sh(t, box, "echo still here"); out != "still here\n" {
				t.Errorf("commands no longer run: %s", out)
			}
			if err := box.Close(); err != nil {
				t.Error(err)
			}
			if err := unix.Kill(pid, 0); err == nil {
				t.Error("the process is left")
			}
		})
	}
}

// TestConfined: the egress process has an identity of its own if it can, no capability, and
// can neither execute programs nor be looked at.
func TestConfined(t *testing.T) {
	w := newWorld(t)
	box := w.open(t, allow(t, "api.test"))
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", egressPID(t)))
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.TrimSpace(value)
	}
	for name, want := range map[string]string{"CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapInh": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"} {
		if status[name] != want {
			t.Errorf("%s is %s", name, status[name])
		}
	}
	if limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", egressPID(t))); err != nil || !regexp.MustCompile(`(?m)^Max data size +805306368 +805306368 `).Match(limits) {
		t.Errorf("its memory is not bounded: %v: %s", err, limits)
	}
	uid := strings.Fields(status["Uid"])[0]
	if inside := fmt.Sprint(box.Isolation().UIDHost); os.Geteuid() == 0 && (uid == "0" || uid == inside) {
		t.Errorf("its user is %s, that of commands %s", uid, inside)
	}
}

// TestLiveRules: rules are replaced as a whole while commands run, and connections that they no
// longer open are cut.
func TestLiveRules(t *testing.T) {
	w := newWorld(t)
	l := listen(t)
	serve(l, func(c net.Conn) {
		_, _ = io.WriteString(c, "ready")
		_, _ = io.Copy(io.Discard, c)
	})
	w.add("a.test:7000", l)
	w.add("b.test:7001", l)
	box := w.open(t, allow(t, "a.test:7000"))
	const hold = `
import socket, sys
s = socket.create_connection(("a.test", 7000), 60)
print(s.recv(100), flush=True)
open("/workspace/connected", "w").close()
s.settimeout(120)
try:
    print("then", s.recv(100))
except OSError as e:
    print("then", e)
`
	done := make(chan string, 1)
	go func() {
		out := python(t, box, hold)
		done <- out
	}()
	testkit.AwaitFile(t, filepath.Join(box.Spec().Workspace.Source, "connected"))
	if out := python(t, box, dial, "b.test", "7001"); !strings.Contains(out, "EAI") {
		t.Errorf("before the rules: %s", out)
	}
	if err := box.SetNetwork(t.Context(), allow(t, "b.test:7001")); err != nil {
		t.Fatal(err)
	}
	select {
	case out := <-done:
		if !has(out, "b'ready'", "then") || strings.Count(out, "ready") != 1 {
			t.Errorf("the connection that was open: %s", out)
		}
	case <-time.After(testkit.Patience):
		t.Error("the connection that was open was not cut")
	}
	if out := python(t, box, dial, "b.test", "7001"); !strings.Contains(out, "ready") {
		t.Errorf("by the new rules: %s", out)
	}
	if out := python(t, box, dial, "a.test", "7000"); strings.Contains(out, "ready") {
		t.Errorf("by the old rules: %s", out)
	}
	many := policy.Network{}
	for port := range 64 {
		many.Allow = append(many.Allow, policy.NetworkRule{Host: "c.test", Ports: []policy.Port{policy.Port(8000 + port)}})
	}
	if err := box.SetNetwork(t.Context(), many); err == nil {
		t.Error("64 ports are accepted")
	}
	if out := python(t, box, dial, "b.test", "7001"); !strings.Contains(out, "ready") {
		t.Errorf("after rules that were refused: %s", out)
	}
}

// TestNobodyElse: the host's interfaces and namespaces are as before, and no process is left.
func TestNobodyElse(t *testing.T) {
	w := newWorld(t)
	before, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	box := w.open(t, allow(t, "api.test"))
	pid := egressPID(t)
	during, err := net.Interfaces()
	if err != nil || len(during) != len(before) {
		t.Errorf("the host has %d interfaces instead of %d (%v)", len(during), len(before), err)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, 0); err == nil {
		t.Error("the egress process is left")
	}
}
